"""Step time on the GPU, one row per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.model.recording import Recording
from m3probe.model.tables import Array


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Columns [steps], int64 ns; a step without GPU work has ``seen`` False and zeros elsewhere.

    ``window_ns``: first GPU start to the next step's first GPU start (last step: to its last end).
    ``busy_ns``: union of kernels, memcpy and memset inside the window.
    ``tail_ns``: end of the step's own GPU work to the end of its window: the device waits for the next step.
    """

    seen: Array
    window_ns: Array
    busy_ns: Array
    tail_ns: Array

    def idle_share(self, steps: Array) -> float | None:
        """1 - busy / window over the given steps; None without GPU time."""
        window = int(self.window_ns[steps].sum())
        return 1.0 - int(self.busy_ns[steps].sum()) / window if window > 0 else None


def step_times(rec: Recording) -> StepTimes:
    """Windows of all steps, per file; steps of one file follow one another."""
    transfers = rec.transfers
    sound = (transfers["start_ns"] != 0) & (transfers["dur_ns"] >= 0)
    step = np.concatenate([rec.kernels["step"][figures.timed(rec)], transfers["step"][sound]])
    file, start, end = figures.gpu_events(rec)
    n = len(rec.steps)
    begin = np.full(n, np.iinfo(np.int64).max)
    last = np.full(n, np.iinfo(np.int64).min)
    owned = step >= 0
    np.minimum.at(begin, step[owned], start[owned])
    np.maximum.at(last, step[owned], end[owned])
    seen = last >= begin
    window, busy, tail = (np.zeros(n, dtype=np.int64) for _ in range(3))
    for one in np.unique(file).tolist():
        rows = np.flatnonzero(seen & (rec.steps["file"] == one))
        if not len(rows):
            continue
        here = file == one
        edge = np.maximum(np.append(begin[rows[1:]], last[rows[-1]]), begin[rows])
        window[rows] = edge - begin[rows]
        busy[rows] = _busy_between(start[here], end[here], begin[rows], edge)
        tail[rows] = np.maximum(edge - last[rows], 0)
    return StepTimes(seen, window, busy, tail)


def _busy_between(start: Array, end: Array, low: Array, high: Array) -> Array:
    """Length of the union of [start, end) inside each [low, high)."""
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.append(True, start[1:] > reach[:-1]))
    opens, closes = start[first], reach[np.append(first[1:] - 1, len(start) - 1)]
    before = np.append(0, np.cumsum(closes - opens))

    def busy_until(at: Array) -> Array:
        piece = np.searchsorted(opens, at, side="right")
        inside = np.maximum(piece - 1, 0)
        return np.where(piece > 0, before[inside] + np.minimum(at, closes[inside]) - opens[inside], 0)

    return busy_until(high) - busy_until(low)
