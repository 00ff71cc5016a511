"""What every rule about repeated work starts from: executions and times of the steps that can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._basis import UNTIMED_SHARE, Basis, phase_basis, timed_steps
from m3probe.analyzers._names import KernelName, names_of
from m3probe.analyzers._steptime import StepTimes, step_times
from m3probe.analyzers._whole import short_replays
from m3probe.model.executed import Executed, executed
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, TrustSection
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import PHASES, Phase, Trust

__all__ = ["UNTIMED_SHARE", "KernelName", "View", "decode_tokens", "in_phases", "kernel_names", "ms", "percent"]


@dataclass(frozen=True, slots=True)
class View:
    """A recording seen by step.

    ``proven`` [steps]: at least one execution, and no graph launch with kernels that are neither recorded nor in the
    census: what it ran can be counted.
    ``decode`` is what bounds of decode are shares of; None where its step time is not known.
    ``trusted`` is False when the evidence can hide kernels; ``doubts`` says why.
    """

    rec: Recording
    ex: Executed
    time: StepTimes
    proven: Array
    decode: Basis | None
    trusted: bool
    doubts: tuple[str, ...]

    def steps(self, *phases: Phase) -> Array:
        """Rows of proven steps of these phases."""
        return np.flatnonzero(self.proven & in_phases(self.rec, *phases))

    def timed_steps(self, *phases: Phase) -> Array:
        """Rows of steps whose times are known; none of a phase of which kernels may be missing."""
        return timed_steps(self.rec, self.time, *phases)

    def rows_in(self, steps: Array) -> Array:
        """Mask of the executions of these steps."""
        chosen = np.zeros(len(self.rec.steps) + 1, dtype=bool)  # the last row is what step -1 reads
        chosen[steps] = True
        return chosen[self.ex.step]

    def time_ns(self, rows: Array) -> int:
        """Plain sum of the known durations of executions."""
        dur = self.ex.dur_ns[rows]
        return int(dur[dur > 0].sum())

    def kernels_of(self, rows: Array) -> Array:
        """Rows of kernels of these executions (indices or a mask), as far as they were recorded."""
        kernel = self.ex.kernel[rows]
        found: Array = kernel[kernel >= 0]
        return found


def view(rec: Recording, so_far: Answer) -> View:
    """The view of a recording; trust is taken from the answer so far."""
    ex = executed(rec)
    own = ex.step >= 0
    count = np.bincount(ex.step[own], minlength=len(rec.steps))
    time = step_times(rec)
    return View(rec, ex, time, (count > 0) & ~_bare(rec), phase_basis(rec, Phase.DECODE, time), *_trust(so_far))


def in_phases(rec: Recording, *phases: Phase) -> Array:
    """Mask of the steps of these phases."""
    return np.isin(rec.steps["phase"], [PHASES.index(phase) for phase in phases])


def _bare(rec: Recording) -> Array:
    """Steps with a graph launch whose lost kernels no census tells: what ran in it is unproven."""
    launches = rec.launches
    bare = short_replays(rec) & (launches["graph"] == NONE) & (launches["step"] != NONE)
    found = np.zeros(len(rec.steps), dtype=bool)
    found[launches["step"][bare]] = True
    return found


def _trust(so_far: Answer) -> tuple[bool, tuple[str, ...]]:
    section = so_far.section(TrustSection)
    if section is None:
        return True, ()
    # means over two recordings of one rank describe neither
    mixed = tuple(reason.text for reason in section.trust.reasons if reason.word == "same_rank")
    doubts = (*so_far.hiding, *mixed)
    return not doubts and section.trust.verdict != Trust.UNUSABLE, doubts


def kernel_names(view: View) -> Mapping[int, KernelName]:
    """String id -> what the name says, for every name that was executed."""
    return names_of(view.rec.strings, view.ex.name, view.ex.family)


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
    """0.9142 -> '91.4 %'; what rounds to 0 or to all without being it is '<0.1 %' or '>99.9 %'."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    return ">99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"


def ms(time_ns: float) -> str:
    """Nanoseconds as milliseconds with three figures after the point."""
    return f"{time_ns / 1e6:,.3f} ms"
