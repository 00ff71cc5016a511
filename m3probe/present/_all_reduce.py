"""Which backend an all-reduce takes by its rows, drawn on a logarithmic axis with the workload's steps below."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from m3probe.model.recipe_report import BackendRange, WorkPoint
from m3probe.present._page import Page

_NAME = 22
_LEAST = 20


def all_reduce(page: Page, ranges: Sequence[BackendRange], points: Sequence[WorkPoint]) -> None:
    """One bar per backend, then the exact edges and why."""
    if not ranges:
        return
    page.heading("all-reduce", "rows of a step -> backend")
    room = page.width - _NAME - 4
    most = max([*(r.first for r in ranges), *(p.rows for p in points), *((r.last or 0) for r in ranges)])
    if room >= _LEAST and len(ranges) > 1:
        _bars(page, ranges, points, room, most)
    for line in ranges:
        span = f"{line.first:,} and more" if line.last is None else f"{line.first:,} to {line.last:,}"
        name = line.backend or "not known"
        page.say((span.ljust(_NAME - 2), ""), (name, "bold"), (f"  {line.why}", "dim"), indent=2, hang=_NAME - 2)
        for label in line.points:
            page.say((f"> {label}", "accent"), indent=_NAME, hang=2)


def _bars(page: Page, ranges: Sequence[BackendRange], points: Sequence[WorkPoint], room: int, most: int) -> None:
    def cell(rows: int) -> int:
        return min(room - 1, round(log2(max(rows, 1)) / max(log2(most), 1) * (room - 1)))

    for name in dict.fromkeys(line.backend or "not known" for line in ranges):
        cells = [" "] * room
        for line in ranges:
            if (line.backend or "not known") == name:
                for at in range(cell(line.first), cell(line.last or most) + 1):
                    cells[at] = "█"
        page.put([("  " + name[: _NAME - 2].ljust(_NAME), ""), ("".join(cells).rstrip(), "accent")])
    marks = ["─"] * room
    for point in points:
        marks[cell(point.rows)] = "▲"
    page.put([("  " + "rows (log), workload ▲".ljust(_NAME)[:_NAME], "dim"), ("".join(marks), "dim")])
