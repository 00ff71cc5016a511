"""Where the next bottleneck moved from run to run, on the levels of the machine."""

from __future__ import annotations

from typing import Any

from m3probe.model.compare_report import CompareReport, TrailRow
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import axis, hover, label, layout
from m3probe.present.html.palette import GREY
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import short
from m3probe.present.sheets.sheet import Column, Grid, Line

LEVELS = {
    "tile": "tile",
    "repeated path": "path",
    "metadata and bytes": "bytes",
    "distributed state": "state",
    "queue": "queue",
    "OS": "OS",
}
"""Level -> its word on the axis, from a kernel's tile up to the host; what is at no level stands at ``NONE``."""
NONE = "no level"
_RIGHT = 3
"""Levels from here on have their text at the left: it would leave the plot."""
MOVED = {"moved": "diamond", "stays": "circle", "unproven": "circle-open"}


def figures(view: View) -> tuple[Figure, ...]:
    """The trail as one figure; nothing where fewer than two runs have a bottleneck."""
    found = view.compare
    if found is None or sum(bool(row.finding) for row in found.trail) < 2:
        return ()
    rows = found.trail[: look.MOST_RUNS]
    return (
        Figure(
            key="trail",
            title="Where did the next bottleneck move?",
            says=_said(found),
            data=(_trace(found, rows),),
            layout=_layout(rows),
            rows=_rows(found),
        ),
    )


def _trace(found: CompareReport, rows: tuple[TrailRow, ...]) -> dict[str, Any]:
    moved = {pair.after: pair.moved.verdict for pair in found.pairs}
    words = [_word(row) for row in rows]
    known = list(LEVELS.values())
    lefts = [word in known and known.index(word) >= _RIGHT for word in words]
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "x": words,
        "y": look.distinct([row.run for row in rows]),
        "text": [label(short(row.finding) if row.finding else "none is named") for row in rows],
        "textposition": ["middle left" if left else "middle right" for left in lefts],
        "hovertext": [_hover(row, moved.get(row.run, "")) for row in rows],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "customdata": [look.run_target(row.run) for row in rows],
        "marker": {
            "size": 13,
            "color": look.RUNS[1],
            "symbol": [MOVED.get(moved.get(row.run, ""), "square") if row.finding else "circle-open" for row in rows],
        },
        "line": {"color": GREY, "width": 2, "dash": "dot"},
        "cliponaxis": False,
    }


def _word(row: TrailRow) -> str:
    return LEVELS.get(row.level, NONE)


def _hover(row: TrailRow, moved: str) -> str:
    figure = f"{row.figure}: {fixed(row.value, 1)}" if row.figure else ""
    against = "baseline" if not moved else f"against the baseline: {moved}"
    return hover(row.run, f"level: {row.level or UNKNOWN}", row.finding, row.claim, figure, against)


def _layout(rows: tuple[TrailRow, ...]) -> dict[str, Any]:
    levels = [*LEVELS.values(), *([NONE] if any(_word(row) == NONE for row in rows) else [])]
    order: dict[str, Any] = {"categoryorder": "array", "categoryarray": levels, "range": [-0.5, len(levels) - 0.5]}
    across = axis(type="category", side="top", fixedrange=True, **order)
    down = axis(type="category", range=[len(rows) - 0.5, -0.5], fixedrange=True)
    return layout(60 + 44 * len(rows), across, down)


def _said(found: CompareReport) -> str:
    """Each run's bottleneck and its level in order, then what became of the first one's."""
    rows = found.trail[: look.MOST_RUNS]
    told = [
        f"{row.run}: {row.finding or 'none is named'}{f' (level: {row.level})' if row.level else ''}" for row in rows
    ]
    return f"{look.listed(told)}. {look.listed([f'{pair.after}: {pair.moved.text}' for pair in look.pairs_of(found)])}{look.left_out(found)}"


def _rows(found: CompareReport) -> Grid:
    figure = next((row.figure for row in found.trail if row.figure), "figure")
    columns = (
        Column("run"),
        Column(figure, right=True),
        Column("level"),
        Column("next bottleneck"),
        Column("claim", wide=True),
    )
    lines = q.keyed(
        Line(
            row.run,
            (q.word(row.run), q.number(row.value, 1), q.word(row.level), q.word(row.finding), q.word(row.claim)),
            look.run_target(row.run),
        )
        for row in found.trail
    )
    return Grid("Trail", columns, lines)
