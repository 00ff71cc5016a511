"""The time line of the steps, and one step on every rank with its kernels in launch order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from m3probe.model.recording import Recording
from m3probe.model.report import StepRow, SummarySection
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, plural
from m3probe.present.sheets._devices import device_blocks
from m3probe.present.sheets._guest_steps import guest_steps, mean_steps
from m3probe.present.sheets._in_step import family_time, kernel_blocks, kernels_of
from m3probe.present.sheets._timeline import timeline
from m3probe.present.sheets._told import Lazy, in_ms, lacks, whole, without
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import Family

COLUMNS = (
    Column("step", right=True),
    Column("rank", right=True, keep=1),
    Column("phase"),
    Column("rows", right=True),
    Column("requests", right=True, keep=1),
    Column("kernels", right=True),
    Column("kernel ms", right=True),
    Column("step ms", right=True),
    Column("idle ms", right=True),
    Column("graph", keep=2),
    Column("annotation", wide=True, keep=3),
)


def steps(view: View, lens: Lens) -> Sheet:
    """Every step: of the profiler window, and of what guests inside the server wrote down."""
    rows = _rows(view)
    blocks: list[Block] = []
    if view.report is None:
        blocks.append(Said(lacks(view)))
    chosen = _all_chosen(rows, lens)
    ranks = sorted({rows[i].rank for i in chosen}, key=lambda rank: -1 if rank is None else rank)
    if ranks:
        strip = timeline([rows[i] for i in chosen if rows[i].rank == ranks[0]], _rank(ranks[0]))
        blocks += [strip] if strip else []
    title = f"Steps, recorded{without(len(chosen), len(rows))}"
    lines = Lazy(len(chosen), lambda at: _line(chosen[at], rows[chosen[at]]))
    guests = [each for each in (guest_steps(view.recording, lens), mean_steps(view.report)) if each]
    if rows or not guests:
        blocks.append(Grid(title, COLUMNS, lines, _empty(rows, lens)))
    if not rows:
        blocks += device_blocks(view)
    return Sheet("steps", (*blocks, *guests))


def _rows(view: View) -> Sequence[StepRow]:
    section = view.report.answer.section(SummarySection) if view.report else None
    return section.steps if section else ()


def _all_chosen(rows: Sequence[StepRow], lens: Lens) -> Sequence[int]:
    rank, phase = lens.rank, lens.phase
    if rank is None and phase is None:
        return range(len(rows))
    return [
        at
        for at, row in enumerate(rows)
        if (rank is None or row.rank == rank) and (phase is None or row.phase == phase)
    ]


def _empty(rows: Sequence[StepRow], lens: Lens) -> str:
    if not rows:
        return "No step was recorded: give a trace whose annotations name steps, or record a live server (attach)."
    said = [f"rank {lens.rank}"] if lens.rank is not None else []
    said += [f"phase {lens.phase}"] if lens.phase else []
    keys = " or ".join(key for key, on in (("r", lens.rank is not None), ("p", lens.phase)) if on)
    return f"No step of {' and '.join(said)}. Press {keys} to change the filter."


def _rank(rank: int | None) -> str:
    return "rank unknown" if rank is None else f"rank {rank}"


def _line(place: int, row: StepRow) -> Line:
    made = (
        whole(place),
        whole(row.rank),
        Cell(row.phase, row.phase),
        whole(row.rows),
        whole(row.requests),
        whole(row.kernel_count),
        in_ms(row.kernel_time_ns, 3),
        in_ms(row.step_time_ns, 3),
        in_ms(row.idle_ns, 3),
        Cell(row.graph_mode, row.graph_mode),
        Cell(row.name, row.name),
    )
    return Line(f"step/{place}", made, target("step", place))


def step(view: View, _lens: Lens, which: str) -> Sheet:
    """The step of one row of ``steps`` beside the step of the same place on every other rank, and its kernels.

    Raises:
        KeyError: there is no such step (any more).
    """
    rows = _rows(view)
    if not which.isdecimal() or int(which) >= len(rows):
        raise KeyError(f"step {which} is not in this recording (any more)")
    row = int(which)
    place = sum(each.rank == rows[row].rank for each in rows[:row])
    same = _same_place(rows, row, place)
    blocks: list[Block] = [
        Said(_what(rows[row], place)),
        _across(view.recording, rows, same),
        *_shorter(rows, same, place),
    ]
    rec = view.recording
    if rec is None:
        blocks.append(Said("Its kernels cannot be shown: no recording is open, the report alone is.", "unproven"))
    else:
        blocks += kernel_blocks(rec, row)
    return Sheet(f"step {row:,}", tuple(blocks))


def _what(row: StepRow, place: int) -> str:
    rows = plural(row.rows, "row") if row.rows is not None else "rows unknown"
    return f"{row.phase} step {place:,} of {_rank(row.rank)}: {rows}, graph mode {row.graph_mode}; {row.name}"


def _same_place(rows: Sequence[StepRow], row: int, place: int) -> list[int]:
    """The ``place``-th step of each rank; of a rank that is not known this one alone."""
    if rows[row].rank is None:
        return [row]
    seen: dict[int, int] = {}
    found = []
    for at, each in enumerate(rows):
        if each.rank is not None:
            if seen.setdefault(each.rank, 0) == place:
                found.append(at)
            seen[each.rank] += 1
    return sorted(found, key=lambda at: rows[at].rank or 0)


def _shorter(rows: Sequence[StepRow], same: list[int], place: int) -> list[Said]:
    """Ranks whose recording ends before this step."""
    there = {rows[at].rank for at in same}
    lacking = sorted({each.rank for each in rows if each.rank is not None} - there) if there != {None} else []
    names = ", ".join(map(str, lacking))
    return [Said(f"Without a step {place:,}: rank {names}. It recorded fewer.", "unproven")] if lacking else []


def _across(rec: Recording | None, rows: Sequence[StepRow], same: list[int]) -> Grid:
    comm = (Column("comm", right=True), Column("comm ms", right=True))
    columns = (Column("step", right=True, keep=1), *COLUMNS[1:4], *COLUMNS[5:9], *comm, COLUMNS[9])
    title = "The same step on every rank, by its place, recorded"

    @cache
    def line(at: int) -> Line:
        # a mask over all kernels for each rank: not again with every key
        made = _line(same[at], rows[same[at]])
        told = made.cells
        return Line(made.key, (told[0], *told[1:4], *told[5:9], *_comm(rec, same[at]), told[9]), made.opens)

    return Grid(title, columns, Lazy(len(same), line))


def _comm(rec: Recording | None, step: int) -> tuple[Cell, Cell]:
    """(collective kernels, their ms) of a step."""
    if rec is None:
        return Cell(UNKNOWN), Cell(UNKNOWN)
    count, ns = family_time(rec, kernels_of(rec, step)).get(Family.COMM, (0, None))
    return whole(count), in_ms(ns, 3)
