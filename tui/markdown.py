"""A page as Markdown, for the clipboard and for a file: the same words and figures as on screen."""

from __future__ import annotations

from m3probe.present._numbers import plural
from m3probe.present.looks import look
from m3probe.present.sheets.sheet import Bars, Block, Cell, Curve, Grid, Line, Said, Sheet, Strip
from m3probe.tui.widgets.ink import clean

MOST = 1_000
"""Lines of one table; how many more there are is said."""


def page(sheet: Sheet, trail: tuple[str, ...] = ()) -> str:
    """The page: its own ``copy``, else every block of it."""
    if sheet.copy:
        return sheet.copy
    title = " › ".join(clean(crumb) for crumb in (trail or (sheet.title,)))
    found = [f"## {_plain(title)}", *(_block(block) for block in sheet.blocks)]
    found += [f"*What would change this: {_plain(sheet.change)}*"] if sheet.change else []
    return "\n\n".join(found) + "\n"


def line(grid: Grid, chosen: Line) -> str:
    """One line with the names of its columns."""
    told = zip(grid.columns, chosen.cells, strict=False)
    return "\n".join(f"- **{_plain(column.name)}**: {_cell(cell)}" for column, cell in told) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Said):
        return f"{look(block.mark)[0]} {_plain(block.text)}" if block.mark else _plain(block.text)
    if isinstance(block, Grid):
        return _grid(block)
    if isinstance(block, Bars):
        told = [f"- {_plain(bar.label)}: {_plain(bar.text)}" for bar in block.bars]
        return "\n".join([f"**{_plain(block.title)}** (0 to {block.high:,g} {block.unit})", "", *told])
    if isinstance(block, Curve):
        return f"**{_plain(block.title)}** {_plain(block.text)} ({block.low:,g} to {block.high:,g} {block.unit})"
    return _strip(block)


def _strip(block: Strip) -> str:
    words = ", ".join(_plain(word) for _, word in block.legend)
    return f"**{_plain(block.title)}**: {plural(len(block.spans), 'span')} in {block.length:,g} {block.unit} ({words})"


def _grid(grid: Grid) -> str:
    if not grid.lines:
        return f"**{_plain(grid.title)}**: {_plain(grid.empty)}"
    head = [f"| {' | '.join(_plain(column.name) for column in grid.columns)} |"]
    head.append(f"|{'|'.join(' ---: ' if column.right else ' --- ' for column in grid.columns)}|")
    shown = [grid.lines[at] for at in range(min(len(grid.lines), MOST))]
    body = [f"| {' | '.join(_cell(cell) for cell in each.cells)} |" for each in shown]
    left = len(grid.lines) - len(shown)
    more = [f"\n{plural(left, 'more line')}"] if left else []
    return "\n".join([f"**{_plain(grid.title)}** ({len(grid.lines):,})", "", *head, *body, *more])


def _cell(cell: Cell) -> str:
    text = _plain(cell.text)
    glyph = look(cell.mark)[0] if cell.mark else ""
    return text if not glyph or text.startswith(glyph) else f"{glyph} {text}"


def _plain(text: str) -> str:
    """Foreign text as text: no table is torn, nothing is read as markup or a link."""
    told = clean(text)
    for char in "\\`*_[]<>|":
        told = told.replace(char, f"\\{char}")
    return told
