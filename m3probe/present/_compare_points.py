"""The clients' figures in one table: a row for each point, and of each metric its ratio, noise and verdict."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.compare_bench import MetricPair, MetricVerdict, WorkloadPoint
from m3probe.present._numbers import decimals_for, fixed
from m3probe.present._page import Page
from m3probe.present._table import Cell, Column, number, table

RATES = {
    "output_per_gpu": "output tok/s/GPU",
    "output": "output tok/s",
    "total_per_gpu": "total tok/s/GPU",
    "total": "total tok/s",
    "requests": "requests/s",
    "goodput": "goodput/s",
}
STYLES = {
    MetricVerdict.BETTER: "good",
    MetricVerdict.WORSE: "bad",
    MetricVerdict.SAME: "dim",
    MetricVerdict.UNPROVEN: "warn",
}
_FIRST, _AFTER, _WHOLE = ("ttft",), ("tpot", "itl"), ("e2el",)
POINTS_SHOWN = 12
WIDE = 0.10
"""Noise from which on nothing is called the same."""


def points_table(page: Page, pairs: Sequence[MetricPair]) -> None:
    """Throughput, per GPU where that is known, first token, time per token; the whole request where neither was measured."""
    kinds = headline(pairs)
    points = list(dict.fromkeys(row.point for rows in kinds for row in rows))
    if not points:
        return
    alike = same_lengths(pairs)
    columns = [Column("")]
    for place, rows in enumerate(kinds):
        columns += [number(head(rows[0])), number("before → after", drop=len(kinds) - place)]
    told = [(_verdicts(rows), _values(rows)) for rows in kinds]
    lines: list[list[Cell]] = []
    for point in points[:POINTS_SHOWN]:
        shown = next(row for rows in kinds for row in rows if row.point == point)
        line: list[Cell] = [label(shown, alike=alike)]
        for verdicts, values in told:
            line += [verdicts.get(point, ""), values.get(point, "")]
        lines.append(line)
    table(page, columns, lines)
    more = [f"{len(points) - POINTS_SHOWN} more points in --json"] if len(points) > POINTS_SHOWN else []
    more += ["a verdict with ?: the noise is not known"] if any(_unsure(row) for rows in kinds for row in rows) else []
    if more:
        page.say(("; ".join(more), "dim"), indent=2, hang=2)


def label(row: MetricPair, *, alike: bool) -> str:
    """``c8``, with the request rate where one was asked for and the lengths where they are not those of every point."""
    point = row.point
    load = "no limit" if point.concurrency is None else f"c{point.concurrency:,}"
    load = load if point.request_rate is None else f"{load} {point.request_rate:g}/s"
    return load if alike or not (point.isl or point.osl) else f"{load} {point.isl or '?'}/{point.osl or '?'}"


def same_lengths(pairs: Sequence[MetricPair]) -> bool:
    """Whether all points have the same lengths, so that one line tells them."""
    return len({(row.point.isl, row.point.osl) for row in pairs}) < 2


def headline(pairs: Sequence[MetricPair]) -> list[list[MetricPair]]:
    """Throughput, time to the first token, time per token, each over its points; the whole request where neither is known."""
    kinds = [_rate(pairs), _latency(pairs, _FIRST), _latency(pairs, _AFTER)]
    return [rows for rows in kinds if rows] or [_latency(pairs, _WHOLE)]


def _rate(pairs: Sequence[MetricPair]) -> list[MetricPair]:
    return next((found for name in RATES if (found := [row for row in pairs if row.metric == name])), [])


def _latency(pairs: Sequence[MetricPair], names: Sequence[str]) -> list[MetricPair]:
    """The first metric that was measured, by its mean, else by its median."""
    for name in names:
        for of in ("mean", "median"):
            found = [row for row in pairs if (row.metric, row.of) == (name, of)]
            if found:
                return found
    return []


def head(row: MetricPair) -> str:
    return RATES.get(row.metric) or f"{'' if row.of == 'mean' else row.of + ' '}{row.metric.upper()} {row.unit}"


def _verdicts(rows: Sequence[MetricPair]) -> dict[WorkloadPoint, Cell]:
    """Point -> ratio, noise and verdict, each below that of the other points."""
    parts = [(f"{row.ratio:.3f}", _noise(row), _word(row)) for row in rows]
    ratio, noise, word = (max(map(len, column)) for column in zip(*parts, strict=True))
    texts = [
        " ".join(text for text in (f"{x:>{ratio}}", f"{y:<{noise}}", f"{z:<{word}}") if text.strip() or noise)
        for x, y, z in parts
    ]
    return {row.point: (text, STYLES[row.verdict]) for row, text in zip(rows, texts, strict=True)}


def _noise(row: MetricPair) -> str:
    return "" if row.band is None else f"±{row.band:.3f}" if row.band < 0.1 else f"±{row.band:.2f}"


def _word(row: MetricPair) -> str:
    """``same`` only where a difference would have been seen."""
    if row.verdict is MetricVerdict.SAME and (row.band or 0.0) >= WIDE:
        return "in noise"
    return f"{row.direction}?" if _unsure(row) else str(row.verdict)


def _unsure(row: MetricPair) -> bool:
    return row.verdict is MetricVerdict.UNPROVEN


def _values(rows: Sequence[MetricPair]) -> dict[WorkloadPoint, Cell]:
    """Point -> figures of both, with their arrows below each other."""
    decimals = max(decimals_for([x for row in rows for x in (row.a.value, row.b.value)]), 1)
    sides = [(fixed(row.a.value, decimals), fixed(row.b.value, decimals)) for row in rows]
    before, after = (max(map(len, side)) for side in zip(*sides, strict=True))
    return {row.point: f"{a:>{before}} → {b:>{after}}" for row, (a, b) in zip(rows, sides, strict=True)}
