"""The mean decode step beside the least time that its parts can take."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.roofline_report import DecodeFloorRow, Roofline
from m3probe.present._numbers import fixed, ms, plural
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import (
    axis,
    bars,
    hover,
    label,
    layout,
    near,
    rows_axis,
    rows_height,
    table,
    word,
)
from m3probe.present.sheets._told import in_us, number
from m3probe.present.sheets.sheet import Grid

PARTS, OTHERS = 6, 4
"""Components with a part of the bar, and names of those that are left out which the sentence tells."""


def decode_floor(found: Roofline) -> tuple[Figure, ...]:
    """The mean decode step, the part of it with GPU work, and its floor by components."""
    row = found.decode
    if row is None or not row.parts:
        return ()
    times = [("whole step", row.step_ns), ("with GPU work", row.busy_ns)]
    known = [(name, ns) for name, ns in times if ns is not None]
    names = [*(name for name, _ in known), "least time"]
    data = [_bar("measured", [at for at, _ in enumerate(known)], [ns for _, ns in known], palette.GREY, "", names)]
    parts = sorted(row.parts, key=lambda part: -part.floor_ns)
    looks = [(hue, shape) for shape in ("", "/") for hue in palette.HUES]
    for part, (hue, shape) in zip(parts[:PARTS], looks, strict=False):
        data.append(_bar(part.what, [len(known)], [part.floor_ns], hue, shape, names, f"{part.bound_by}; {part.note}"))
    if rest := sum(part.floor_ns for part in parts[PARTS:]):
        data.append(_bar(plural(len(parts) - PARTS, "more part"), [len(known)], [rest], palette.GREY, "x", names))
    return (
        Figure(
            key="decode-floor",
            title="A decode step beside the least time it can take",
            says=_floor_says(row),
            data=tuple(data),
            layout=layout(
                rows_height(len(names), legend=3),
                axis("ms, mean of a decode step", rangemode="tozero"),
                rows_axis(names),
                barmode="stack",
                showlegend=True,
            ),
            rows=_floor_grid(row),
        ),
    )


def _bar(
    name: str, at: list[int], ns: Sequence[float], hue: str, shape: str, names: list[str], more: str = ""
) -> dict[str, object]:
    return bars(
        label(name),
        at,
        [near(value / 1e6) for value in ns],
        palette.filled((hue, shape)),
        showlegend=bool(shape or hue != palette.GREY),
        hovertext=[
            hover(f"{names[y]}, {name}: {ms(value, 3)} ms", more.strip("; ")) for y, value in zip(at, ns, strict=True)
        ],
    )


def _floor_says(row: DecodeFloorRow) -> str:
    took = "took a time that is not known" if row.step_ns is None else f"took {ms(row.step_ns, 3)} ms"
    times = f", x {fixed(row.step_ns / row.floor_ns, 1)}" if row.step_ns and row.floor_ns else ""
    left = f"; not in the least time: {', '.join(list(row.left_out)[:OTHERS])}" if row.left_out else ""
    return (
        f"A decode step of {fixed(row.rows, 1)} rows {took}; its bytes and operations need {ms(row.floor_ns, 3)} ms at the "
        f"least{times}{left}."
    )


def _floor_grid(row: DecodeFloorRow) -> Grid:
    lines = [
        (
            word(part.what),
            number(part.calls),
            number(part.bytes / 1e6, 2),
            in_us(part.floor_ns),
            word(part.bound_by),
            word(part.note),
        )
        for part in row.parts
    ]
    return table(
        "Least time of a decode step by component", ("part", "calls", "MB", "least µs", "bound by", "note"), lines
    )
