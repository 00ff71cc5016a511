"""What figures of a comparison share: text made safe for plotly, colours with a glyph beside each, matrices of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from m3probe.model.compare_bench import WorkloadPoint
from m3probe.model.compare_report import CompareReport, Pair
from m3probe.model.view import View
from m3probe.present.html.figures._plot import LABEL, axis, label, layout, rows_height
from m3probe.present.html.palette import GREY, HUES
from m3probe.present.sheets.targets import target

MOST_RUNS = 12
"""Runs drawn beside each other; the tables hold all of them."""
MOST_PAIRS = 6
"""Pairs with plots of their own: each has up to a dozen. The pages of the runs hold the figures of the others."""
GOOD, BAD, WARN, SAME, UNKNOWN, OFF = "#2a7f62", "#b5452c", "#8a6100", "#57718f", "#6e7781", "rgba(128,128,128,0.18)"
"""Fills on which white text has a contrast of 4.5 and more; ``OFF`` takes the page's own text."""
RUNS = (GREY, *HUES)
"""One colour a run, the baseline grey."""
MORE, LESS = HUES[1], HUES[0]
"""What grew, and what shrank: neither is good by itself."""
LENGTHS = 0.02
"""Share by which lengths may differ and still need not be told apart at every point."""
ROOM = 0.36
"""Of a signed axis, on each side: what ``+21,082.7`` needs on a phone."""


def distinct(names: Sequence[str], most: int = LABEL) -> list[str]:
    """A label for each name, no two alike: places on an axis are found by their text."""
    found: list[str] = []
    for name in names:
        one, again = label(name, most), 1
        while (told := one if again == 1 else f"{one} #{again}") in found:
            again += 1
        found.append(told)
    return found


def alike(points: Iterable[WorkloadPoint]) -> bool:
    """Whether lengths are nearly those of every point: 4,000 and 4,001 tokens are no two workloads to look at."""
    every = {(point.isl, point.osl) for point in points}
    return all(_near([pair[side] for pair in every]) for side in (0, 1))


def _near(texts: Sequence[str]) -> bool:
    try:
        values = [float(text.replace(",", "")) for text in texts]
    except ValueError:
        return len(set(texts)) < 2
    return not values or max(values) - min(values) <= LENGTHS * max(values)


def run_target(name: str) -> str:
    """The page of one run."""
    return target("run", name)


def pairs_of(found: CompareReport) -> tuple[Pair, ...]:
    """Pairs that are drawn beside each other."""
    return found.pairs[: MOST_RUNS - 1]


def drawn(view: View) -> list[tuple[int, Pair]]:
    """(place, pair) of those that have plots of their own."""
    return list(enumerate(view.compare.pairs[:MOST_PAIRS], 1)) if view.compare else []


def left_out(found: CompareReport) -> str:
    """What a figure of all runs does not hold, or nothing."""
    more = len(found.runs) - MOST_RUNS
    return f"; {more:,} more in the tables" if more > 0 else ""


def listed(parts: Sequence[str]) -> str:
    """Parts as one sentence."""
    return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Mark:
    """A cell of a matrix: its word with its glyph, its fill, its tooltip, and what it opens."""

    text: str
    fill: str
    hover: str
    opens: str = ""


def matrix(columns: Sequence[str], rows: Sequence[str], cells: Sequence[Sequence[Mark | None]]) -> list[dict[str, Any]]:
    """A heat map of words, one trace a fill; a cell that is None stays empty.

    Args:
        columns, rows: labels, made safe and no two alike; the first row stands on top.
    """
    fills = list(dict.fromkeys(cell.fill for line in cells for cell in line if cell))
    traces = []
    for fill in fills:
        mine = [[cell if cell and cell.fill == fill else None for cell in line] for line in cells]
        traces.append(
            {
                "type": "heatmap",
                "x": list(columns),
                "y": list(rows),
                "z": [[1 if cell else None for cell in line] for line in mine],
                "text": [[cell.text if cell else "" for cell in line] for line in mine],
                "hovertext": [[cell.hover if cell else "" for cell in line] for line in mine],
                "customdata": [[cell.opens if cell else "" for cell in line] for line in mine],
                "texttemplate": "%{text}",
                "hovertemplate": "%{hovertext}<extra></extra>",
                "hoverongaps": False,
                "colorscale": [[0, fill], [1, fill]],
                "showscale": False,
                "xgap": 3,
                "ygap": 3,
            }
            | ({"textfont": {"color": GREY}} if fill == OFF else {"textfont": {"color": "#ffffff"}})
        )
    return traces


def matrix_layout(rows: Sequence[str], columns: int) -> dict[str, Any]:
    """Row names at the left, columns on top."""
    slanted: dict[str, Any] = {"tickangle": -40} if columns > 3 else {}
    across = axis(side="top", type="category", fixedrange=True, showgrid=False, **slanted)
    down = axis(type="category", autorange="reversed", fixedrange=True, showgrid=False)
    return layout(60 + 28 * len(rows), across, down)


def bars_layout(rows: int, x_title: str, *, legend: bool = False, **x: Any) -> dict[str, Any]:
    """A horizontal plot: names at the left, the first on top, one unit below."""
    down = axis(type="category", autorange="reversed", fixedrange=True)
    return layout(rows_height(rows, 2 * legend), axis(x_title, **x), down, showlegend=legend)


def signed_layout(ends: Sequence[float], rows: int) -> dict[str, Any]:
    """Changes in µs on both sides of 0, with room for the numbers that stand outside of their bars."""
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = ROOM * ((high - low) or 1.0)
    span = [round(low - room, 3) if low < 0 else 0.0, round(high + room, 3) if high > 0 else 0.0]
    words = bars_layout(rows, "µs a step (left: shorter)", range=span, zeroline=True, zerolinecolor=GREY)
    return {**words, "bargap": 0.3, "waterfallgap": 0.3}


def points_layout(height: int, xaxis: dict[str, Any], yaxis: dict[str, Any]) -> dict[str, Any]:
    """Lines or points of several runs, told apart by the legend below."""
    return layout(height, xaxis, yaxis, showlegend=True)
