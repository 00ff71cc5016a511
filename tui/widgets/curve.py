"""A series on a fixed, labelled scale: dots of two by four to a cell, gaps left empty, restarts marked."""

from __future__ import annotations

from m3probe.present._page import cells
from m3probe.present.sheets.sheet import Curve
from m3probe.tui.widgets.ink import Row, clean, cut, tick, titled

_ROWS = 4
NOW = 1.5
"""Seconds: a server is asked once a second, so that its newest value is never older while it answers."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Dots of a braille cell from its top, (left, right)."""


class CurvePart:
    """Rows: title and scale, the plot, the range of x."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self._room = -1
        self._plot: list[str] = []

    def height(self, _width: int) -> int:
        """Fixed, so that a page does not jump when a series begins."""
        return _ROWS + 2

    def row(self, at: int, width: int) -> Row:
        """One of them; the ends of the scale stand left of the plot."""
        curve = self.curve
        if at == 0:
            told = f"{clean(curve.text)} · scale " if curve.text else ""
            return titled(curve.title, f"{told}{tick(curve.low)} to {tick(curve.high)} {curve.unit}", width, scale=True)
        labels = (tick(curve.high), tick(curve.low))
        margin = max(map(cells, labels)) + 1
        room = max(1, width - margin)
        if at == _ROWS + 1:
            return cut([(" " * margin, ""), (self._foot(room), "dim")], width)
        if room != self._room:
            self._room, self._plot = room, plotted(curve, room, _ROWS)
        label = labels[0] if at == 1 else labels[1] if at == _ROWS else ""
        return cut([(label.rjust(margin - 1) + "│", "dim"), (self._plot[at - 1], "accent")], width)

    def _foot(self, room: int) -> str:
        points = self.curve.points
        if not any(value is not None for _, value in points):
            return "no value yet"
        unit = f" {self.curve.x_unit}".rstrip()
        left, right = f"{tick(points[0][0])}{unit}", f"{tick(points[-1][0])}{unit}"
        right = "now" if points[0][0] < 0 and abs(points[-1][0]) <= NOW else right
        said = "┊ counters began anew" if self.curve.marks else ""
        return f"{left} {said.center(max(0, room - len(left) - len(right) - 2))} {right}"


def plotted(curve: Curve, room: int, rows: int) -> list[str]:
    """The plot's rows from the top; neighbours are joined, a gap is not."""
    bits = [[0] * room for _ in range(rows)]
    known = [x for x, _ in curve.points]
    begin, length = (known[0], (known[-1] - known[0]) or 1.0) if known else (0.0, 1.0)
    span = (curve.high - curve.low) or 1.0
    last: tuple[int, int] | None = None
    before = begin
    for x, value in curve.points:
        if value is None:
            last = None
            continue
        if any(before < mark <= x for mark in curve.marks):
            last = None
        before = x
        column = min(int((x - begin) / length * (room * 2 - 1) + 0.5), room * 2 - 1)
        level = min(max((value - curve.low) / span, 0.0), 1.0)
        here = column, rows * 4 - 1 - int(level * (rows * 4 - 1) + 0.5)
        for at, dot in _joined(last or here, here):
            bits[dot // 4][at // 2] |= _BITS[dot % 4][at % 2]
        last = here
    lines = [[chr(0x2800 + bit) if bit else " " for bit in row] for row in bits]
    for mark in curve.marks:
        if known and begin <= mark <= begin + length:
            at = min(int((mark - begin) / length * (room - 1) + 0.5), room - 1)
            for line in lines:
                line[at] = "┊" if line[at] == " " else line[at]
    return ["".join(line) for line in lines]


def _joined(a: tuple[int, int], b: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots of a straight line; between points that follow each other without a gap only."""
    steps = max(abs(b[0] - a[0]), abs(b[1] - a[1])) or 1
    return [(a[0] + (b[0] - a[0]) * n // steps, a[1] + (b[1] - a[1]) * n // steps) for n in range(steps + 1)]
