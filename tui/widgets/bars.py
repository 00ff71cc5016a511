"""Bars on one labelled scale that begins at 0."""

from __future__ import annotations

from m3probe.present._page import cells
from m3probe.present.sheets.sheet import Bars
from m3probe.tui.widgets.ink import Row, clean, cut, marked, padded, tick, titled

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEAST, _SHORT = 8, 10
"""Cells of a bar: with fewer none is drawn; so few are enough where a label would lose its end."""


class BarsPart:
    """Rows: the title with the scale, then one row a bar."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self._labels = [marked(clean(bar.label), bar.mark) for bar in bars.bars]
        self._texts = aligned([clean(bar.text) for bar in bars.bars])

    def height(self, _width: int) -> int:
        """One row a bar, and the title."""
        return 1 + max(1, len(self._labels))

    def row(self, at: int, width: int) -> Row:
        """The title, or one bar between its label and its text."""
        if at == 0:
            return titled(self.bars.title, f"0 to {tick(self.bars.high)} {self.bars.unit}".rstrip(), width, scale=True)
        if not self._labels:
            return [("Nothing to draw.", "dim")]
        label, style = self._labels[at - 1]
        text_room = max(map(cells, self._texts))
        least = max(6, width // 3, width - text_room - _SHORT - 4)
        label_room = min(max(cells(text) for text, _ in self._labels), least)
        room = width - label_room - text_room - 4
        found: Row = [(padded(label, label_room), style)]
        if room >= _LEAST:
            bar = drawn(self.bars.bars[at - 1].value, self.bars.high, room)
            found += [("  ", ""), (bar, style or "accent")]
        return cut([*found, ("  ", ""), (padded(self._texts[at - 1], text_room), "")], width)


def aligned(texts: list[str]) -> list[str]:
    """Parts between commas below one another: figures to the right, what stands behind them to the left."""
    rows = [[_parted(part) for part in text.split(", ")] for text in texts]
    wide = max((len(row) for row in rows), default=0)
    room = [
        [max((cells(row[at][side]) for row in rows if at < len(row)), default=0) for side in (0, 1)]
        for at in range(wide)
    ]
    found = []
    for row in rows:
        parts = [
            padded(head, left, right=True) + padded(tail, right)
            for (head, tail), (left, right) in zip(row, room, strict=False)
        ]
        found.append(", ".join(parts).rstrip())
    return found


def _parted(part: str) -> tuple[str, str]:
    """(figure, what stands behind it): ``0.70 ms`` -> ``0.70``, `` ms``; words alone are no figure."""
    if not any(char.isdigit() for char in part):
        return "", part
    head, space, tail = part.partition(" ") if part[0].isdigit() else (part, "", "")
    return head, space + tail


def drawn(value: float, high: float, room: int) -> str:
    """``room`` cells of which ``value / high`` are filled; what is not 0 is never drawn as nothing."""
    share = min(max(value / high, 0.0), 1.0) if high > 0 else 0.0
    eighths = round(share * room * 8)
    eighths = max(eighths, 1) if value > 0 and high > 0 else eighths
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(room)
