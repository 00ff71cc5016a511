"""Two recordings over M: which backend is faster at which number of rows, and where a gate between them belongs."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.analyzers._compare._laws import TIE, crossovers
from m3probe.analyzers._compare.curves import Curves, OpKey, curves, without_doubles
from m3probe.analyzers._compare.gate import ABOVE, Gate, placed, simulate
from m3probe.analyzers._compare.known_gates import switches, tile_edges
from m3probe.model.compare_bench import Crossing, Crossover, GateRun, OpCrossing, OpPoint
from m3probe.model.recording import Recording
from m3probe.schema.setup import Setup


def crossing(a: Recording, b: Recording) -> Crossing | None:
    """All operations that both recordings timed at a common M; None where there is none."""
    return crossing_of(curves(a), curves(b))


def crossing_of(a: Curves, b: Curves, asked: int | None = None) -> Crossing | None:
    """The same from what was kept of each recording. Gates are those of B's setup, else of A's.

    Args:
        asked: rows from which on B's way would be taken: a gate to try on every operation.
    """
    keys = without_doubles({key for key in a.by_op if key in b.by_op and a.by_op[key].timed and b.by_op[key].timed})
    setup = b.setup or a.setup
    found = [one for key in keys if (one := _op(key, a, b, setup, asked)) is not None]
    # stable where two weigh the same: by name
    found.sort(key=lambda op: (-_weight(op), op.op, op.shape, op.phase))
    return Crossing(tuple(found)) if found else None


def _weight(op: OpCrossing) -> float:
    """Time by which A's calls would change in B, ns."""
    return sum(abs(point.b_ns - point.a_ns) * point.a_calls for point in op.points)


def _op(key: OpKey, a: Curves, b: Curves, setup: Setup | None, asked: int | None) -> OpCrossing | None:
    one, other = a.by_op[key].timed, b.by_op[key].timed
    common = sorted(one.keys() & other.keys())
    if not common:
        return None
    points = tuple(_point(M, one[M], other[M]) for M in common)
    ratios = [(float(point.M), point.ratio) for point in points]
    found = tuple(crossovers(ratios))
    current = list(switches(key, setup)) if asked is None else [Gate("asked about", asked, ABOVE)]
    gates = [*current, *tile_edges(key, setup, found)]
    return OpCrossing(
        op=key.op,
        shape=key.shape,
        phase=key.phase,
        unit=key.unit,
        points=points,
        only_a=tuple(sorted(one.keys() - other.keys())),
        only_b=tuple(sorted(other.keys() - one.keys())),
        crossovers=found,
        gates=tuple(placed(gate, ratios) for gate in gates),
        simulated=_simulated(key, a, b, current, "in force" if asked is None else "asked about")
        if found or current
        else None,
        claim=_claim(points, found),
    )


def _point(M: int, one: Sequence[int], other: Sequence[int]) -> OpPoint:
    a_ns, b_ns = one[0] / one[1], other[0] / other[1]
    return OpPoint(M, a_ns, one[1], b_ns, other[1], b_ns / a_ns)


def _simulated(key: OpKey, a: Curves, b: Curves, current: Sequence[Gate], called: str) -> GateRun | None:
    whose, histogram = (
        ("a", a.histogram(key)) if a.counted.get(key) or not b.counted.get(key) else ("b", b.histogram(key))
    )
    now = current[0] if current else None
    return simulate(histogram, a.by_op[key].mean_ns(), b.by_op[key].mean_ns(), current=now, whose=whose, called=called)


def _claim(points: Sequence[OpPoint], found: Sequence[Crossover]) -> str:
    if found:
        parts = [
            f"B is the {'faster' if one.b_faster_above else 'slower'} one from between M {one.low:,.0f} and {one.high:,.0f} "
            f"(about {one.at:,.0f})"
            for one in found
        ]
        return "They cross: " + ", ".join(parts)
    ratios = [point.ratio for point in points]
    at = (
        f"M {points[0].M:,}"
        if len(points) == 1
        else f"{len(points)} values of M from {points[0].M:,} to {points[-1].M:,}"
    )
    span = f"x{min(ratios):.3f}" if len(points) == 1 else f"x{min(ratios):.3f} to x{max(ratios):.3f}"
    if all(abs(ratio - 1) <= TIE for ratio in ratios):
        return f"As fast in both at {at}, within {TIE:.0%}"
    return f"B is {_word(ratios)} at {at} ({span}): no crossing within them, and beyond them nothing was measured"


def _word(ratios: Sequence[float]) -> str:
    """Of ratios on one side of 1, ties aside."""
    if all(ratio <= 1 + TIE for ratio in ratios):
        return "faster" if all(ratio < 1 - TIE for ratio in ratios) else "no slower"
    return "slower" if all(ratio > 1 + TIE for ratio in ratios) else "no faster"
