"""Question 4: each fast path, what was configured and what ran, by phase and rank; and one path whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from m3probe.model.path_report import PathCell, PathRow, PathsSection, RecipeRow
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present._paths import LOOKS, ORDER
from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target
from m3probe.schema.gates import GateState

TITLE = "4 paths"
CHANGE = (
    "The server's configuration (--recipe FILE) makes missed or declined of unproven; an eager twin or a kernel window "
    "shows what graphs hide"
)
MAYBE = {"ran as", "configured", "eligible", "correct"}
"""Columns that a table of paths has where one of its lines knows something."""
GATES = {GateState.HOLDS: q.GOOD, GateState.BROKEN: q.BAD, GateState.UNPROVEN: q.UNPROVEN}
CORRECT = {GateState.HOLDS: "gates hold", GateState.BROKEN: "a gate is broken", GateState.UNPROVEN: "unproven"}


def answer(view: View) -> Said:
    """The question in one sentence: paths by verdict, the worst first, and the finding to look at."""
    found = q.section(view, PathsSection)
    if found is None or not found.paths:
        return Said("unproven: no fast path was judged", q.UNPROVEN)
    counts = Counter(row.verdict for row in found.paths)
    order = sorted(counts, key=place)
    said = ", ".join(f"{counts[verdict]} {verdict.replace('_', ' ')}" for verdict in order)
    worst = order[0]
    told = [f for f in q.of_question(view, "paths") if f.verdict == worst] if worst in {"missed", "unexpected"} else []
    tail = f"of {len(found.paths)} fast paths {said}{f'. {told[0].claim}' if told else ''}"
    if worst == "executed" and counts["unproven"]:
        return Said(f"in part: {tail}")  # some that ran beside others that nothing proves are no pass
    return Said(f"{worst.replace('_', ' ')}: {tail}", worst)


def place(verdict: str) -> int:
    """Where a verdict stands among the others: what needs a look first is first."""
    return [*map(str, ORDER)].index(verdict) if verdict in LOOKS else len(ORDER)


def paths(view: View, lens: Lens) -> Sheet:
    """The matrix of paths and phases; Enter opens one path."""
    found = q.section(view, PathsSection)
    if found is None:
        return q.unanswered(view, TITLE, "paths")
    blocks: list[Block] = [answer(view), *q.hidden(view), *_recipe(found.recipe)]
    blocks.append(_matrix(found.paths, lens))
    common = _common(found.paths)
    blocks += [Said(f"all paths: {text}", dim=True) for text in common]
    answered = [gate for gate in found.gates if gate.verdict is not GateState.UNPROVEN]
    blocks += [Said(f"gate {g.verdict}: {g.title}: {g.text}", GATES[g.verdict]) for g in answered]
    ranks = "a cell is the worst of all ranks; r shows one" if lens.rank is None else f"rank {lens.rank} alone"
    blocks.append(q.origin(view, (), f"executed/all steps of a phase; {ranks}"))
    return Sheet(TITLE, tuple(blocks), change=CHANGE)


def _recipe(recipe: RecipeRow | None) -> list[Said]:
    """What the paths were held against, and what says that it is another server's."""
    if recipe is None:
        return [Said("configuration unproven: nobody said what was asked for", q.UNPROVEN, dim=True)]
    said = [Said(f"held against {recipe.source}, for {recipe.gpu}; {recipe.rules}", dim=True)]
    said += [Said(text, q.WARN) for text in (*recipe.contradicts, *recipe.warnings)]
    return said + [Said(f"taken for granted: {text}", dim=True) for text in recipe.assumed]


def _common(rows: Sequence[PathRow]) -> list[str]:
    """Reasons that every path gives: said once."""
    if len(rows) < 2:
        return []
    return [text for text in rows[0].reasons if all(text in row.reasons for row in rows)]


def _matrix(rows: Sequence[PathRow], lens: Lens) -> Grid:
    phases = q.phases((phase for row in rows for phase in row.by_phase), lens.phase)
    columns = (
        Column("path", wide=True),
        Column("verdict"),
        *(Column(phase, keep=1) for phase in phases),
        Column("ran as", keep=3),
        Column("configured", keep=2),
        Column("eligible", keep=5),
        Column("correct", keep=4),
        Column("calls", right=True, keep=3),
        Column("names", keep=6),
    )
    shown = [row for row in rows if lens.verdict in {None, row.verdict} and _seen(row, lens)]
    lines = [_line(row, phases, lens) for row in sorted(shown, key=lambda row: (place(row.verdict), row.title))]
    said = f" with verdict {lens.verdict.replace('_', ' ')}" if lens.verdict else ""
    said += f" in phase {lens.phase}" if lens.phase else ""
    said += f" on rank {lens.rank}" if lens.rank is not None else ""
    keys = " and ".join([*["v"] * bool(lens.verdict), *["p"] * bool(lens.phase), *["r"] * (lens.rank is not None)])
    empty = f"No path{said}. Press {keys} to change the filter." if said else "No fast path was judged."
    counted = f" {len(shown)} of {len(rows)}" if said else ""
    columns, lines = _without_dashes(columns, lines)
    return Grid(f"Fast paths{counted}", columns, q.keyed(lines), empty)


def _without_dashes(columns: tuple[Column, ...], lines: list[Line]) -> tuple[tuple[Column, ...], list[Line]]:
    """Columns of which no path knows anything are left out: a trace alone says nothing of what was configured."""
    kept = [
        i
        for i, column in enumerate(columns)
        if column.name not in MAYBE or not lines or any(line.cells[i].text != UNKNOWN for line in lines)
    ]
    return tuple(columns[i] for i in kept), [replace(line, cells=tuple(line.cells[i] for i in kept)) for line in lines]


def _seen(row: PathRow, lens: Lens) -> bool:
    """Whether the lens's phase and rank know the path at all; a path without cells stands under every one."""
    cells = [c for c in row.cells if lens.rank in {None, c.rank} and lens.phase in {None, c.phase}]
    return bool(cells) or not row.cells


def _line(row: PathRow, phases: Sequence[str], lens: Lens) -> Line:
    cells = (
        Cell(row.title, row.title),
        verdict(row.verdict),
        *(_phase(row, phase, lens) for phase in phases),
        q.word(row.variant),
        q.word(row.configured if row.configured != "unknown" else ""),
        q.word(row.eligible if row.eligible != "unknown" else ""),
        q.word(CORRECT[row.correct], GATES[row.correct]) if row.verdict == "executed" else q.word(""),
        q.number(row.counts.get("calls")),
        q.word("source only" if row.names_from_source else "seen"),
    )
    return Line(row.id, cells, target("path", row.id))


def verdict(word: str, more: str = "") -> Cell:
    """A verdict with its glyph and colour, sorted by what needs a look first."""
    return Cell(f"{word.replace('_', ' ')}{more}", place(word), word)


def _phase(row: PathRow, phase: str, lens: Lens) -> Cell:
    """One phase: its verdict and executed/steps of the cells that the lens leaves; ranks that differ are counted."""
    cells = [c for c in row.cells if c.phase == phase and lens.rank in {None, c.rank}]
    said = row.by_phase.get(phase, "")
    if lens.rank is not None and row.cells:
        said = min((c.verdict for c in cells), key=place, default="")
    if not said:
        return Cell(UNKNOWN)
    steps, ran = sum(c.steps for c in cells), sum(c.executed for c in cells)
    apart = sum(c.verdict == said for c in cells) if len({c.verdict for c in cells}) > 1 else 0
    ranks = f", {apart} of {len(cells)} ranks" if apart else ""
    return verdict(said, f" {fixed(ran)}/{fixed(steps)}{ranks}" if steps else ranks)


def path(view: View, lens: Lens, name: str) -> Sheet:
    """One path whole: configured, eligible, reasons, cells, evidence, gates, and what to change.

    Raises:
        KeyError: the view has no such path.
    """
    from m3probe.present.sheets._path import detail  # deferred: one of two pages

    found = q.section(view, PathsSection)
    row = next((row for row in found.paths if row.id == name), None) if found else None
    if found is None or row is None:
        raise KeyError(f"this report has no fast path {name}")
    return detail(view, lens, row, found)


def of_lens(cells: Sequence[PathCell], lens: Lens) -> list[PathCell]:
    """Cells that the reader chose to see."""
    return [c for c in cells if lens.rank in {None, c.rank} and lens.phase in {None, c.phase}]
