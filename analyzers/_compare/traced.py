"""The client's gain of decode beside the traces: did the family that gained most have the share for it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.analyzers._compare._laws import TIE
from m3probe.analyzers._compare.curves import WHOLE_STEP
from m3probe.analyzers._compare.share import share_of_times
from m3probe.analyzers._view import percent
from m3probe.model.bench import TPOT
from m3probe.model.compare_bench import Crossing, MetricPair, MetricVerdict, OpCrossing, OpPoint
from m3probe.schema.verdicts import Phase


def traced_shares(pairs: Sequence[MetricPair], crossing: Crossing | None) -> Iterator[str]:
    """A sentence for each concurrency whose TPOT gained and whose decode steps of as many rows both traces hold."""
    if crossing is None:
        return
    decode = [op for op in crossing.ops if op.phase == Phase.DECODE]
    for pair in pairs:
        rows = pair.point.concurrency
        if (
            (pair.metric, pair.of) != (TPOT, "mean")
            or pair.gain <= 0
            or pair.verdict is MetricVerdict.SAME
            or rows is None
        ):
            continue
        step = next((point for op in decode if op.op == WHOLE_STEP and (point := _at(op, rows))), None)
        most = _most(decode, rows)
        if step is not None and most is not None:
            yield _told(pair, step, *most)


def _at(op: OpCrossing, rows: int) -> OpPoint | None:
    return next((point for point in op.points if rows == point.M), None)


def _most(decode: Sequence[OpCrossing], rows: int) -> tuple[str, OpPoint] | None:
    """The family that saves most of a step of so many rows; None where none saves anything."""
    known = [(op.op, point) for op in decode if op.op != WHOLE_STEP and (point := _at(op, rows))]
    saving = [(name, point) for name, point in known if point.ratio < 1 - TIE]
    return max(saving, key=lambda one: one[1].a_ns - one[1].b_ns, default=None)


def _told(pair: MetricPair, step: OpPoint, name: str, point: OpPoint) -> str:
    found = share_of_times(point.a_ns, point.b_ns, pair.gain, measured=point.a_ns / step.a_ns)
    agrees = {
        "inside": "which agrees",
        "below": "too little for it: something else gained too, or the traces are of another context",
        "above": "more than it needed: the gain was overlapped, or did not reach every step",
    }[found.verdict]
    return (
        f"{name} takes {percent(1 - point.ratio)} less of a decode step of {point.M:,} rows. The {pair.gain:+.1%} of TPOT at "
        f"that concurrency need {percent(found.low)} of the step for it ({found.arithmetic[0]}); traced it had "
        f"{percent(found.measured or 0.0)}, {agrees}"
    )
