"""What figures of a comparison share: text made safe for plotly, colours with a glyph beside each, matrices of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from m3probe.model.compare_report import CompareReport, Pair
from m3probe.model.view import View
from m3probe.present.escape import safe
from m3probe.present.sheets.targets import target

MOST_RUNS = 12
"""Runs drawn beside each other; the tables hold all of them."""
MOST_PAIRS = 6
"""Pairs with plots of their own: each has up to a dozen. The pages of the runs hold the figures of the others."""
GOOD, BAD, WARN, SAME, UNKNOWN, OFF = "#2a7f62", "#b5452c", "#8a6100", "#57718f", "#6e7781", "rgba(128,128,128,0.18)"
"""Fills on which white text has a contrast of 4.5 and more; ``OFF`` takes the page's own text."""
RUNS = ("#6e7781", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8c564b")
"""One colour a run, the baseline grey (Okabe and Ito's, which colour-blind readers tell apart)."""
GREY = "#808080"
_NAME, _HOVER, _WRAP = 28, 400, 60


def label(text: str, most: int = _NAME) -> str:
    """Foreign text on an axis or in a cell: plotly reads ``<``, ``>`` and ``&`` as markup; cut in the middle when long."""
    clean = safe(text)
    if len(clean) > most:
        head = (most - 1) // 2
        clean = f"{clean[:head]}…{clean[head + 1 - most :]}"
    return escaped(clean)


def hover(*lines: str) -> str:
    """Lines of a tooltip, escaped and wrapped: plotly breaks none."""
    return "<br>".join(escaped(piece) for line in lines if line for piece in _wrapped(safe(line)[:_HOVER]))


def escaped(text: str) -> str:
    """Without a character that plotly's pseudo-HTML reads."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _wrapped(text: str) -> list[str]:
    lines: list[str] = []
    for word in text.split(" "):
        if lines and len(lines[-1]) + len(word) < _WRAP:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def distinct(names: Sequence[str], most: int = _NAME) -> list[str]:
    """A label for each name, no two alike: places on an axis are found by their text."""
    found: list[str] = []
    for name in names:
        one = label(name, most)
        found.append(f"{one} #{found.count(one) + 1}" if one in found else one)
    return found


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
    return {
        "height": 90 + 28 * len(rows),
        "margin": {"l": 10, "r": 10, "t": 40, "b": 10},
        "xaxis": {"side": "top", "type": "category", "fixedrange": True, "automargin": True, "showgrid": False}
        | ({"tickangle": -40} if columns > 6 else {}),
        "yaxis": {
            "type": "category",
            "autorange": "reversed",
            "automargin": True,
            "fixedrange": True,
            "showgrid": False,
        },
    }


def bars_layout(rows: int, x_title: str, **x: Any) -> dict[str, Any]:
    """A horizontal plot: names at the left, the first on top, one unit below."""
    return {
        "height": min(110 + 26 * rows, 760),
        "margin": {"l": 10, "r": 16, "t": 10, "b": 10},
        "xaxis": {"title": {"text": x_title}, "automargin": True, "zeroline": True, **x},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True, "fixedrange": True},
        "legend": {"orientation": "h", "y": -0.18, "yref": "paper", "x": 0},
        "hovermode": "closest",
    }
