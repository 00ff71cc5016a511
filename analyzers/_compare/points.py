"""Which runs of B answer which runs of A: workload points, their repeats, and the runs that nothing is credited to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.analyzers._bench_checks import contradictions, little_text
from m3probe.analyzers._bench_sweep import lengths, same_contract
from m3probe.model.bench import BenchRun, little
from m3probe.model.compare_bench import LeftOut, WorkloadPoint

CONSOLE = "console"
PRINTED = 0.0051
"""Half of the last printed digit, of seconds and of tokens a second, and what floats lose."""


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one side at one point under one contract: repeats of each other."""

    runs: tuple[BenchRun, ...]

    @property
    def first(self) -> BenchRun:
        """The run that stands for the point."""
        return self.runs[0]


def why_not_credited(run: BenchRun) -> str:
    """Why nothing may be concluded from a run; "" where it may."""
    if not run.comparable:
        return "its figures stand for less than 99 % of the requests"
    law = little(run)
    if law.consistent is False and law.waiting is not None and law.decoding is not None and law.expected:
        return little_text(law.waiting, law.decoding, law.expected, law.gap or 0.0)
    said = contradictions(run)
    return f"it contradicts itself: {said[0]}" if said else ""


def groups(runs: Sequence[BenchRun], side: str) -> tuple[list[Group], list[LeftOut]]:
    """The runs by point, each run once; and those that nothing is credited to."""
    held: list[list[BenchRun]] = []
    out: list[LeftOut] = []
    kept: list[BenchRun] = []
    # a box of the console is the same run told shorter: the file of results stands for both
    for run in sorted(runs, key=lambda one: one.dialect == CONSOLE):
        why = why_not_credited(run)
        if why:
            out.append(LeftOut(side, run.name, why))
            continue
        if any(_the_same(run, other) for other in kept):
            out.append(LeftOut(side, run.name, "the same run is there already: a copy is no repeat"))
            continue
        kept.append(run)
        home = next((group for group in held if same_point(group[0], run) and same_contract(group[0], run)), None)
        if home is None:
            held.append([run])
        else:
            home.append(run)
    return [Group(tuple(group)) for group in held], out


def paired(a: Sequence[Group], b: Sequence[Group]) -> tuple[list[tuple[Group, Group]], list[LeftOut]]:
    """Groups of one point; where a side has several contracts there, the one that is alike on both sides.

    The contract may differ between A and B: then the ratio is a difference and no speed-up, which others judge.
    """
    found: list[tuple[Group, Group]] = []
    out: list[LeftOut] = []
    for group in a:
        here = [other for other in b if same_point(group.first, other.first)]
        rivals = [other for other in a if same_point(group.first, other.first)]
        alike = [other for other in here if same_contract(group.first, other.first)]
        if len(alike) == 1 or (len(here) == 1 and len(rivals) == 1):
            found.append((group, alike[0] if len(alike) == 1 else here[0]))
        else:
            why = "B has no run at this point" if not here else "several runs of unlike contracts are at this point"
            out.append(LeftOut("a", group.first.name, why))
    used = {id(pair[1]) for pair in found}
    for other in b:
        if id(other) not in used:
            here = [group for group in a if same_point(group.first, other.first)]
            why = "several runs of unlike contracts are at this point" if here else "A has no run at this point"
            out.append(LeftOut("b", other.first.name, why))
    return sorted(found, key=lambda pair: (pair[0].first.max_concurrency or 0, _rate(pair[0].first) or 0)), out


def same_point(one: BenchRun, other: BenchRun) -> bool:
    """Whether both ask the same load of requests of the same lengths; lengths that one does not say are no difference."""
    same_load = one.max_concurrency == other.max_concurrency and _rate(one) == _rate(other)
    return same_load and not lengths(one, other)


def point_of(a: BenchRun, b: BenchRun) -> WorkloadPoint:
    """The point of a pair, as far as either run says it."""
    return WorkloadPoint(
        isl=_length(a, b, "isl", "mean_input_tokens"),
        osl=_length(a, b, "osl", "mean_output_tokens"),
        concurrency=a.max_concurrency,
        request_rate=_rate(a),
    )


def _length(a: BenchRun, b: BenchRun, label: str, mean: str) -> str:
    for run in (a, b):
        if run.metadata.get(label):
            return str(run.metadata[label])
    known: float | None = next((x for x in (getattr(a, mean), getattr(b, mean)) if x), None)
    return "" if known is None else f"{known:,.0f}"


def _rate(run: BenchRun) -> float | None:
    return None if run.request_rate is None or math.isinf(run.request_rate) else run.request_rate


def _the_same(one: BenchRun, other: BenchRun) -> bool:
    """A file read twice, or what the client printed beside what it saved: two runs never last equally long."""
    if (one.dialect == CONSOLE) != (other.dialect == CONSOLE):
        return _printed(one, other)
    if not same_point(one, other):
        return False
    return one.duration_s is not None and (one.date, one.duration_s, one.completed, one.output_throughput) == (
        other.date,
        other.duration_s,
        other.completed,
        other.output_throughput,
    )


def _printed(one: BenchRun, other: BenchRun) -> bool:
    """One load, and the same counts, duration and rate, to the two decimals that are printed."""
    loads = {run.max_concurrency for run in (one, other) if run.max_concurrency is not None}
    counts = [(run.completed, run.total_input_tokens, run.total_output_tokens) for run in (one, other)]
    figures = [(run.duration_s, run.output_throughput) for run in (one, other)]
    return (
        len(loads) < 2
        and counts[0] == counts[1]
        and all(x is not None and y is not None and abs(x - y) <= PRINTED for x, y in zip(*figures, strict=True))
    )


def by_lengths(pairs: Sequence[tuple[Group, Group]]) -> list[list[tuple[Group, Group]]]:
    """Pairs of equal lengths together, each in ascending order of concurrency: sweeps; those without a limit are in none."""
    found: list[list[tuple[Group, Group]]] = []
    for pair in pairs:
        if pair[0].first.max_concurrency is None:
            continue
        home = next((sweep for sweep in found if not lengths(sweep[0][0].first, pair[0].first)), None)
        if home is None:
            found.append([pair])
        else:
            home.append(pair)
    return found
