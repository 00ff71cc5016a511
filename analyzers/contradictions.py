"""All inputs on one clock, and what they say against each other once they are.

What a log chose and kernels contradict is told by the paths question; everything else that two inputs cannot both be right
about stands here. What is not on the clock, or not covered, is not compared: silence is no agreement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from m3probe.analyzers._joined_counts import missing_requests, missing_steps
from m3probe.analyzers._joined_graphs import other_graphs
from m3probe.model.clock import ClockSection, FileClock, Tie, clocks, meet
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer

QUESTION = "joining"


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """One row a file, and a finding for everything that two of them contradict each other in."""
    found = clocks(rec)
    told = (*_apart(found), *missing_steps(rec, found), *missing_requests(rec, found), *other_graphs(rec))
    return Answer((ClockSection(found),), tuple(told))


ANALYZER = Analyzer(title="Are all inputs on one clock, and do they agree?", order=70, judge=judge)


def _apart(found: Sequence[FileClock]) -> Iterator[Finding]:
    """Inputs that were not made at the same time say nothing of each other; one finding for each pair of kinds."""
    placed = [clock for clock in found if clock.span is not None and not clock.by_mtime]
    told: set[frozenset[str]] = set()
    for clock in found:
        others = [other for other in placed if other.kind != clock.kind]
        if not others or clock.by_mtime:
            continue
        if clock.never_meets:
            yield _finding(clock, "in no time zone does it meet another input")
        elif clock.span is not None and not any(meet(clock, other) for other in others):
            nearest = min(others, key=lambda other: _gap(clock, other))
            pair = frozenset((clock.kind, nearest.kind))
            if pair not in told:
                told.add(pair)
                when = "before" if clock.span[1] < (nearest.span or clock.span)[0] else "after"
                yield _finding(
                    clock, f"it lies {_told(_gap(clock, nearest))} {when} {PurePath(nearest.path).name}, the nearest"
                )


def _finding(clock: FileClock, what: str) -> Finding:
    return Finding(
        id=f"{QUESTION}.apart.{clock.file}",
        question=QUESTION,
        verdict="differs",
        claim=f"{PurePath(clock.path).name} was not made while the others were: {what}, so that it says nothing of what they show",
        where=clock.path,
        evidence=(),
        advice="Give inputs of one run: a log and scrapes that go on while the benchmark runs and the trace is taken.",
        confidence="high" if clock.state is Tie.ALIGNED else "medium",
    )


def _gap(a: FileClock, b: FileClock) -> int:
    """ns between two stretches that do not meet."""
    if a.span is None or b.span is None:
        return 2**62
    return max(a.span[0] - b.span[1], b.span[0] - a.span[1])


def _told(gap_ns: int) -> str:
    seconds = gap_ns / 1e9
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
