"""Collectives of ranks whose recordings have no steps, aligned by their order: the n-th of a name on every rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.kernels.demangle import demangle
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family

AT_ONE_TIME = 0.9
"""Share of the aligned collectives that must run at one time on all ranks, where one clock tells: some (a broadcast's
root) may leave before the last rank enters."""
_NAME = 40
_COMM = FAMILIES.index(Family.COMM)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Collectives that every rank made in the same steps.

    ``rows`` [ranks, collectives]: of kernels; ``dur_ns`` alike; ``steps`` [ranks, steps], none where they are aligned by
    their order alone; ``skipped``: steps whose collectives differ between ranks.
    """

    ranks: tuple[int, ...]
    rows: Array
    dur_ns: Array
    steps: Array
    skipped: int

    @property
    def waits_ns(self) -> Array:
        """Time of each rank beyond the shortest of the same collective, int64 [ranks]."""
        found: Array = (self.dur_ns - self.dur_ns.min(axis=0)).sum(axis=1)
        return found

    @property
    def last(self) -> Array:
        """Share of the collectives that each rank enters last, by itself, float64 [ranks]."""
        least = self.dur_ns == self.dur_ns.min(axis=0)
        alone = least & (least.sum(axis=0) == 1)
        found: Array = alone.mean(axis=1)
        return found


def in_order(rec: Recording, files: dict[int, int]) -> Aligned | str:
    """All collectives of the ranks; a sentence where their order does not align them.

    Args:
        files: rank -> file, at least two.
    """
    kernels = rec.kernels
    comm = kernels["family"] == _COMM
    untimed = int((comm & ~kernels["timed"]).sum())
    if untimed:
        return f"{untimed:,} collectives have no time, so that which of them belong together is not known"
    ranks = tuple(sorted(files))
    rows = [np.flatnonzero(comm & (kernels["file"] == files[rank])) for rank in ranks]
    if not any(len(here) for here in rows):
        return "no collective is of a file whose rank is known"
    unequal = _unequal(rec, ranks, rows)
    if unequal:
        return unequal
    every = np.array([here[np.lexsort((kernels["start_ns"][here], kernels["name"][here]))] for here in rows])
    apart = _apart(rec, files, every)
    if apart:
        return apart
    return Aligned(ranks, every, kernels["dur_ns"][every], np.empty((len(ranks), 0), dtype=np.int64), 0)


def _unequal(rec: Recording, ranks: tuple[int, ...], rows: list[Array]) -> str:
    counts = [np.bincount(rec.kernels["name"][here], minlength=len(rec.strings)) for here in rows]
    low, high = np.min(counts, axis=0), np.max(counts, axis=0)
    differ = np.flatnonzero(low != high)
    if not len(differ):
        return ""
    most = int(differ[np.argmax(high[differ] - low[differ])])
    said = ", ".join(f"rank {rank} {count[most]:,}" for rank, count in list(zip(ranks, counts, strict=True))[:8])
    name = demangle(rec.strings[most])
    shown = name if len(name) <= _NAME else f"{name[:_NAME]}..."
    return (
        f"without steps collectives are aligned by their order, and the ranks made unequal numbers of {shown} ({said})"
    )


def _apart(rec: Recording, files: dict[int, int], rows: Array) -> str:
    """What proves that the order misleads: records of one file share a clock, and must then run at one time."""
    if len({rec.files[file].path for file in files.values()}) > 1:
        return ""
    start = rec.kernels["start_ns"][rows]
    end = start + rec.kernels["dur_ns"][rows]
    together = int((start.max(axis=0) < end.min(axis=0)).sum())
    number = rows.shape[1]
    if together >= AT_ONE_TIME * number:
        return ""
    return f"without steps collectives are aligned by their order, and {together:,} of {number:,} run at one time on all ranks"
