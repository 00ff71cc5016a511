"""The bytes page's rows of hardware counters: what each counted kernel fetched, beside the least that it must."""

from __future__ import annotations

from m3probe.model.counter_report import CounterRow, CountersSection
from m3probe.model.view import View
from m3probe.present._counters import NO_SERVING_TIME, span
from m3probe.present._numbers import fixed
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Line, Said

_COLUMNS = (
    Column("counted kernel", wide=True),
    Column("workgroups", right=True, keep=4),
    Column("dispatches", right=True, keep=3),
    Column("read MB", right=True),
    Column("written MB", right=True, keep=1),
    Column("least read MB", right=True, keep=1),
    Column("x", right=True),
    Column("GB/s", right=True, keep=2),
    Column("note", keep=5),
)


def counter_blocks(view: View) -> list[Block]:
    """A table, and that its times are none of serving; nothing where nothing was counted."""
    found = q.section(view, CountersSection)
    if found is None or not found.counters.rows:
        return []
    lines = q.keyed(Line(f"{row.kernel} {row.groups}", _cells(row)) for row in found.counters.rows)
    told = [Said(text, q.UNPROVEN) for text in found.counters.unknown]
    grid = Grid("Hardware counters, mean of one dispatch", _COLUMNS, lines)
    return [grid, Said(NO_SERVING_TIME, dim=True), *told]


def _cells(row: CounterRow) -> tuple[Cell, ...]:
    return (
        q.word(row.kernel),
        q.number(row.groups),
        q.number(row.dispatches),
        Cell(span(row.read_bytes_low, row.read_bytes_high, 1e6), row.read_bytes_high),
        Cell(span(row.written_bytes_low, row.written_bytes_high, 1e6), row.written_bytes_high),
        Cell(fixed(None if row.least_read_bytes is None else row.least_read_bytes / 1e6, 2), row.least_read_bytes),
        Cell(span(row.refetch_low, row.refetch_high, 1.0), row.refetch_low),
        Cell(span(row.bytes_per_s_low, row.bytes_per_s_high, 1e9, 0), row.bytes_per_s_low),
        q.word(row.note),
    )
