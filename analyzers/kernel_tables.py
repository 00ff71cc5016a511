"""torch's kernel tables beside the trace: what they count differently, and what they say where there is no trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from m3probe.analyzers._kernel_tables import Beside, Difference, Total, beside
from m3probe.analyzers._view import ms, percent
from m3probe.model.findings import Evidence, Finding
from m3probe.model.kernel_table import KernelTable
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.plugs import Analyzer

SHOWN = 3


def judge(rec: Recording, _so_far: Answer) -> Answer:
    """Findings alone: a table has no time line, so that no row of the report can be made of it."""
    found = beside(rec)
    compared = {id(pair.table) for pair in found}
    alone = [table for table in rec.meta.kernel_tables if table.kernels and id(table) not in compared]
    made = [one for pair in found for one in _differs(rec, pair)]
    return Answer(findings=(*made, *(one for table in alone for one in _alone(table))))


ANALYZER = Analyzer(title="Do the profiler's own totals agree?", order=35, judge=judge)


def _differs(rec: Recording, pair: Beside) -> Iterator[Finding]:
    if not pair.differs:
        return
    table, trace = Path(pair.table.path).name, Path(rec.files[pair.file].path).name
    said = [_difference(one) for one in pair.differs[:SHOWN]]
    yield Finding(
        id=f"kernel_tables.differs.{pair.table.file}.{pair.table.index}",
        question="repeats",
        verdict="differs",
        claim=f"{table} and {trace} are of one folder and rank and count {len(pair.differs):,} of {pair.names:,} kernel names "
        f"differently: {said[0]}",
        where=table,
        evidence=(
            Evidence(
                "kernel_tables",
                (pair.table.file,),
                len(pair.differs),
                "; ".join(said),
                "equal calls, and times equal but for rounding",
            ),
        ),
        advice="They are of different windows, or one of them lost records: use the trace for what ran, and record again if it has "
        "fewer calls than the table",
        confidence="medium",
    )


def _difference(one: Difference) -> str:
    return f"{one.name}: table {_total(one.table)}, trace {_total(one.trace)}"


def _total(total: Total | None) -> str:
    return "none" if total is None else f"{total.calls:,} calls, {ms(total.time_ns)}"


def _alone(table: KernelTable) -> Iterator[Finding]:
    """A table whose trace is not here: sums by kernel, and what they cannot tell."""
    whole = table.device_total_ns or table.kernel_ns
    first = max(table.kernels, key=lambda row: row.self_ns)
    most = f"{first.name} takes {ms(first.self_ns)} in {first.calls:,} calls"
    share = f", {percent(first.self_ns / whole)} of the {ms(whole)} on the device" if whole >= first.self_ns > 0 else ""
    yield Finding(
        id=f"kernel_tables.largest.{table.file}.{table.index}",
        question="repeats",
        verdict="measured",
        claim=f"By the profiler's table {most}{share}",
        where=Path(table.path).name,
        evidence=(
            Evidence(
                "kernel_tables",
                (table.file,),
                len(table.kernels),
                f"{len(table.kernels):,} kernel rows, {ms(table.kernel_ns)} in sum",
            ),
        ),
        advice="Sums alone: no steps, no phases, no order and no idle time. Give the trace that was written beside the table",
        confidence="medium",
    )
