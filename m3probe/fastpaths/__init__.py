"""Fast paths as data: one file per path, found by a folder scan (constant ``FAST_PATH``).

Analyzers and guests stand where ``m3probe.registry`` may not be imported, and a guest brings the standard
library alone; so this shelf has its own scan, by the same rules. ``tests/test_plugs.py`` holds both to one answer.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType

from m3probe.errors import M3ProbeError
from m3probe.schema.paths import FastPath

CONSTANT = "FAST_PATH"


@cache
def fast_paths() -> Mapping[str, FastPath]:
    """Every fast path by name, sorted; loaded once, when first asked for.

    Raises:
        M3ProbeError: a plug's constant is missing or of another type.
    """
    found = {m.name: f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}
    plugs: dict[str, object] = {
        name: getattr(importlib.import_module(module), CONSTANT, None) for name, module in found.items()
    }
    plugs |= {point.name: point.load() for point in entry_points(group=__name__)}
    return MappingProxyType({name: _checked(name, plugs[name]) for name in sorted(plugs)})


def _checked(name: str, plug: object) -> FastPath:
    if not isinstance(plug, FastPath):
        raise M3ProbeError(f"{CONSTANT} of the fast path {name!r} is no FastPath", where=__name__)
    return plug
