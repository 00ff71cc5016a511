"""Correctness gates: one file each, found by a folder scan (constant ``GATE``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from m3probe.schema.gates import Gate, GateFacts, GateVerdict
from m3probe.schema.shelf import scan


@cache
def gates() -> Mapping[str, Gate]:
    """Every gate by name, sorted; loaded once, when first asked for.

    Raises:
        M3ProbeError: a plug's constant is missing or of another type.
    """
    return scan(__name__, __path__, "GATE", Gate)


def judge(facts: GateFacts) -> dict[str, GateVerdict]:
    """Every gate's verdict on the same facts."""
    return {name: gate.check(facts) for name, gate in gates().items()}
