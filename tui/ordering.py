"""Which lines of a table are shown and in what order: sort on raw values, filter by text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from m3probe.present.sheets.sheet import Grid, Line, Raw

MOST = 1_000_000
"""Lines of a table that are looked at for a sort or a filter; the title says when there are more."""
AT_ONCE = 5_000
"""Up to so many lines are ordered before the next key is taken; more go to a thread of their own."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a reader asked of one table. ``column``: None is the order it came in."""

    column: int | None = None
    falling: bool = False
    needle: str = ""

    @property
    def plain(self) -> bool:
        """Nothing was asked."""
        return self.column is None and not self.needle


def ordered(grid: Grid, order: Order, gone: Callable[[], bool] = lambda: False) -> list[int] | None:
    """Indices of ``grid.lines`` to show; None: all, as they come, or nobody waits for it any more.

    Unknown values are last in both directions. A tie keeps the order the lines came in.
    """
    if order.plain:
        return None
    needle = order.needle.casefold()
    found: list[int] = []
    keys: list[tuple[int, float | str]] = []
    for at in range(min(len(grid.lines), MOST)):
        if at % 1024 == 0 and gone():
            return None
        line = grid.lines[at]
        if needle and not matches(line, needle):
            continue
        found.append(at)
        if order.column is not None:
            keys.append(_key(line, order.column))
    if order.column is None:
        return found
    known = [at for at in range(len(found)) if keys[at][0] < _UNKNOWN]
    last = [found[at] for at in range(len(found)) if keys[at][0] == _UNKNOWN]
    known.sort(key=lambda at: keys[at], reverse=order.falling)
    return [found[at] for at in known] + last


def matches(line: Line, needle: str) -> bool:
    """Whether a line's key or any of its cells holds the text, whatever the case."""
    return any(needle in cell.text.casefold() for cell in line.cells) or needle in line.key.casefold()


def find(lines: Sequence[Line], key: str, near: int) -> int:
    """Where the item is now, looked for around where it was; ``near`` itself when it is gone."""
    if not lines:
        return 0
    last = len(lines) - 1
    near = min(max(near, 0), last)
    reach = last if isinstance(lines, list | tuple) else min(last, 2_000)
    for step in range(reach + 1):
        for at in {near - step, near + step}:
            if 0 <= at <= last and lines[at].key == key:
                return at
    return near


_NUMBER, _TEXT, _UNKNOWN = 0, 1, 2


def _key(line: Line, column: int) -> tuple[int, float | str]:
    cell = line.cells[column] if column < len(line.cells) else None
    raw: Raw = cell.raw if cell else None
    if raw != raw:  # noqa: PLR0124 - NaN, which no sort can place
        return _UNKNOWN, 0
    if raw is None:
        return (
            (_TEXT, cell.text.casefold())
            if cell and cell.text not in {"", "—"} and not _figures(line)
            else (_UNKNOWN, 0)
        )
    return (_TEXT, raw.casefold()) if isinstance(raw, str) else (_NUMBER, raw)


def _figures(line: Line) -> bool:
    """Whether any cell of the line has a raw value: then a cell without one is unknown, not plain text."""
    return any(cell.raw is not None for cell in line.cells)
