"""The rows that one piece of evidence names, in words that can be read; each opens the step that it lies in."""

from __future__ import annotations

from collections.abc import Callable

from m3probe.model.findings import Evidence
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, TABLES
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, plural
from m3probe.present.sheets import _cells as cells
from m3probe.present.sheets._told import in_us, lacks, named, number, whole, words
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import GRAPH_MODES, PHASES

BENCH = "bench.runs"
"""Rows of ``Recording.meta.bench``, which is no table."""
_CALLS = ("other", "launch", "graph launch")
_COPIES = ("memcpy", "memset")


def rows(view: View, _lens: Lens, which: str, place: str) -> Sheet:
    """One piece of evidence of a finding: what was seen, what was expected, and the rows that were kept.

    Raises:
        KeyError: the finding, or this piece of its evidence, is not in the report any more.
    """
    found = named(view.report, which)
    if not place.isdecimal() or int(place) >= len(found.evidence):
        raise KeyError(f"finding {which} has no evidence {place} (any more)")
    seen = found.evidence[int(place)]
    blocks: list[Block] = [Said(found.claim, dim=True), Said(f"Observed: {seen.observed}.")]
    blocks += [Said(f"Expected: {seen.expected}.")] if seen.expected else []
    blocks += [
        Said(f"Seen {plural(seen.count, 'time')} in all, recorded; the first {plural(len(seen.rows), 'row')} are kept.")
    ]
    return Sheet(f"{words(seen.table)} rows", (*blocks, _grid(view, seen)))


def _grid(view: View, seen: Evidence) -> Block:
    rec = view.recording
    if rec is None:
        return Said(f"The rows cannot be shown: no recording is open, the report alone is. {lacks(view)}", "unproven")
    if seen.table == BENCH:
        return _bench(rec, seen)
    if seen.table not in TABLES:
        return Said(f"{seen.table} is no table of a recording: its rows cannot be shown.", "unproven")
    columns, make, step_of = _TABLES.get(seen.table, (cells.declared(seen.table), None, _step))
    there = [row for row in seen.rows if row < len(rec.tables[seen.table])]
    lines = tuple(
        Line(
            f"{seen.table}/{row}",
            (Cell(f"{row:,}", row), *(make(rec, row) if make else cells.as_declared(rec, seen.table, row))),
            _opens(step_of(rec, seen.table, row)),
        )
        for row in there
    )
    gone = len(seen.rows) - len(there)
    title = f"Rows of {words(seen.table)}, recorded" + (f"; {gone} more that were not read" if gone else "")
    return Grid(title, (Column("row", right=True, keep=1), *columns), lines, "No row was kept for this evidence.")


def _opens(step: int) -> str:
    return target("step", step) if step != NONE else ""


def _step(rec: Recording, table: str, row: int) -> int:
    """The step that a row lies in; -1 where its table does not tell."""
    column = next((each for each in TABLES[table] if each.name == "step" and each.unit == "row of steps"), None)
    return int(rec.tables[table]["step"][row]) if column else NONE


def _itself(_rec: Recording, _table: str, row: int) -> int:
    return row


STEP = (
    Column("annotation", wide=True, keep=1),
    Column("phase"),
    Column("rows", right=True),
    Column("requests", right=True),
    Column("host µs", right=True),
    Column("graph"),
    Column("file", keep=2),
)


def _of_steps(rec: Recording, row: int) -> tuple[Cell, ...]:
    table = rec.steps
    counts = [int(table[name][row]) for name in ("rows", "requests")]
    phase, mode = str(PHASES[int(table["phase"][row])]), str(GRAPH_MODES[int(table["graph_mode"][row])])
    return (
        cells.text(rec, int(table["name"][row])),
        Cell(phase, phase),
        *(whole(None if count == NONE else count) for count in counts),
        in_us(int(table["dur_ns"][row])),
        Cell(mode, mode),
        cells.file_name(rec, int(table["file"][row])),
    )


LAUNCH = (
    Column("call", wide=True),
    Column("kind"),
    Column("step", right=True),
    Column("start µs", right=True),
    Column("µs", right=True),
    Column("kernels", right=True),
    Column("thread", right=True, keep=2),
)


def _since(rec: Recording, table: str, row: int) -> tuple[Cell, Cell]:
    """(step, µs from its begin on the host)."""
    step = int(rec.tables[table]["step"][row])
    if step == NONE:
        return Cell(UNKNOWN), Cell(UNKNOWN)
    return whole(step), in_us(int(rec.tables[table]["start_ns"][row]) - int(rec.steps["start_ns"][step]))


def _of_launches(rec: Recording, row: int) -> tuple[Cell, ...]:
    table = rec.launches
    kind = _CALLS[int(table["kind"][row])]
    return (
        cells.text(rec, int(table["name"][row])),
        Cell(kind, kind),
        *_since(rec, "launches", row),
        in_us(int(table["dur_ns"][row])),
        whole(int(table["kernels"][row])),
        Cell(str(int(table["tid"][row])), int(table["tid"][row])),
    )


TRANSFER = (
    Column("transfer", wide=True),
    Column("kind"),
    Column("step", right=True),
    Column("start µs", right=True),
    Column("µs", right=True),
    Column("bytes", right=True),
)


def _of_transfers(rec: Recording, row: int) -> tuple[Cell, ...]:
    table = rec.transfers
    kind, moved = _COPIES[int(table["kind"][row])], int(table["payload_bytes"][row])
    return (
        cells.text(rec, int(table["name"][row])),
        Cell(kind, kind),
        *_since(rec, "transfers", row),
        in_us(int(table["dur_ns"][row]), 2),
        whole(None if moved == NONE else moved),
    )


Make = Callable[[Recording, int], tuple[Cell, ...]]
StepOf = Callable[[Recording, str, int], int]
_TABLES: dict[str, tuple[tuple[Column, ...], Make | None, StepOf]] = {
    "kernels": (cells.KERNEL, cells.kernel, _step),
    "steps": (STEP, _of_steps, _itself),
    "launches": (LAUNCH, _of_launches, _step),
    "transfers": (TRANSFER, _of_transfers, _step),
}


def _bench(rec: Recording, seen: Evidence) -> Grid:
    """Runs of a benchmark."""
    columns = ("run", "concurrency", "completed", "failed", "requests/s", "tokens/s", "TTFT ms", "TPOT ms")
    lines = []
    for row in seen.rows:
        if row < len(rec.meta.bench):
            run = rec.meta.bench[row]
            figures = [number(value, 2) for value in (run.request_throughput, run.total_token_throughput)]
            waits = [number(value, 1) for value in (run.ttft.mean_ms, run.tpot.mean_ms)]
            counts = [whole(value) for value in (run.max_concurrency, run.completed, run.failed)]
            lines.append(Line(f"{BENCH}/{row}", (Cell(run.name, run.name), *counts, *figures, *waits)))
    shown = tuple(Column(name, right=place > 0, wide=place == 0) for place, name in enumerate(columns))
    return Grid("Runs, recorded; means", shown, tuple(lines), "No run was kept.")
