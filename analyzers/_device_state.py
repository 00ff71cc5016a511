"""What the readings of one GPU come to: means under load, and what was ever told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import Array, Table

BUSY = 50.0
"""Per cent of a reading from which on a clock is one under load; an idle GPU is clocked down on purpose."""
CLOCK = 0.05
"""Share below the others' clock that is told; readings of equal GPUs differ by 1 to 2 per cent."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of one file; None is not known.

    Args:
        clock: mean MHz of readings under load; None where none tells both clock and load.
        throttled: share of the readings that tell it (0 to 1).
        rows: of ``device_samples``.
    """

    file: int
    gpu: int
    name: str
    rows: Array
    table: Table
    clock: float | None
    power: float | None
    cap: float | None
    junction: float | None
    throttled: float | None
    reasons: str
    partition: str

    def most(self, column: str) -> float | None:
        """The highest reading of a column."""
        return _worked(self.table[column][self.rows], np.max)


def gpus(rec: Recording) -> list[Gpu]:
    """Every GPU, in order; readings of metric, static and list in one file or in several are put together."""
    table = rec.tables["device_samples"]
    numbers = sorted(
        {(rec.files[f].kind, g) for f, g in zip(table["file"].tolist(), table["gpu"].tolist(), strict=True)}
    )
    kinds = np.array([rec.files[f].kind for f in table["file"].tolist()])
    return [_gpu(rec, table, np.flatnonzero((kinds == kind) & (table["gpu"] == gpu)), gpu) for kind, gpu in numbers]


def _gpu(rec: Recording, table: Table, rows: Array, gpu: int) -> Gpu:
    loaded = rows[table["busy_pct"][rows] >= BUSY]
    working = loaded if len(loaded) else rows
    return Gpu(
        file=int(table["file"][rows[0]]),
        gpu=gpu,
        name=_word(rec, table["name"][rows]),
        rows=rows,
        table=table,
        clock=_worked(table["clock_mhz"][loaded], np.mean),
        power=_worked(table["power_w"][working], np.mean),
        cap=_worked(table["cap_w"][rows], np.min),
        junction=_worked(table["junction_c"][working], np.max),
        throttled=_worked(table["throttled"][rows], np.mean),
        reasons=", ".join(_words(rec, table["throttle"][rows])),
        partition=_word(rec, table["partition"][rows]),
    )


def _worked(values: Array, work: object) -> float | None:
    known = values[~np.isnan(values)]
    return float(work(known)) if len(known) and callable(work) else None


def _words(rec: Recording, ids: Array) -> list[str]:
    parts = (part for index in dict.fromkeys(ids.tolist()) for part in rec.strings[index].split(", "))
    return [part for part in dict.fromkeys(parts) if part][:6]


def _word(rec: Recording, ids: Array) -> str:
    return next((rec.strings[index] for index in ids.tolist() if index >= 0), "")
