"""A live recording seen whole: guests' steps, what they ran, and where their time went.

No kernel is in it. Shapes, repeats and bytes are products of the model map and counted steps; a path's execution is a call
that a hook saw, or a fact of capture times the counted replays of its batch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from m3probe.analyzers._ledger_sums import joined, once
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array, Table
from m3probe.schema.roles import Stage
from m3probe.schema.verdicts import Phase

WORKING = tuple(str(p) for p in (Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.UNKNOWN))
LOAD, CAPTURE, TWIN = str(Stage.LOAD), str(Stage.CAPTURE), str(Stage.TWIN)
SEEN = frozenset({str(Stage.EAGER), TWIN})
"""Stages in which a call that was seen is a call of a served step."""


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


def facts_of(text: str) -> dict[str, Any]:
    """A module's further facts; a file is not trusted to hold JSON."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def counts(facts: dict[str, Any], *names: str) -> bool:
    """Whether these facts are numbers above 0."""
    return all(isinstance(facts.get(name), int) and facts[name] > 0 for name in names)


def of_role(rec: Recording, table: str, role: str) -> Array:
    """Rows of a table with a ``role`` column."""
    found: Array = rec.tables[table]["role"] == rec.strings.find(role)
    return np.flatnonzero(found)


@once
def worker_steps(rec: Recording) -> list[Kind]:
    """Counted steps of the workers, joined over seconds; empty steps left out."""
    table = rec.tables["step_counts"]
    working = [rec.strings.find(phase) for phase in WORKING]
    rows = of_role(rec, "step_counts", "worker")
    rows = rows[np.isin(table["phase"][rows], working)]
    sums = [table[name][rows] for name in ("count", "rows_sum", "requests_sum", "replays")]
    found = joined(table, rows, ("file", "phase", "mode", "descriptor", "padded_rows"), sums)
    kinds = [_kind(rec, *values) for values in found]
    return sorted(kinds, key=lambda k: (k.file, k.phase, k.mode, k.descriptor, k.padded_rows))


def _kind(rec: Recording, *values: int) -> Kind:
    file, phase, mode, descriptor, padded, steps, rows, requests, replays = values
    exact = descriptor != NONE or padded * steps == rows
    return Kind(
        file, rec.strings[phase], rec.strings[mode], descriptor, padded, steps, rows, requests, replays, exact=exact
    )


@once
def replays_of(rec: Recording) -> dict[tuple[int, int, str], int]:
    """(file, descriptor, phase) -> steps that replayed that batch, where the replay was counted; drafts in phase unknown."""
    found: dict[tuple[int, int, str], int] = {}
    for kind in worker_steps(rec):
        if kind.descriptor != NONE and kind.replays:
            key = (kind.file, kind.descriptor, kind.phase)
            # FULL replays once a step, PIECEWISE once a piece
            found[key] = found.get(key, 0) + min(kind.steps, kind.replays)
    drafts = rec.tables["draft_replays"]
    for file, descriptor, count in zip(*(drafts[c].tolist() for c in ("file", "descriptor", "count")), strict=True):
        key = (file, descriptor, str(Phase.UNKNOWN))
        found[key] = found.get(key, 0) + count
    return found


def times_of(
    stage: str, file: int, descriptor: int, phase: str, replays: dict[tuple[int, int, str], int]
) -> dict[str, int]:
    """Phase -> how often a recorded call counts: once where it was seen in a step, else once a counted replay."""
    if stage in SEEN:
        return {phase: 1}
    if stage == CAPTURE and descriptor != NONE:
        return {of: number for (f, d, of), number in replays.items() if (f, d) == (file, descriptor)}
    return {}


def ranks(rec: Recording) -> list[int]:
    """File index of each worker's recording."""
    files: list[int] = rec.tables["processes"]["file"][of_role(rec, "processes", "worker")].tolist()
    return files


def seconds(rec: Recording) -> float:
    """Longest time over processes: from their first to their last count, or what their steps took where that is longer.

    A recording of less than a second has one count.
    """
    table, workers = rec.tables["step_counts"], of_role(rec, "step_counts", "worker")
    took = sum(np.maximum(table[f"{part}_ns"], 0) for part in ("prepare", "launch", "wait", "idle"))
    best = 0
    for file in np.unique(table["file"]).tolist():
        times = table["mono_ns"][table["file"] == file]
        mine = workers[table["file"][workers] == file]
        best = max(best, int(times.max() - times.min()), int(np.asarray(took)[mine].sum()))
    return best / 1e9
