"""What the client saw of each benchmark run: both latencies, and where its requests were by Little's law."""

from __future__ import annotations

from m3probe.model.bench_report import BenchRow, BenchSection
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Block, Column, Grid, Line

BENCH = (
    Column("run", wide=True),
    Column("concurrency", right=True, keep=2),
    Column("TTFT ms", right=True),
    Column("TTFT of", keep=4),
    Column("TPOT ms", right=True),
    Column("TPOT of", keep=4),
    Column("waiting", right=True, keep=1),
    Column("decoding", right=True, keep=1),
    Column("in flight", right=True),
    Column("expected", right=True, keep=3),
    Column("Little's law"),
)
AGREES = {True: ("agrees", q.GOOD), False: ("differs", q.WARN), None: ("not told", q.UNPROVEN)}


def client(found: BenchSection | None) -> list[Block]:
    """What the client saw of each run: both latencies, and where its requests were."""
    if found is None or not found.runs:
        return []
    return [
        Grid(
            "What the client saw (recorded; waiting, decoding and in flight computed)",
            BENCH,
            q.keyed(map(_run, found.runs)),
        )
    ]


def _run(row: BenchRow) -> Line:
    said, mark = AGREES[row.consistent]
    cells = (
        q.word(row.name),
        q.number(row.max_concurrency),
        q.number(row.ttft_ms, 1),
        q.word(row.ttft_of),
        q.number(row.tpot_ms, 2),
        q.word(row.tpot_of),
        *(q.number(value, 1) for value in (row.waiting, row.decoding, row.in_flight)),
        q.number(row.expected),
        q.word(said, mark),
    )
    return Line(row.name, cells)
