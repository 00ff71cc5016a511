"""How long each queue was, over time where samples tell, else on average."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from m3probe.model.report import QueueRow, QueuesSection
from m3probe.model.view import View
from m3probe.present._numbers import fixed, listed, ms, plural
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import (
    axis,
    bars,
    grouped,
    hover,
    label,
    layout,
    near,
    rows_axis,
    rows_height,
    table,
    word,
)
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._queue_curves import curves, high_of
from m3probe.present.sheets._told import in_ms, number, words
from m3probe.present.sheets.sheet import Curve, Grid

DASHES = ("solid", "dash", "dot", "dashdot")
GAP = 5.0
"""Times the usual distance of two samples from which on nobody looked: drawn as a gap."""
FEW = 60
"""Up to so many points each has a mark, so that a lone one between gaps is seen."""
UNITS = {"requests": "queues", "%": "queues-cache"}
Point = tuple[float, float | None]


def figures(view: View) -> tuple[Figure, ...]:
    """Curves by unit, and mean lengths; nothing where no queue was measured."""
    drawn = [curve for curve in curves(view) if high_of(curve.points) is not None]
    found = q.section(view, QueuesSection)
    by_unit = grouped(drawn, (curve.unit for curve in drawn))
    return (*(_over_time(unit, some) for unit, some in by_unit.items()), *_lengths(found))


def _over_time(unit: str, some: list[Curve]) -> Figure:
    before = any(point[0] < 0 for curve in some for point in curve.points)
    most = max(high_of(curve.points) or 0.0 for curve in some)
    return Figure(
        key=UNITS.get(unit, f"queues-{'-'.join(filter(str.isalnum, unit.lower().split('/')))}"),
        title=f"Over time, in {unit}",
        says=_says(unit, some),
        data=tuple(_trace(at, curve) for at, curve in enumerate(some)),
        layout=layout(
            320 + 22 * len(some),
            axis("s before now" if before else "s since the first sample"),
            axis(label(unit), range=[near(-0.03 * max(most, 1.0)), near(max(most * 1.1, 1.0))]),
            showlegend=True,
        ),
        rows=_curve_grid(some),
    )


def _says(unit: str, some: Sequence[Curve]) -> str:
    each = [f"{curve.title}: {_ends(curve)}" for curve in some]
    resets = sum(len(curve.marks) for curve in some)
    gaps = sum(value is None for curve in some for _, value in _broken(curve))
    said = f"In {unit}: {'; '.join(each)}"
    said += f"; {plural(gaps, 'gap')} in which nothing was read" if gaps else ""
    return f"{said}{f'; counters began anew {resets} x' if resets else ''}."


def _ends(curve: Curve) -> str:
    known = [value for _, value in curve.points if value is not None]
    return f"most {fixed(max(known), 1)}, last {fixed(known[-1], 1)} ({plural(len(known), 'sample')})"


def _broken(curve: Curve) -> list[Point]:
    """The points with a gap wherever nobody looked, a value is missing, or a server began anew."""
    points = curve.points
    steps = [later[0] - earlier[0] for earlier, later in pairwise(points)]
    usual = median(steps) if steps else 0.0
    found: list[Point] = []
    for at, point in enumerate(points):
        if at:
            begin = points[at - 1][0]
            anew = any(begin < mark <= point[0] for mark in curve.marks)
            if anew or (usual > 0 and steps[at - 1] > GAP * usual):
                found.append(((begin + point[0]) / 2, None))
        found.append(point)
    return found


def _trace(at: int, curve: Curve) -> dict[str, object]:
    points = _broken(curve)
    colour = palette.HUES[at % len(palette.HUES)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(points) <= FEW else "lines",
        "name": label(curve.title.removesuffix(" (recorded)"), 52),
        "x": [near(x, 7) for x, _ in points],
        "y": [near(value, 5) for _, value in points],
        "connectgaps": False,
        "line": {"color": colour, "width": 2, "dash": DASHES[at % len(DASHES)]},
        "marker": {"color": colour, "size": 6},
        "hoverinfo": "x+y+name",
        "hoverlabel": {"namelength": -1},
    }


def _curve_grid(some: Sequence[Curve]) -> Grid:
    lines = []
    for curve in some:
        known = [value for _, value in curve.points if value is not None]
        span = curve.points[-1][0] - curve.points[0][0]
        cells = (number(min(known), 1), number(max(known), 1), number(known[-1], 1))
        lines.append((word(curve.title), *cells, number(len(known)), number(span, 1)))
    return table("Curves", ("curve", "least", "most", "last", "samples", "seconds"), lines)


def _lengths(found: QueuesSection | None) -> tuple[Figure, ...]:
    """Mean lengths; a computed one is hatched."""
    known = [row for row in (found.queue_rows if found else ()) if row.length_mean is not None]
    if not known:
        return ()
    longest = max(known, key=lambda row: row.length_mean or 0.0)
    grows = [_name(row) for row in known if row.trend == "grows"]
    said = f"Longest on average is {_name(longest)} with {fixed(longest.length_mean, 1)} requests"
    most = max(row.length_mean or 0.0 for row in known)
    by_basis = grouped(list(enumerate(known)), (row.basis for row in known))
    return (
        Figure(
            key="queue-lengths",
            title="Requests in each queue, on average",
            says=f"{said}; {f'growing: {listed(grows)}' if grows else 'none was seen to grow'}.",
            data=tuple(_bars(basis, some) for basis, some in by_basis.items()),
            layout=layout(
                rows_height(len(known), legend=1),
                axis("requests, mean", range=[0, near(max(most * 1.3, 1.0))]),
                rows_axis([*map(_name, known)]),
                barmode="overlay",
                showlegend=True,
            ),
            rows=_grid(known),
        ),
    )


def _name(row: QueueRow) -> str:
    return f"{words(row.queue)}{f' of {row.server}' if row.server else ''}"


def _bars(basis: str, some: list[tuple[int, QueueRow]]) -> dict[str, object]:
    computed = basis == "little"
    return bars(
        "throughput x time in it (computed)" if computed else label(basis),
        [at for at, _ in some],
        [near(row.length_mean) for _, row in some],
        palette.filled((palette.SKY, "/") if computed else (palette.BLUE, "")),
        text=[fixed(row.length_mean, 1) for _, row in some],
        hovertext=[_hover(row) for _, row in some],
    )


def _hover(row: QueueRow) -> str:
    return hover(
        f"{_name(row)}: {fixed(row.length_mean, 2)} requests, most {fixed(row.length_most)}, last {fixed(row.length_last)}",
        f"{fixed(row.arrivals_per_s, 2)} came, {fixed(row.served_per_s, 2)} left a second; {ms(row.wait_ns)} ms in it",
        f"{plural(row.samples, 'sample')}; trend {words(row.trend) or 'not told'}; growth {fixed(row.growth_per_s, 2)} a second",
    )


def _grid(known: Sequence[QueueRow]) -> Grid:
    lines = [
        (
            word(_name(row)),
            number(row.length_mean, 2),
            number(row.length_most),
            number(row.growth_per_s, 2),
            in_ms(row.wait_ns),
            word(words(row.trend)),
            word(row.basis),
        )
        for row in known
    ]
    return table("Queues, in requests", ("queue", "mean", "most", "growth /s", "ms in it", "trend", "basis"), lines)
