"""Where the device waits inside and between steps: each part has another cause and asks for another move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._steptime import StepTimes, busy_between
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import GRAPH_MODES, GraphMode

BEFORE, INSIDE, AFTER, KERNELS, BETWEEN = "before_graph", "in_graph", "after_graph", "kernels", "between_steps"
WORDS = {
    BEFORE: "before the graph starts",
    INSIDE: "inside the graph",
    AFTER: "after the graph",
    KERNELS: "between kernels of a step",
    BETWEEN: "between steps",
}


@dataclass(frozen=True, slots=True)
class Idle:
    """Idle time of some steps, ns by part; parts of which there are no steps are left out.

    Steps that replay one graph split into before, inside and after it; in all others idle time lies between kernels.
    ``between_steps`` is known for the ``followed`` of ``steps`` alone, those that have a next step; after the
    ``emptied`` no request was left, so that what follows is no wait of theirs.
    """

    parts: dict[str, int]
    window_ns: int
    steps: int
    followed: int
    followed_ns: int
    graph_steps: int
    emptied: int = 0

    @property
    def inside_ns(self) -> int:
        """Idle time between the first start and the last end of the steps' own work."""
        return sum(ns for part, ns in self.parts.items() if part != BETWEEN)

    def share(self, part: str) -> float | None:
        """Share of the steps' time; None where the part is not known."""
        ns = self.parts.get(part)
        return None if ns is None or not self.window_ns else ns / self.window_ns

    @property
    def largest(self) -> str:
        """The part with the most idle time per step that has it."""
        number = {BETWEEN: self.followed, KERNELS: self.steps - self.graph_steps}
        return max(self.parts, key=lambda part: self.parts[part] / max(number.get(part, self.graph_steps), 1))


def idle_of(rec: Recording, times: StepTimes, steps: Array) -> Idle:
    """Parts of the idle time of steps whose times are known."""
    low = times.begin_ns[steps]
    edge = low + times.window_ns[steps]
    last = np.minimum(times.last_ns[steps], edge)
    first_in, last_in = _graph_spans(rec)
    full = (rec.steps["graph_mode"][steps] == GRAPH_MODES.index(GraphMode.FULL)) & (last_in[steps] > first_in[steps])
    begin = np.where(full, np.clip(first_in[steps], low, last), low)
    end = np.where(full, np.clip(last_in[steps], begin, last), last)
    spans = {BEFORE: (low, begin), INSIDE: (begin, end), AFTER: (end, last)}
    idle = {part: _idle(rec, rec.steps["file"][steps], *span) for part, span in spans.items()}
    parts = {part: int(ns[full].sum()) for part, ns in idle.items()} if full.any() else {}
    if not full.all():
        parts[KERNELS] = int(idle[INSIDE][~full].sum())
    followed = times.followed[steps]
    if followed.any():
        parts[BETWEEN] = int(times.tail_ns[steps][followed].sum())
    window = times.window_ns[steps]
    counts = (
        len(steps),
        int(followed.sum()),
        int(window[followed].sum()),
        int(full.sum()),
        int(times.emptied[steps].sum()),
    )
    return Idle(parts, int(window.sum()), *counts)


def _idle(rec: Recording, of_file: Array, low: Array, high: Array) -> Array:
    """Time without GPU work in each [low, high)."""
    file, start, end = figures.gpu_events(rec)
    found = high - low
    for one in np.unique(of_file).tolist():
        here = np.flatnonzero(file == one)
        here = here[np.argsort(start[here], kind="stable")]
        rows = of_file == one
        found[rows] -= busy_between(start[here], end[here], low[rows], high[rows])
    return found


def _graph_spans(rec: Recording) -> tuple[Array, Array]:
    """First start and last end of the graph's kernels in each step; end before start where there are none."""
    rows = figures.timed(rec)
    rows = rows[rec.kernels["in_graph"][rows] & (rec.kernels["step"][rows] >= 0)]
    step, start = rec.kernels["step"][rows], rec.kernels["start_ns"][rows]
    first = np.full(len(rec.steps), np.iinfo(np.int64).max)
    last = np.full(len(rec.steps), np.iinfo(np.int64).min)
    np.minimum.at(first, step, start)
    np.maximum.at(last, step, start + rec.kernels["dur_ns"][rows])
    return first, last
