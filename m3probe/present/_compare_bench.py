"""Two sets of benchmark runs, and operations over their rows in two recordings, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.model.compare_bench import (
    BenchComparison,
    Crossing,
    Law,
    MetricPair,
    MetricVerdict,
    OpCrossing,
    Sample,
)
from m3probe.present._compare_points import STYLES, label, points_table, same_lengths
from m3probe.present._numbers import UNKNOWN, decimals_for, fixed, plural
from m3probe.present._page import Page
from m3probe.present._ran import bar
from m3probe.present._table import Cell, Column, number, table

_BAR = 12
_LEAST_BAR = 0.05
"""Gain that fills the bar where no gain is larger: a tenth of a per cent must not look like a doubling."""
_NAMES = {
    "output_per_gpu": "output tokens/s per GPU",
    "output": "output tokens/s",
    "total_per_gpu": "tokens/s per GPU, in and out",
    "total": "tokens/s, in and out",
    "requests": "requests/s",
    "goodput": "requests/s in time (goodput)",
    "prefix_hit_rate": "prefix cache hit rate",
}
_OF_EACH = {"output": "output_per_gpu", "total": "total_per_gpu"}
OPS_SHOWN, REST_SHOWN, POINTS_SHOWN = 8, 10, 12


def bench_block(page: Page, found: BenchComparison, *, explain: bool) -> None:
    """A table of ratios over the points, then what follows from them; nothing where nothing was measured.

    Args:
        explain: a table for each metric, and laws that the figures do not decide.
    """
    if not found.known and not found.left_out:
        return
    page.heading("Benchmark, after over before", "what the client saw")
    if not found.pairs:
        page.say("No point was measured by both.", indent=2)
    alike = same_lengths(found.pairs)
    if alike and found.pairs and (text := _lengths(found.pairs[0])):
        page.say((text, "dim"), indent=2)
    if explain:
        for rows in _kinds(found.pairs):
            _metric(page, rows, alike=alike)
    else:
        points_table(page, found.pairs)
    _sentences(page, found, explain=explain)
    for out in found.left_out:
        page.say((f"left out of {out.side.upper()}: {out.name}: {out.why}", "warn"), indent=2, hang=2)
    for note in found.notes:
        page.say((note, "dim"), indent=2, hang=2)


def _sentences(page: Page, found: BenchComparison, *, explain: bool) -> None:
    """The phase that gained, crossings and gates, laws, and what the answers were worth."""
    placed = found.place if found.place and (explain or found.place.phase != "none") else None
    said = [placed.claim] if placed else []
    said += [text for one in found.crossings for text in (one.claim, *(gate.claim for gate in one.gates))]
    for text in said:
        page.say(text[:1].upper() + text[1:], indent=2, hang=2)
    for law in found.scaling:
        if explain or law.law is not Law.UNPROVEN:
            page.say((str(law.law), "bold"), f": {law.claim}", indent=2, hang=2)
            page.say((f"what would decide: {law.decide}", "dim"), indent=4, hang=2)
    if found.evaluation is not None:
        style = STYLES[found.evaluation.verdict]
        page.say((str(found.evaluation.verdict), style), f": {found.evaluation.claim}", indent=2, hang=2)


def _kinds(pairs: Sequence[MetricPair]) -> Iterator[list[MetricPair]]:
    """Pairs by metric; of a latency the mean, else the median, and totals only where they tell more than per GPU."""
    by_kind: dict[tuple[str, str], list[MetricPair]] = {}
    for pair in pairs:
        by_kind.setdefault((pair.metric, pair.of), []).append(pair)
    rates = {metric for metric, of in by_kind if metric.startswith(("output", "total"))}
    for (metric, of), rows in by_kind.items():
        if metric == "requests" and rates:
            continue  # tokens a second over the tokens of a request
        each = by_kind.get((_OF_EACH.get(metric, ""), ""))
        if each is not None and [f"{row.ratio:.6f}" for row in each] == [f"{row.ratio:.6f}" for row in rows]:
            continue
        if of == "p99" or (of == "median" and len(by_kind.get((metric, "mean"), ())) >= len(rows)):
            continue
        yield rows


def _metric(page: Page, rows: Sequence[MetricPair], *, alike: bool) -> None:
    first = rows[0]
    name = _NAMES.get(first.metric, f"{first.of} {first.metric.upper()} ms")
    decimals = (
        4 if first.unit == "share" else max(decimals_for([x for row in rows for x in (row.a.value, row.b.value)]), 1)
    )
    columns = (
        Column(name, title=True),
        number("A"),
        number("±", drop=3),
        number("B"),
        number("±", drop=3),
        number("ratio"),
        number("noise ±", drop=2),
        Column(""),
        Column("", drop=4),
    )
    most = max(_LEAST_BAR, *(abs(row.gain) for row in rows))
    page.blank()
    table(page, columns, [_line(page, row, decimals, most, alike=alike) for row in rows])


def _line(page: Page, row: MetricPair, decimals: int, most: float, *, alike: bool) -> tuple[Cell, ...]:
    style = STYLES[row.verdict]
    return (
        label(row, alike=alike),
        fixed(row.a.value, decimals),
        _error(row.a, decimals),
        fixed(row.b.value, decimals),
        _error(row.b, decimals),
        f"{row.ratio:.4f}" if abs(row.ratio - 1) < 0.01 else f"{row.ratio:.3f}",
        UNKNOWN if row.band is None else f"{row.band:.3f}",
        (_word(row), style),
        (page.clean(bar(abs(row.gain), most, _BAR)), style),
    )


def _word(row: MetricPair) -> str:
    """Where the noise is not known, what the bare figures say stands beside it."""
    return f"{row.verdict} ({row.direction})" if row.verdict is MetricVerdict.UNPROVEN else str(row.verdict)


def _lengths(row: MetricPair) -> str:
    known = ((row.point.isl, "in"), (row.point.osl, "out"))
    return ", ".join(f"{text} tokens {side}" for text, side in known if text)


def _error(sample: Sample, decimals: int) -> str:
    return "" if sample.error is None else fixed(sample.error, decimals)


def crossing_block(page: Page, found: Crossing, *, explain: bool) -> None:
    """Operations whose faster side changes over M, or that have a gate, each with its table.

    Args:
        explain: a line for each of the others too, or that there is none.
    """
    told = [op for op in found.ops if op.crossovers or op.gates]
    rest = [op for op in found.ops if op not in told and len(op.points) > 1] if explain else []
    if not found.ops or not (told or explain):
        return
    page.heading("Over rows", "which of the two is faster at which M")
    for op in told[:OPS_SHOWN]:
        _op(page, op)
    if rest:
        page.blank()
        page.say(
            "No crossing at what both measured:" if told else "No operation crosses at what both measured:", indent=2
        )
        columns = (Column("operation", least=16), Column("M"), number("B/A"), Column("of a"))
        table(page, columns, [_short(op) for op in rest[:REST_SHOWN]])
    if not told and not rest:
        page.say("No operation was timed at more than one M by both: where they would cross is not known.", indent=2)
    more = max(len(told) - OPS_SHOWN, 0) + max(len(rest) - REST_SHOWN, 0)
    if more:
        page.say((f"{plural(more, 'more operation')} in --json", "dim"), indent=2)


def _short(op: OpCrossing) -> tuple[Cell, ...]:
    """Of an operation on one side throughout: the ends of its M and of its ratios."""
    ratios = [point.ratio for point in op.points]
    both = dict.fromkeys(f"{one:.3f}" for one in (min(ratios), max(ratios)))
    return _name(op), f"{op.points[0].M:,} to {op.points[-1].M:,}", " to ".join(both), op.unit


def _name(op: OpCrossing) -> str:
    return " ".join(word for word in (op.op, op.shape, op.phase) if word)


def _op(page: Page, op: OpCrossing) -> None:
    columns = (
        Column(_name(op), least=16, title=True),
        number(f"A us/{op.unit}"),
        number(f"{op.unit}s", drop=3),
        number(f"B us/{op.unit}"),
        number(f"{op.unit}s", drop=3),
        number("B/A"),
    )
    page.blank()
    rows: list[tuple[Cell, ...]] = [
        (
            f"M {point.M:,}",
            fixed(point.a_ns / 1e3, 1),
            fixed(point.a_calls),
            fixed(point.b_ns / 1e3, 1),
            fixed(point.b_calls),
            (f"{point.ratio:.3f}", "good" if point.ratio < 1 else "bad" if point.ratio > 1 else ""),
        )
        for point in op.points[:POINTS_SHOWN]
    ]
    table(page, columns, rows)
    if len(op.points) > POINTS_SHOWN:
        page.say((f"{len(op.points) - POINTS_SHOWN:,} more values of M in --json", "dim"), indent=4)
    page.say(op.claim, indent=4, hang=2)
    for gate in op.gates:
        page.say((gate.claim, "" if gate.verdict == "at" else "warn"), indent=4, hang=2)
    if op.simulated is not None:
        page.say((op.simulated.claim, "" if op.simulated.proven else "dim"), indent=4, hang=2)
