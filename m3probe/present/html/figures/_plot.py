"""What the figures share: text that plotly draws as it is, rounded numbers, axes and tables.

plotly reads a small HTML in every label and hover (``<b>``, ``<a href>``, ``&amp;``), so that a kernel's template arguments
vanish and a hostile name becomes a link. Foreign text goes through ``label`` or ``hover``, and never into a template, where
``%{`` would be read too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from m3probe.present._numbers import UNKNOWN
from m3probe.present._page import middle_cut
from m3probe.present.escape import safe
from m3probe.present.sheets.sheet import Cell, Column, Grid, Line

LABEL = 21
"""Characters of a line of a label beside the plot: a third of a telephone's 390 pixels."""
HOVERED, WRAPPED = 320, 64
"""Characters of one fact of a hover, and of one of its lines."""
ROW = 29
"""Height of a row in pixels: two lines of a label."""
BAR = 0.66
"""Width of a bar in rows, said for each trace: plotly otherwise makes it of the distances within one trace."""
HIGHEST = 900
GRID = "rgba(123,127,134,0.25)"
"""Grid lines on both papers."""
WIDE = 100.0
"""From this ratio of largest to smallest on a scale is logarithmic."""
T = TypeVar("T")
K = TypeVar("K")


def label(text: str, most: int = 2 * LABEL) -> str:
    """Foreign text as a label: without control characters or markup, its middle given up where it is long."""
    return _escaped(middle_cut(safe(text), most))


def beside(text: str) -> str:
    """Foreign text as a label beside a row: on two lines at most, broken at a space where there is one."""
    shown = safe(text)
    if len(shown) <= LABEL:
        return _escaped(shown)
    at = shown.rfind(" ", 0, LABEL + 1)
    first, rest = (shown[:at], shown[at + 1 :]) if at > 0 else (shown[:LABEL], shown[LABEL:])
    return f"{_escaped(first)}<br>{_escaped(middle_cut(rest, LABEL))}"


def hover(*facts: str) -> str:
    """Foreign facts as a hover, each on lines of its own; empty ones are left out."""
    return "<br>".join("<br>".join(map(_escaped, _lines(middle_cut(safe(fact), HOVERED)))) for fact in facts if fact)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _lines(text: str) -> list[str]:
    """Broken at spaces; a word that is longer than a line is broken where the line ends."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > WRAPPED:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return [line[at : at + WRAPPED] for line in lines for at in range(0, max(len(line), 1), WRAPPED)]


def near(value: float | None, digits: int = 4) -> float | None:
    """A number with so many digits, which a screen can show; None stays None, and what is not finite becomes it."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """One axis in plotly's words: its unit in the title, room for its labels, none of plotly's own dragging on a telephone."""
    words: dict[str, Any] = {"automargin": True, "gridcolor": GRID, "zeroline": False, "tickfont": {"size": 11}}
    if title:
        words["title"] = {"text": title, "font": {"size": 12}, "standoff": 6}
    return words | more


def rows_axis(labels: Sequence[str], **more: Any) -> dict[str, Any]:
    """A vertical axis with a foreign text beside each row, the first on top.

    Rows are numbers: two labels that are cut alike stay two rows, and none is read as a date.
    """
    return axis(
        tickvals=list(range(len(labels))),
        ticktext=[beside(text) for text in labels],
        range=[len(labels) - 0.5, -0.5],
        showgrid=False,
        ticks="outside",
        ticklen=4,
        tickcolor="rgba(0,0,0,0)",
        **more,
    )


def layout(height: float, xaxis: Mapping[str, Any], yaxis: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A plot without a heading of its own, its legend below."""
    words: dict[str, Any] = {
        "height": round(min(height, HIGHEST)),
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "xaxis": dict(xaxis),
        "yaxis": dict(yaxis),
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "font": {"size": 12}},
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "font": {"size": 11},
            "itemsizing": "constant",
            "traceorder": "normal",
        },
        "showlegend": False,
    }
    return words | more


def bars(
    name: str, y: Sequence[int], x: Sequence[float | None], marker: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """Horizontal bars of one legend entry; what a hover says is in ``hovertext``."""
    words: dict[str, Any] = {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": list(y),
        "x": list(x),
        "width": BAR,
        "marker": dict(marker),
        "hoverinfo": "text",
    }
    if "text" in more:
        words |= {"textposition": "outside", "cliponaxis": False}
    return words | more


def rows_height(rows: int, legend: int = 0) -> int:
    """Pixels of a plot with so many rows, and lines of a legend below."""
    return 70 + ROW * max(rows, 2) + 22 * legend


def table(
    title: str, columns: Iterable[str], lines: Iterable[Sequence[Cell]], opens: Sequence[str] | None = None
) -> Grid:
    """The figures of a plot; columns of which all known cells are numbers stand to the right, the first takes what is left.

    ``opens``: the target of each line. A page holds what its lines open: so a point finds there what it leads to.
    """
    body = [tuple(line) for line in lines]
    heads = tuple(
        Column(name, right=_is_number(line[at] for line in body), keep=at, wide=at == 0)
        for at, name in enumerate(columns)
    )
    targets = opens or [""] * len(body)
    return Grid(title, heads, tuple(Line(str(at), cells, targets[at]) for at, cells in enumerate(body)))


def _is_number(cells: Iterable[Cell]) -> bool:
    known = [cell.raw for cell in cells if cell.raw is not None]
    return bool(known) and all(isinstance(raw, int | float) for raw in known)


def word(text: str) -> Cell:
    """A word, or the dash for none."""
    return Cell(text or UNKNOWN, text or None)


def grouped(items: Iterable[T], keys: Iterable[K]) -> dict[K, list[T]]:
    """Items under their keys, keys in the order they come."""
    found: dict[K, list[T]] = {}
    for item, key in zip(items, keys, strict=True):
        found.setdefault(key, []).append(item)
    return found
