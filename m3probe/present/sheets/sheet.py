"""What a screen shows, as plain data: sentences, charts and tables, and what each line opens.

Adapters make sheets of views, one screen draws them all: so every page is tested as a value, without a terminal.
Foreign text is escaped by whoever draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Raw = float | int | str | None
"""What a cell is sorted by; None sorts last."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text as shown, and what it is sorted by. ``mark``: a verdict or state word whose glyph and colour it takes."""

    text: str
    raw: Raw = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """``keep``: 0 stays at every width; larger numbers are dropped first. ``wide``: takes what is left, cut in the middle."""

    name: str
    right: bool = False
    keep: int = 0
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One row. ``key`` names the item for good: the cursor stays on it when order changes. ``opens``: target of Enter."""

    key: str
    cells: tuple[Cell, ...]
    opens: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; ``lines`` may be lazy (millions of kernels). ``empty``: why there is nothing, and what would change it."""

    title: str
    columns: tuple[Column, ...]
    lines: Sequence[Line]
    empty: str = "Nothing to show."


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence; ``mark``: a verdict or state word whose glyph and colour it takes. ``dim``: an aside."""

    text: str
    mark: str = ""
    dim: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """``value`` from 0 to the chart's ``high``; ``text`` stands behind it."""

    label: str
    value: float
    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars on one labelled scale that begins at 0."""

    title: str
    bars: tuple[Bar, ...]
    high: float
    unit: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A series on a labelled scale: (x, value), None is a gap. ``marks``: x at which counters began anew.

    Where x runs from below 0 to (nearly) 0 it is time before now.
    """

    title: str
    points: tuple[tuple[float, float | None], ...]
    low: float
    high: float
    unit: str
    text: str = ""
    marks: tuple[float, ...] = ()
    x_unit: str = "s"


@dataclass(frozen=True, slots=True)
class Strip:
    """A time line: (begin, end, kind) with kinds named in ``legend`` (kind -> word)."""

    title: str
    spans: tuple[tuple[float, float, str], ...]
    length: float
    unit: str
    legend: tuple[tuple[str, str], ...] = ()


Block = Said | Grid | Bars | Curve | Strip


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page.

    Args:
        title: its place in the breadcrumb.
        blocks: from top to bottom; the first Grid is the one that keys move in first.
        copy: the page as Markdown, for ``y``; "" copies the line under the cursor.
        change: what would change this answer, in one sentence.
    """

    title: str
    blocks: tuple[Block, ...]
    copy: str = ""
    change: str = ""
    whole: bool = False
    """``y`` copies the page rather than the line under the cursor: no line says anything without the others."""


@dataclass(frozen=True, slots=True)
class Lens:
    """What the reader chose to see. None: all."""

    rank: int | None = None
    phase: str | None = None
    verdict: str | None = None
    ranking: tuple[str, ...] = field(default=())
    """Finding ids in the order that is on screen: a rank is held until it changed for three views."""
