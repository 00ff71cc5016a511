"""The page of one fast path: what was asked for, what spoke against it, what ran where, and what to change."""

from __future__ import annotations

from m3probe.model.findings import Evidence, Finding
from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.view import View
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._path_ran import ran_where
from m3probe.present.sheets.paths import CHANGE, CORRECT, GATES, of_lens, verdict
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target
from m3probe.schema.gates import GateState

CELLS = (
    Column("phase"),
    Column("rank", right=True),
    Column("verdict"),
    Column("ran as", wide=True),
    Column("steps", right=True, keep=1),
    Column("executed", right=True),
    Column("calls", right=True, keep=2),
    Column("surely absent", right=True, keep=3),
    Column("decides", keep=4),
)
ROWS = (
    Column("observed", wide=True),
    Column("table"),
    Column("times", right=True),
    Column("expected", keep=1),
)
GATE = (Column("gate", wide=True), Column("verdict"), Column("what was recorded", wide=True))


def detail(view: View, lens: Lens, row: PathRow, every: PathsSection) -> Sheet:
    """The page of ``row``; it opens evidence, and each rank's steps."""
    found = next(iter(q.named(view, f"paths.{row.id}")), None)
    mine = found if found and found.id == f"paths.{row.id}" else None
    ran = f", ran as {row.variant}" if row.variant else ""
    head = Said(f"{row.title} is {row.verdict.replace('_', ' ')}{ran}", row.verdict)
    blocks: list[Block] = [head, *q.hidden(view), *_asked(row)]
    blocks += [Said(f"What to change: {mine.advice}")] if mine and mine.advice else []
    blocks.append(_cells(row, lens))
    blocks.append(_evidence(mine, row))
    blocks += ran_where(row.evidence)
    blocks += _gates(row, every)
    blocks += q.findings_grid((mine,), "Finding") if mine else ()
    names = (
        "its kernel names are known from source only"
        if row.names_from_source
        else "its kernel names were seen in real traces"
    )
    blocks.append(q.origin(view, (), names))
    return Sheet(row.title, tuple(blocks), change=CHANGE, whole=True)


def _asked(row: PathRow) -> list[Said]:
    """Configured, eligible, and each reason with its numbers: what the path needs and what was found."""
    marks = {"yes": q.GOOD, "no": q.NO, "unknown": q.UNPROVEN}
    pairs = [("configured", row.configured or "unknown"), ("eligible", row.eligible or "unknown")]
    if {value for _, value in pairs} == {"unknown"}:
        pairs = [("configured and eligible", "unknown")]
    said = [Said(f"{what}: {value}", marks.get(value, q.WARN)) for what, value in pairs]
    known = "configured and eligible are unknown: "
    why = [Said(f"reason: {text}") for text in row.reasons if not text.startswith(known)]
    told = [text.removeprefix(known) for text in row.reasons if text.startswith(known)]
    return ([Said(f"{said[0].text}: {told[0]}", said[0].mark)] if told and len(said) == 1 else said) + why


def _cells(row: PathRow, lens: Lens) -> Grid:
    lines = q.keyed(_cell(cell) for cell in of_lens(row.cells, lens))
    filtered = "No step under this filter. Press p or r to change it." if row.cells else ""
    return Grid("By phase and rank", CELLS, lines, filtered or "No step was recorded: nothing shows what ran.")


def _cell(cell: PathCell) -> Line:
    cells = (
        q.word(cell.phase),
        q.number(cell.rank),
        verdict(cell.verdict),
        q.word(cell.variant),
        *(q.number(count) for count in (cell.steps, cell.executed, cell.calls, cell.absent)),
        q.word("yes" if cell.decides else "no"),
    )
    return Line(f"{cell.phase} {cell.rank}", cells, "steps")


def _evidence(found: Finding | None, row: PathRow) -> Grid:
    rows = found.evidence if found else ()
    lines = tuple(_proof(f"paths.{row.id}", at, seen) for at, seen in enumerate(rows))
    empty = "No row of the recording shows this path: what is known of it stands above and below."
    return Grid("Evidence rows", ROWS, lines, empty)


def _proof(finding: str, at: int, seen: Evidence) -> Line:
    cells = (
        Cell(seen.observed, seen.observed),
        q.word(seen.table),
        q.number(seen.count),
        q.word(seen.expected),
    )
    return Line(f"evidence {at}", cells, target("evidence", finding, at))


def _gates(row: PathRow, every: PathsSection) -> list[Block]:
    """What must hold before an executed path is correct."""
    if not row.gates:
        return []
    known = {gate.id: gate for gate in every.gates}
    lines = []
    for name in row.gates:
        gate = known.get(name)
        state = gate.verdict if gate else GateState.UNPROVEN
        text = gate.text if gate else "this gate was not asked"
        lines.append(Line(name, (q.word(gate.title if gate else name), q.word(state, GATES[state]), q.word(text))))
    return [Grid(f"Gates of correctness: {CORRECT[row.correct]}", GATE, tuple(lines))]
