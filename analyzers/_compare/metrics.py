"""Two sets of benchmark runs: each metric at each point both measured, its ratio, and whether noise could make it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.analyzers._compare.evals import evaluation
from m3probe.analyzers._compare.figures import Metric, metrics_of
from m3probe.analyzers._compare.gate import WorkloadGate
from m3probe.analyzers._compare.noise import NO_EFFECT, band, ratio_error
from m3probe.analyzers._compare.place import place
from m3probe.analyzers._compare.points import Group, by_lengths, groups, paired, point_of
from m3probe.analyzers._compare.scaling import scaling
from m3probe.analyzers._compare.swept import swept
from m3probe.analyzers._compare.traced import traced_shares
from m3probe.model.bench import BenchRun
from m3probe.model.compare_bench import BenchComparison, Crossing, MetricPair, MetricVerdict, Sample
from m3probe.schema.gates import EvalRun

Evals = tuple[EvalRun | None, EvalRun | None]


def metrics(
    a: Sequence[BenchRun],
    b: Sequence[BenchRun],
    *,
    moe_layers: int | None = None,
    evals: Evals = (None, None),
    gates: Sequence[WorkloadGate] = (),
    crossing: Crossing | None = None,
) -> BenchComparison:
    """What the client measured of B against A. Whether the contract allows to call a ratio a speed-up is not judged here.

    Args:
        a: runs before; several at one point are repeats. ``b``: runs after.
        moe_layers: expert layers of the model, to tell a saving of a step per layer.
        evals: the evaluations of both sides.
        gates: by which a deployment turns B's way on for some workloads alone.
        crossing: of both sides' traces, to hold the gain against the kernels.
    """
    left, left_out = groups(a, "a")
    right, more_out = groups(b, "b")
    pairs, unpaired = paired(left, right)
    made = [list(_pairs(one, other)) for one, other in pairs]
    found = [pair for own in made for pair in own]
    sweeps = by_lengths(pairs)
    return BenchComparison(
        pairs=tuple(found),
        left_out=(*left_out, *more_out, *unpaired),
        scaling=tuple(law for sweep in sweeps if (law := scaling(sweep, moe_layers)) is not None),
        crossings=tuple(
            one
            for sweep in sweeps
            for one in swept(
                _of(sweep, pairs, made), [gate.gate for gate in gates if gate.holds(point_of(*_firsts(sweep)))]
            )
        ),
        place=place(found),
        evaluation=evaluation(*evals),
        notes=(*traced_shares(found, crossing), *_notes(found)),
    )


def _firsts(sweep: Sequence[tuple[Group, Group]]) -> tuple[BenchRun, BenchRun]:
    return sweep[0][0].first, sweep[0][1].first


def _of(
    sweep: Sequence[tuple[Group, Group]], pairs: Sequence[tuple[Group, Group]], made: Sequence[list[MetricPair]]
) -> list[MetricPair]:
    """The metric pairs of the points of one sweep."""
    return [one for pair, own in zip(pairs, made, strict=True) if any(pair is point for point in sweep) for one in own]


def _pairs(one: Group, other: Group) -> Iterator[MetricPair]:
    point = point_of(one.first, other.first)
    for metric in metrics_of():
        a, b = metric.sample(one.runs), metric.sample(other.runs)
        if a is None or b is None or not a.value or not b.value:
            continue  # a ratio with 0 is none
        ratio = b.value / a.value
        wide = band(a, b)
        yield MetricPair(
            metric=metric.name,
            of=metric.of,
            unit=metric.unit,
            higher_is_better=metric.higher_is_better,
            point=point,
            a=a,
            b=b,
            ratio=ratio,
            ratio_error=ratio_error(a, b),
            band=wide,
            verdict=_verdict(metric, ratio, wide),
            direction=_verdict(metric, ratio, NO_EFFECT),
        )


def _verdict(metric: Metric, ratio: float, wide: float | None) -> MetricVerdict:
    """Within the band the same; without one only what shows no effect at all is."""
    if abs(ratio - 1) <= (NO_EFFECT if wide is None else wide):
        return MetricVerdict.SAME
    if wide is None:
        return MetricVerdict.UNPROVEN
    return MetricVerdict.BETTER if (ratio > 1) == metric.higher_is_better else MetricVerdict.WORSE


def _notes(pairs: Sequence[MetricPair]) -> Iterator[str]:
    if any(pair.verdict is MetricVerdict.UNPROVEN for pair in pairs):
        yield (
            "Where the noise is not known a difference is unproven however large it is: run each point three times, or keep "
            "the requests (vllm bench serve --save-detailed)"
        )
    if any(_single(pair.a) or _single(pair.b) for pair in pairs):
        yield (
            "Noise of a single run comes from its own requests: what differs from one start of a server to the next is not "
            "in it, so that a difference that is just beyond it wants repeats"
        )


def _single(sample: Sample) -> bool:
    return sample.repeats == 1 and sample.error is not None
