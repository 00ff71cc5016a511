"""A page as one column of rows: where each block begins, which rows a cursor can stand on."""

from __future__ import annotations

from dataclasses import dataclass, field

from m3probe.present.sheets.sheet import Bars, Block, Curve, Grid, Line, Said, Sheet, Strip
from m3probe.tui.ordering import Order, find
from m3probe.tui.widgets.bars import BarsPart
from m3probe.tui.widgets.curve import CurvePart
from m3probe.tui.widgets.grid import HEAD, GridPart
from m3probe.tui.widgets.ink import Part, Row
from m3probe.tui.widgets.said import SaidPart
from m3probe.tui.widgets.strip import StripPart

CHANGE = "What would change this: "


def part_of(block: Block) -> Part:
    """The drawing of one block."""
    if isinstance(block, Grid):
        return GridPart(block)
    if isinstance(block, Bars):
        return BarsPart(block)
    if isinstance(block, Curve):
        return CurvePart(block)
    return StripPart(block) if isinstance(block, Strip) else SaidPart(block)


@dataclass
class Parts:
    """Blocks of one sheet at one width. ``orders``: what was asked of each table, by its place among tables:
    a sentence that comes or goes above must not take a table's order with it.
    """

    sheet: Sheet
    orders: dict[int, Order] = field(default_factory=dict)
    width: int = 80
    alone: int | None = None
    """The one block that is shown, where one is zoomed."""

    def __post_init__(self) -> None:
        blocks = self.sheet.blocks
        if self.sheet.change:
            blocks = (*blocks, Said(f"{CHANGE}{self.sheet.change}", dim=True))
        self.parts = [part_of(block) for block in blocks]
        for table, (_, part) in enumerate(self.tables()):
            part.order = self.orders.get(table, part.order)
        self.laid()

    def laid(self) -> None:
        """Measure again, after another width or another order."""
        self.starts: list[int] = []
        self.height = 0
        for at, part in enumerate(self.parts):
            self.starts.append(self.height)
            self.height += part.height(self.width) if self.alone in (None, at) else 0

    def tables(self) -> list[tuple[int, GridPart]]:
        """All tables, with their place among the blocks."""
        return [(at, part) for at, part in enumerate(self.parts) if isinstance(part, GridPart)]

    def grids(self) -> list[tuple[int, GridPart]]:
        """Those that are shown."""
        return [(at, part) for at, part in self.tables() if self.alone in (None, at)]

    def table_of(self, block: int | None) -> int | None:
        """A block's place among the tables."""
        return next((table for table, (at, _) in enumerate(self.tables()) if at == block), None)

    def block_of(self, table: int | None) -> int | None:
        """A table's place among the blocks."""
        tables = self.tables()
        return tables[table][0] if table is not None and table < len(tables) else None

    def stops(self) -> int:
        """Lines that a cursor can stand on."""
        return sum(part.count for _, part in self.grids())

    def stop(self, at: int) -> tuple[int, GridPart, int] | None:
        """(block, table, line) of a stop."""
        for block, part in self.grids():
            if at < part.count:
                return block, part, at
            at -= part.count
        return None

    def line(self, at: int) -> Line | None:
        """The line of a stop."""
        found = self.stop(at)
        return found[1].line(found[2]) if found else None

    def row_of(self, at: int) -> int:
        """The page's row of a stop."""
        found = self.stop(at)
        return self.starts[found[0]] + HEAD + found[2] if found else 0

    def first_of(self, block: int) -> int | None:
        """The first stop of a block; None where it is no table with lines."""
        before = 0
        for at, part in self.grids():
            if at == block:
                return before if part.count else None
            before += part.count
        return None

    def stop_at(self, row: int) -> int | None:
        """The stop of a row of the page."""
        before = 0
        for block, part in self.grids():
            inside = row - self.starts[block] - HEAD
            if 0 <= inside < part.count:
                return before + inside
            before += part.count
        return None

    def find(self, block: int, key: str, near: int) -> int:
        """Where the item of a table is now; in another order of the lines only if they are few."""
        before = 0
        for at, part in self.grids():
            if at == block:
                lines = [part.line(i) for i in range(part.count)] if part.count <= 5_000 else part.grid.lines
                if part.indices is not None and part.count > 5_000:
                    return before + min(near, part.count - 1)
                return before + find(lines, key, near) if part.count else max(0, before - 1)
            before += part.count
        return min(near, max(0, self.stops() - 1))

    def at_row(self, row: int) -> tuple[int, int] | None:
        """(block, its row) of a row of the page."""
        for block in range(len(self.parts) - 1, -1, -1):
            if self.alone in (None, block) and row >= self.starts[block]:
                inside = row - self.starts[block]
                return (block, inside) if inside < self.parts[block].height(self.width) else None
        return None

    def row(self, row: int) -> Row:
        """What stands in a row of the page."""
        found = self.at_row(row)
        return self.parts[found[0]].row(found[1], self.width) if found else []

    def prepare(self, top: int, rows: int) -> None:
        """Widen the columns of the tables for what will be seen."""
        for block, part in self.grids():
            part.prepare(top - self.starts[block] - HEAD, rows)
