"""Steps as bars on a time line, a row for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import axis, bars, grouped, label, layout, rows_axis, rows_height
from m3probe.present.sheets.sheet import Grid

MOST_BARS = 2000
"""Bars of one plot: more than a wide screen has pixels; beyond it neighbours share one."""


@dataclass(frozen=True, slots=True)
class Span:
    """Steps drawn as one bar: their rows, and when they ran on the rank's own clock from its first step, in ms."""

    rank: int | None
    begin_ms: float
    end_ms: float
    phase: str
    steps: tuple[int, ...]
    opens: str


def rank_name(rank: int | None) -> str:
    """In words."""
    return "rank unknown" if rank is None else f"rank {rank}"


def time_line(key: str, title: str, says: str, spans: Sequence[Span], hovers: Sequence[str], grid: Grid) -> Figure:
    """The plot of these bars; what lies between two of them is a gap. ``hovers``: of each span, ready for plotly."""
    ranks = sorted({span.rank for span in spans}, key=lambda rank: -1 if rank is None else rank)
    by_phase = grouped(list(zip(spans, hovers, strict=True)), (span.phase for span in spans))
    return Figure(
        key=key,
        title=title,
        says=says,
        data=tuple(_bars(phase, some, ranks) for phase, some in by_phase.items()),
        layout=layout(
            rows_height(len(ranks), legend=1) + 20,
            axis("ms from the first step of each rank", rangemode="tozero"),
            rows_axis([rank_name(rank) for rank in ranks]),
            barmode="overlay",
            showlegend=True,
        ),
        rows=grid,
    )


def _bars(phase: str, some: Sequence[tuple[Span, str]], ranks: list[int | None]) -> dict[str, object]:
    return bars(
        label(phase),
        [ranks.index(span.rank) for span, _ in some],
        [round(span.end_ms - span.begin_ms, 3) for span, _ in some],
        palette.filled((palette.phase(phase), "")),
        base=[round(span.begin_ms, 3) for span, _ in some],
        hovertext=[told for _, told in some],
        customdata=[span.opens for span, _ in some],
    )
