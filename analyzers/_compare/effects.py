"""In which phase a run got faster or slower: the client's figures and the device's step times, held together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from m3probe.model.compare_bench import BenchComparison, MetricPair, MetricVerdict
from m3probe.model.compare_report import BETTER, NO_CHANGE, UNPROVEN, WORSE, PhaseChange
from m3probe.schema.verdicts import Phase

OF_PHASE: Mapping[Phase, tuple[str, ...]] = {
    Phase.DECODE: ("tpot", "itl"), Phase.PREFILL: ("ttft",), Phase.MIXED: (), Phase.UNKNOWN: (),
}  # fmt: skip
"""A client's metrics that one phase alone makes; TTFT holds the wait before prefill as well."""
THROUGHPUT = ("output_per_gpu", "output", "total_per_gpu", "total", "requests", "goodput")


@dataclass(frozen=True, slots=True)
class Effect:
    """What happened to one phase.

    Args:
        verdict: ``better worse same unproven``.
        said: the figures, one text each.
        bare: only figures without a known noise say so.
    """

    verdict: str
    said: tuple[str, ...]
    bare: bool = False


def effects(found: BenchComparison | None, phases: Sequence[PhaseChange]) -> dict[str, Effect]:
    """Phase -> effect, of those that something was measured of; empty text: throughput, which both phases make."""
    told: dict[str, Effect] = {}
    for phase, names in OF_PHASE.items():
        pairs = _typical(found, names) if found else []
        steps = [c for c in phases if c.phase == phase and c.ratio is not None]
        if pairs or steps:
            told[str(phase)] = _effect(pairs, steps)
    throughput = next(
        (pairs for name in THROUGHPUT if found and (pairs := [p for p in found.pairs if p.metric == name])), []
    )
    if throughput:
        told[""] = _effect(throughput, [])
    return told


def _typical(found: BenchComparison, names: Sequence[str]) -> list[MetricPair]:
    """The first metric that was measured of both, by its mean, else by its median: a tail is no measure of a phase."""
    for name in names:
        for of in ("mean", "median"):
            pairs = [p for p in found.pairs if (p.metric, p.of) == (name, of)]
            if pairs:
                return pairs
    return []


def _effect(pairs: Sequence[MetricPair], steps: Sequence[PhaseChange]) -> Effect:
    said = (*(_pair(p) for p in pairs), *(_step(c) for c in steps))
    proven = _together([*(str(p.verdict) for p in pairs), *(c.verdict for c in steps)])
    if proven != UNPROVEN:
        return Effect(proven, said)
    bare = _together([str(p.direction) for p in pairs if p.verdict is MetricVerdict.UNPROVEN])
    # one figure without a noise is no sign; the same sign at three points of a sweep is one
    alike = len({p.point for p in pairs}) >= LEAST_POINTS
    return Effect(bare, said, bare=True) if alike and bare in (BETTER, WORSE) else Effect(UNPROVEN, said)


LEAST_POINTS = 3


def _together(verdicts: Sequence[str]) -> str:
    told = {v for v in verdicts if v != UNPROVEN}
    if told >= {BETTER, WORSE}:
        return UNPROVEN
    moved = told & {BETTER, WORSE}
    if moved:
        return moved.pop()
    return NO_CHANGE if told and UNPROVEN not in verdicts else UNPROVEN


def _pair(pair: MetricPair) -> str:
    at = f" at c{pair.point.concurrency}" if pair.point.concurrency else ""
    return f"{pair.of + ' ' if pair.of else ''}{pair.metric.replace('_', ' ')}{at} x {pair.ratio:.3f}"


def _step(change: PhaseChange) -> str:
    rows = "" if change.rows is None else " of 1 row" if change.rows == 1 else f" of up to {change.rows:,} rows"
    return f"{change.phase} step{rows} x {change.ratio:.3f}"


def moved_phases(told: dict[str, Effect]) -> Iterator[tuple[str, Effect]]:
    """Phases that got faster or slower."""
    for phase in OF_PHASE:
        effect = told.get(str(phase))
        if effect and effect.verdict in (BETTER, WORSE):
            yield str(phase), effect
