"""The time that shares are taken of, and what is won of it when some GPU work is removed: one definition for all.

Use: ``base = basis(rec)``; ``removable_share(rec, kernels, base)`` is the finding's bound, ``step_share(rec, kernels,
base)`` the kernel time as a share of the same step time. They differ where streams overlap: work that runs beside
other work takes time and frees none.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._steptime import StepTimes, busy_between, step_times
from m3probe.analyzers._whole import whole
from m3probe.model.findings import Bound
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import PHASES, Phase

UNTIMED_SHARE = 0.01
"""Above this share of executions without a time (docs/words.md) a sum of times is not stated."""
FORMULA = "(time with GPU work - time with GPU work once these are taken out) / {basis}"
_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Events:
    """GPU events by start: ``kernel`` and ``transfer`` are rows of those tables, -1 in the other one's column."""

    file: Array
    start: Array
    end: Array
    kernel: Array
    transfer: Array
    step: Array

    def at(self, rows: Array) -> Events:
        """The chosen events (indices or a mask); the same ones where a mask leaves none out."""
        if rows.dtype == bool and rows.all():
            return self
        return Events(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, slots=True)
class Windows:
    """Disjoint windows [low, high) on the clock of their file."""

    file: Array
    low: Array
    high: Array

    def covered_ns(self, events: Events, chosen: Array | None = None) -> int:
        """Time of the windows in which one of the events (of those of the mask ``chosen``) runs."""
        total = 0
        for one in np.unique(self.file).tolist():
            at, here = self.file == one, events.file == one
            here = here if chosen is None else here & chosen
            total += int(busy_between(events.start[here], events.end[here], self.low[at], self.high[at]).sum())
        return total


@dataclass(frozen=True, slots=True)
class Basis:
    """The steps that bounds are shares of.

    Args:
        name: their time in words.
        where: their phase; "" without steps.
        steps: rows of steps; none without.
        windows: one per step, or one per file.
        events: GPU work that touches the windows, or that these steps launched.
        window_ns: their step time.
        busy_ns: time of it with GPU work.
    """

    name: str
    where: str
    steps: Array
    windows: Windows
    events: Events
    window_ns: int
    busy_ns: int

    @property
    def idle(self) -> float:
        """Share of the step time without GPU work."""
        return 1.0 - self.busy_ns / self.window_ns

    def chosen(self, rec: Recording, kernels: Array, transfers: Array = _NOTHING) -> Array:
        """Mask over the events: those of the given rows (or masks) that the basis' steps launched."""
        wanted = np.zeros(len(rec.kernels) + 1, dtype=bool)  # the last row is what -1 reads
        wanted[:-1][kernels] = True
        moved = np.zeros(len(rec.transfers) + 1, dtype=bool)
        moved[:-1][transfers] = True
        found: Array = wanted[self.events.kernel] | moved[self.events.transfer]
        return found & np.isin(self.events.step, self.steps) if self.where else found


def basis(rec: Recording) -> Basis | None:
    """Decode steps, else mixed, else prefill, else steps of unknown phase; without steps the GPU span.

    None without times, and where kernels of the phase may be missing: a later phase does not stand in for it.
    """
    times = step_times(rec)
    for phase in (Phase.DECODE, Phase.MIXED, Phase.PREFILL, Phase.UNKNOWN):
        if times.short[rec.steps["phase"] == PHASES.index(phase)].any():
            return None
        found = phase_basis(rec, phase, times)
        if found is not None:
            return found
    return None if len(rec.steps) else _span(rec)


def phase_basis(rec: Recording, phase: Phase, times: StepTimes | None = None) -> Basis | None:
    """The basis of one phase; None where its step time is not known."""
    times = times or step_times(rec)
    steps = timed_steps(rec, times, phase)
    idle = times.idle_share(steps)
    if idle is None:
        return None
    name = "step time" if phase is Phase.UNKNOWN else f"{phase} step time"
    low = times.begin_ns[steps]
    windows = Windows(rec.steps["file"][steps], low, low + times.window_ns[steps])
    return _with_events(rec, (name, str(phase)), steps, windows)


def timed_steps(rec: Recording, times: StepTimes, *phases: Phase) -> Array:
    """Rows of steps with GPU work and known times; none of a phase of which kernels may be missing."""
    found = []
    for phase in phases:
        steps = np.flatnonzero(rec.steps["phase"] == PHASES.index(phase))
        if not times.short[steps].any():
            found.append(steps[times.seen[steps] & _sound(rec)[steps]])
    return np.sort(np.concatenate(found)) if found else _NOTHING


def removable_share(rec: Recording, kernels: Array, basis: Basis, transfers: Array = _NOTHING, more: str = "") -> Bound:
    """What at most is won when this work is removed: the time of the steps in which nothing else runs.

    Args:
        rec: the recording.
        kernels: rows of kernels, or a mask over them; those of other steps than the basis' count nothing.
        basis: the time that the share is of.
        transfers: rows of transfers, or a mask over them.
        more: words put behind the formula.
    """
    left = basis.windows.covered_ns(basis.events, ~basis.chosen(rec, kernels, transfers))
    worked = f"({basis.busy_ns:,} ns - {left:,} ns) / {basis.window_ns:,} ns"
    share = (basis.busy_ns - left) / basis.window_ns
    return Bound(0.0, share, FORMULA.format(basis=basis.name) + more, basis.name, (worked,))


def part_of(part_ns: int, whole_ns: int, formula: str, name: str) -> Bound:
    """The bound of a time that is a plain part of another one, named ``name``."""
    return Bound(0.0, part_ns / whole_ns, formula, name, (f"{part_ns:,} ns / {whole_ns:,} ns",))


def step_share(rec: Recording, kernels: Array, basis: Basis, transfers: Array = _NOTHING) -> float:
    """Plain sum of the durations of this work over step time; streams that overlap can bring it above 1."""
    chosen = basis.chosen(rec, kernels, transfers)
    return int((basis.events.end - basis.events.start)[chosen].sum()) / basis.window_ns


def _sound(rec: Recording) -> Array:
    """Steps with kernels, of which (nearly) all have a time."""
    step = rec.kernels["step"]
    count = np.bincount(step[step >= 0], minlength=len(rec.steps))
    untimed = np.bincount(step[(step >= 0) & ~rec.kernels["timed"]], minlength=len(rec.steps))
    found: Array = (count > 0) & (untimed <= UNTIMED_SHARE * count)
    return found


def _span(rec: Recording) -> Basis | None:
    """A trace without steps: all GPU work over first start to last end, summed over files."""
    if not whole(rec) or not len(figures.timed(rec)):
        return None
    file, start, end = figures.gpu_events(rec)
    files = np.unique(file)
    low = np.array([start[file == one].min() for one in files])
    high = np.array([end[file == one].max() for one in files])
    return _with_events(rec, ("the GPU span", ""), _NOTHING, Windows(files, low, high)) if (high > low).any() else None


def _with_events(rec: Recording, words: tuple[str, str], steps: Array, windows: Windows) -> Basis:
    events = _events(rec)
    inside = (events.start < windows.high.max()) & (events.end > windows.low.min())
    events = events.at(inside | np.isin(events.step, steps))
    total = int((windows.high - windows.low).sum())
    return Basis(*words, steps, windows, events, total, windows.covered_ns(events))


def _events(rec: Recording) -> Events:
    file, start, end = figures.gpu_events(rec)
    timed, transfers = figures.timed(rec), rec.transfers
    sound = np.flatnonzero((transfers["start_ns"] != 0) & (transfers["dur_ns"] >= 0))
    # rows in 32 bits: a recording of 1 GB has four million events, and this is where a report needs most memory
    kernel = np.concatenate([timed, np.full(len(sound), NONE)], dtype=np.int32, casting="same_kind")
    transfer = np.concatenate([np.full(len(timed), NONE), sound], dtype=np.int32, casting="same_kind")
    step = np.concatenate([rec.kernels["step"][timed], transfers["step"][sound]])
    return Events(file, start, end, kernel, transfer, step).at(np.argsort(start, kind="stable"))
