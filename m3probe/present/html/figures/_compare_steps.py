"""How step times of each run lie beside those of the others: five figures a box, over all steps of a group."""

from __future__ import annotations

from typing import Any

from m3probe.model.compare_report import CompareReport
from m3probe.model.compare_run import StepTimes
from m3probe.model.view import View
from m3probe.present._numbers import ms, plural
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import label
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Column, Grid, Line

MOST_GROUPS = 6
"""Groups of steps drawn: those that two runs have at least, where there are any."""
LOG_FROM = 30.0
"""Longest over shortest step from which on the axis is logarithmic."""
Group = tuple[str, int | None]


def figures(view: View) -> tuple[Figure, ...]:
    """One figure for all runs; nothing where no run's steps have times."""
    return _figure(view.compare) if view.compare else ()


def _figure(found: CompareReport) -> tuple[Figure, ...]:
    times = {run.name: {(one.phase, one.rows): one for one in run.steps} for run in found.runs[: look.MOST_RUNS]}
    runs = {group: [name for name, mine in times.items() if group in mine] for mine in times.values() for group in mine}
    groups = sorted(runs, key=lambda g: (-len(runs[g]), -sum(times[n][g].steps for n in runs[g])))
    if not groups:
        return ()
    shared = [group for group in groups if len(runs[group]) > 1]
    shown = (shared or groups)[:MOST_GROUPS]
    known = [times[name][group] for group in shown for name in runs[group]]
    more = (
        f"; {plural(len(groups) - len(shown), 'more group')} of steps in the table" if len(groups) > len(shown) else ""
    )
    told = [_said(name, times[name][group]) for group in shown for name in runs[group]]
    return (
        Figure(
            key="steps",
            title="How long do steps take in each run?",
            says=f"Median step times (box: quartiles; ends: the shortest and the longest step): {look.listed(told[:8])}{more}{look.left_out(found)}",
            data=tuple(_boxes(times, shown)),
            layout=_layout(known, len(told)),
            rows=_rows(found),
        ),
    )


def _boxes(times: dict[str, dict[Group, StepTimes]], shown: list[Group]) -> list[dict[str, Any]]:
    traces = []
    names = look.distinct(list(times))
    for at, (run, mine) in enumerate(times.items()):
        here = [mine[group] for group in shown if group in mine]
        if here:
            colour = look.RUNS[at % len(look.RUNS)]
            traces.append(
                {
                    "type": "box",
                    "orientation": "h",
                    "name": names[at],
                    "y": [_group(one) for one in here],
                    "lowerfence": [_ms(one.low_ns) for one in here],
                    "q1": [_ms(one.q1_ns) for one in here],
                    "median": [_ms(one.median_ns) for one in here],
                    "q3": [_ms(one.q3_ns) for one in here],
                    "upperfence": [_ms(one.high_ns) for one in here],
                    "customdata": [look.run_target(run)] * len(here),
                    "marker": {"color": colour},
                    "line": {"color": colour},
                }
            )
    return traces


def _ms(ns: float) -> float:
    return round(ns / 1e6, 4)


def _group(one: StepTimes) -> str:
    return label(one.phase if one.rows is None else f"{one.phase}, ≤ {one.rows:,} rows")


def _said(run: str, one: StepTimes) -> str:
    rows = "" if one.rows is None else f", ≤ {one.rows:,} rows"
    return f"{run} {one.phase}{rows}: {ms(one.median_ns)} ms ({ms(one.low_ns)} to {ms(one.high_ns)}, {plural(one.steps, 'step')})"


def _layout(known: list[StepTimes], boxes: int) -> dict[str, Any]:
    low, high = min(one.low_ns for one in known), max(one.high_ns for one in known)
    wide = low > 0 and high / low >= LOG_FROM
    kind = {"type": "log"} if wide else {"rangemode": "tozero"}
    words = look.bars_layout(boxes, "ms a step", legend=True, **kind)
    return {**words, "boxmode": "group", "boxgap": 0.3}


def _rows(found: CompareReport) -> Grid:
    columns = (
        Column("run"),
        Column("phase"),
        Column("rows ≤", right=True),
        Column("steps", right=True),
        *(
            Column(name, right=True)
            for name in ("ms least", "ms lower quarter", "ms median", "ms upper quarter", "ms most")
        ),
    )
    lines = q.keyed(
        Line(
            f"{run.name} {one.phase} {one.rows}",
            (
                q.word(run.name),
                q.word(one.phase),
                q.number(one.rows),
                q.number(one.steps),
                *(q.scaled(ns, 1e6, 3) for ns in (one.low_ns, one.q1_ns, one.median_ns, one.q3_ns, one.high_ns)),
            ),
            look.run_target(run.name),
        )
        for run in found.runs
        for one in run.steps
    )
    return Grid("Step times", columns, lines)
