"""In which phase a run got faster or slower: the client's figures lead, the device's step times stand beside them."""

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
class Figure:
    """One ratio, and what it says: ``better worse same unproven``.

    Args:
        name: of what. ``at``: at which load, "" where it has none.
        band: how far from 1 it must be to count; None where the noise is not known.
    """

    name: str
    at: str
    ratio: float
    verdict: str
    band: float | None = None


def listed(figures: Sequence[Figure], most: int = 4, *, verdicts: bool = False) -> str:
    """Ratios of one thing together: ``mean TPOT at c1 / c8 x 0.943 / 1.015``."""
    said = []
    for name in dict.fromkeys(f.name for f in figures):
        own = [f for f in figures if f.name == name]
        shown = own[:most]
        ratios = " / ".join(f"{f.ratio:.3f}{f' {f.verdict}' if verdicts else ''}" for f in shown)
        at = " / ".join(f.at for f in shown if f.at)
        more = f" and {len(own) - most} more" if len(own) > most else ""
        said.append(f"{name}{f' at {at}' if at else ''} x {ratios}{more}")
    return "; ".join(said)


@dataclass(frozen=True, slots=True)
class Effect:
    """What happened to one phase.

    Args:
        verdict: ``better worse same unproven``.
        figures: what it is made of; with ``bare`` each says what it says without its noise.
        bare: why it is not sure; "" where it is.
    """

    verdict: str
    figures: tuple[Figure, ...]
    bare: str = ""

    def said(self, most: int = 4) -> str:
        """The figures that say what the verdict says, and what the others do."""
        mine = [f for f in self.figures if f.verdict == self.verdict]
        others = [f for f in self.figures if f.verdict != self.verdict]
        if not mine:
            return listed(self.figures, most, verdicts=True)
        return "; ".join([listed(mine, most), *([what_others_do(others)] if others else [])])


NO_NOISE = "bare figures whose noise is not known"


def what_others_do(rest: Sequence[Figure]) -> str:
    """Of figures that do not say what is told."""
    still = all(f.verdict == NO_CHANGE for f in rest)
    return "the other figures do not move beyond noise" if still else "of the other figures the noise is not known"


def effects(found: BenchComparison | None, phases: Sequence[PhaseChange]) -> dict[str, Effect]:
    """Phase -> effect, of those that something was measured of; empty text: throughput, which both phases make.

    Where a client's figures have a known noise they alone decide: a window of steps under a profiler is a few of all, and
    the profiler costs the host time of its own. A phase that no client measured is then told by steps alone only where
    the throughput moved.
    """
    told: dict[str, Effect] = {}
    throughput = next(
        (pairs for name in THROUGHPUT if found and (pairs := [p for p in found.pairs if p.metric == name])), []
    )
    of_all = _effect(throughput, []) if throughput else None
    for phase, names in OF_PHASE.items():
        pairs = _typical(found, names) if found else []
        steps = [c for c in phases if c.phase == phase and c.ratio is not None]
        if not pairs and clients_decide(found):
            steps = [c for c in steps if not c.doubt] if of_all and of_all.verdict in (BETTER, WORSE) else []
        if pairs or steps:
            told[str(phase)] = _effect(pairs, steps)
    if of_all:
        told[""] = of_all
    return told


def noise(told: Mapping[str, Effect]) -> tuple[float, float] | None:
    """The least and the most noise of the figures that show nothing; None where one of them has none that is known."""
    still = [f.band for effect in told.values() for f in effect.figures if f.verdict == NO_CHANGE]
    bands = [band for band in still if band is not None]
    return (min(bands), max(bands)) if bands and len(bands) == len(still) else None


def clients_decide(found: BenchComparison | None) -> bool:
    """Whether the clients' figures have a known noise, so that traced steps are a second opinion."""
    return found is not None and any(p.verdict is not MetricVerdict.UNPROVEN for p in found.pairs)


def beside(found: BenchComparison | None, phases: Sequence[PhaseChange]) -> tuple[str, ...]:
    """What traced steps say where the clients' figures decide."""
    if not clients_decide(found):
        return ()
    moved_ = [c for c in phases if c.verdict in (BETTER, WORSE) and c.ratio is not None]
    return tuple(f"{listed([_step(c)])} ({c.verdict}){f'; {c.doubt}' if c.doubt else ''}" for c in moved_)


def _typical(found: BenchComparison, names: Sequence[str]) -> list[MetricPair]:
    """The first metric that was measured of both, by its mean, else by its median: a tail is no measure of a phase."""
    for name in names:
        for of in ("mean", "median"):
            pairs = [p for p in found.pairs if (p.metric, p.of) == (name, of)]
            if pairs:
                return pairs
    return []


def _effect(pairs: Sequence[MetricPair], steps: Sequence[PhaseChange]) -> Effect:
    proven = [p for p in pairs if p.verdict is not MetricVerdict.UNPROVEN]
    if proven:
        return Effect(_together([str(p.verdict) for p in pairs]), tuple(_pair(p, str(p.verdict)) for p in pairs))
    firm = [c for c in steps if not c.doubt]
    stepped = tuple(map(_step, steps))
    bared = tuple(_pair(p, str(p.direction)) for p in pairs)
    sure = _together([*(str(p.verdict) for p in pairs), *(c.verdict for c in firm)])
    if sure != UNPROVEN:
        # a doubtful step time is no sign against those that are none
        return Effect(sure, (*bared, *map(_step, firm)))
    bare = _together([f.verdict for f in bared])
    # one figure without a noise is no sign; the same sign at three points of a sweep is one
    if len({p.point for p in pairs}) >= LEAST_POINTS and bare in (BETTER, WORSE):
        return Effect(bare, (*bared, *stepped), NO_NOISE)
    doubted = _together([c.verdict for c in steps])
    if doubted in (BETTER, WORSE):
        return Effect(doubted, (*bared, *stepped), next((c.doubt for c in steps if c.doubt), NO_NOISE))
    return Effect(UNPROVEN, (*(_pair(p, UNPROVEN) for p in pairs), *stepped))


LEAST_POINTS = 3


def _together(verdicts: Sequence[str]) -> str:
    told = {v for v in verdicts if v != UNPROVEN}
    if told >= {BETTER, WORSE}:
        return UNPROVEN
    moved = told & {BETTER, WORSE}
    if moved:
        return moved.pop()
    return NO_CHANGE if told and UNPROVEN not in verdicts else UNPROVEN


def _pair(pair: MetricPair, verdict: str) -> Figure:
    word = pair.metric.upper() if pair.of else pair.metric.replace("_", " ")
    at = f"c{pair.point.concurrency}" if pair.point.concurrency else ""
    return Figure(f"{pair.of + ' ' if pair.of else ''}{word}", at, pair.ratio, verdict, pair.band)


def _step(change: PhaseChange) -> Figure:
    rows = "" if change.rows is None else " of 1 row" if change.rows == 1 else f" of up to {change.rows:,} rows"
    return Figure(f"{change.phase} step{rows}", "", change.ratio or 0.0, change.verdict)


def moved_phases(told: dict[str, Effect]) -> Iterator[tuple[str, Effect]]:
    """Phases that got faster or slower."""
    for phase in OF_PHASE:
        effect = told.get(str(phase))
        if effect and effect.verdict in (BETTER, WORSE):
            yield str(phase), effect
