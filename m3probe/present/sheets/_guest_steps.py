"""Steps as guests inside the server wrote them down: host times, without any kernel."""

from __future__ import annotations

from m3probe.model.live_report import LiveSection, StepTimeRow
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.model.tables import NONE
from m3probe.present.sheets import _cells as cells
from m3probe.present.sheets._told import Lazy, in_ms, in_us, lasting, number, whole, without
from m3probe.present.sheets.sheet import Cell, Column, Grid, Lens, Line

COLUMNS = (
    Column("step", right=True),
    Column("rank", right=True, keep=1),
    Column("phase"),
    Column("rows", right=True),
    Column("padded", right=True, keep=2),
    Column("requests", right=True, keep=1),
    Column("prepare ms", right=True),
    Column("launch ms", right=True),
    Column("wait ms", right=True),
    Column("graph", keep=1),
    Column("stage", keep=3),
)
_PARTS = (("t_start", "t_launch"), ("t_launch", "t_launched"), ("t_launched", "t_sample_end"))

MEANS = (
    Column("phase"),
    Column("graph"),
    Column("steps", right=True),
    Column("rows", right=True),
    Column("requests", right=True, keep=1),
    Column("schedule µs", right=True, keep=3),
    Column("prepare µs", right=True),
    Column("launch µs", right=True),
    Column("wait µs", right=True),
    Column("output µs", right=True, keep=3),
    Column("idle µs", right=True, keep=1),
)


def mean_steps(report: Report | None) -> Grid | None:
    """Where a step's host time goes, by phase and graph mode; None for a trace."""
    section = report.answer.section(LiveSection) if report else None
    if section is None:
        return None
    title = f"Mean step of one rank, recorded over {lasting(section.seconds)} of steps inside the server"
    lines = tuple(Line(f"mean/{row.phase}/{row.graph_mode}", _mean(row)) for row in section.step_times)
    return Grid(title, MEANS, lines, "No step ran while it recorded.")


def _mean(row: StepTimeRow) -> tuple[Cell, ...]:
    times = (row.schedule_ns, row.prepare_ns, row.launch_ns, row.wait_ns, row.output_ns, row.idle_ns)
    return (
        cells.word(row.phase),
        Cell(row.graph_mode, row.graph_mode),
        number(row.steps),
        number(row.rows, 1),
        number(row.requests, 1),
        *(in_us(ns, 0) for ns in times),
    )


def guest_steps(rec: Recording | None, lens: Lens) -> Grid | None:
    """Steps of the workers; None where no guest wrote any."""
    if rec is None or not len(rec.tables["step_rows"]):
        return None
    table = rec.tables["step_rows"]
    chosen = table["role"] == rec.strings.find("worker")
    every = int(chosen.sum())
    if lens.phase is not None:
        chosen = chosen & (table["phase"] == rec.strings.find(lens.phase))
    if lens.rank is not None:
        chosen = chosen & (rec.file_ranks[table["file"]] == lens.rank)
    rows = chosen.nonzero()[0]
    title = f"Steps of guests, recorded inside the server; host times{without(len(rows), every)}"
    empty = "No step of a guest fits the filter. Press r or p to change it." if every else "No worker wrote a step."
    return Grid(title, COLUMNS, Lazy(len(rows), lambda at: _line(rec, int(rows[at]))), empty)


def _line(rec: Recording, row: int) -> Line:
    table = rec.tables["step_rows"]
    rank = rec.files[int(table["file"][row])].rank
    times = {name: int(table[name][row]) for name in dict.fromkeys(sum(_PARTS, ()))}
    counts = [_count(int(table[name][row])) for name in ("rows", "padded_rows", "requests")]
    parts = [
        in_ms(times[end] - times[begin] if NONE not in (times[begin], times[end]) else None, 3) for begin, end in _PARTS
    ]
    made = (
        _count(int(table["step"][row])),
        whole(rank),
        cells.text(rec, int(table["phase"][row])),
        *counts,
        *parts,
        cells.text(rec, int(table["mode"][row])),
        cells.text(rec, int(table["stage"][row])),
    )
    return Line(f"guest/{row}", made)


def _count(value: int) -> Cell:
    return whole(None if value == NONE else value)
