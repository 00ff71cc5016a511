"""Over concurrency and over rows: what a token saves against two laws, and where the faster run changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from m3probe.model.compare_bench import Crossover, GatePlace, MetricPair, OpCrossing, Scaling, SweepCrossing
from m3probe.model.compare_report import Pair
from m3probe.model.view import View
from m3probe.present._compare_points import head
from m3probe.present._numbers import fixed, us
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import axis, hover, label
from m3probe.present.html.palette import GREY
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Column, Grid, Line

MOST = 3
"""Plots of each kind and pair; the run's page has every sentence."""
CURVE = 24
"""Pieces of a straight line through 0, which a logarithmic axis bends."""
Points = Sequence[tuple[float, float]]


def figures(view: View) -> tuple[Figure, ...]:
    """Crossings, then laws; nothing where a pair has neither."""
    found = look.drawn(view)
    return tuple(
        figure for place, pair in found for figure in (*_sweeps(place, pair), *_ops(place, pair), *_laws(place, pair))
    )


def _laws(place: int, pair: Pair) -> Iterator[Figure]:
    for at, law in enumerate((pair.metrics.scaling if pair.metrics else ())[:MOST], 1):
        yield Figure(
            key=f"law-{place}-{at}",
            title=f"{pair.after}: is the saving a fixed cost a step, or work per row?",
            says=f"{law.law}: {law.claim}",
            data=tuple(_law(law, look.run_target(pair.after))),
            layout=_layout("concurrency", f"ms saved a token ({law.of} TPOT)"),
            rows=_saved(law, pair),
        )


def _law(law: Scaling, opens: str) -> Iterator[dict[str, Any]]:
    at = [point.concurrency for point in law.points]
    told = [
        hover(
            f"c{point.concurrency:,}: {fixed(point.a_ms, 3)} → {fixed(point.b_ms, 3)} ms",
            f"saves {fixed(point.saved_ms, 3)} ms",
            "" if point.saved_us_per_layer is None else f"{fixed(point.saved_us_per_layer, 1)} µs in each expert layer",
        )
        for point in law.points
    ]
    fixed_cost = [(c, law.fixed_ms) for c in at]
    least, wide = min(at), max(at) / min(at)
    spread = [least * wide ** (step / CURVE) for step in range(CURVE + 1)]
    per_row = [(round(c, 2), law.per_row_us * c / 1e3) for c in spread]
    yield _series("measured", [(p.concurrency, p.saved_ms) for p in law.points], look.RUNS[1], told, opens)
    yield _series(f"fixed: {fixed(law.fixed_ms, 3)} ms", fixed_cost, look.RUNS[2], [], opens, dash="dash")
    yield _series(f"per row: {fixed(law.per_row_us, 1)} µs", per_row, look.RUNS[3], [], opens, dash="dot")


def _saved(law: Scaling, pair: Pair) -> Grid:
    columns = (
        Column("concurrency", right=True), Column("ms before", right=True), Column("ms after", right=True),
        Column("ms saved", right=True), Column("µs saved in an expert layer", right=True),
    )  # fmt: skip
    lines = q.keyed(
        Line(
            f"c{point.concurrency}",
            (
                q.number(point.concurrency), q.number(point.a_ms, 3), q.number(point.b_ms, 3), q.number(point.saved_ms, 3),
                q.number(point.saved_us_per_layer, 1),
            ),
            look.run_target(pair.after),
        )
        for point in law.points
    )  # fmt: skip
    return Grid("What a token saves", columns, lines)


def _sweeps(place: int, pair: Pair) -> Iterator[Figure]:
    """A metric over concurrency where its better side changes, or a gate stands."""
    for at, one in enumerate((pair.metrics.crossings if pair.metrics else ())[:MOST], 1):
        rows = [row for row in pair.metrics.pairs if _is_of(row, one)] if pair.metrics else []
        rows.sort(key=lambda row: row.point.concurrency or 0)
        if not rows:
            continue
        sides = [[(row.point.concurrency or 0, side(row)) for row in rows] for side in (_before, _after)]
        told = [[_told(pair, row)] * 2 for row in rows]
        yield Figure(
            key=f"crossing-{place}-{at}",
            title=f"{pair.after}: at which concurrency does {head(rows[0])} cross?",
            says=one.claim,
            data=_both(pair, sides, [[lines[0] for lines in told]] * 2),
            layout=_marked(_layout("concurrency", head(rows[0])), one.crossovers, one.gates),
        )


def _before(row: MetricPair) -> float:
    return row.a.value


def _after(row: MetricPair) -> float:
    return row.b.value


def _told(pair: Pair, row: MetricPair) -> str:
    both = f"{pair.before} {fixed(row.a.value, 2)}, {pair.after} {fixed(row.b.value, 2)} {row.unit}"
    return hover(f"c{row.point.concurrency}: {both}", f"x {fixed(row.ratio, 3)}: {row.verdict}")


def _is_of(row: MetricPair, one: SweepCrossing) -> bool:
    place = (row.metric, row.of, row.point.isl, row.point.osl)
    return place == (one.metric, one.of, one.isl, one.osl) and row.point.concurrency is not None


def _ops(place: int, pair: Pair) -> Iterator[Figure]:
    """Operations over M of which the faster side changes, or that have a gate."""
    every = pair.crossing.ops if pair.crossing else ()
    for at, op in enumerate([op for op in every if op.points and (op.crossovers or op.gates)][:MOST], 1):
        name = " ".join(word for word in (op.op, op.shape, op.phase) if word)
        yield Figure(
            key=f"rows-{place}-{at}",
            title=f"{pair.after}: from how many rows on is {name} faster?",
            says=op.claim,
            data=_both(pair, [_times(op, after=False), _times(op, after=True)], [_op_told(pair, op)] * 2),
            layout=_marked(_layout("M, rows", f"µs a {op.unit}"), op.crossovers, op.gates),
        )


def _times(op: OpCrossing, *, after: bool) -> Points:
    return [(point.M, (point.b_ns if after else point.a_ns) / 1e3) for point in op.points]


def _op_told(pair: Pair, op: OpCrossing) -> list[str]:
    return [
        hover(
            f"M {point.M:,}: {pair.before} {us(point.a_ns)} µs over {point.a_calls:,}",
            f"{pair.after} {us(point.b_ns)} µs over {point.b_calls:,}; x {fixed(point.ratio, 3)}",
        )
        for point in op.points
    ]


def _both(pair: Pair, sides: Sequence[Points], told: Sequence[Sequence[str]]) -> tuple[dict[str, Any], ...]:
    names = look.distinct([pair.before, pair.after])
    return tuple(
        _series(name, side, look.RUNS[at], lines, look.run_target(run))
        for at, (name, run, side, lines) in enumerate(zip(names, (pair.before, pair.after), sides, told, strict=True))
    )


def _series(
    name: str, points: Points, colour: str, told: Sequence[str], opens: str, dash: str = "solid"
) -> dict[str, Any]:
    """A line with a point each; without ``told`` a line alone."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if told else "lines",
        "name": name,
        "x": [x for x, _ in points],
        "y": [round(y, 4) for _, y in points],
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"size": 9, "color": colour},
    } | (
        {"hovertext": list(told), "hovertemplate": "%{hovertext}<extra></extra>", "customdata": [opens] * len(points)}
        if told
        else {"hoverinfo": "skip"}
    )


def _layout(x: str, y: str) -> dict[str, Any]:
    across = axis(x, type="log", dtick=0.30103, tickformat=",d")
    return look.points_layout(360, across, axis(y, rangemode="tozero"))


def _marked(layout: dict[str, Any], crossovers: Sequence[Crossover], gates: Sequence[GatePlace]) -> dict[str, Any]:
    """Dashed lines at crossings, dotted ones at gates, each with its number."""
    lines = [(one.at, f"crosses at {fixed(one.at, 1)}", "dash") for one in crossovers]
    lines += [
        (float(gate.threshold), f"{label(gate.gate)} {gate.threshold:,}", "dot") for gate in gates if gate.threshold > 0
    ]
    shapes = [
        {
            "type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": GREY, "width": 1.5, "dash": dash},
            "label": {"text": text, "textposition": "end", "textangle": -90, "xanchor": "right", "font": {"color": GREY}},
        }
        for at, text, dash in lines
    ]  # fmt: skip
    return {**layout, "shapes": shapes}
