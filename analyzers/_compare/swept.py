"""Two sweeps over concurrency: from which concurrency on B is the better one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.analyzers._compare._laws import crossovers
from m3probe.analyzers._compare.gate import Gate, placed
from m3probe.model.compare_bench import Crossover, MetricPair, MetricVerdict, SweepCrossing

_ASKED = ("output_per_gpu", "output", "total_per_gpu", "total", "tpot", "ttft")
_SAME_CURVE = {"output": "output_per_gpu", "total": "total_per_gpu"}
"""Where a figure per GPU is told, that of all of them is not told again."""


def swept(pairs: Sequence[MetricPair], gates: Sequence[Gate] = ()) -> Iterator[SweepCrossing]:
    """A line for each metric of which B is better at some concurrencies of one sweep and worse at others, or that has a gate.

    Args:
        pairs: of one sweep: equal lengths, each at another concurrency.
        gates: by concurrency, that hold for these lengths.
    """
    told: set[str] = set()
    for metric, of in dict.fromkeys((pair.metric, pair.of) for pair in pairs if pair.metric in _ASKED):
        own = {p.point.concurrency: p for p in pairs if (p.metric, p.of) == (metric, of) and p.point.concurrency}
        curve = [own[at] for at in sorted(own)]
        found = tuple(crossovers(_times(curve)))
        if not (found or (gates and len(curve) > 1)) or of == "p99" or _SAME_CURVE.get(metric, "") in told:
            continue
        told.add(metric)
        first = curve[0]
        yield SweepCrossing(
            metric=metric,
            of=of,
            isl=first.point.isl,
            osl=first.point.osl,
            concurrencies=tuple(sorted(own)),
            b_better_at=tuple(at for at in sorted(own) if own[at].gain > 0 and _counts(own[at])),
            crossovers=found,
            gates=tuple(placed(gate, _times(curve, same=True), tie=0.0) for gate in gates),
            claim=_claim(first, found),
        )


def _times(curve: Sequence[MetricPair], *, same: bool = False) -> list[tuple[float, float]]:
    """(concurrency, time of B over time of A) where they differ by more than the noise; ``same``: 1 where they do not."""
    found = []
    for pair in curve:
        if _counts(pair):
            found.append((float(pair.point.concurrency or 0), 1 / (1 + pair.gain)))
        elif same:
            found.append((float(pair.point.concurrency or 0), 1.0))
    return found


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
    return f"{word} over concurrency: {', '.join(parts) or 'no crossing'}{unsure}"
