"""Why the device waits: idle time by its place in a step, and the host's part of each step."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.findings import Finding
from m3probe.model.idle_report import IdlePart, IdleSection
from m3probe.model.live_report import LiveSection, StepTimeRow
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed, percent, us
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
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import in_us, number, short
from m3probe.present.sheets.repeats import PARTS
from m3probe.present.sheets.sheet import Grid
from m3probe.present.sheets.targets import target

CAUSES = ("repeats.decode_eager", "repeats.launch_bound", "repeats.eager_decode_steps", "next_bottleneck.idle")
"""Findings that bound idle time."""
LOOKS = (
    (palette.PINK, ""),
    (palette.ORANGE, ""),
    (palette.BLUE, ""),
    (palette.GREEN, ""),
    (palette.PINK, "/"),
    palette.IDLE,
)
"""As ``PARTS``."""


def idle_figures(view: View) -> tuple[Figure, ...]:
    """Both; each alone where the other is not known."""
    return (*_parts(view), *_host(view))


def _parts(view: View) -> tuple[Figure, ...]:
    """Idle time by its place; the line of each part opens the finding that bounds it."""
    found = q.section(view, IdleSection)
    if found is None or not found.parts:
        return ()
    parts = sorted(found.parts, key=lambda part: -part.share)
    causes = q.named(view, *CAUSES)
    opens = target("finding", next((f.id for f in causes if f.id == CAUSES[-1]), causes[0].id)) if causes else ""
    most = 100 * max(part.share for part in parts)
    return (
        Figure(
            key="idle",
            title="Why the device waits",
            says=_parts_says(parts, found.basis, causes),
            data=(
                bars(
                    "idle",
                    list(range(len(parts))),
                    [near(100 * part.share) for part in parts],
                    palette.filled((palette.SKY, "")),
                    text=[f"{percent(part.share)} %" for part in parts],
                    hovertext=[_part_hover(part, found.basis) for part in parts],
                    customdata=[opens] * len(parts),
                ),
            ),
            layout=layout(
                rows_height(len(parts)),
                axis(f"% of {label(found.basis)}", range=[0, near(max(most * 1.3, 0.1))]),
                rows_axis([part.what for part in parts]),
            ),
            rows=_part_grid(parts, opens),
        ),
    )


def _parts_says(parts: Sequence[IdlePart], basis: str, causes: Sequence[Finding]) -> str:
    first = parts[0]
    bounded = ", ".join(f"{short(f.id)} at most {percent(f.bound.high)} %" for f in causes if f.bound)
    return (
        f"Nothing runs for {percent(sum(part.share for part in parts))} % of {basis}, most of it {first.what} "
        f"({percent(first.share)} %){f'; findings bound what of it can be won: {bounded}' if bounded else ''}."
    )


def _part_hover(part: IdlePart, basis: str) -> str:
    each = part.ns / part.steps if part.steps else None
    return hover(
        f"{part.what}: {percent(part.share)} % of {basis}",
        f"{us(each)} µs in each of {part.steps:,} steps that have it",
        f"level: {part.level}",
    )


def _part_grid(parts: Sequence[IdlePart], opens: str) -> Grid:
    lines = [
        (
            word(part.what),
            number(100 * part.share, 1),
            in_us(part.ns / part.steps if part.steps else None),
            number(part.steps),
            word(part.level),
        )
        for part in parts
    ]
    return table(
        "Idle time by its place",
        ("where", "% of step time", "µs a step", "steps", "level"),
        lines,
        [opens] * len(lines),
    )


def _host(view: View) -> tuple[Figure, ...]:
    """A step by the host's clock, from one to the next; nothing for a trace."""
    found = q.section(view, LiveSection)
    rows = [row for row in (found.step_times if found else ()) if any(_ns(row, part) for part in PARTS)]
    if not rows:
        return ()
    names = [f"{row.phase}, {row.graph_mode}" for row in rows]
    return (
        Figure(
            key="host-steps",
            title="A step by the host's clock, without a profiler",
            says=_host_says(rows),
            data=tuple(_host_part(part, rows, look) for part, look in zip(PARTS, LOOKS, strict=True)),
            layout=layout(
                rows_height(len(rows), legend=2),
                axis("ms, mean of a step", rangemode="tozero"),
                rows_axis(names),
                barmode="stack",
                showlegend=True,
            ),
            rows=_host_grid(rows),
        ),
    )


def _ns(row: StepTimeRow, part: str) -> float | None:
    found: float | None = getattr(row, f"{part}_ns")
    return found


def _host_says(rows: Sequence[StepTimeRow]) -> str:
    row = max(rows, key=lambda one: one.steps)
    known = {part: ns for part in PARTS if (ns := _ns(row, part)) is not None}
    most = max(known, key=lambda part: known[part])
    unknown = [part for part in PARTS if part not in known]
    lacks = f"; {', '.join(unknown)} not taken" if unknown else ""
    return (
        f"A {row.phase} step ({row.graph_mode}, {fixed(row.steps)} of them): {most} takes most, {us(known[most])} µs; the "
        f"worker waits {us(_ns(row, 'idle'))} µs for the next step{lacks}."
    )


def _host_part(part: str, rows: Sequence[StepTimeRow], look: tuple[str, str]) -> dict[str, object]:
    here = [(at, ns) for at, row in enumerate(rows) if (ns := _ns(row, part)) is not None]
    return bars(
        part,
        [at for at, _ in here],
        [near(ns / 1e6) for _, ns in here],
        palette.filled(look),
        hovertext=[hover(f"{part}, {rows[at].phase} {rows[at].graph_mode}: {us(ns)} µs a step") for at, ns in here],
    )


def _host_grid(rows: Sequence[StepTimeRow]) -> Grid:
    lines = [
        (
            word(row.phase),
            word(row.graph_mode or UNKNOWN),
            number(row.steps),
            *(in_us(_ns(row, part)) for part in PARTS),
        )
        for row in rows
    ]
    return table("Means of a step of one rank", ("phase", "graph", "steps", *(f"{part} µs" for part in PARTS)), lines)
