"""A sentence, wrapped, behind the glyph of its word."""

from __future__ import annotations

from functools import lru_cache

from m3probe.present.looks import look
from m3probe.present.sheets.sheet import Said
from m3probe.tui.widgets.ink import Row, wrapped

_HANG = 2


class SaidPart:
    """Rows of one sentence."""

    def __init__(self, said: Said) -> None:
        self.said = said

    def height(self, width: int) -> int:
        """Rows after wrapping."""
        return len(self._lines(width))

    def row(self, at: int, width: int) -> Row:
        """One line; the glyph stands before the first, the others hang below the text."""
        text = self._lines(width)[at]
        style = "dim" if self.said.dim else ""
        if not self.said.mark:
            return [(text, style)]
        glyph, colour = look(self.said.mark)
        return [((f"{glyph} " if at == 0 else "  "), colour), (text, style)]

    def _lines(self, width: int) -> tuple[str, ...]:
        return _wrapped(self.said.text, max(8, width - (_HANG if self.said.mark else 0)))


@lru_cache(256)
def _wrapped(text: str, width: int) -> tuple[str, ...]:
    return tuple(wrapped(text, width))
