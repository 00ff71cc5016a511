"""The time that shares are taken of: decode steps where there are any, for they make the output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._view import View
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Phase


@dataclass(frozen=True, slots=True)
class Basis:
    """Executions that are ranked, and what their step time is made of.

    Args:
        name: the time in words.
        where: its phase; empty without steps.
        rows: mask of executions.
        steps: rows of steps; empty without steps.
        window_ns: their step time.
        idle: share of it without GPU work.
        tail: share of it between the work of a step and that of the next.
    """

    name: str
    where: str
    rows: Array
    steps: Array
    window_ns: int
    idle: float
    tail: float | None

    def family_ns(self, view: View) -> Array:
        """Kernel time by family, int64 [families]."""
        found = np.zeros(len(FAMILIES), dtype=np.int64)
        known = self.rows & (view.ex.dur_ns > 0)
        np.add.at(found, view.ex.family[known], view.ex.dur_ns[known])
        return found


def basis(view: View) -> Basis | None:
    """Decode steps, else mixed, else prefill, else steps of unknown phase, else the GPU span; None without times."""
    for phase in (Phase.DECODE, Phase.MIXED, Phase.PREFILL, Phase.UNKNOWN):
        steps = view.timed_steps(phase)
        idle = view.time.idle_share(steps)
        if idle is not None:
            window = int(view.time.window_ns[steps].sum())
            tail = int(view.time.tail_ns[steps].sum()) / window
            name = "step time" if phase is Phase.UNKNOWN else f"{phase} step time"
            return Basis(name, str(phase), view.rows_in(steps), steps, window, idle, tail)
    return None if len(view.rec.steps) else _span(view)


def _span(view: View) -> Basis | None:
    """A trace without steps: all GPU work over first start to last end, summed over files."""
    window = sum(figures.gpu_span_by_file(view.rec).values())
    if not window or not (view.ex.dur_ns > 0).any():
        return None
    file, start, end = figures.gpu_events(view.rec)
    busy = sum(figures.union_ns(start[file == one], end[file == one]) for one in np.unique(file).tolist())
    rows = np.ones(len(view.ex), dtype=bool)
    return Basis("the GPU span", "", rows, np.empty(0, dtype=np.int64), window, 1.0 - busy / window, None)
