"""How a process finds out what it is: by what it builds, or, when the probe comes late, by what is there."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from m3probe.collectors import _patch, _seams
from m3probe.collectors._probe import Probe
from m3probe.schema.roles import Role

Told = Callable[[Any], None]

_LATE = (
    (Role.WORKER, "vllm.v1.worker.worker_base", "WorkerBase"),
    (Role.ENGINE, "vllm.v1.core.sched.scheduler", "Scheduler"),
    (Role.API, "vllm.v1.engine.async_llm", "AsyncLLM"),
    (Role.API, "vllm.v1.engine.llm_engine", "LLMEngine"),
)


def watch(probe: Probe) -> None:
    """Hook the moments of start-up as vLLM imports their modules."""

    def settled(worker: Any) -> None:
        probe.join(Role.WORKER, worker)
        probe.settled(Role.WORKER)

    _on(
        probe,
        "worker_load",
        lambda worker: probe.join(Role.WORKER, worker),
        before=lambda worker: probe.begin(Role.WORKER, worker),
    )
    _on(probe, "worker_ready", settled)
    _on(probe, "worker_ready_cpu", settled)
    _on(probe, "engine_ready", lambda scheduler: _both(probe, Role.ENGINE, scheduler))
    _on(probe, "api_ready", lambda client: _both(probe, Role.API, client))
    _on(probe, "api_ready_offline", lambda client: _both(probe, Role.API, client))


def _on(probe: Probe, seam: str, after: Told, before: Told | None = None) -> None:
    def then(_module: Any) -> None:
        made = _patch.around(
            probe.patches,
            seam,
            before=None if before is None else lambda self, *_a, **_k: before(self),
            after=lambda _token, _result, self, *_a, **_k: after(self),
        )
        probe.hook(seam, made)

    probe.watch.when(_seams.SEAMS[seam].module, then)


def found_late(probe: Probe) -> None:
    """A server that runs already: its objects are looked for, and capture was not seen."""
    probe.late = True
    for role, host in _hosts():
        _both(probe, role, host)
    probe.listen()


def _hosts() -> list[tuple[Role, Any]]:
    """One object of each role that lives here.

    An instance refers to its class, so the garbage collector finds it in one pass of its own, without a Python call for each of
    vLLM's objects (a million of them: the interpreter would stand still for half a second).
    """
    roles: dict[type, Role] = {}
    for role, module, name in _LATE:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            roles |= dict.fromkeys(_with_subclasses(kind), role)
    found: dict[Role, Any] = {}
    for referrer in _referrers(*roles) if roles else ():
        role_of = roles.get(type(referrer))
        if role_of is not None:
            found.setdefault(role_of, referrer)
    return [(role, found[role]) for role in (Role.WORKER, Role.ENGINE, Role.API) if role in found]


def _referrers(*kinds: type) -> list[Any]:
    """What refers to one of ``kinds``. vLLM freezes its objects after start-up, and the collector does not look at those."""
    if not gc.get_freeze_count():
        return gc.get_referrers(*kinds)
    gc.collect(1)  # a cycle that is garbage now would be frozen with the rest
    running = gc.isenabled()
    gc.disable()
    gc.unfreeze()
    try:
        return gc.get_referrers(*kinds)
    finally:
        gc.freeze()
        if running:
            gc.enable()


def _with_subclasses(kind: type) -> set[type]:
    found: set[type] = set()
    todo = [kind]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += type.__subclasses__(one)
    return found


def _both(probe: Probe, role: Role, host: Any) -> None:
    probe.join(role, host)
    probe.settled(role)
