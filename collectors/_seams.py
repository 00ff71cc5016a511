"""Where the probe touches vLLM: attribute path, the parameters relied on, and why.

One table for the guest, which asks at run time, and for ``benchmarks`` and tests, which look the same seams up in the
unpacked sources of releases (``docs/seams.md`` is made from it).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Seam:
    """One attribute of vLLM.

    Args:
        module: dotted module.
        name: qualified name in it (``Worker.load_model``).
        needs: parameters that the hook reads; others may come and go.
        also: modules that hold their own copy by ``from X import f``, as ``module:name``.
        why: what is seen there.
        early: it must be hooked before the model is loaded.
    """

    module: str
    name: str
    why: str
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    early: bool = False


SEAMS: dict[str, Seam] = {
    "worker_load": Seam(
        "vllm.v1.worker.gpu_worker", "Worker.load_model", "the model is loaded: this process is a worker", early=True
    ),
    "worker_ready": Seam(
        "vllm.v1.worker.gpu_worker", "Worker.compile_or_warm_up_model", "warm-up and graph capture are over", early=True
    ),
    "worker_ready_cpu": Seam(
        "vllm.v1.worker.cpu_worker", "CPUWorker.compile_or_warm_up_model", "the same on the CPU platform", early=True
    ),
    "engine_ready": Seam(
        "vllm.v1.core.sched.scheduler", "Scheduler.__init__", "the scheduler is built: this process is an engine", early=True
    ),
    "api_ready": Seam("vllm.v1.engine.async_llm", "AsyncLLM.__init__", "the API server has its client", early=True),
    "api_ready_offline": Seam("vllm.v1.engine.llm_engine", "LLMEngine.__init__", "an offline LLM", early=True),
}


@dataclass(frozen=True, slots=True)
class Found:
    """A seam in this process. ``owner`` and ``also`` hold the attribute ``name``; None where it may not be hooked."""

    state: str
    owner: Any = None
    name: str = ""
    also: tuple[Any, ...] = ()
    text: str = ""


def find(seam: str) -> Found:
    """Look a seam up. Only modules that vLLM has loaded already are asked, so nothing is imported for it."""
    wanted = SEAMS[seam]
    module = sys.modules.get(wanted.module)
    if module is None:
        return Found("absent", text=f"{wanted.module} is not loaded in this process")
    *path, name = wanted.name.split(".")
    owner: Any = module
    for part in path:
        owner = getattr(owner, part, None)
    found = inspect.getattr_static(owner, name, None) if owner is not None else None
    if found is None:
        return Found("absent", text=f"{wanted.module} has no {wanted.name}")
    missing = [n for n in wanted.needs if n not in _parameters(found)]
    if missing:
        return Found("changed", text=f"{wanted.name} has no parameter {', '.join(missing)}")
    return Found("present", owner, name, tuple(_copies(wanted, found, name)))


def _parameters(found: Any) -> set[str]:
    try:
        return set(inspect.signature(getattr(found, "__func__", found)).parameters)
    except (TypeError, ValueError):
        return set()


def _copies(wanted: Seam, found: Any, name: str) -> list[Any]:
    """Modules that bound the same object by name."""
    places = (place.partition(":") for place in wanted.also)
    held = [(sys.modules.get(module), as_ or name) for module, _, as_ in places]
    return [module for module, at in held if module is not None and at == name and getattr(module, at, None) is found]


def imported(seam: str) -> Any:
    """Import a seam's module: for the seams of start-up alone, in the process that just loaded it."""
    return importlib.import_module(SEAMS[seam].module)
