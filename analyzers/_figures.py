"""The figures that every question shares, each defined once (docs/words.md). All in int64 ns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array, Table

OVERLAP_NS = 1
"""Neighbours on one stream overlap when the later starts more than this before the earlier ends."""


def timed(rec: Recording) -> npt.NDArray[np.int64]:
    """Rows of kernels that have a time stamp and no negative duration."""
    return np.flatnonzero(rec.kernels["timed"])


def kernel_time_ns(rec: Recording) -> int:
    """Plain sum of the durations of timed kernels."""
    return int(rec.kernels["dur_ns"][timed(rec)].sum())


def union_ns(start: Array, end: Array) -> int:
    """Length of the union of [start, end)."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.append(True, start[1:] > reach[:-1])
    first = np.flatnonzero(opens)
    last = np.append(first[1:] - 1, len(start) - 1)
    return int((reach[last] - start[first]).sum())


def device_key(table: Table) -> Array:
    """One key per (rank file, device)."""
    return table["file"].astype(np.int64) * 1_000_003 + table["device"]


def busy_union_ns(rec: Recording) -> int:
    """Union over a device's streams, kernels only, summed over devices (and ranks)."""
    return sum(busy_by_device(rec).values())


def busy_by_device(rec: Recording) -> dict[tuple[int, int], int]:
    """{(file, device): busy_union_ns}."""
    rows = timed(rec)
    start = rec.kernels["start_ns"][rows]
    end = start + rec.kernels["dur_ns"][rows]
    key = device_key(rec.kernels)[rows]
    order = np.argsort(key, kind="stable")
    found: dict[tuple[int, int], int] = {}
    for here in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(rows) else ():
        row = rows[here[0]]
        place = int(rec.kernels["file"][row]), int(rec.kernels["device"][row])
        found[place] = union_ns(start[here], end[here])
    return found


def gpu_events(rec: Recording) -> tuple[Array, Array, Array]:
    """(file, start, end) of timed kernels, memcpy and memset."""
    rows = timed(rec)
    kernels, transfers = rec.kernels, rec.transfers
    sound = np.flatnonzero((transfers["start_ns"] != 0) & (transfers["dur_ns"] >= 0))
    file = np.concatenate([kernels["file"][rows], transfers["file"][sound]])
    start = np.concatenate([kernels["start_ns"][rows], transfers["start_ns"][sound]])
    dur = np.concatenate([kernels["dur_ns"][rows], transfers["dur_ns"][sound]])
    return file, start, start + dur


def gpu_span_by_file(rec: Recording) -> dict[int, int]:
    """{file: first start to last end of kernels, memcpy and memset}."""
    file, start, end = gpu_events(rec)
    return {f: int(end[file == f].max() - start[file == f].min()) for f in np.unique(file).tolist()}


def gpu_span_ns(rec: Recording) -> int:
    """First start to last end; over ranks the longest."""
    return max(gpu_span_by_file(rec).values(), default=0)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Kernels that follow one another on one (file, device, stream).

    ``first`` and ``second`` are rows; ``gap_ns`` = start of the second - end of the first.
    """

    first: Array
    second: Array
    gap_ns: Array

    @property
    def overlapping(self) -> Array:
        """Pairs where the later starts more than 1 ns before the earlier ends."""
        return self.gap_ns < -OVERLAP_NS


def neighbours(rec: Recording) -> Neighbours:
    """All such pairs, in order of start."""
    rows = timed(rec)
    table = rec.kernels
    order = np.lexsort((table["start_ns"][rows], table["stream"][rows], table["device"][rows], table["file"][rows]))
    rows = rows[order]
    first, second = rows[:-1], rows[1:]
    same = np.ones(len(first), dtype=bool)
    for key in ("file", "device", "stream"):
        same &= table[key][first] == table[key][second]
    first, second = first[same], second[same]
    gap = table["start_ns"][second] - (table["start_ns"][first] + table["dur_ns"][first])
    return Neighbours(first, second, gap)


def step_kernel_counts(rec: Recording) -> npt.NDArray[np.int64]:
    """Kernels of each step, timed or not."""
    step = rec.kernels["step"]
    return np.bincount(step[step >= 0], minlength=len(rec.steps)).astype(np.int64)


def step_kernel_time_ns(rec: Recording) -> npt.NDArray[np.int64]:
    """Kernel time of each step (timed kernels)."""
    rows = timed(rec)
    step = rec.kernels["step"][rows]
    total = np.zeros(len(rec.steps), dtype=np.int64)
    np.add.at(total, step[step >= 0], rec.kernels["dur_ns"][rows][step >= 0])
    return total


def rank_of_steps(rec: Recording) -> Array:
    """Rank of each step, -1 where not known."""
    ranks = rec.file_ranks
    return ranks[rec.steps["file"]] if len(rec.files) else np.full(len(rec.steps), NONE)
