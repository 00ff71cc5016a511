"""Configured, eligible, executed: what a path's state on paper makes of what a recording shows of it, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._anchors import Calls, total_of
from m3probe.analyzers._places import Cell, Places
from m3probe.fastpaths._state import PathState, state_at
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.paths import Anchor, FastPath, Role
from m3probe.schema.setup import Held, Point, Setup, State
from m3probe.schema.verdicts import PathVerdict, Phase

WORST = (
    PathVerdict.MISSED,
    PathVerdict.UNEXPECTED,
    PathVerdict.REFUSED_AT_START,
    PathVerdict.UNPROVEN,
    PathVerdict.DECLINED,
    PathVerdict.EXECUTED,
    PathVerdict.OFF,
)
"""A roll-up shows the first of these that occurs: 10 of 1,000 missed are never ``executed``."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Which implementation ran at each place (int64 and bool [places])."""

    fast: Array
    fallback: Array
    least: dict[Phase, int | None]

    def whole(self, place: int, phase: Phase) -> bool:
        """Whether the fast variant made every call that the setup expects of it; unknown expectations are met."""
        least = self.least.get(phase)
        return least is None or int(self.fast[place]) >= least


@dataclass(frozen=True, slots=True)
class Judged:
    """One path in one cell: verdicts with their step counts, and the sentences behind them."""

    verdict: PathVerdict
    counts: Counter[PathVerdict]
    states: Counter[State]
    reasons: tuple[str, ...]
    asked: str


def ran(path: FastPath, calls: Sequence[Calls], where: Places, setup: Setup, told: Array) -> Ran:
    """Calls of fast variants per place, and whether a fallback ran there.

    Args:
        told: bool [places]: runtime calls were recorded and nothing of them is hidden, so that no graph launch means
            eager.
    """
    fast = total_of(path, calls, where)
    other = sum((c.per_place for c in calls), np.zeros(len(where), dtype=np.int64)) - fast
    if path.counted_by is Anchor.GRAPH_LAUNCH:
        return Ran(fast, told & (fast == 0), {})
    return Ran(fast, other > 0, {phase: _least(path, calls, setup, phase) for phase in Phase})


def judged_cells(
    rec: Recording, path: FastPath, calls: Sequence[Calls], seen: Sequence[Cell], where: Places
) -> list[Judged]:
    """Each cell's verdict by the recording's setup; () where nobody gave one."""
    setup = rec.meta.setup
    if setup is None:
        return []
    told = np.zeros(len(where), dtype=bool)
    for cell in seen:
        told[cell.at] = cell.told
        told[cell.hidden] = False
    here = ran(path, calls, where, setup, told)
    return [judged(rec, path, setup, cell, here) for cell in seen]


def configured(found: Sequence[Judged]) -> str:
    """``yes``, ``no`` or ``unknown``: whether the setup asks for the path."""
    if not found:
        return "unknown"
    return "no" if all(set(j.states) == {State.OFF} for j in found) else "yes"


def eligible(found: Sequence[Judged]) -> str:
    """``yes``, ``no``, ``partly`` (in some of the steps) or ``unknown``."""
    states = {state for j in found for state in j.states} - {State.OFF}
    if not states or State.UNPROVEN in states:
        return "unknown"
    if states == {State.ELIGIBLE}:
        return "yes"
    return "partly" if State.ELIGIBLE in states else "no"


def _least(path: FastPath, calls: Sequence[Calls], setup: Setup, phase: Phase) -> int | None:
    """Calls per step that the setup expects of the fast variants that ran; None: not known."""
    if path.chooses:
        return None
    seen = {c.variant.name for c in calls if c.variant.role is Role.FAST and c.per_place.any()}
    variants = [v for v in path.variants if v.name in seen and v.expected]
    found = [v.expected(setup, Point(phase, 1, 1)) for v in variants if v.expected]
    return min((n for n in found if n is not None), default=None)


def judged(rec: Recording, path: FastPath, setup: Setup, cell: Cell, here: Ran) -> Judged:
    """Every step of a cell against the state of its own rows."""
    states = _states(rec, path, setup, cell)
    hidden = set(cell.hidden.tolist())
    found: Counter[PathVerdict] = Counter()
    on_paper: Counter[State] = Counter()
    reasons: dict[str, None] = {}
    for place in cell.at.tolist():
        state = states[place]
        verdict = _verdict(state.state, here, place, cell.phase, hidden=place in hidden)
        found[verdict] += 1
        on_paper[state.state] += 1
        reasons |= dict.fromkeys(_reasons(state, verdict, here, place, cell.phase))
    asked = states[int(cell.at[0])].asked
    return Judged(min(found, key=WORST.index), found, on_paper, tuple(reasons), asked)


def _states(rec: Recording, path: FastPath, setup: Setup, cell: Cell) -> dict[int, PathState]:
    """State of each place by its rows and requests; steps that are alike are asked once."""
    steps, known = rec.steps, {}
    by_point: dict[tuple[int, int], PathState] = {}
    for place in cell.at.tolist():
        inside = place < len(steps)
        rows = int(steps["rows"][place]) if inside else -1
        requests = int(steps["requests"][place]) if inside else -1
        if (rows, requests) not in by_point:
            by_point[rows, requests] = state_of_step(path, setup, cell.phase, rows, requests)
        known[place] = by_point[rows, requests]
    return known


def state_of_step(path: FastPath, setup: Setup, phase: Phase, rows: int, requests: int) -> PathState:
    """Without known rows a need that is asked at each call has no answer."""
    found = state_at(path, setup, Point(phase, max(rows, 1), max(requests, 0)))
    by_call = any(j.need.when == "call" for j in found.judged)
    if rows < 1 and by_call and found.state in (State.ELIGIBLE, State.REFUSED):
        return PathState(State.UNPROVEN, found.asked, found.judged)
    return found


def _verdict(state: State, here: Ran, place: int, phase: Phase, *, hidden: bool) -> PathVerdict:
    fast, fallback = bool(here.fast[place]), bool(here.fallback[place]) and not hidden
    if state in (State.OFF, State.REFUSED_AT_START):
        idle = PathVerdict.OFF if state is State.OFF else PathVerdict.REFUSED_AT_START
        return PathVerdict.UNEXPECTED if fast else idle
    if state is State.REFUSED:
        return PathVerdict.UNEXPECTED if fast else PathVerdict.DECLINED if fallback else PathVerdict.UNPROVEN
    if state is State.UNPROVEN:
        return PathVerdict.EXECUTED if fast else PathVerdict.UNPROVEN
    if fallback and not here.whole(place, phase):
        return PathVerdict.MISSED
    return PathVerdict.EXECUTED if fast else PathVerdict.MISSED if fallback else PathVerdict.UNPROVEN


def _reasons(state: PathState, verdict: PathVerdict, here: Ran, place: int, phase: Phase) -> tuple[str, ...]:
    if verdict is PathVerdict.OFF:
        return (f"off: {state.asked}",)
    if verdict is PathVerdict.MISSED:
        fast, least = int(here.fast[place]), here.least.get(phase)
        part = f"{fast:,} of {least:,} calls; the fallback made the others" if fast and least else "the fallback ran"
        return (f"eligible ({state.asked or 'always asked for'}), yet {part}",)
    return state.of(Held.NO) or state.of(Held.UNKNOWN)
