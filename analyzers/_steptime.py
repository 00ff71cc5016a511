"""Step time on the GPU, one row per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._whole import missing
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import PHASES, Phase


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Columns [steps], int64 ns; a step without GPU work has ``seen`` False and zeros elsewhere.

    ``begin_ns``, ``last_ns``: first GPU start and last GPU end of the step's own work. ``window_ns``: first GPU start
    to the next step's; to its own last end where there is no next step, or where kernels of the next may be missing
    (``followed`` False: how long the device waits after it is not known), or where the requests of a decode step have
    ended and the next step is of new ones alone (the device then waits for a client, if for anything). ``busy_ns``: union of kernels, memcpy and
    memset inside the window. ``tail_ns``: idle time between the step's last end and the next step's first start.
    ``short``: kernels are or may be missing from the recording, so that no time of the step is known.
    """

    seen: Array
    begin_ns: Array
    last_ns: Array
    window_ns: Array
    busy_ns: Array
    tail_ns: Array
    followed: Array
    short: Array

    def idle_share(self, steps: Array) -> float | None:
        """1 - busy / window over the given steps; None without GPU time, or where kernels may be missing."""
        window = int(self.window_ns[steps].sum())
        if window <= 0 or self.short[steps].any():
            return None
        return 1.0 - int(self.busy_ns[steps].sum()) / window

    def tail_share(self, steps: Array) -> float | None:
        """Idle between steps over window, of those of the given steps that have a next one; None without such."""
        with_next = steps[self.followed[steps]]
        window = int(self.window_ns[with_next].sum())
        if window <= 0 or self.short[steps].any():
            return None
        return int(self.tail_ns[with_next].sum()) / window


def step_times(rec: Recording) -> StepTimes:
    """Windows of all steps, per file; steps of one file follow one another."""
    file, start, end = figures.gpu_events(rec)
    begin, last = _own_work(rec, start, end)
    seen, lacks = last >= begin, missing(rec)
    n = len(rec.steps)
    window, busy, tail = (np.zeros(n, dtype=np.int64) for _ in range(3))
    followed = np.zeros(n, dtype=bool)
    hidden = lacks.late | (~seen & _launched(rec))
    lost = np.cumsum(hidden)
    for one in np.unique(file).tolist():
        rows = np.flatnonzero(seen & (rec.steps["file"] == one))
        if not len(rows):
            continue
        here = np.flatnonzero(file == one)
        order = here[np.argsort(start[here], kind="stable")]
        # the next step must be whole, and so must be what lies between
        followed[rows[:-1]] = (lost[rows[1:]] == lost[rows[:-1]]) & ~_all_ended(rec, rows)
        nearest = np.append(begin[rows[1:]], last[rows[-1]])
        edge = np.maximum(np.where(followed[rows], nearest, np.minimum(last[rows], nearest)), begin[rows])
        window[rows] = edge - begin[rows]
        busy[rows] = busy_between(start[order], end[order], begin[rows], edge)
        rest = np.minimum(last[rows], edge)
        tail[rows] = edge - rest - busy_between(start[order], end[order], rest, edge)
    return StepTimes(seen, np.where(seen, begin, 0), np.where(seen, last, 0), window, busy, tail, followed, lacks.short)


def _all_ended(rec: Recording, rows: Array) -> Array:
    """Decode steps before a step of prefill alone: vLLM schedules what runs first, so none of their requests goes on.

    0.84 s from one request's last token to the next client's prompt stood as 98 % of the decode step time of an H200.
    """
    phase = rec.steps["phase"][rows]
    ended: Array = (phase[:-1] == PHASES.index(Phase.DECODE)) & (phase[1:] == PHASES.index(Phase.PREFILL))
    return ended


def _own_work(rec: Recording, start: Array, end: Array) -> tuple[Array, Array]:
    """First start and last end of the GPU work that each step launched; end before start where there is none."""
    transfers = rec.transfers
    sound = (transfers["start_ns"] != 0) & (transfers["dur_ns"] >= 0)
    step = np.concatenate([rec.kernels["step"][figures.timed(rec)], transfers["step"][sound]])
    begin = np.full(len(rec.steps), np.iinfo(np.int64).max)
    last = np.full(len(rec.steps), np.iinfo(np.int64).min)
    owned = step >= 0
    np.minimum.at(begin, step[owned], start[owned])
    np.maximum.at(last, step[owned], end[owned])
    return begin, last


def _launched(rec: Recording) -> Array:
    """Steps with a kernel or graph launch of the host."""
    calls = rec.launches
    own = calls["step"][(calls["kind"] > 0) & (calls["step"] >= 0)]
    return np.bincount(own, minlength=len(rec.steps)) > 0


def busy_between(start: Array, end: Array, low: Array, high: Array) -> Array:
    """Length of the union of [start, end) inside each [low, high); ``start`` ascends."""
    if not len(start):
        return np.zeros(len(low), dtype=np.int64)
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(np.append(True, start[1:] > reach[:-1]))
    opens, closes = start[first], reach[np.append(first[1:] - 1, len(start) - 1)]
    before = np.append(0, np.cumsum(closes - opens))

    def busy_until(at: Array) -> Array:
        piece = np.searchsorted(opens, at, side="right")
        inside = np.maximum(piece - 1, 0)
        return np.where(piece > 0, before[inside] + np.minimum(at, closes[inside]) - opens[inside], 0)

    found: Array = busy_until(high) - busy_until(low)
    return found
