"""Two sweeps over concurrency: from which concurrency on B is the better one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.analyzers._compare._laws import crossovers
from m3probe.model.compare_bench import Crossover, MetricPair, MetricVerdict, SweepCrossing

_ASKED = ("output_per_gpu", "output", "total_per_gpu", "total", "tpot", "ttft")
_SAME_CURVE = {"output": "output_per_gpu", "total": "total_per_gpu"}
"""Total and per GPU cross at one place where both sides have as many GPUs: it is told once."""


def swept(pairs: Sequence[MetricPair]) -> Iterator[SweepCrossing]:
    """A line for each metric of which B is better at some concurrencies of one sweep and worse at others.

    Args:
        pairs: of one sweep: equal lengths, each at another concurrency.
    """
    told: dict[str, tuple[float, ...]] = {}
    for metric, of in dict.fromkeys((pair.metric, pair.of) for pair in pairs if pair.metric in _ASKED):
        own = {p.point.concurrency: p for p in pairs if (p.metric, p.of) == (metric, of) and p.point.concurrency}
        curve = [own[at] for at in sorted(own)]
        found = tuple(crossovers(_times(curve)))
        told[metric] = tuple(one.at for one in found)
        if not found or of == "p99" or told.get(_SAME_CURVE.get(metric, "")) == told[metric]:
            continue
        first = curve[0]
        yield SweepCrossing(
            metric=metric,
            of=of,
            isl=first.point.isl,
            osl=first.point.osl,
            concurrencies=tuple(sorted(own)),
            b_better_at=tuple(at for at in sorted(own) if own[at].gain > 0 and _counts(own[at])),
            crossovers=found,
            claim=_claim(first, found),
        )


def _times(curve: Sequence[MetricPair]) -> list[tuple[float, float]]:
    """(concurrency, time of B over time of A) where they differ by more than the noise."""
    return [
        (float(pair.point.concurrency or 0), 1 / pair.ratio if pair.higher_is_better else pair.ratio)
        for pair in curve
        if _counts(pair)
    ]


def _counts(pair: MetricPair) -> bool:
    return pair.verdict is not MetricVerdict.SAME


def _claim(first: MetricPair, found: Sequence[Crossover]) -> str:
    parts = [
        f"B is the {'better' if one.b_faster_above else 'worse'} one from between {one.low:,.0f} and {one.high:,.0f} "
        f"(about {one.at:,.0f})"
        for one in found
    ]
    word = f"{first.of} {first.metric.upper()}" if first.of else first.metric.replace("_", " ")
    unsure = "" if first.ratio_error is not None else "; their noise is not known"
    return f"{word} over concurrency: {', '.join(parts)}{unsure}"
