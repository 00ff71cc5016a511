"""Benchmark points of the runs: throughput against latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from m3probe.model.compare_bench import MetricPair, Sample, WorkloadPoint
from m3probe.model.compare_report import CompareReport
from m3probe.model.view import View
from m3probe.present._compare_points import head, headline
from m3probe.present._numbers import fixed
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures import _compare_look as look
from m3probe.present.html.figures._plot import axis, hover, label
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Column, Grid, Line

Points = dict[WorkloadPoint, tuple[Sample, Sample]]
"""Point -> (latency, rate)."""
APART = (0.14, 0.07)
"""Shares of both axes within which a second label would lie on the first, on a phone."""
AFTER, RATES = ("tpot", "itl", "e2el"), ("output", "total", "requests", "goodput")


def figures(view: View) -> tuple[Figure, ...]:
    """Every run's points in one plot; nothing where throughput and a latency were not measured at one point of both."""
    return _figure(view.compare) if view.compare else ()


def _figure(found: CompareReport) -> tuple[Figure, ...]:
    axes = _axes(found)
    if axes is None:
        return ()
    rate, latency = axes
    runs = _points(found, rate, latency)
    drawn = [(name, at, x, y) for name, mine in runs.items() for at, (x, y) in mine.items()]
    names = look.distinct(list(runs))
    told_at = _told_at(runs)
    many = not look.alike(at for _, at, _, _ in drawn)
    told = [f"{name} {_at(at, many=many)}: {fixed(y.value, 1)} at {fixed(x.value, 1)}" for name, at, x, y in drawn]
    return (
        Figure(
            key="points",
            title="Throughput against latency: which run is further up and to the left?",
            says=f"{head(rate)} at {head(latency)}: {look.listed(told[:9])}{f'; {len(told) - 9:,} more' if len(told) > 9 else ''}",
            data=tuple(
                _line(name, run, runs[run], at, told_at, many=many)
                for at, (name, run) in enumerate(zip(names, runs, strict=True))
            ),
            layout=_layout(head(latency), head(rate)),
            rows=_rows(rate, latency, runs),
        ),
    )


def _axes(found: CompareReport) -> tuple[MetricPair, MetricPair] | None:
    """A rate and a latency that some pair measured at one point."""
    for pair in found.pairs:
        kinds = headline(pair.metrics.pairs) if pair.metrics else []
        rates = [rows[0] for rows in kinds if rows and rows[0].metric.startswith(RATES)]
        waits = [rows[0] for word in AFTER for rows in kinds if rows and rows[0].metric == word]
        waits += [rows[0] for rows in kinds if rows and rows[0].metric == "ttft"]
        if rates and waits:
            return rates[0], waits[0]
    return None


def _points(found: CompareReport, rate: MetricPair, latency: MetricPair) -> dict[str, Points]:
    """Run -> point -> (latency, rate)."""
    runs: dict[str, Points] = {}
    for pair in look.pairs_of(found):
        measured = pair.metrics.pairs if pair.metrics else ()
        rates, waits = (
            {one.point: one for one in measured if (one.metric, one.of) == (kind.metric, kind.of)}
            for kind in (rate, latency)
        )
        for at in (at for at in rates if at in waits):
            runs.setdefault(pair.before, {}).setdefault(at, (waits[at].a, rates[at].a))
            runs.setdefault(pair.after, {})[at] = (waits[at].b, rates[at].b)
    return runs


def _at(at: WorkloadPoint, *, many: bool) -> str:
    load = "no limit" if at.concurrency is None else f"c{at.concurrency:,}"
    load = load if at.request_rate is None else f"{load} {at.request_rate:g}/s"
    return f"{load} {at.isl or '?'}/{at.osl or '?'}" if many else load


def _line(
    name: str, run: str, mine: Points, place: int, told_at: set[tuple[str, WorkloadPoint]], *, many: bool
) -> dict[str, Any]:
    order = sorted(mine, key=lambda at: (at.isl, at.osl, at.concurrency or 0, at.request_rate or 0.0))
    colour = look.RUNS[place % len(look.RUNS)]
    return {
        "type": "scatter",
        "mode": "markers+text" if many else "lines+markers+text",
        "name": name,
        "x": [round(mine[at][0].value, 4) for at in order],
        "y": [round(mine[at][1].value, 4) for at in order],
        "error_x": _errors([mine[at][0] for at in order], colour),
        "error_y": _errors([mine[at][1] for at in order], colour),
        "text": [label(_at(at, many=many)) if (run, at) in told_at else "" for at in order],
        "textposition": "top center",
        "hovertext": [_hover(run, _at(at, many=True), *mine[at]) for at in order],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "customdata": [look.run_target(run)] * len(order),
        "marker": {"size": 9, "color": colour, "symbol": ("circle", "square", "diamond", "cross", "x")[place % 5]},
        "line": {"color": colour, "width": 1.5},
    }


def _errors(samples: Sequence[Sample], colour: str) -> dict[str, Any]:
    """Standard errors; what has none has no whisker."""
    return {
        "type": "data",
        "array": [None if one.error is None else round(one.error, 4) for one in samples],
        "thickness": 1,
        "width": 3,
        "color": colour,
    }


def _hover(run: str, at: str, latency: Sample, rate: Sample) -> str:
    told = [
        f"{what} {fixed(one.value, 2)}{'' if one.error is None else f' ± {fixed(one.error, 2)} ({one.error_of})'}"
        for what, one in (("latency", latency), ("rate", rate))
    ]
    return hover(f"{run}, {at}", *told)


def _layout(x: str, y: str) -> dict[str, Any]:
    across, up = axis(f"{x} (less is better)", rangemode="tozero"), axis(y, rangemode="tozero")
    return look.points_layout(440, across, up)


def _told_at(runs: dict[str, Points]) -> set[tuple[str, WorkloadPoint]]:
    """Points that carry their label: those that no labelled one lies beside, so that no text lies on another."""
    every = [(run, at, mine[at][0].value, mine[at][1].value) for run, mine in runs.items() for at in mine]
    wide = APART[0] * (max(x for _, _, x, _ in every) or 1.0)
    high = APART[1] * (max(y for _, _, _, y in every) or 1.0)
    kept: dict[tuple[str, WorkloadPoint], tuple[float, float]] = {}
    for run, at, x, y in every:
        if all(abs(x - left) > wide or abs(y - up) > high for left, up in kept.values()):
            kept[run, at] = (x, y)
    return set(kept)


def _rows(
    rate: MetricPair,
    latency: MetricPair,
    runs: dict[str, Points],
) -> Grid:
    columns = (
        Column("run"), Column("at"), Column(head(latency), right=True), Column("± latency", right=True),
        Column(head(rate), right=True), Column("± rate", right=True),
    )  # fmt: skip
    lines = q.keyed(
        Line(
            f"{run} {_at(at, many=True)}",
            (
                q.word(run), q.word(_at(at, many=True)), q.number(wait.value, 2), q.number(wait.error, 2),
                q.number(per_s.value, 2), q.number(per_s.error, 2),
            ),
            look.run_target(run),
        )
        for run, mine in runs.items()
        for at, (wait, per_s) in mine.items()
    )  # fmt: skip
    return Grid("Benchmark points; ± is the standard error", columns, lines)
