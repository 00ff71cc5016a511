"""Tables that fit a page: numbers to the right, text cut in the middle, dispensable columns left out first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.present._page import Page, Piece, cells, middle_cut

_GAP = 2
Cell = str | Piece
"""Text, or (text, style)."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Args:
        head: heading, with the unit of its numbers.
        right: numbers stand to the right.
        least: cells that a text column may be cut down to; 0 means never cut.
        title: whether the heading names the table.
        drop: columns with the largest ``drop`` go first when the page is too narrow; 0 means last.
    """

    head: str
    right: bool = False
    least: int = 0
    drop: int = 0
    title: bool = False


def number(head: str, drop: int = 0) -> Column:
    """A column of numbers."""
    return Column(head, right=True, drop=drop)


def table(page: Page, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], indent: int = 2) -> None:
    """Write the table; columns without any text are left out."""
    body = [[_clean(page, cell) for cell in row] for row in rows]
    used = [i for i in range(len(columns)) if any(row[i][0] for row in body)]
    room = page.width - indent
    natural = {i: max(cells(columns[i].head), *(cells(row[i][0]) for row in body)) for i in used}
    widths = _fitted(columns, {i: min(width, room) for i, width in natural.items()}, room)
    mark = page.clean("…")
    head: list[Piece] = [(page.clean(column.head), "bold" if column.title else "dim") for column in columns]
    for row in [head, *body]:
        line: list[Piece] = [(" " * indent, "")]
        for i, width in widths.items():
            text, style = row[i]
            text = middle_cut(text, width, mark)
            pad = " " * (width - cells(text))
            gap = "" if i == next(iter(widths)) else " " * _GAP
            line += [(gap + pad, ""), (text, style)] if columns[i].right else [(gap, ""), (text, style), (pad, "")]
        page.put(line)


def _clean(page: Page, cell: Cell) -> Piece:
    return (page.clean(cell), "") if isinstance(cell, str) else (page.clean(cell[0]), cell[1])


def _fitted(columns: Sequence[Column], natural: dict[int, int], room: int) -> dict[int, int]:
    """Widths that fit: the longest text column gives way first, then whole columns."""
    widths = dict(natural)
    while _total(widths) > room:
        over = _total(widths) - room
        spare = {i: widths[i] - columns[i].least for i in widths if 0 < columns[i].least < widths[i]}
        if sum(spare.values()) >= over:
            longest = max(spare, key=lambda i: widths[i])
            widths[longest] -= 1
            continue
        droppable = [i for i in widths if columns[i].drop]
        if not droppable:
            break
        del widths[max(droppable, key=lambda i: columns[i].drop)]
        widths = {i: natural[i] for i in widths}
    return widths


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)
