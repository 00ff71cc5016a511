"""How a process finds out what it is: by what it builds, or, when the probe comes late, by what is there."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from m3probe.collectors import _imports, _patch, _seams
from m3probe.collectors._probe import Probe
from m3probe.schema.roles import Role

_LATE = (
    (Role.WORKER, "vllm.v1.worker.worker_base", "WorkerBase"),
    (Role.ENGINE, "vllm.v1.core.sched.scheduler", "Scheduler"),
    (Role.API, "vllm.v1.engine.async_llm", "AsyncLLM"),
    (Role.API, "vllm.v1.engine.llm_engine", "LLMEngine"),
)


def watch(probe: Probe) -> None:
    """Hook the moments of start-up as vLLM imports their modules."""
    watching = _imports.Watch()

    def on(seam: str, after: Callable[[Any], None]) -> None:
        def then(_module: Any) -> None:
            done = _patch.around(probe.patches, seam, after=lambda _token, _result, self, *_a, **_k: after(self))
            probe.hook(seam, done)

        watching.when(_seams.SEAMS[seam].module, then)

    def settled(worker: Any) -> None:
        probe.join(Role.WORKER, worker)
        probe.settled(Role.WORKER)

    on("worker_load", lambda worker: probe.join(Role.WORKER, worker))
    on("worker_ready", settled)
    on("worker_ready_cpu", settled)
    on("engine_ready", lambda scheduler: _both(probe, Role.ENGINE, scheduler))
    on("api_ready", lambda client: _both(probe, Role.API, client))
    on("api_ready_offline", lambda client: _both(probe, Role.API, client))


def found_late(probe: Probe) -> None:
    """A server that runs already: its objects are looked for, and capture was not seen."""
    probe.late = True
    for role, module, name in _LATE:
        kind = getattr(sys.modules.get(module), name, None)
        host = next((o for o in gc.get_objects() if isinstance(o, kind)), None) if isinstance(kind, type) else None
        if host is not None:
            _both(probe, role, host)


def _both(probe: Probe, role: Role, host: Any) -> None:
    probe.join(role, host)
    probe.settled(role)
