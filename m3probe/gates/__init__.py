"""Correctness gates: one file each, found by a folder scan (constant ``GATE``).

Guests judge where ``m3probe.registry`` may not be imported, so this shelf has its own scan like the fast paths'.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType

from m3probe.errors import M3ProbeError
from m3probe.schema.gates import Gate, GateFacts, GateVerdict

CONSTANT = "GATE"


@cache
def gates() -> Mapping[str, Gate]:
    """Every gate by name, sorted; loaded once, when first asked for.

    Raises:
        M3ProbeError: a plug's constant is missing or of another type.
    """
    found = {m.name: f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}
    plugs: dict[str, object] = {
        name: getattr(importlib.import_module(module), CONSTANT, None) for name, module in found.items()
    }
    plugs |= {point.name: point.load() for point in entry_points(group=__name__)}
    return MappingProxyType({name: _checked(name, plugs[name]) for name in sorted(plugs)})


def judge(facts: GateFacts) -> dict[str, GateVerdict]:
    """Every gate's verdict on the same facts."""
    return {name: gate.check(facts) for name, gate in gates().items()}


def _checked(name: str, plug: object) -> Gate:
    if not isinstance(plug, Gate):
        raise M3ProbeError(f"{CONSTANT} of the gate {name!r} is no Gate", where=__name__)
    return plug
