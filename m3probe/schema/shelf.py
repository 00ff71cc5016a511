"""A shelf's own scan, for rooms that guests and analyzers ask without ``m3probe.registry``.

One file holds one plug: the file's name is the plug's name, an upper-case constant in it the plug. The same rules as
``m3probe.registry`` has, which may not be imported where a guest stands; ``tests/test_plugs.py`` holds both to one answer.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TypeVar

from m3probe.errors import M3ProbeError

P = TypeVar("P")


def scan(
    package: str,
    path: Iterable[str],
    constant: str,
    kind: type[P],
    fault: Callable[[str, Exception], None] | None = None,
) -> Mapping[str, P]:
    """Every plug of a package and of the entry points of its name, sorted by name.

    Args:
        fault: told of each plug that cannot be loaded, which is then left out; without it the first one raises.

    Raises:
        M3ProbeError: a plug's constant is missing or of another type.
    """
    found = {m.name: f"{package}.{m.name}" for m in pkgutil.iter_modules(path) if not m.name.startswith("_")}
    loads: dict[str, Callable[[], object]] = {name: _loader(module, constant) for name, module in found.items()}
    loads |= {point.name: point.load for point in entry_points(group=package)}
    plugs: dict[str, P] = {}
    for name in sorted(loads):
        try:
            plugs[name] = _checked(package, name, loads[name](), constant, kind)
        except Exception as error:
            if fault is None:
                raise
            fault(name, error)
    return MappingProxyType(plugs)


def _loader(module: str, constant: str) -> Callable[[], object]:
    return lambda: getattr(importlib.import_module(module), constant, None)


def _checked(package: str, name: str, plug: object, constant: str, kind: type[P]) -> P:
    if not isinstance(plug, kind):
        raise M3ProbeError(f"{constant} of the plug {name!r} is no {kind.__name__}", where=package)
    return plug
