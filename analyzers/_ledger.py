"""A live recording seen whole: guests' steps, what they ran, and where their time went.

No kernel is in it. Shapes, repeats and bytes are products of the model map and counted steps; a path's execution is a call
that a hook saw, or a fact of capture times the counted replays of its batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array, Table
from m3probe.schema.verdicts import Phase

WORKING = tuple(str(p) for p in (Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.UNKNOWN))
EVIDENCE = "model map x steps"


def is_live(rec: Recording) -> bool:
    """Whether a guest wrote any of it."""
    return len(rec.tables["processes"]) > 0


@dataclass(frozen=True, slots=True)
class Kind:
    """Worker steps of one phase, mode and batch, over all ranks: ``steps`` counts each rank's."""

    file: int
    phase: str
    mode: str
    descriptor: int
    padded_rows: int
    steps: int
    rows: int
    requests: int
    replays: int
    exact: bool
    """``padded_rows`` is M of each: graph steps, and eager steps of one size."""


def texts(rec: Recording, table: Table, column: str) -> list[str]:
    """A string column as text."""
    return rec.strings.of(table[column].tolist())


def of_role(rec: Recording, table: str, role: str) -> Array:
    """Rows of a table with a ``role`` column."""
    found: Array = rec.tables[table]["role"] == rec.strings.find(role)
    return np.flatnonzero(found)


def worker_steps(rec: Recording) -> list[Kind]:
    """Counted steps of the workers, joined over seconds; empty steps left out."""
    table = rec.tables["step_counts"]
    rows = of_role(rec, "step_counts", "worker")
    phases, modes = texts(rec, table, "phase"), texts(rec, table, "mode")
    sums: dict[tuple[int, str, str, int, int], list[int]] = {}
    for row in rows.tolist():
        if phases[row] in WORKING:
            key = (
                int(table["file"][row]),
                phases[row],
                modes[row],
                int(table["descriptor"][row]),
                int(table["padded_rows"][row]),
            )
            held = sums.setdefault(key, [0, 0, 0, 0])
            for at, name in enumerate(("count", "rows_sum", "requests_sum", "replays")):
                held[at] += int(table[name][row])
    return [_kind(key, held) for key, held in sorted(sums.items())]


def _kind(key: tuple[int, str, str, int, int], held: list[int]) -> Kind:
    file, phase, mode, descriptor, padded = key
    steps, rows, requests, replays = held
    exact = descriptor != NONE or padded * steps == rows
    return Kind(file, phase, mode, descriptor, padded, steps, rows, requests, replays, exact)


def replays_of(rec: Recording) -> dict[tuple[int, int, str], int]:
    """(file, descriptor, phase) -> steps that replayed that batch; only those whose replay was counted."""
    found: dict[tuple[int, int, str], int] = {}
    for kind in worker_steps(rec):
        if kind.descriptor != NONE and kind.replays:
            key = (kind.file, kind.descriptor, kind.phase)
            found[key] = found.get(key, 0) + kind.steps
    return found


def ranks(rec: Recording) -> list[int]:
    """File index of each worker's recording."""
    files: list[int] = rec.tables["processes"]["file"][of_role(rec, "processes", "worker")].tolist()
    return files


def seconds(rec: Recording) -> float:
    """Longest time over processes between their first and last count."""
    table = rec.tables["step_counts"]
    best = 0
    for file in np.unique(table["file"]).tolist():
        times = table["mono_ns"][table["file"] == file]
        best = max(best, int(times.max() - times.min()))
    return best / 1e9
