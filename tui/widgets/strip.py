"""A time line: which kind filled most of each cell, told apart by glyph as well as by colour."""

from __future__ import annotations

import math

from m3probe.present.sheets.sheet import Strip
from m3probe.tui.widgets.ink import Row, clean, cut, tick, titled

_GLYPHS = (
    ("█", "accent"),
    ("▒", "good"),
    ("▓", "warn"),
    ("░", "dim"),
    ("×", "bad"),
    ("·", "dim"),
    ("○", ""),
    ("▲", ""),
)


class StripPart:
    """Rows: title, the line, its range, the legend."""

    def __init__(self, strip: Strip) -> None:
        self.strip = strip
        kinds = dict.fromkeys([*(kind for kind, _ in strip.legend), *(kind for _, _, kind in strip.spans)])
        self._look = {kind: _GLYPHS[at % len(_GLYPHS)] for at, kind in enumerate(kinds)}
        self._room = -1
        self._row: Row = []

    def height(self, _width: int) -> int:
        """Title, line and legend."""
        return 3

    def row(self, at: int, width: int) -> Row:
        """One of them."""
        strip = self.strip
        if at == 0:
            return titled(strip.title, f"0 to {tick(strip.length)} {strip.unit}", width, scale=True)
        if at == 2:
            words = dict(strip.legend)
            legend: Row = []
            for kind, (glyph, style) in self._look.items():
                legend += [(f"{glyph} ", style), (f"{clean(words.get(kind, kind))}   ", "dim")]
            return cut(legend or [("no span", "dim")], width)
        if width != self._room:
            self._room, self._row = width, self._drawn(width)
        return self._row

    def _drawn(self, room: int) -> Row:
        filled: list[dict[str, float]] = [{} for _ in range(room)]
        length = self.strip.length or 1.0
        for begin, end, kind in self.strip.spans:
            first, last = begin / length * room, end / length * room
            for cell in range(max(0, int(first)), min(room, max(math.ceil(last), int(first) + 1))):
                share = min(last, cell + 1) - max(first, cell)
                filled[cell][kind] = filled[cell].get(kind, 0.0) + max(share, 1e-9)
        return [self._look[max(cell, key=lambda k: cell[k])] if cell else (" ", "") for cell in filled]
