"""What every rule about repeated work starts from: executions and times of the steps that can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._steptime import StepTimes, step_times
from m3probe.kernels.demangle import demangle
from m3probe.kernels.grammar import classify, head_of
from m3probe.model.executed import Executed, executed
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, TrustSection
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import FAMILIES, PHASES, Family, Phase, Trust

UNTIMED_SHARE = 0.01
"""Above this share of executions without a time (design: Trust) a sum of times is not stated."""


@dataclass(frozen=True, slots=True)
class View:
    """A recording seen by step.

    ``proven`` [steps]: at least one execution, and no graph launch whose kernels are neither recorded nor in
    the census. ``timed`` [steps]: proven, and the times of its executions are known.
    ``trusted`` is False when the evidence can hide kernels; ``doubts`` says why.
    """

    rec: Recording
    ex: Executed
    time: StepTimes
    proven: Array
    timed: Array
    trusted: bool
    doubts: tuple[str, ...]

    def steps(self, *phases: Phase) -> Array:
        """Rows of proven steps of these phases."""
        return np.flatnonzero(self.proven & in_phases(self.rec, *phases))

    def timed_steps(self, *phases: Phase) -> Array:
        """Rows of timed steps of these phases."""
        return np.flatnonzero(self.timed & in_phases(self.rec, *phases))

    def rows_in(self, steps: Array) -> Array:
        """Mask of the executions of these steps."""
        chosen = np.zeros(len(self.rec.steps) + 1, dtype=bool)  # the last row is what step -1 reads
        chosen[steps] = True
        return chosen[self.ex.step]

    def time_ns(self, rows: Array) -> int:
        """Plain sum of the known durations of executions."""
        dur = self.ex.dur_ns[rows]
        return int(dur[dur > 0].sum())

    def share_of_step(self, rows: Array, steps: Array) -> float | None:
        """Share of step time of some executions of timed steps: share of kernel time x (1 - idle share).

        Where streams overlap, every kernel counts in proportion, so that all shares and the idle share make 1.
        """
        total = self.time_ns(self.rows_in(steps))
        idle = self.time.idle_share(steps)
        return None if idle is None or not total else self.time_ns(rows) / total * (1.0 - idle)


def view(rec: Recording, so_far: Answer) -> View:
    """The view of a recording; trust is taken from the answer so far."""
    ex = executed(rec)
    time = step_times(rec)
    n = len(rec.steps)
    own = ex.step >= 0
    count = np.bincount(ex.step[own], minlength=n)
    untimed = np.bincount(ex.step[own & (ex.dur_ns < 0)], minlength=n)
    proven = (count > 0) & ~_bare(rec)
    timed = proven & time.seen & (untimed <= UNTIMED_SHARE * count)
    trusted, doubts = _trust(so_far)
    return View(rec, ex, time, proven, timed, trusted, doubts)


def in_phases(rec: Recording, *phases: Phase) -> Array:
    """Mask of the steps of these phases."""
    return np.isin(rec.steps["phase"], [PHASES.index(phase) for phase in phases])


def _bare(rec: Recording) -> Array:
    """Steps with a graph launch of which nothing is known: what ran in it is unproven."""
    launches = rec.launches
    bare = rec.unseen_replays & (launches["step"] != NONE)
    found = np.zeros(len(rec.steps), dtype=bool)
    found[launches["step"][bare]] = True
    return found


def _trust(so_far: Answer) -> tuple[bool, tuple[str, ...]]:
    section = so_far.section(TrustSection)
    if section is None:
        return True, ()
    return not so_far.hiding and section.trust.verdict != Trust.UNUSABLE, so_far.hiding


@dataclass(frozen=True, slots=True)
class KernelName:
    """What a name says: its own words without template arguments (lower case), and its category."""

    head: str
    category: str
    family: Family


def kernel_names(view: View) -> Mapping[int, KernelName]:
    """String id -> what the name says, for every name that was executed."""
    found: dict[int, KernelName] = {}
    for name, family in np.unique(np.stack([view.ex.name, view.ex.family]), axis=1).T.tolist():
        text = view.rec.strings[name]
        found[name] = KernelName(head_of(demangle(text).lower()), classify(text).category, FAMILIES[family])
    return found


def rows_named(view: View, chosen: list[int]) -> Array:
    """Mask of the executions with one of these names."""
    return np.isin(view.ex.name, chosen)


def decode_tokens(rec: Recording) -> Array:
    """Decode tokens of each step (drafts included), -1 where the annotation does not say.

    A prefill or empty step makes none; a pure decode step that says only its rows made those.
    """
    steps = rec.steps
    said = steps["gen_tokens"]
    none = in_phases(rec, Phase.PREFILL, Phase.EMPTY)
    implied = np.where(none, 0, np.where(in_phases(rec, Phase.DECODE), steps["rows"], NONE))
    return np.where(said >= 0, said, implied)


def percent(share: float) -> str:
    """0.9142 -> '91.4 %'."""
    return f"{100 * share:.1f} %"


def ms(time_ns: float) -> str:
    """Nanoseconds as milliseconds with three figures after the point."""
    return f"{time_ns / 1e6:,.3f} ms"
