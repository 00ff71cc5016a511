"""Each fast path by phase and rank: what ran, what should have, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, plural
from m3probe.present._paths import LOOKS, ORDER
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import axis, hover, label, layout, rows_axis, rows_height, table, word
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import number, words
from m3probe.present.sheets.paths import place
from m3probe.present.sheets.sheet import Grid
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import PathVerdict

MOST_COLUMNS = 33
"""The verdict of all, and eight ranks in four phases."""
MOST_WORDS = 4
"""From more columns on a cell holds its glyph alone: a word would lie over its neighbours."""
REASONS = 4
FAINT = "rgba"
"""How colours begin that let the paper through: what is written on them takes the page's colour."""
SHORT = {"refused_at_start": "refused"}
Place = tuple[str, int | None]
"""Phase and rank; ("", None) is all together."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows by what needs a look first; columns: all, then each phase's ranks."""

    rows: list[PathRow]
    columns: list[Place]
    cells: list[list[PathCell | None]]
    """As ``columns`` without the first."""
    left: int
    """Columns without room."""


def figures(view: View) -> tuple[Figure, ...]:
    """The matrix; nothing where no path was judged, or nothing is known of any."""
    found = q.section(view, PathsSection)
    if found is None or all(row.verdict == PathVerdict.UNPROVEN and not row.by_phase for row in found.paths):
        return ()
    shown = _matrix(found.paths)
    return (
        Figure(
            key="paths",
            title="Fast paths by phase and rank",
            says=_says(shown),
            data=(_cells(shown), *_texts(shown)),
            layout=_layout(shown),
            rows=_grid(shown),
        ),
    )


def _matrix(every: Sequence[PathRow]) -> Matrix:
    rows = sorted(every, key=lambda row: (place(row.verdict), row.title))
    phases = q.phases((phase for row in rows for phase in row.by_phase), None)
    seen = {(cell.phase, cell.rank) for row in rows for cell in row.cells}
    places: list[Place] = []
    for phase in phases:
        ranks = sorted((rank for of, rank in seen if of == phase), key=lambda rank: -1 if rank is None else rank)
        places += [(phase, rank) for rank in ranks] or [(phase, None)]
    columns: list[Place] = [("", None), *places][:MOST_COLUMNS]
    by_place = [{(cell.phase, cell.rank): cell for cell in row.cells} for row in rows]
    cells = [[mine.get(column) for column in columns[1:]] for mine in by_place]
    return Matrix(rows, columns, cells, len(places) + 1 - len(columns))


def _says(shown: Matrix) -> str:
    counts = Counter(row.verdict for row in shown.rows)
    said = ", ".join(f"{counts[verdict]} {words(verdict)}" for verdict in sorted(counts, key=place))
    worst = shown.rows[0]
    first = f"; first {worst.title}: {worst.reasons[0]}" if worst.reasons and worst.verdict in LOOKED else ""
    left = f"; {shown.left} more ranks and phases have no room here" if shown.left else ""
    return f"Of {plural(len(shown.rows), 'fast path')}: {said}{first}{left}."


LOOKED = {str(verdict) for verdict in ORDER[:3]}
"""Verdicts of which the first reason is told at once."""


def _verdicts(shown: Matrix) -> list[list[str]]:
    """The word of each cell, "" for none: a phase of a path without cells has its verdict all the same."""
    found = []
    for row, cells in zip(shown.rows, shown.cells, strict=True):
        said = [
            cell.verdict if cell else ("" if row.cells else row.by_phase.get(phase, ""))
            for cell, (phase, _) in zip(cells, shown.columns[1:], strict=True)
        ]
        found.append([row.verdict, *said])
    return found


def _cells(shown: Matrix) -> dict[str, object]:
    """A heat map whose values are places in ``ORDER``, each with a colour of its own; no cell is colour alone."""
    verdicts = _verdicts(shown)
    last = len(ORDER)
    steps = [palette.VERDICT[word] for word in ORDER] + [palette.VERDICT["unproven"]]
    scale = [[edge / (last + 1), colour] for at, colour in enumerate(steps) for edge in (at, at + 1)]
    return {
        "type": "heatmap",
        "x": list(range(len(shown.columns))),
        "y": list(range(len(shown.rows))),
        "z": [[place(word) + 0.5 if word else None for word in line] for line in verdicts],
        "zmin": 0,
        "zmax": last + 1,
        "colorscale": scale,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hoverinfo": "text",
        "hovertext": [
            [_hover(row, *seen) for seen in zip(shown.columns, [None, *cells], line, strict=True)]
            for row, cells, line in zip(shown.rows, shown.cells, verdicts, strict=True)
        ],
        "hoverongaps": False,
        "customdata": [[target("path", row.id)] * len(shown.columns) for row in shown.rows],
    }


def _texts(shown: Matrix) -> list[dict[str, object]]:
    """Glyph and word of each cell, apart from the colours: on a faint one plotly would take white paper for granted."""
    narrow = len(shown.columns) > MOST_WORDS
    words_at: dict[bool, list[tuple[int, int, str]]] = {False: [], True: []}
    for y, line in enumerate(_verdicts(shown)):
        for x, verdict in enumerate(line):
            if verdict:
                text = _text(verdict, narrow=narrow)
                words_at[palette.VERDICT.get(verdict, FAINT).startswith(FAINT)].append((x, y, text))
    return [
        {
            "type": "scatter",
            "mode": "text",
            "x": [x for x, _, _ in some],
            "y": [y for _, y, _ in some],
            "text": [text for _, _, text in some],
            "textfont": {"size": 10} | ({} if faint else {"color": "#ffffff"}),
            "hoverinfo": "skip",
        }
        for faint, some in words_at.items()
        if some
    ]


def _text(verdict: str, *, narrow: bool) -> str:
    glyph = LOOKS.get(verdict, ("?", ""))[0]
    return glyph if narrow else f"{glyph} {label(words(SHORT.get(verdict, verdict)), 12)}"


def _hover(row: PathRow, column: Place, cell: PathCell | None, verdict: str) -> str:
    if not verdict:
        return ""
    phase, rank = column
    where = ", ".join(filter(None, (phase, "" if rank is None else f"rank {rank}"))) or "all together"
    facts = [f"{row.title}, {where}: {words(verdict)}"]
    if cell is not None:
        ran = f", as {cell.variant}" if cell.variant else ""
        facts.append(f"{cell.executed:,} of {plural(cell.steps, 'step')}, {plural(cell.calls, 'call')}{ran}")
    else:
        counts = ", ".join(f"{count:,} {words(what)}" for what, count in row.counts.items())
        facts += [f"configured {row.configured or UNKNOWN}, eligible {row.eligible or UNKNOWN}", counts]
    return hover(*facts, *row.reasons[:REASONS])


def _layout(shown: Matrix) -> dict[str, object]:
    ticks = [_column(column, shown) for column in shown.columns]
    return layout(
        rows_height(len(shown.rows)) + 30,
        axis(
            tickvals=list(range(len(ticks))), ticktext=ticks, side="top", showgrid=False, range=[-0.5, len(ticks) - 0.5]
        ),
        rows_axis([row.title for row in shown.rows]),
    )


def _column(column: Place, shown: Matrix) -> str:
    """A rank is named where there are several."""
    phase, rank = column
    if not phase:
        return "all"
    several = len({other for _, other in shown.columns[1:]}) > 1
    return label(f"{phase} {UNKNOWN if rank is None else rank}" if several else phase)


def _grid(shown: Matrix) -> Grid:
    lines = []
    for row, verdicts in zip(shown.rows, _verdicts(shown), strict=True):
        cells = [word(words(verdict)) for verdict in verdicts]
        lines.append((word(row.title), *cells, number(row.counts.get("calls")), word("; ".join(row.reasons))))
    heads = ("path", *(_column(column, shown) for column in shown.columns), "calls", "reasons")
    return table("Fast paths by phase and rank", heads, lines, [target("path", row.id) for row in shown.rows])
