"""Runs held against the first one: what changed, whether that may be said, the trail; and one pair whole."""

from __future__ import annotations

from m3probe.model.compare_report import (
    BETTER,
    NO_CHANGE,
    OTHER,
    SAME,
    UNPROVEN,
    WORSE,
    CompareReport,
    Credit,
    Pair,
    Required,
    RunRow,
    TrailRow,
)
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed
from m3probe.present.sheets import _question as q
from m3probe.present.sheets._told import short
from m3probe.present.sheets.sheet import Bar, Bars, Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import Trust

TITLE = "compare"
START = "m3probe tui --compare A B"
CHANGE = "Two runs that differ in one setting alone, each repeated (the noise is what lies between equal runs)"
NO_TRACE = {"no_trace", "log_only"}
"""Reasons against trust that are no fault of the evidence: there is none of the kind."""
WORDS = {BETTER: q.GOOD, WORSE: q.BAD, NO_CHANGE: "", UNPROVEN: q.UNPROVEN}
"""Verdict of a metric or of steps -> mark."""
ANSWERS = {
    BETTER: q.GOOD,
    WORSE: q.BAD,
    "better in one thing and worse in another": q.WARN,
    "no difference is proven": q.UNPROVEN,
    "no claim": q.UNPROVEN,
}
"""First words of an answer -> mark."""
CREDITS = {
    "credited": q.GOOD,
    "bundle": q.WARN,
    "refused": q.WARN,
    "suspect not executed": q.WARN,
    "not its": q.NO,
    "unproven": q.UNPROVEN,
}
CONTRACTS = {SAME: q.GOOD, OTHER: q.WARN}
MOVED = {"moved": q.WARN, "stays": "", "unproven": q.UNPROVEN}
REQUIRED = {"holds": q.GOOD, "failed": q.BAD, "inconclusive": q.UNPROVEN}


def comparison(view: View, _lens: Lens) -> Sheet:
    """The page of all runs; Enter opens one run against the first."""
    found = view.compare
    if found is None:
        why = "unproven: no runs were given to compare"
        how = Said(f"Start one: {START} (each of them a file, a folder, or a run of several files)")
        return Sheet(TITLE, (Said(why, q.UNPROVEN), how), change=f"Two runs or more: {START}")
    blocks: list[Block] = [
        Said(f"{pair.after} against {pair.before}: {pair.answer}", mark(pair)) for pair in found.pairs
    ]
    for run in found.runs:
        blocks += doubts(run)
    blocks += _chart(found)
    blocks.append(_runs(found))
    blocks.append(_trail(found))
    blocks += _required(found.required)
    blocks.append(q.origin(view, (), "ratios are after over before; a filter of phase shows in each run's own page"))
    return Sheet(TITLE, tuple(blocks), change=CHANGE, whole=True)


def mark(pair: Pair) -> str:
    """The answer's own first word, where one contract was kept; of unlike contracts nothing is better or worse."""
    if pair.contract.verdict == OTHER:
        return q.WARN
    return ANSWERS.get(pair.answer.partition(":")[0], "")


def doubts(run: RunRow) -> list[Said]:
    """Ranks before trust: a run whose ranks differ is not one server."""
    said = [Said(f"{run.name}: not one server: {text}", q.BAD) for text in run.ranks]
    words = {reason.word for reason in run.trust.reasons} if run.trust else set()
    if words & NO_TRACE:
        said.append(
            Said(f"{run.name}: no trace and no live recording of it: nothing shows which kernels ran", dim=True)
        )
    elif run.trust is not None and run.trust.verdict != Trust.COMPLETE:
        why = "; ".join(reason.text for reason in run.trust.reasons) or "no reason was given"
        said.append(Said(f"{run.name}: {run.trust.verdict}: {why}", "PARTIAL"))
    return said + [Said(f"{run.name}: {text}", dim=True) for text in run.notes]


def _chart(found: CompareReport) -> list[Bars]:
    """The headline figure of each run on one scale; nothing where it is not one figure for all."""
    known = [row for row in found.trail if row.value is not None]
    if len(known) < 2 or len({row.figure for row in known}) > 1:
        return []
    high = max(row.value or 0.0 for row in known)
    bars = tuple(Bar(row.run, row.value or 0.0, fixed(row.value, 1)) for row in known)
    return [Bars(known[0].figure, bars, high, "")] if high > 0 else []


def _runs(found: CompareReport) -> Grid:
    figure = next((row.figure for row in found.trail if row.figure), "figure")
    columns = (
        Column("run", wide=True),
        Column(figure, right=True, keep=1),
        Column("contract"),
        Column("kind", keep=3),
        Column("credit"),
        Column("what", keep=2),
        Column("bottleneck", keep=1),
    )
    by_run = {row.run: row for row in found.trail}
    pairs = {pair.after: pair for pair in found.pairs}
    lines = q.keyed(_run(row, by_run.get(row.name), pairs.get(row.name)) for row in found.runs)
    return Grid("Runs; the first is what the others are held against", columns, lines)


def _run(row: RunRow, trail: TrailRow | None, pair: Pair | None) -> Line:
    cells: tuple[Cell, ...] = (Cell(row.name, row.name), q.number(trail.value if trail else None, 1))
    if pair is None:
        cells += (q.word("baseline"), q.word(""), q.word(""), q.word(""), q.word(""))
    else:
        credit = next(iter(pair.credits), None)
        cells += (
            q.word(pair.contract.verdict, CONTRACTS.get(pair.contract.verdict, "")),
            q.word(pair.contract.kind),
            q.word(credit.verdict if credit else "", CREDITS.get(credit.verdict, "") if credit else ""),
            q.word(", ".join(credit.what) if credit else ""),
            q.word(pair.moved.verdict, MOVED.get(pair.moved.verdict, "")),
        )
    return Line(row.name, cells, target("run", row.name))


def _trail(found: CompareReport) -> Grid:
    columns = (Column("run"), Column("level"), Column("next bottleneck"), Column("claim", wide=True))
    lines = q.keyed(
        Line(
            row.run,
            (Cell(row.run, row.run), q.word(row.level), _named(row.finding), q.word(row.claim)),
            target("run", row.run),
        )
        for row in found.trail
    )
    return Grid("Trail: the next bottleneck of each run, and its level", columns, lines)


def _named(finding: str) -> Cell:
    """A finding as every page names it."""
    return Cell(short(finding), finding) if finding else q.word("")


def _required(rows: tuple[Required, ...]) -> list[Block]:
    if not rows:
        return []
    columns = (Column("required"), Column("outcome"), Column("why", wide=True))
    lines = q.keyed(
        Line(row.word, (q.word(row.word), q.word(row.outcome, REQUIRED.get(row.outcome, "")), q.word(row.why)))
        for row in rows
    )
    return [Grid("Required", columns, lines)]


def credited(found: Credit) -> list[Said]:
    """What a change may be put down to, and what would prove it."""
    head = found.verdict if found.verdict == "credited" else f"credit {found.verdict}"
    said = [Said(f"{head}: {found.text}", CREDITS.get(found.verdict, ""))]
    return said + ([Said(f"would tell: {found.tell}", dim=True)] if found.tell else [])


def run(view: View, lens: Lens, name: str) -> Sheet:
    """One run against the first; of the first, what it is.

    Raises:
        KeyError: no run of this name was compared.
    """
    from m3probe.present.sheets._pair import pair_page  # deferred: one of two pages

    row = next((row for row in view.compare.runs if row.name == name), None) if view.compare else None
    if view.compare is None or row is None:
        raise KeyError(f"no run {name} is compared here")
    pair = next((pair for pair in view.compare.pairs if pair.after == name), None)
    if pair is not None:
        return pair_page(pair, row, lens)
    trail = next((one for one in view.compare.trail if one.run == name), None)
    blocks: list[Block] = [Said(f"{name} is the baseline: the other runs are held against it"), *doubts(row)]
    blocks.append(
        Said(
            f"read from {', '.join(row.inputs)} ({row.outcome.replace('_', ' ')}); configuration: {row.configuration or UNKNOWN}"
        )
    )
    blocks += [Said(f"next bottleneck {trail.finding}: {trail.claim}")] if trail and trail.finding else []
    return Sheet(name, tuple(blocks), change=CHANGE, whole=True)
