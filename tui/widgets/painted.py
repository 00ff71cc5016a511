"""A widget that draws rows of styled text: style words are looked up in the theme, once for each change of it."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from m3probe.tui.widgets.ink import Row, cut, width_of

WORDS = ("good", "bad", "warn", "accent", "dim", "rule", "head", "bold", "cursor")


class Painted(Widget):
    """Subclasses give rows; nothing in them is read as markup."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"ink--{word}" for word in WORDS}

    def painted(self, row: Row, width: int, *, cursor: bool = False) -> Strip:
        """A row as a strip of exactly ``width`` cells."""
        base = self.rich_style
        ground = self._ink("cursor") if cursor else Style()
        segments = [
            Segment(text, base + self._ink(word) + ground if word else base + ground) for text, word in cut(row, width)
        ]
        left = width - width_of(row)
        if left > 0:
            segments.append(Segment(" " * left, base + ground))
        return Strip(segments, width)

    def _ink(self, word: str) -> Style:
        return self.get_component_rich_style(f"ink--{word}", partial=True) if word in WORDS else Style()


class OneLine(Painted):
    """A widget of one row, painted again only when the row changed."""

    DEFAULT_CLASSES = "one-line"

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._row: Row = []

    def told(self) -> Row:
        """What stands in it now; a subclass's."""
        raise NotImplementedError

    def update(self) -> None:
        """Paint it if it says something else than before."""
        row = self.told()
        if row != self._row:
            self._row = row
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Its one row."""
        return self.painted(self._row if y == 0 else [], self.size.width)

    def on_resize(self) -> None:
        """Another width may say more or less."""
        self._row = self.told()
        self.refresh()
