"""A table of any length: only the lines that are seen are asked for, measured and drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.present._page import cells
from m3probe.present.sheets.sheet import Column, Grid, Line
from m3probe.tui.ordering import MOST, Order
from m3probe.tui.widgets.ink import Piece, Row, clean, cut, marked, padded, titled, wrapped

GAP = 2
_LEAST_WIDE, _LEAST_NAME, _LEAST_TEXT = 24, 12, 6
_SAMPLE = 64
"""Lines measured before any is drawn; later ones widen a column when they are seen."""
HEAD = 2
"""Rows above the lines: title and heading."""


class GridPart:
    """Rows: the title with its count, the columns' names, the lines."""

    def __init__(self, grid: Grid, order: Order | None = None) -> None:
        self.grid = grid
        self.order = order or Order()
        self.indices: Sequence[int] | None = None
        self.busy = False
        self._need = [cells(clean(column.name)) for column in grid.columns]
        self._layout: tuple[tuple[int, int], ...] = ()
        self._room = -1
        for line in self._sample():
            self._measure(line)

    @property
    def count(self) -> int:
        """Lines that can be reached."""
        return len(self.grid.lines) if self.indices is None else len(self.indices)

    def line(self, at: int) -> Line:
        """The line at this place of the order that is shown."""
        return self.grid.lines[at if self.indices is None else self.indices[at]]

    def height(self, width: int) -> int:
        """Title, heading and lines; or the title and why there is nothing."""
        return HEAD + self.count if self.count else 1 + len(self._nothing(width))

    def row(self, at: int, width: int) -> Row:
        """Title, heading, or a line."""
        if at == 0:
            return titled(self.grid.title, self.aside(), width)
        if not self.count:
            return [(self._nothing(width)[at - 1], "dim")]
        return self.heading(width) if at == 1 else self.drawn(self.line(at - HEAD), width)

    def aside(self) -> str:
        """How many lines there are, of how many, and in what order."""
        every = len(self.grid.lines)
        told = (
            self.count == every and f"{every:,}" in self.grid.title.replace(",", " ").split() + self.grid.title.split()
        )
        found = [f"{every:,}" if self.count == every else f"{self.count:,} of {every:,}"] if every and not told else []
        if self.order.needle:
            found.append(f"/{self.order.needle}")
        if self.order.column is not None:
            found.append(f"by {self.grid.columns[self.order.column].name} {'▼' if self.order.falling else '▲'}")
        if not self.order.plain and every > MOST:
            found.append(f"of the first {MOST:,}")
        return "  ".join([*found, *(["sorting" if self.order.needle == "" else "looking"] if self.busy else [])])

    def prepare(self, first: int, count: int) -> None:
        """Widen columns for the lines that will be drawn: a figure is never cut."""
        before = list(self._need)
        for at in range(max(0, first), min(self.count, first + count)):
            self._measure(self.line(at))
        if before != self._need:
            self._room = -1

    def heading(self, width: int) -> Row:
        """The columns' names."""
        found: Row = []
        for at, room in self._fitted(width):
            column = self.grid.columns[at]
            found += [(padded(clean(column.name), room, right=column.right), "head"), (" " * GAP, "head")]
        return cut(found[:-1], width)

    def drawn(self, line: Line, width: int) -> Row:
        """One line."""
        found: Row = []
        for at, room in self._fitted(width):
            text, style = _shown(line, at)
            found += [(padded(text, room, right=self.grid.columns[at].right), style), (" " * GAP, "")]
        return cut(found[:-1], width)

    def _nothing(self, width: int) -> list[str]:
        if self.busy:
            return ["Looking ..."]
        if self.order.needle and self.grid.lines:
            return wrapped(f"No line holds {self.order.needle!r}. Press / and Enter to see all again.", width)
        return wrapped(self.grid.empty, width)

    def _sample(self) -> Iterator[Line]:
        every = len(self.grid.lines)
        for at in range(min(every, _SAMPLE)):
            yield self.grid.lines[at]
        if every > _SAMPLE:
            yield self.grid.lines[every - 1]

    def _measure(self, line: Line) -> None:
        for at in range(min(len(line.cells), len(self._need))):
            wide = cells(_shown(line, at)[0])
            self._need[at] = max(self._need[at], wide)

    def _fitted(self, width: int) -> tuple[tuple[int, int], ...]:
        if width != self._room:
            self._room, self._layout = width, fitted(self.grid.columns, self._need, width)
        return self._layout


def fitted(columns: Sequence[Column], need: Sequence[int], width: int) -> tuple[tuple[int, int], ...]:
    """(index, cells) of the columns that are shown: those with the largest ``keep`` go first, then texts are cut."""
    shown = list(range(len(columns)))
    room = [min(n, _LEAST_WIDE) if c.wide else n for c, n in zip(columns, need, strict=True)]

    def total() -> int:
        return sum(room[at] for at in shown) + GAP * (len(shown) - 1)

    while total() > width and (most := max((columns[at].keep for at in shown), default=0)):
        shown.remove(max(at for at in shown if columns[at].keep == most))
    while total() > width:
        # a name can lose its middle, a verdict or a phase is short as it is: those are cut last
        texts = [at for at in shown if columns[at].wide and not columns[at].right and room[at] > _LEAST_NAME]
        texts = texts or [at for at in shown if not columns[at].right and room[at] > _LEAST_TEXT]
        if not texts:
            break
        room[max(texts, key=lambda at: room[at])] -= 1
    for at in shown:
        if columns[at].wide:
            room[at] = min(need[at], room[at] + max(0, width - total()))
    return tuple((at, room[at]) for at in shown)


def _shown(line: Line, at: int) -> Piece:
    if at >= len(line.cells):
        return "", ""
    cell = line.cells[at]
    told = cell.text.replace("_", " ") if cell.text == cell.mark else cell.text
    text, style = marked(clean(told), cell.mark)
    return text, style or ("dim" if text in {"—", "-"} else "")
