"""What recurs in every layer and step, where a step's time goes, and why the device waits."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.repeat_report import RepeatRow, RepeatsSection
from m3probe.model.report import PhaseRow, SummarySection
from m3probe.model.view import View
from m3probe.present._numbers import fixed, ms, percent, plural, us
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._idle import idle_figures
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
from m3probe.present.html.figures._stacks import stacks
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import in_us, number
from m3probe.present.sheets.sheet import Grid

MOST, PARTS = 14, 8
"""Families that have a row, and that have a part of a bar."""
TOLD_BY = ("kernels", "census", "calls", "ledger")
"""Evidence, the nearest to the device first."""
LEAST = 0.01
"""Kernel time below this share of a step is no part of its own in a bar."""


def figures(view: View) -> tuple[Figure, ...]:
    """Counts, times, idle time and steps; each alone where the others are not known."""
    found = q.section(view, RepeatsSection)
    rows = _best(found.repeats if found else ())
    return (*_counts(rows), *_times(view, rows), *idle_figures(view), *stacks(view))


def _best(rows: Sequence[RepeatRow]) -> list[RepeatRow]:
    """One row for a family in a phase: kernels and the ledger may know the same calls, which are never added up."""
    found: dict[tuple[str, str], RepeatRow] = {}
    for row in sorted(rows, key=lambda row: TOLD_BY.index(row.evidence) if row.evidence in TOLD_BY else len(TOLD_BY)):
        found.setdefault((row.phase, row.family), row)
    return [row for row in rows if found[row.phase, row.family] is row]


def _counts(rows: Sequence[RepeatRow]) -> tuple[Figure, ...]:
    """Kernels a layer where layers are known, else a step; phases side by side."""
    layered = [row for row in rows if row.per_layer is not None]
    drawn = layered or list(rows)
    if not drawn:
        return ()
    unit = "layer" if layered else "step"
    most_of: dict[str, float] = {}
    for row in drawn:
        most_of[row.family] = max(most_of.get(row.family, 0.0), _each(row, unit))
    families = sorted(most_of, key=lambda family: -most_of[family])[:MOST]
    phases = grouped(drawn, (row.phase for row in drawn))
    return (
        Figure(
            key="repeats",
            title=f"Kernels that recur in every {unit}",
            says=_counts_says(rows, drawn, unit),
            data=tuple(_count_bars(phase, some, families, unit, list(phases)) for phase, some in phases.items()),
            layout=layout(
                rows_height(len(families), legend=1),
                axis(f"kernels a {unit}, mean", range=[0, near(max(most_of.values()) * 1.2)]),
                rows_axis(families),
                barmode="overlay",
                showlegend=True,
            ),
            rows=_count_grid(drawn),
        ),
    )


def _each(row: RepeatRow, unit: str) -> float:
    return row.per_step if unit == "step" else row.per_layer or 0.0


def _counts_says(rows: Sequence[RepeatRow], drawn: Sequence[RepeatRow], unit: str) -> str:
    first = max(drawn, key=lambda row: (_each(row, unit), row.per_step))
    left = len(rows) - len(drawn)
    outside = f"; {left} more run outside layers, or in layers that are not known" if left else ""
    return (
        f"{first.family} recurs most: {fixed(_each(first, unit), 2)} kernels a {unit} in {first.phase}, "
        f"{fixed(first.per_step, 1)} in a step{outside}."
    )


def _count_bars(
    phase: str, some: Sequence[RepeatRow], families: list[str], unit: str, phases: list[str]
) -> dict[str, object]:
    """Bars of one phase; those of several phases share a row's height."""
    shown = [row for row in some if row.family in families]
    high = 0.78 / len(phases)
    move = (phases.index(phase) - (len(phases) - 1) / 2) * high
    return bars(
        label(phase),
        [families.index(row.family) for row in shown],
        [near(_each(row, unit)) for row in shown],
        palette.filled((palette.phase(phase), "")),
        offset=[round(move - high / 2, 4)] * len(shown),
        width=round(high, 4),
        text=[fixed(_each(row, unit), 2).removesuffix(".00") for row in shown],
        textfont={"size": 10},
        hovertext=[
            hover(
                f"{row.family}, {phase}: {fixed(row.per_step, 1)} kernels a step, {fixed(row.per_layer, 2)} a layer",
                f"{us(row.ns_per_step)} µs a step ({row.evidence})",
            )
            for row in shown
        ],
    )


def _count_grid(drawn: Sequence[RepeatRow]) -> Grid:
    lines = [
        (
            word(row.family),
            word(row.phase),
            number(row.per_layer, 2),
            number(row.per_step, 1),
            in_us(row.ns_per_step),
            word(row.evidence),
        )
        for row in drawn
    ]
    heads = ("family", "phase", "per layer", "per step", "µs/step", "evidence")
    return table("Kernels by family, mean of a step", heads, lines)


def _times(view: View, rows: Sequence[RepeatRow]) -> tuple[Figure, ...]:
    """Kernel time of a mean step by family and what nothing ran in, in per cent of the step's time."""
    found = q.section(view, SummarySection)
    known = {row.phase: row for row in (found.summary.phases if found else ()) if row.step_time_ns and row.steps}
    timed = [row for row in rows if row.ns_per_step and row.phase in known]
    phases = list(dict.fromkeys(row.phase for row in timed))
    if not phases:
        return ()
    named, rest = _largest(timed, known)
    data = [_part(family, [row for row in timed if row.family == family], phases, known) for family in named]
    if rest:
        data.append(_part("other families", rest, phases, known))
    idle = [phase for phase in phases if known[phase].gpu_idle_share is not None]
    if idle:
        data.append(_idle(idle, phases, known))
    return (
        Figure(
            key="repeats-time",
            title="Where a mean step's time goes",
            says=_times_says(timed, known, phases),
            data=tuple(data),
            layout=layout(
                rows_height(len(phases), legend=5),
                axis("% of step time; kernels may run side by side", rangemode="tozero"),
                rows_axis(phases),
                barmode="stack",
                showlegend=True,
            ),
        ),
    )


def _step_ns(row: PhaseRow) -> float:
    return (row.step_time_ns or 0) / row.steps


def _largest(timed: list[RepeatRow], known: dict[str, PhaseRow]) -> tuple[list[str], list[RepeatRow]]:
    """Families with a part of their own, the largest first, and rows of the others."""
    share: dict[str, float] = {}
    for row in timed:
        of = (row.ns_per_step or 0.0) / _step_ns(known[row.phase])
        share[row.family] = max(share.get(row.family, 0.0), of)
    named = [family for family in sorted(share, key=lambda one: -share[one]) if share[family] >= LEAST][:PARTS]
    return named, [row for row in timed if row.family not in named]


def _part(name: str, some: Sequence[RepeatRow], phases: list[str], known: dict[str, PhaseRow]) -> dict[str, object]:
    sums = {phase: sum(row.ns_per_step or 0.0 for row in some if row.phase == phase) for phase in phases}
    here = [phase for phase in phases if sums[phase]]
    return bars(
        label(name),
        [phases.index(phase) for phase in here],
        [near(100 * sums[phase] / _step_ns(known[phase])) for phase in here],
        palette.family(name),
        hovertext=[
            hover(f"{name}, {phase}: {us(sums[phase])} µs a step, {percent(sums[phase] / _step_ns(known[phase]))} %")
            for phase in here
        ],
    )


def _idle(here: list[str], phases: list[str], known: dict[str, PhaseRow]) -> dict[str, object]:
    shares = [known[phase].gpu_idle_share or 0.0 for phase in here]
    return bars(
        "device idle",
        [phases.index(phase) for phase in here],
        [near(100 * share) for share in shares],
        palette.filled(palette.IDLE),
        hovertext=[
            hover(f"device idle, {phase}: {us(share * _step_ns(known[phase]))} µs a step, {percent(share)} %")
            for phase, share in zip(here, shares, strict=True)
        ],
    )


def _times_says(timed: Sequence[RepeatRow], known: dict[str, PhaseRow], phases: Sequence[str]) -> str:
    said = []
    for phase in phases:
        row = known[phase]
        first = max((one for one in timed if one.phase == phase), key=lambda one: one.ns_per_step or 0.0)
        share = (first.ns_per_step or 0.0) / _step_ns(row)
        waits = "idle time not known" if row.gpu_idle_share is None else f"idle {percent(row.gpu_idle_share)} %"
        said.append(
            f"a {phase} step takes {ms(_step_ns(row))} ms ({plural(row.steps, 'step')}): {first.family} {percent(share)} %, {waits}"
        )
    return f"{'; '.join(said)[0].upper()}{'; '.join(said)[1:]}."
