"""A grid as an HTML table: the first rows as they are, the others as data that the page's script shows when asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from m3probe.present._numbers import UNKNOWN, plural
from m3probe.present.escape import safe
from m3probe.present.html._text import html, script_json, shown
from m3probe.present.html.pen import Pen
from m3probe.present.html.section import anchor
from m3probe.present.looks import look
from m3probe.present.sheets.sheet import Cell, Column, Grid, Line

FIRST, SLACK = 25, 10
"""Rows that stand in the page itself; so many more do too where hiding them would save nothing."""
MOST = 1_000
"""Rows of one table that a page holds at all; what is beyond is told with where it can be had."""
LONG = 34
"""Characters from which on a cell wraps."""
CARDS = 24
"""Columns of which ``style.css`` knows how to write the name before a cell."""


def table(grid: Grid, pen: Pen, most: int = MOST) -> str:
    """A table with its title, sortable and filterable by ``script.js``; why it is empty where it is."""
    if not len(grid.lines):
        title = f"<b>{html(grid.title)}</b>. " if grid.title else ""
        return f'<p class="said dim">{title}{html(grid.empty)}</p>'
    lines = list(islice(iter(grid.lines), most))
    at = len(lines) if len(lines) <= FIRST + SLACK else FIRST
    wraps = [_wraps(column, place, lines) for place, column in enumerate(grid.columns)]
    name = f"table-{next(pen.ids)}"
    kinds = [_kind(column, wrap) for column, wrap in zip(grid.columns, wraps, strict=True)]
    head = "".join(
        f'<th scope="col"{kind}>{html(column.name)}</th>' for column, kind in zip(grid.columns, kinds, strict=True)
    )
    body = "".join(_row(line, kinds, pen) for line in lines[:at])
    rest = f'<script type="application/json">{script_json(_data(lines[at:], pen))}</script>' if lines[at:] else ""
    return (
        f'<div class="table"><p class="title" id="{name}">{html(grid.title)} '
        f'<span class="count">{plural(len(grid.lines), "row")}</span></p>'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}">'
        f'<table aria-labelledby="{name}"{_cards(grid.columns, wraps)}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{rest}{_left(len(grid.lines), len(lines), at)}</div>"
    )


def _left(every: int, held: int, shown: int) -> str:
    said = ""
    if held > shown:
        said += f"<noscript><p class='said dim'>{held - shown:,} more rows need JavaScript.</p></noscript>"
    if every > held:
        said += (
            f'<p class="said dim">{every - held:,} of {plural(every, "row")} are left out of this page; '
            "<code>--json</code> and <code>m3probe tui</code> have all of them.</p>"
        )
    return said


def _cards(columns: Sequence[Column], wraps: Sequence[bool]) -> str:
    """A table of sentences is cards on a telephone: its columns' names as ``style.css`` writes them before each cell."""
    if not any(wraps) or len(columns) > CARDS:
        return ""
    names = ";".join(f"--c{place}:{_css(column.name)}" for place, column in enumerate(columns, 1))
    return f' class="cards" style="{html(names)}"'


def _css(text: str) -> str:
    """A string of CSS in which no character of a foreign name means anything (CSS Syntax 3, 4.3.7)."""
    plain = "".join(char if char.isalnum() and char.isascii() else f"\\{ord(char):x} " for char in safe(text))
    return f"'{plain}'"


def _wraps(column: Column, place: int, lines: Sequence[Line]) -> bool:
    return column.wide or any(len(line.cells[place].text) > LONG for line in lines)


def _kind(column: Column, wrap: bool) -> str:
    words = " ".join(word for word, on in (("r", column.right), ("w", wrap)) if on)
    return f' class="{words}"' if words else ""


def _row(line: Line, kinds: Sequence[str], pen: Pen) -> str:
    linked = _linked(line)
    cells = "".join(
        f"<td{kind}{_sorted_by(cell)}>{pen.link(line.opens if place == linked else '', marked(cell.text, cell.mark))}</td>"
        for place, (cell, kind) in enumerate(zip(line.cells, kinds, strict=True))
    )
    return f"<tr>{cells}</tr>"


def _linked(line: Line) -> int:
    """The cell that holds the link of its line: the first that says something."""
    return next((place for place, cell in enumerate(line.cells) if cell.text not in {"", UNKNOWN}), 0)


def _sorted_by(cell: Cell) -> str:
    """The figure that a cell is sorted by, where its text is not the same."""
    number = _number(cell)
    return "" if number is None else f' data-v="{number!r}"'


def _number(cell: Cell) -> float | int | None:
    raw = cell.raw
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    return raw if isinstance(raw, int) else float(f"{raw:.9g}")


def marked(text: str, mark: str) -> str:
    """Text with the glyph and colour of its verdict or state word, as HTML."""
    text = shown(text)
    if not mark:
        return html(text)
    glyph, style = look(mark)
    return f'<span class="{style or "plain"}"><span aria-hidden="true">{html(glyph)}</span> {html(text)}</span>'


def _data(lines: Sequence[Line], pen: Pen) -> dict[str, object]:
    """Rows as short lists; texts that stand in many rows once.

    ``texts``: each text once; ``looks``: (glyph, class); ``rows``: [link, why not, cell...], a cell being
    the number of its text, or [number of its text, figure or null, number of its look or null].
    """
    texts: dict[str, int] = {}
    looks: dict[tuple[str, str], int] = {}
    rows = []
    for line in lines:
        there = line.opens in pen.there
        link = anchor(line.opens) if there else ""
        why = pen.reason(line.opens) if line.opens and not there else ""
        cells = [_packed(cell, texts, looks) for cell in line.cells]
        rows.append([link, texts.setdefault(safe(why), len(texts)), _linked(line), *cells])
    return {"texts": list(texts), "looks": list(looks), "rows": rows}


def _packed(cell: Cell, texts: dict[str, int], looks: dict[tuple[str, str], int]) -> object:
    text = texts.setdefault(shown(cell.text), len(texts))
    figure = _number(cell)
    if not cell.mark:
        return text if figure is None else [text, figure]
    glyph, style = look(cell.mark)
    return [text, figure, looks.setdefault((glyph, style or "plain"), len(looks))]
