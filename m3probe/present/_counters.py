"""What hardware counters say of bytes, kernel by kernel, and that their times are none of serving."""

from __future__ import annotations

from m3probe.model.counter_report import CounterRow, CountersSection
from m3probe.present._numbers import UNKNOWN, fixed, percent, us
from m3probe.present._page import Page
from m3probe.present._table import Column, number, table

ROWS_SHOWN = 8
NO_SERVING_TIME = (
    "Counting makes kernels run one at a time: these times are in no step, share or bound. Bytes are what the L2 fetched and "
    "wrote; the Infinity Cache may have served them."
)


def counters(page: Page, section: CountersSection | None) -> None:
    """The kernels of most bytes; nothing where nothing was counted."""
    if section is None or not (section.counters.rows or section.counters.unknown):
        return
    found = section.counters
    page.heading("counters", "bytes beyond the L2, beside the least that must be read")
    shown = found.rows[:ROWS_SHOWN]
    if shown:
        _rows(page, shown)
        page.say((NO_SERVING_TIME, "dim"), indent=2, hang=2)
    if len(found.rows) > len(shown):
        page.say((f"{len(found.rows) - len(shown):,} more in --json", "dim"), indent=2)
    for text in found.unknown:
        page.say(f"? {text}", indent=2, hang=2)
    for text in dict.fromkeys(row.note for row in shown if row.note):
        page.say(f"? {text}", indent=2, hang=2)


def _rows(page: Page, shown: tuple[CounterRow, ...]) -> None:
    columns = (
        Column("one dispatch, mean", title=True, least=18),
        number("dispatches", drop=4),
        number("read MB"),
        number("written MB", drop=2),
        number("least read MB", drop=1),
        number("x"),
        number("µs alone", drop=5),
        number("GB/s", drop=3),
        number("% of peak", drop=3),
    )
    table(page, columns, [_row(row) for row in shown])


def _row(row: CounterRow) -> tuple[str, ...]:
    return (
        f"{row.kernel} [{UNKNOWN if row.groups is None else f'{row.groups:,}'}]",
        fixed(row.dispatches),
        span(row.read_bytes_low, row.read_bytes_high, 1e6),
        span(row.written_bytes_low, row.written_bytes_high, 1e6),
        span(row.least_read_bytes, row.least_read_bytes, 1e6),
        span(row.refetch_low, row.refetch_high, 1.0),
        us(row.time_ns),
        span(row.bytes_per_s_low, row.bytes_per_s_high, 1e9, 0),
        "" if row.peak_share_low is None else _percent(row),
    )


def span(low: float | None, high: float | None, unit: float, decimals: int = 2) -> str:
    """One figure, or both ends: ``4.20-8.40``."""
    if low is None or high is None:
        return UNKNOWN
    ends = (fixed(low / unit, decimals), fixed(high / unit, decimals))
    return ends[0] if ends[0] == ends[1] else "-".join(ends)


def _percent(row: CounterRow) -> str:
    ends = (percent(row.peak_share_low), percent(row.peak_share_high))
    return ends[0] if ends[0] == ends[1] else "-".join(ends)
