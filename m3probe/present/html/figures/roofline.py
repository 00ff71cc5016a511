"""How far from the least time: operations a byte against operations a second, under the device's roofs."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from m3probe.model.roofline_report import Roofline, RooflineRow, RooflineSection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed, plural, us
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._decode_floor import decode_floor
from m3probe.present.html.figures._plot import (
    axis,
    grouped,
    hover,
    label,
    layout,
    near,
    table,
    word,
)
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import in_us, number
from m3probe.present.sheets.sheet import Grid
from m3probe.present.sheets.targets import target

MOST_POINTS = 300
SMALLEST, LARGEST = 8.0, 34.0
"""Diameters in pixels of points without time and with all of it."""
MARGIN = 2.0
"""Roofs go on so many times beyond the points."""
Point = tuple[RooflineRow, float, float]
"""Row, operations a byte, operations a second."""


def figures(view: View) -> tuple[Figure, ...]:
    """The scatter, and the decode step beside its least time; nothing without a known device."""
    found = q.section(view, RooflineSection)
    if found is None:
        return ()
    return (*_scatter(view, found.roofline), *decode_floor(found.roofline))


def _scatter(view: View, found: Roofline) -> tuple[Figure, ...]:
    points = [point for row in found.rows if (point := _point(row)) is not None]
    points.sort(key=lambda point: -_total_ns(point[0]))
    if not points or not found.bytes_per_s:
        return ()
    drawn = points[:MOST_POINTS]
    most = max(_total_ns(row) for row, *_ in drawn)
    kinds = grouped(drawn, (row.phase for row, *_ in drawn))
    return (
        Figure(
            key="roofline",
            title="What ran, under the device's roofs",
            says=_says(found, drawn, len(points)),
            data=(*_roofs(found, drawn), *(_marks(view, phase, some, most) for phase, some in kinds.items())),
            layout=layout(
                460,
                axis("operations a byte (least bytes)", type="log", exponentformat="none", dtick=1),
                axis("TFLOP/s reached", type="log", exponentformat="none", dtick=1),
                showlegend=True,
            ),
            rows=_grid(view, drawn),
        ),
    )


def _point(row: RooflineRow) -> Point | None:
    """Where a row stands; None without operations, bytes or a time."""
    if not row.flops or not row.bytes or not row.observed_ns:
        return None
    return row, row.flops / row.bytes, row.flops / (row.observed_ns / 1e9)


def _total_ns(row: RooflineRow) -> float:
    return (row.observed_ns or 0.0) * row.count


def _says(found: Roofline, drawn: Sequence[Point], every: int) -> str:
    rated = [row for row, *_ in drawn if row.ratio is not None]
    sure = "" if found.certain else ", a device that is not certain"
    said = f"{plural(len(drawn), 'shape or part', 'shapes and parts')} on {found.device or 'the device'}{sure}"
    if rated:
        worst = max(rated, key=lambda row: ((row.observed_ns or 0.0) - (row.floor_ns or 0.0)) * row.count)
        said += (
            f"; most time above its least is lost by {_name(worst)} in {worst.phase}: {us(worst.observed_ns)} µs where "
            f"{us(worst.floor_ns)} µs would do, x {fixed(worst.ratio, 2)}"
        )
    without = len(found.rows) - every
    said += f"; {every - len(drawn):,} more with less time are in the table" if every > len(drawn) else ""
    said += (
        "; a hollow mark is a part of a step, whose shapes stand beside it"
        if any(row.part for row, *_ in drawn)
        else ""
    )
    return f"{said}{f'; {without:,} more have no operations, bytes or time and no place here' if without else ''}."


def _name(row: RooflineRow) -> str:
    return row.what if row.part else f"{row.what.removeprefix('aten::')} {row.shape}"


def _roofs(found: Roofline, drawn: Sequence[Point]) -> list[dict[str, object]]:
    """Memory's slope until the highest peak, and the peak of each dtype from where it ends the slope."""
    per_s, low = found.bytes_per_s or 0.0, min(x for _, x, _ in drawn) / MARGIN
    peaks = {
        tflops: [w for w, value in found.peak_tflops.items() if value == tflops]
        for tflops in found.peak_tflops.values()
    }
    ridge = max([tflops * 1e12 / per_s for tflops in peaks], default=0.0)
    high = max(max(x for _, x, _ in drawn) * MARGIN, ridge * MARGIN)
    end = ridge or high
    lines = [_line(f"memory, {per_s / 1e12:,.3g} TB/s", (low, end), (low * per_s / 1e12, end * per_s / 1e12), "dash")]
    for (tflops, words), dash in zip(sorted(peaks.items()), ("solid", "dot", "dashdot", "longdash") * 4, strict=False):
        name = f"{'/'.join(words)}, {tflops:,.0f} TFLOP/s"
        lines.append(_line(name, (tflops * 1e12 / per_s, high), (tflops, tflops), dash))
    return lines


def _line(name: str, x: tuple[float, float], y: tuple[float, float], dash: str) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(name, 40),
        "x": [near(value) for value in x],
        "y": [near(value) for value in y],
        "line": {"color": palette.GREY, "width": 2, "dash": dash},
        "hoverinfo": "name",
    }


def _marks(view: View, phase: str, points: list[Point], most_ns: float) -> dict[str, object]:
    """Points of a phase by their time; a part of a step is hollow, for its shapes stand beside it."""
    symbol = palette.SYMBOL.get(phase, "x")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(phase),
        "x": [near(x) for _, x, _ in points],
        "y": [near(y / 1e12) for _, _, y in points],
        "marker": {
            "color": palette.phase(phase),
            "symbol": [f"{symbol}-open" if row.part else symbol for row, *_ in points],
            "size": [round(_size(row, most_ns), 1) for row, *_ in points],
            "opacity": 0.8,
            "line": {"width": 2, "color": palette.phase(phase)},
        },
        "hoverinfo": "text",
        "hovertext": [_hover(row, y) for row, _, y in points],
        "customdata": [_opens(view, row) for row, *_ in points],
    }


def _size(row: RooflineRow, most_ns: float) -> float:
    """Its area grows with its time."""
    return SMALLEST + (LARGEST - SMALLEST) * sqrt(_total_ns(row) / most_ns) if most_ns else SMALLEST


def _hover(row: RooflineRow, per_s: float) -> str:
    whole = "part of a decode step" if row.part else plural(row.count, "call")
    return hover(
        f"{_name(row)}, {row.phase}, {whole}",
        f"took {us(row.observed_ns)} µs, at the least {us(row.floor_ns)} µs: x {fixed(row.ratio, 2)}, bound by "
        f"{row.bound_by or UNKNOWN}",
        f"{per_s / 1e12:,.3g} TFLOP/s; {(row.flops or 0) / 1e9:,.4g} GFLOP, {(row.bytes or 0) / 1e6:,.4g} MB {row.dtype}",
        "below 1: something that was assumed is wrong" if row.ratio is not None and row.ratio < 1 else "",
        row.note,
    )


def _opens(view: View, row: RooflineRow) -> str:
    """The finding of its headroom, where there is one."""
    if not row.part or row.phase != "decode":
        return ""
    found = f"roofline.headroom.{row.what}"
    return target("finding", found) if q.named(view, found) else ""


def _grid(view: View, drawn: Sequence[Point]) -> Grid:
    lines = [
        (
            word(_name(row)),
            word(row.phase),
            number(row.count),
            number(x, 2),
            number(y / 1e12, 2),
            in_us(row.floor_ns),
            in_us(row.observed_ns),
            number(row.ratio, 2),
            word(row.bound_by),
        )
        for row, x, y in drawn
    ]
    heads = ("what", "phase", "times", "operations a byte", "TFLOP/s", "least µs", "took µs", "x least", "bound by")
    return table("What ran beside its least time", heads, lines, [_opens(view, row) for row, *_ in drawn])
