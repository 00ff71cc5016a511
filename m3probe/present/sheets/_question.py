"""What the question pages share: sections of a view, cells of figures, marks, and the findings of a question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from m3probe.model.findings import Bound, Finding
from m3probe.model.report import BottleneckSection, ShapeRow
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, Number, fixed, known, percent, plural
from m3probe.present._paths import LOOKS
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Line, Raw, Said, Sheet
from m3probe.present.sheets.targets import target

GOOD, BAD, WARN, UNPROVEN, OFF, NO = "executed", "missed", "unexpected", "unproven", "off", "declined"
"""Marks: verdict words whose glyph and colour a cell or sentence takes; its own word stands in its text."""
S = TypeVar("S")
FINDINGS = (
    Column("finding", wide=True),
    Column("verdict", keep=2),
    Column("at most %", right=True),
    Column("of", keep=4),
    Column("confidence", keep=3),
)


def section(view: View, kind: type[S]) -> S | None:
    """A section of the view's report; None without a report, or where its analyzer did not run."""
    return view.report.answer.section(kind) if view.report else None


def local_shapes(rows: Sequence[ShapeRow]) -> str:
    """How many local shapes there are: a shape that several kinds of evidence know is one, and calls are never added up."""
    sizes = {(row.M, row.N, row.K) for row in rows}
    return f"{plural(len(sizes), 'local shape')} in {plural(len({row.phase for row in rows}), 'phase')}"


def unanswered(view: View, title: str, question: str) -> Sheet:
    """The page of a question that nothing has answered yet, with what would."""
    if view.report is None:
        why = f"no report yet: {view.detail or view.word}"
        return Sheet(
            title, (Said(f"unproven: {why}", UNPROVEN),), change="A trace, a recording or a server that answers"
        )
    failed = [f for f in view.report.answer.findings if f.id == f"{question}.failed"]
    why = failed[0].claim if failed else f"the {question} analyzer did not run"
    return Sheet(
        title, (Said(f"unproven: {why}", UNPROVEN),), change="A report that answers this question: m3probe analyze"
    )


def number(value: Number, decimals: int = 0, mark: str = "") -> Cell:
    """A figure; ``—`` where it is not known, never 0. Sorted by the value itself."""
    return Cell(fixed(value, decimals), value if known(value) else None, mark)


def scaled(value: Number, size: float, decimals: int = 1) -> Cell:
    """A figure in another unit: shown divided by ``size``, sorted by the value itself."""
    shown = None if value is None else value / size
    return Cell(fixed(shown, decimals), value if known(value) else None)


def share(value: Number) -> Cell:
    """A share of 0 to 1 in per cent."""
    return Cell(percent(value), value if known(value) else None)


def word(text: str, mark: str = "", raw: Raw = None) -> Cell:
    """A word; ``—`` where there is none."""
    return Cell(text or UNKNOWN, (text or None) if raw is None else raw, mark)


def keyed(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The same lines; a key that stands twice gets a number, so that a cursor stays on one of them."""
    seen: dict[str, int] = {}
    found = []
    for line in lines:
        seen[line.key] = seen.get(line.key, 0) + 1
        again = seen[line.key]
        found.append(line if again == 1 else Line(f"{line.key} #{again}", line.cells, line.opens))
    return tuple(found)


def of_question(view: View, question: str) -> tuple[Finding, ...]:
    """Findings of one question: ranked ones in their order, then the others as they came."""
    if view.report is None:
        return ()
    bottleneck = section(view, BottleneckSection)
    place = {row.finding: row.place for row in bottleneck.ranking} if bottleneck else {}
    mine = [f for f in view.report.answer.findings if f.question == question]
    return tuple(sorted(mine, key=lambda f: (f.id not in place, place.get(f.id, 0))))


def named(view: View, *begins: str) -> tuple[Finding, ...]:
    """Findings of which the id begins so, in the report's order."""
    every = view.report.answer.findings if view.report else ()
    return tuple(f for f in every if f.id.startswith(begins))


def mark_of(verdict: str) -> str:
    """The mark of a finding's verdict: its own where it is a path's, a warning for what was judged, none for ``measured``."""
    if verdict in LOOKS:
        return verdict
    return "" if verdict in {"measured", "proven", "share", "idle", ""} else WARN


def findings_grid(found: Sequence[Finding], title: str = "Findings of this question") -> tuple[Block, ...]:
    """A table of findings, each opening its page; nothing where there are none."""
    if not found:
        return ()
    lines = keyed(Line(f.id, _finding(f), target("finding", f.id)) for f in found)
    return (Grid(title, FINDINGS, lines),)


def _finding(one: Finding) -> tuple[Cell, ...]:
    bound: Bound | None = one.bound
    return (
        Cell(one.claim, one.claim),
        word(one.verdict.replace("_", " "), mark_of(one.verdict)),
        share(bound.high if bound else None),
        word(bound.basis if bound else ""),
        word(one.confidence if one.trusted else f"{one.confidence}, untrusted"),
    )


def phases(rows: Iterable[str], chosen: str | None) -> tuple[str, ...]:
    """Phases in the order they come; the chosen one alone."""
    found = tuple(dict.fromkeys(rows))
    return found if chosen is None else tuple(phase for phase in found if phase == chosen)


def nothing(what: str, chosen: str | None) -> str:
    """Why a table is empty: the filter, or the input."""
    return f"No {what} in phase {chosen}. Press p to change the filter." if chosen else f"No {what} was recorded."


def origin(view: View, evidence: Iterable[str] = (), more: str = "") -> Said:
    """Where the page's figures come from, as an aside: recorded, or computed from what a server says while it runs."""
    kinds = ", ".join(sorted(set(filter(None, evidence))))
    from_ = f" from {kinds}" if kinds else ""
    return Said(f"{'computed' if view.gauges else 'recorded'}{from_}{'; ' + more if more else ''}", dim=True)


def hidden(view: View) -> tuple[Said, ...]:
    """What may have hidden kernels from the evidence: a page on which absence proves nothing says so first."""
    reasons = view.report.answer.hiding if view.report else ()
    return (Said(f"PARTIAL: {'; '.join(reasons)}", "PARTIAL"),) if reasons else ()
