"""Where the probe touches vLLM: attribute path, the parameters relied on, and why.

One table for the guest, which asks at run time, and for ``benchmarks`` and tests, which look the same seams up in the
unpacked sources of releases (``docs/seams.md`` is made from it).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from dataclasses import dataclass
from typing import Any

from m3probe.collectors._seams._seam import Seam

SEAMS: dict[str, Seam] = {}
"""All seams by id, from the files of this folder; a file per collector, named like it."""


for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        SEAMS |= importlib.import_module(f"{__name__}.{_module.name}").SEAMS


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
        owner = inspect.getattr_static(owner, part, None)  # vLLM's stand-ins for missing packages raise when asked
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
