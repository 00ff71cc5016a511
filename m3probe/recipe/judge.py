"""Every fast path on paper: its state at each point of the workload, and over all rows with exact edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._state import PathState, state_at
from m3probe.model.recipe_report import AtPoint, NeedLine, PathLine, Segment, WorkPoint
from m3probe.recipe.points import Limits, point_of
from m3probe.schema.paths import FastPath, Role, When
from m3probe.schema.setup import Held, Point, Setup, State
from m3probe.schema.verdicts import Phase

WORST = (State.REFUSED_AT_START, State.REFUSED, State.UNPROVEN, State.ELIGIBLE, State.OFF)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A state and the needs that made it: rows with the same stand in one segment."""

    state: State
    needs: tuple[str, ...]


def judged(setup: Setup, points: Sequence[WorkPoint], most: Limits) -> tuple[PathLine, ...]:
    """One line per fast path of the shelf."""
    return tuple(_line(name, path, setup, points, most) for name, path in fast_paths().items())


def stops(lines: Sequence[PathLine]) -> tuple[str, ...]:
    """Why the engine would not start, each reason once."""
    found: dict[str, None] = {}
    for line in lines:
        for at in line.at:
            if at.state == State.REFUSED_AT_START:
                found |= {need.text: None for need in at.needs if need.held == Held.NO and need.when == When.START}
    return tuple(found)


def _line(name: str, path: FastPath, setup: Setup, points: Sequence[WorkPoint], most: Limits) -> PathLine:
    at = tuple(_at(path, setup, point) for point in points if Phase(point.phase) in path.phases)
    first = state_at(path, setup, point_of(points[0]))
    states = [State(found.state) for found in at] or [first.state]
    return PathLine(
        id=name,
        title=path.title,
        state=str(min(states, key=WORST.index)),
        asked=first.asked,
        by_phase={str(phase): segments(path, setup, phase, points, most) for phase in path.phases},
        at=at,
        instead=path.instead,
        gates=path.gates,
        names_from_source=all(v.names_from_source for v in path.variants if v.role is Role.FAST),
    )


def _at(path: FastPath, setup: Setup, work: WorkPoint) -> AtPoint:
    point = point_of(work)
    found = state_at(path, setup, point)
    needs = tuple(NeedLine(j.need.text, str(j.answer.held), j.answer.text, str(j.need.when)) for j in found.judged)
    return AtPoint(work, str(found.state), needs, _expected(path, setup, point))


def _expected(path: FastPath, setup: Setup, point: Point) -> Mapping[str, int]:
    """Calls of each fast variant of the setup's vendor; how many of a fallback there are says nothing here."""
    vendor = "amd" if setup.gfx and setup.gfx.startswith("gfx") else "nvidia" if setup.gfx else ""
    counted = {v.name: v.expected(setup, point) for v in path.fast(vendor) if v.expected}
    return {name: calls for name, calls in counted.items() if calls is not None}


def segments(
    path: FastPath, setup: Setup, phase: Phase, points: Sequence[WorkPoint], most: Limits
) -> tuple[Segment, ...]:
    """States over all rows of a phase, without gaps.

    Rows are probed at powers of two, at the workload's points and at the end; between two that differ the edge is
    found by bisection. A decode batch grows by whole requests, each of 1 + K rows.
    """
    each = 1 + setup.spec_tokens if phase is Phase.DECODE else 1
    last = most.requests if phase is Phase.DECODE else most.rows

    def at(n: int) -> PathState:
        return state_at(path, setup, Point(phase, n * each, n if phase is Phase.DECODE else 1))

    def seen(n: int) -> _Seen:
        found = at(n)
        return _Seen(found.state, tuple(j.need.text for j in found.judged if j.answer.held is not Held.YES))

    named = [p.rows // each for p in points if p.phase == phase]
    probes = sorted({*_powers(last), last, *(n for n in named if 0 < n <= last)})
    starts = _starts(probes, seen)
    ends = [*(n - 1 for n in starts[1:]), last]
    return tuple(
        _merged(
            Segment((a - 1) * each + 1 if a > 1 else 1, b * each, str(at(b).state), _reasons(at(b)))
            for a, b in zip(starts, ends, strict=True)
        )
    )


def _merged(segments: Iterable[Segment]) -> list[Segment]:
    """Neighbours of which the same is to be said are one."""
    found: list[Segment] = []
    for s in segments:
        if found and (found[-1].state, found[-1].reasons) == (s.state, s.reasons):
            found[-1] = Segment(found[-1].first, s.last, s.state, s.reasons)
        else:
            found.append(s)
    return found


def _powers(last: int) -> list[int]:
    return [1 << bit for bit in range(last.bit_length()) if 1 << bit <= last]


def _starts(probes: Sequence[int], seen: Callable[[int], _Seen]) -> list[int]:
    starts = [probes[0]]
    for low, high in pairwise(probes):
        at = low
        while seen(high) != seen(at):
            at = _edge(at, high, seen)
            starts.append(at)
    return starts


def _edge(low: int, high: int, seen: Callable[[int], _Seen]) -> int:
    """The first n after ``low`` that differs from it, where all from there to ``high`` do."""
    here, first, after = seen(low), low, high
    while after - first > 1:
        middle = (first + after) // 2
        if seen(middle) == here:
            first = middle
        else:
            after = middle
    return after


def _reasons(found: PathState) -> tuple[str, ...]:
    if found.state in (State.ELIGIBLE, State.OFF):
        return ()
    told = found.of(Held.NO) or found.of(Held.UNKNOWN) or (found.asked,)
    return tuple(dict.fromkeys(told))
