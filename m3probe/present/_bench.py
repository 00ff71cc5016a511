"""What the client saw: one line a benchmark run, and where its requests were."""

from __future__ import annotations

from collections.abc import Iterable

from m3probe.model.bench_report import BenchRow, BenchSection, SweepStep
from m3probe.present._numbers import fixed
from m3probe.present._page import Page
from m3probe.present._table import Cell, Column, number, table

ROWS_SHOWN = 24


def bench(page: Page, section: BenchSection | None) -> None:
    """The block of benchmark runs; nothing where there are none, as most recordings have none."""
    if section is None or not section.runs:
        return
    page.heading("Benchmark", "what the client saw")
    shown = section.runs[:ROWS_SHOWN]
    columns = (
        Column("run", least=14, title=True),
        number("conc"),
        number("GPUs", drop=4),
        number("done"),
        number("failed"),
        number("req/s"),
        number("out tok/s", drop=3),
        number("tok/s/GPU", drop=5),
        number(f"TTFT ms{_of(row.ttft_of for row in shown)}"),
        number("p99", drop=6),
        number(f"TPOT ms{_of(row.tpot_of for row in shown)}"),
        number("waiting"),
        number("decoding"),
        number("in flight", drop=2),
    )
    table(page, columns, [_line(row) for row in shown])
    if len(section.runs) > len(shown):
        page.say((f"{len(section.runs) - len(shown):,} more in --json", "dim"), indent=2)
    for row in shown:
        _states(page, row, named=len(shown) > 1)
    for step in section.steps:
        _step(page, step)


def _of(words: Iterable[str]) -> str:
    """`` (median)`` where every run that has the figure has that one."""
    found = {word for word in words if word}
    return f" ({found.pop()})" if len(found) == 1 else ""


def _line(row: BenchRow) -> tuple[Cell, ...]:
    return (
        row.name,
        _count(row.max_concurrency),
        _count(row.num_gpus),
        _count(row.completed),
        (_count(row.failed), "bad" if row.failed else ""),
        _figure(row.request_throughput, 3),
        _figure(row.output_throughput, 1),
        _figure(row.total_per_gpu, 1),
        _figure(row.ttft_ms, 1),
        _figure(row.ttft_p99_ms, 1),
        _figure(row.tpot_ms, 2),
        _figure(row.waiting, 1),
        _figure(row.decoding, 1),
        _figure(row.in_flight, 1),
    )


def _count(value: int | None) -> str:
    return fixed(value)


def _figure(value: float | None, decimals: int) -> str:
    return fixed(value, decimals)


def _states(page: Page, row: BenchRow, *, named: bool) -> None:
    """Where its requests were, by Little's law, and whether the run agrees with that."""
    head = f"{row.name}: " if named else ""
    if not row.comparable:
        page.say(
            (f"{head}not comparable: its figures stand for less than 99 % of the requests", "warn"), indent=2, hang=2
        )
    if row.waiting is None or row.decoding is None:
        return
    text = (
        f"{head}{row.waiting:,.1f} requests waiting for their first token, {row.decoding:,.1f} decoding, "
        f"{row.waiting + row.decoding:,.1f} in flight"
    )
    if row.expected is not None:
        agrees = {True: "agrees within 10 %", False: "does not agree within 10 %", None: "not told"}[row.consistent]
        text += f"; the client kept {row.expected:,}, which {agrees}"
    if row.measured_in_flight is not None:
        text += f"; by its own list {row.measured_in_flight:,.1f}"
    page.say((text, "warn" if row.consistent is False else "dim"), indent=2, hang=2)


def _step(page: Page, step: SweepStep) -> None:
    ttft = "TTFT not known" if step.ttft_ratio is None else f"TTFT x{step.ttft_ratio:.2f}"
    knee = ": the knee" if step.knee else ""
    text = f"concurrency {step.low_concurrency:,} -> {step.high_concurrency:,}: a doubling gains {step.gain:+.1%} tokens/s, {ttft}{knee}"
    page.say((text, "warn" if step.knee else ""), indent=2, hang=2)
