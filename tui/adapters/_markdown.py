"""A page's blocks as Markdown, to be pasted into an issue; foreign text cannot start markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from m3probe.present.escape import safe
from m3probe.tui.sheet import Bars, Block, Curve, Grid, Said

MOST_LINES = 50
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")


def markdown(title: str, blocks: Sequence[Block], change: str = "") -> str:
    """Sentences as paragraphs, tables as tables of ``MOST_LINES`` rows at most, charts as lists."""
    parts = [f"## {plain(title)}", *(text for block in blocks for text in _block(block))]
    parts += [f"What would change this: {plain(change)}"] if change else []
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is written."""
    return _MARKUP.sub(r"\\\1", safe(text))


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Said):
        yield plain(block.text)
    elif isinstance(block, Grid):
        yield from _grid(block)
    elif isinstance(block, Bars):
        lines = "\n".join(f"- {plain(bar.label)}: {plain(bar.text)}" for bar in block.bars)
        yield f"**{plain(block.title)}**\n\n{lines}"
    elif isinstance(block, Curve):
        yield f"**{plain(block.title)}** {plain(block.text)}".rstrip()


def _grid(grid: Grid) -> Iterator[str]:
    yield f"**{plain(grid.title)}**"
    if not len(grid.lines):
        yield plain(grid.empty)
        return
    rows = ["| " + " | ".join(plain(column.name) for column in grid.columns) + " |"]
    rows.append("|" + "|".join("--:" if column.right else "---" for column in grid.columns) + "|")
    rows += ["| " + " | ".join(plain(cell.text) for cell in line.cells) + " |" for line in grid.lines[:MOST_LINES]]
    left = len(grid.lines) - MOST_LINES
    yield "\n".join(rows)
    if left > 0:
        yield f"{left:,} more rows"
