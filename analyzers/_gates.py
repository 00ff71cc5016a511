"""Correctness gates over the facts of a recording."""

from __future__ import annotations

from m3probe.gates import gates, judge
from m3probe.model.path_report import GateRow
from m3probe.model.recording import Recording
from m3probe.schema.gates import GateState, correct
from m3probe.schema.paths import FastPath


def gate_rows(rec: Recording) -> tuple[GateRow, ...]:
    """Every gate's verdict."""
    verdicts = judge(rec.meta.gates)
    return tuple(GateRow(name, gates()[name].title, v.state, v.text) for name, v in verdicts.items())


def vouched(rec: Recording, path: FastPath) -> GateState:
    """``holds`` when every gate of the path does, ``broken`` when one is, else ``unproven``."""
    answer = correct(path, judge(rec.meta.gates))
    if answer is None:
        return GateState.UNPROVEN
    return GateState.HOLDS if answer else GateState.BROKEN
