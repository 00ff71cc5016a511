"""Is the saving of a step the same at every concurrency, or does it grow with the rows?

The same time saved in each step is what launches, host work and other fixed costs give, and the ratio falls as steps
grow longer. Work per row (cache reads, activations) saves more with more rows. Weights are read once in a step however
many rows there are: a saving of theirs is constant too, and only a trace tells it from launches.
"""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.analyzers._compare._laws import constant, proportional, rms
from m3probe.analyzers._compare.figures import TPOTS, Metric
from m3probe.analyzers._compare.noise import band
from m3probe.analyzers._compare.points import Group, point_of
from m3probe.model.compare_bench import Law, Saving, Scaling

LEAST_POINTS = 3
DECIDES = 2.0
"""Times by which one law's residual must exceed the other's before it is refused."""
FITS = 1 / 3
"""Share of the savings' own size that the residual of a law may be."""
_DECIDE = (
    "Trace a few decode steps at the lowest and the highest concurrency, before and after: a fixed cost shows as fewer "
    "launches or less idle time at equal kernel times, weights read once a step as shorter GEMMs, work per row as kernels "
    "whose saving grows"
)


def scaling(sweep: Sequence[tuple[Group, Group]], moe_layers: int | None = None) -> Scaling | None:
    """The law of a sweep's TPOT savings; None with fewer than three concurrencies that both sides measured."""
    for metric in TPOTS:
        points = _savings(sweep, metric, moe_layers)
        if len(points) >= LEAST_POINTS:
            return _judged(sweep, metric, points, hidden=_hidden(sweep, metric))
    return None


def _hidden(sweep: Sequence[tuple[Group, Group]], metric: Metric) -> bool:
    """Whether no concurrency saves or loses more than its known noise."""
    sides = [(metric.sample(one.runs), metric.sample(other.runs)) for one, other in sweep]
    known = [(a, b, wide) for a, b in sides if a and b and (wide := band(a, b)) is not None]
    return bool(known) and len(known) == len(sides) and all(abs(b.value / a.value - 1) <= wide for a, b, wide in known)


def _savings(sweep: Sequence[tuple[Group, Group]], metric: Metric, moe_layers: int | None) -> list[Saving]:
    found: dict[int, Saving] = {}
    for one, other in sweep:
        a, b, concurrency = metric.sample(one.runs), metric.sample(other.runs), one.first.max_concurrency
        if a is None or b is None or not concurrency or not b.value:
            continue
        saved = a.value - b.value
        per_layer = 1e3 * saved / moe_layers if moe_layers else None
        found[concurrency] = Saving(concurrency, a.value, b.value, saved, a.value / b.value - 1, per_layer)
    return [found[at] for at in sorted(found)]


def _judged(sweep: Sequence[tuple[Group, Group]], metric: Metric, points: Sequence[Saving], *, hidden: bool) -> Scaling:
    saved = [point.saved_ms for point in points]
    fixed, fixed_off = constant(saved)
    per_row, row_off = proportional([float(point.concurrency) for point in points], saved)
    law, why = (Law.UNPROVEN, "all of it is within the noise") if hidden else _law(points, fixed_off, row_off)
    point = point_of(sweep[0][0].first, sweep[0][1].first)
    return Scaling(
        isl=point.isl,
        osl=point.osl,
        of=metric.of,
        points=tuple(points),
        law=law,
        fixed_ms=fixed,
        fixed_residual_ms=fixed_off,
        per_row_us=1e3 * per_row,
        per_row_residual_ms=row_off,
        claim=_claim(points, law, why, (fixed, fixed_off), (per_row, row_off)),
        decide=_DECIDE,
    )


def _law(points: Sequence[Saving], fixed_off: float, row_off: float) -> tuple[Law, str]:
    """(law, why none of them)."""
    saved = [point.saved_ms for point in points]
    if min(saved) * max(saved) <= 0:
        return Law.UNPROVEN, "some concurrencies save and others lose, or nothing changes"
    size = rms(saved)
    if fixed_off * DECIDES <= row_off and fixed_off <= FITS * size:
        first, last = abs(points[0].rate_gain), abs(points[-1].rate_gain)
        if last < first:
            return Law.AMORTISATION, ""
        return Law.UNPROVEN, "the saving is constant and its share does not fall, so that a fixed share fits as well"
    if row_off * DECIDES <= fixed_off and row_off <= FITS * size:
        return Law.BANDWIDTH, ""
    return Law.UNPROVEN, "neither law fits clearly better than the other"


def _claim(
    points: Sequence[Saving], law: Law, why: str, fixed: tuple[float, float], per_row: tuple[float, float]
) -> str:
    both_ways = min(point.saved_ms for point in points) < 0 < max(point.saved_ms for point in points)
    listed = " / ".join(_signed(point.saved_ms, 2, both_ways=both_ways) for point in points)
    at = " / ".join(f"{point.concurrency:,}" for point in points)
    word = "saves" if both_ways or points[0].saved_ms > 0 else "costs"
    layers = [point.saved_us_per_layer for point in points if point.saved_us_per_layer is not None]
    each = (
        f" ({' / '.join(_signed(us, 0, both_ways=both_ways) for us in layers)} us in each expert layer)"
        if layers
        else ""
    )
    head = f"A token {word} {listed} ms{each} at concurrency {at}"
    gains = f"the gain goes {points[0].rate_gain:+.1%} -> {points[-1].rate_gain:+.1%}"
    fits = (
        f"a constant {fixed[0]:,.2f} ms is off by {fixed[1]:,.2f} ms, {1e3 * per_row[0]:,.1f} us for each row by "
        f"{per_row[1]:,.2f} ms"
    )
    said = {
        Law.AMORTISATION: f"nearly constant while {gains}: a fixed cost of the step, launches above all, spread over more "
        "rows (bytes read once in a step, weights, look alike)",
        Law.BANDWIDTH: f"more with more rows, {gains}: work or bytes for each row",
        Law.UNPROVEN: f"{gains}; {why}",
    }[law]
    return f"{head}, {said}; {fits}"


def _signed(value: float, decimals: int, *, both_ways: bool) -> str:
    """Without a sign where the sentence has one word for all of them."""
    return f"{value:+,.{decimals}f}" if both_ways else f"{abs(value):,.{decimals}f}"
