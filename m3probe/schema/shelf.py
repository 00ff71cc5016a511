"""A shelf's own scan, for rooms that guests and analyzers ask without ``m3probe.registry``.

One file holds one plug: the file's name is the plug's name, an upper-case constant in it the plug. The same rules as
``m3probe.registry`` has, which may not be imported where a guest stands; ``tests/test_plugs.py`` holds both to one answer.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TypeVar

from m3probe.errors import M3ProbeError

P = TypeVar("P")


def scan(package: str, path: Iterable[str], constant: str, kind: type[P]) -> Mapping[str, P]:
    """Every plug of a package and of the entry points of its name, sorted by name.

    Raises:
        M3ProbeError: a plug's constant is missing or of another type.
    """
    found = {m.name: f"{package}.{m.name}" for m in pkgutil.iter_modules(path) if not m.name.startswith("_")}
    plugs: dict[str, object] = {
        name: getattr(importlib.import_module(module), constant, None) for name, module in found.items()
    }
    plugs |= {point.name: point.load() for point in entry_points(group=package)}
    return MappingProxyType({name: _checked(package, name, plugs[name], constant, kind) for name in sorted(plugs)})


def _checked(package: str, name: str, plug: object, constant: str, kind: type[P]) -> P:
    if not isinstance(plug, kind):
        raise M3ProbeError(f"{constant} of the plug {name!r} is no {kind.__name__}", where=package)
    return plug
