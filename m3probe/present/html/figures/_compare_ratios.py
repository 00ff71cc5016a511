"""Ratios of one run over the first with their noise, against 1; under no contract there is none to draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from m3probe.model.compare_report import Pair, PhaseChange
from m3probe.model.view import View
from m3probe.present._compare_points import POINTS_SHOWN, head, headline, label
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import hover
from m3probe.present.html.palette import GREY
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.comparison import WORDS
from m3probe.present.sheets.sheet import Column, Grid, Line

STYLES = {
    "better": ("better", look.GOOD, "triangle-up"),
    "worse": ("worse", look.BAD, "triangle-down"),
    "same": ("within noise", look.SAME, "circle"),
    "unproven": ("unproven", look.WARN, "circle-open"),
}
"""Verdict -> (legend, colour, symbol); of latencies less is better, so that the symbol tells it and not the side."""
TICKS = {
    3.0: (0.5, 0.6, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2),
    30.0: (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20),
    float("inf"): (0.001, 0.01, 0.1, 0.3, 1, 3, 10, 100, 1000),
}
"""Highest over lowest ratio on the axis -> its numbers: what a phone has room for."""
WIDEST = 4.0
"""A whisker widens the axis by this factor at most: noise of 300 % would press the points together."""
EDGE = 1.12
"""Room beside the outermost point."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure of both runs.

    Args:
        band: how far from 1 the ratio must be to count; None where nothing tells.
        exact: the numbers behind it, for the tooltip.
    """

    name: str
    ratio: float
    band: float | None
    verdict: str
    exact: str


def why_not(pair: Pair) -> str:
    """Why no ratio of this pair is drawn; nothing where the contract allows it."""
    return "" if pair.contract.comparable else f"{pair.after}: no ratio is drawn: {pair.contract.claim}"


def figures(view: View) -> tuple[Figure, ...]:
    """Clients' headline figures at each point, then traced steps; nothing without a contract or without figures."""
    return tuple(figure for place, pair in look.drawn(view) for figure in _figure(place, pair))


def _figure(place: int, pair: Pair) -> tuple[Figure, ...]:
    known = tuple(_ratios(pair)) if pair.contract.comparable else ()
    if not known:
        return ()
    return (
        Figure(
            key=f"ratios-{place}",
            title=f"{pair.after} over {pair.before}: which figures moved beyond noise?",
            says=_said(pair, known),
            data=_data(pair, known),
            layout=_layout(known),
            rows=_rows(pair, known),
        ),
    )


def _ratios(pair: Pair) -> Iterator[Ratio]:
    measured = pair.metrics.pairs if pair.metrics else ()
    alike = look.alike(row.point for row in measured)
    for kind in headline(measured):
        for row in kind[:POINTS_SHOWN]:
            exact = f"{fixed(row.a.value, 2)} → {fixed(row.b.value, 2)} {row.unit}"
            yield Ratio(f"{head(row)}, {label(row, alike=alike)}", row.ratio, row.band, str(row.verdict), exact)
    for change in pair.phases:
        if change.ratio is not None and change.before_ns:
            yield _step(change, change.ratio, change.before_ns)


def _step(change: PhaseChange, ratio: float, before_ns: float) -> Ratio:
    """A traced step: its change counts from two standard errors on."""
    band = None if change.error_ns is None else 2 * change.error_ns / before_ns
    exact = f"traced {step_name(change)}: {fixed(before_ns / 1e6, 3)} → {fixed((change.after_ns or 0.0) / 1e6, 3)} ms"
    exact += f"; unsure: {change.doubt}" if change.doubt else ""
    verdict = "unproven" if change.doubt else change.verdict
    return Ratio(
        f"{change.phase} step{'' if change.rows is None else f' ≤ {change.rows:,}'}", ratio, band, verdict, exact
    )


def step_name(change: PhaseChange) -> str:
    """``decode step, 8 rows``: rows are rounded up to a power of two."""
    return f"{change.phase} step{'' if change.rows is None else f', ≤ {change.rows:,} rows'}"


def _data(pair: Pair, known: Sequence[Ratio]) -> tuple[dict[str, Any], ...]:
    names = look.distinct([one.name for one in known])
    low = _range(known)[0]
    opens = look.run_target(pair.after)
    traces = []
    for verdict, (word, colour, symbol) in STYLES.items():
        mine = [(name, one) for name, one in zip(names, known, strict=True) if one.verdict == verdict]
        if not mine:
            continue
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": word,
                "x": [round(one.ratio, 5) for _, one in mine],
                "y": [name for name, _ in mine],
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [round(one.band or 0.0, 5) for _, one in mine],
                    # what reaches 0 has no end on a logarithmic axis: it leaves the plot
                    "arrayminus": [
                        round(min(one.band or 0.0, one.ratio - min(low, one.ratio) / 10), 5) for _, one in mine
                    ],
                    "thickness": 1.5,
                    "width": 4,
                    "color": colour,
                },
                "marker": {"size": 11, "color": colour, "symbol": symbol, "line": {"width": 2, "color": colour}},
                "hovertext": [_hover(one) for _, one in mine],
                "hovertemplate": "%{hovertext}<extra></extra>",
                "customdata": [opens] * len(mine),
            }
        )
    return tuple(traces)


def _hover(one: Ratio) -> str:
    noise = "noise not known" if one.band is None else f"noise ± {fixed(one.band, 3)}"
    return hover(one.name, f"x {fixed(one.ratio, 3)}, {noise}: {one.verdict}", one.exact)


def _range(known: Sequence[Ratio]) -> tuple[float, float]:
    """Of the axis: all points and 1, and whiskers up to ``WIDEST`` beyond the outermost point."""
    low, high = min(1.0, *(one.ratio for one in known)), max(1.0, *(one.ratio for one in known))
    ends = [one.ratio + side * (one.band or 0.0) for one in known for side in (-1, 1)]
    return max(min(low, *ends), low / WIDEST) / EDGE, min(max(high, *ends), high * WIDEST) * EDGE


def _layout(known: Sequence[Ratio]) -> dict[str, Any]:
    from math import log10

    low, high = _range(known)
    every = next(ticks for most, ticks in TICKS.items() if high / low <= most)
    ticks = [tick for tick in every if low <= tick <= high]
    line = {
        "type": "line",
        "x0": 1,
        "x1": 1,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"color": GREY, "width": 1.5},
    }
    across: dict[str, Any] = {"type": "log", "range": [round(log10(low), 4), round(log10(high), 4)], "zeroline": False}
    across |= (
        {"tickvals": ticks, "ticktext": [f"x {tick:g}" for tick in ticks]} if len(ticks) > 1 else {"tickprefix": "x "}
    )
    order = {"categoryorder": "array", "categoryarray": look.distinct([one.name for one in known])}
    words = look.bars_layout(len(known), "after / before", legend=True, **across)
    words["yaxis"] |= order
    return {**words, "shapes": [line]}


def _said(pair: Pair, known: Sequence[Ratio]) -> str:
    """Of each figure its ratio, noise and verdict; the first eight."""
    parts = [
        f"{one.name} x {fixed(one.ratio, 3)} ± {UNKNOWN if one.band is None else fixed(one.band, 3)} ({one.verdict})"
        for one in known
    ]
    more = f"; {len(parts) - 8:,} more" if len(parts) > 8 else ""
    return f"{pair.after} over {pair.before}, {pair.contract.claim}: {look.listed(parts[:8])}{more}. A bar that reaches 1 is noise."


def _rows(pair: Pair, known: Sequence[Ratio]) -> Grid:
    columns = (
        Column("figure", wide=True),
        Column("ratio", right=True),
        Column("noise ±", right=True),
        Column("verdict"),
        Column("before → after"),
    )
    lines = q.keyed(
        Line(
            one.name,
            (
                q.word(one.name),
                q.number(one.ratio, 3),
                q.number(one.band, 3),
                q.word(one.verdict, WORDS.get(one.verdict, q.UNPROVEN)),
                q.word(one.exact),
            ),
            look.run_target(pair.after),
        )
        for one in known
    )
    return Grid("Ratios", columns, lines)
