"""The verdict: how the sources are, what to act on next, what stands behind it, and the five questions in a line each."""

from __future__ import annotations

from m3probe.model.findings import Finding
from m3probe.model.path_report import PathsSection
from m3probe.model.report import BottleneckSection, NextBottleneck, RankedRow, Report, TrustSection
from m3probe.model.view import View, Word
from m3probe.present._numbers import UNKNOWN, fixed, listed, percent, plural
from m3probe.present._top import bound_text
from m3probe.present.sheets._order import as_shown
from m3probe.present.sheets._questions import questions
from m3probe.present.sheets._tiles import first_moves, pulse, tiles
from m3probe.present.sheets._told import at_most, lacks, ranking, short, text, words
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import Outcome, PathVerdict, Trust

RANKED_SHOWN = 7
RANKED_CROWDED = 5
"""Fewer where tiles of live figures or a banner share the screen: all must fit 80x24."""
RANKED_LEAST = 3
SENTENCE, ROWS = 74, 13
"""Characters of a wrapped line; rows of 24 without heading, foot, the questions and the two tables' own headings."""
_NO_BANNER = frozenset({Word.LIVE, Word.READ, Word.REPLAY})
"""States whose reason no banner tells."""
_TOLD_FIRST = (PathVerdict.MISSED, PathVerdict.UNEXPECTED, PathVerdict.REFUSED_AT_START)


def overview(view: View, lens: Lens) -> Sheet:
    """The first page; blocks in order of worth, so that a small screen cuts what matters least."""
    blocks: list[Block] = [*state(view), *pulse(view), *partial(view), *_beside(view)]
    report = view.report
    if report is None:
        blocks = [Said(f"Next: {UNKNOWN}  {lacks(view)}"), *first_moves(view), *tiles(view)]
        return Sheet("overview", tuple(blocks))
    rows = ordered(report, lens)
    sentence = next_said(report, rows, queues_only=queues_alone(view))
    blocks += [*sentence, *misled(report)]
    crowded = bool(view.gauges) or len(blocks) > len(sentence)
    most = min(RANKED_CROWDED if crowded else RANKED_SHOWN, _room(blocks, banner=view.word not in _NO_BANNER))
    blocks += [*ranked(report, rows, most)]
    blocks += [questions(report.answer, "computed" if view.gauges else "recorded"), *tiles(view)]
    return Sheet("overview", tuple(blocks), copy="\n\n".join(said.text for said in [*sentence]), change=_wrong_if(rows))


def _room(blocks: list[Block], *, banner: bool) -> int:
    """Lines of the ranking that leave the five questions on an 80x24 terminal, whatever the sentences take."""
    taken = sum(-(-len(block.text) // SENTENCE) for block in blocks if isinstance(block, Said))
    return max(RANKED_LEAST, ROWS - taken - banner)


def state(view: View) -> list[Said]:
    """What the heading and its banner do not say: where a replay stands, and which of several sources are not well."""
    said = []
    if view.replay is not None:
        said.append(f"at {fixed(view.replay[0], 1)} of {fixed(view.replay[1], 1)} s")
    unwell = [each.name for each in view.sources if each.word not in {Word.LIVE, Word.READ, Word.REPLAY}]
    if unwell and len(view.sources) > 1:
        said.append(f"{len(unwell)} of {len(view.sources)} sources not well: {listed(unwell, 2)}")
    said += [view.detail] if view.detail and view.word in _NO_BANNER else []
    return [Said(f"{view.word.value} {' · '.join(said)}", view.word.value)] if said else []


def _beside(view: View) -> list[Said]:
    """Of which of several runs this page is, and where the others are."""
    runs = view.compare.runs if view.compare else ()
    told = f"{view.title} alone; beside {listed([run.name for run in runs if run.name != view.title], 4)}: c"
    return [Said(told, dim=True)] if runs else []


def partial(view: View) -> list[Said]:
    """The banner: what was lost, and whether absence can be read as absence. Nothing where nothing was lost."""
    report = view.report
    if report is None:
        return []
    found = []
    if report.outcome in {Outcome.PARTIAL, Outcome.ERROR} and not (view.word is Word.PARTIAL and view.detail):
        lost = "; ".join(f"{note.path}: {note.text}" if note.path else note.text for note in report.notes[:2])
        more = f"; {len(report.notes) - 2} more" if len(report.notes) > 2 else ""
        found.append(
            Said(f"PARTIAL: {lost or 'input was lost'}{more}. Figures are of what is left.", Word.PARTIAL.value)
        )
    section = report.answer.section(TrustSection)
    if section is None:
        found.append(Said("Trust unknown: the check of the evidence did not run.", str(PathVerdict.UNPROVEN)))
    elif queues_alone(view):
        found.append(
            Said("Kernels are not watched by this address: m3probe tui PID, or attach, records them.", dim=True)
        )
    elif section.trust.verdict != Trust.COMPLETE:
        told = {note.text for note in report.notes[:2]} if found else set()
        why = [
            words(each.word) if each.text in told or each.text in view.detail else each.text
            for each in section.trust.reasons
        ]
        said = "; ".join(why) or "no reason was given"
        found.append(Said(f"Trust {section.trust.verdict}: {said}.", Word.PARTIAL.value))
    return found


def ordered(report: Report, lens: Lens) -> list[RankedRow]:
    """The ranking in the order that is on screen."""
    rows = {row.finding: row for row in ranking(report)}
    return [rows[name] for name in as_shown(tuple(rows), lens.ranking)]


def queues_alone(view: View) -> bool:
    """Whether nothing but metrics pages is looked at: what they cannot tell is no fault of theirs."""
    return bool(view.sources) and all(each.kind == "metrics" for each in view.sources)


def next_said(report: Report, rows: list[RankedRow], *, queues_only: bool) -> list[Said]:
    """The sentence and why; of the item that stands first on screen."""
    section = report.answer.section(BottleneckSection)
    if section is None:
        return [Said(f"Next: {UNKNOWN}  The ranking did not run, so no bottleneck is named.")]
    found = section.next_bottleneck
    if found is None:
        why = "Nothing trusted bounds what could be won, so no bottleneck is named."
        return [Said(f"Next: {UNKNOWN}  {'No queue, limit or cache is short.' if queues_only else why}")]
    if rows and rows[0].finding != found.finding:
        found = NextBottleneck(rows[0].finding, rows[0].bound, rows[0].why)
    finding = next((each for each in report.answer.findings if each.id == found.finding), None)
    claim = (finding.claim if finding else found.finding).rstrip(". ")
    return [Said(f"Next: {claim}."), Said(_worth(found, finding), dim=True)]


def _worth(found: NextBottleneck, finding: Finding | None) -> str:
    bound = "what it could win is not known"
    if found.bound:
        told = finding is not None and f"{percent(found.bound.high)} %" in finding.claim
        # a claim that names the bound has the better words for what it is a share of
        of = "" if told else f" of {found.bound.basis or 'a time that is not named'}"
        bound = f"{bound_text(found.bound)}{of} to win"
    sure = f"{finding.confidence} confidence" if finding else ""
    return " · ".join(filter(None, (bound, sure, found.why.rstrip("."))))


def misled(report: Report) -> list[Said]:
    """Paths that did not do what the configuration says: news that must not wait for the fourth question."""
    section = report.answer.section(PathsSection)
    found = []
    for word in _TOLD_FIRST if section else ():
        titles = [row.title for row in section.paths if row.verdict == word] if section else []
        if titles:
            said = plural(len(titles), f"path {words(word)}", f"paths {words(word)}")
            found.append(Said(f"{said}: {listed(titles, 3)}", str(word)))
    return found


def ranked(report: Report, rows: list[RankedRow], most: int) -> list[Block]:
    """The first ``most`` of the ranking as a table; nothing where nothing is ranked."""
    if not rows:
        return []
    findings = {each.id: each for each in report.answer.findings}
    shown = rows[:most]
    alike = {row.basis for row in shown if row.basis}
    basis = f", % of {next(iter(alike))}" if len(alike) == 1 else ""
    columns = [Column("#", right=True), Column("at most %", right=True), Column("what")]
    columns += [] if basis else [Column("of", keep=2)]
    columns += [Column("question", keep=1), Column("confidence", keep=2), Column("inside", keep=3)]
    columns += [Column("claim", keep=4, wide=True)]
    lines = []
    for here, row in enumerate(shown, 1):
        found = findings.get(row.finding)
        cells = [Cell(_place(row.place, here), row.place), at_most(row.bound)]
        cells += [text(short(row.finding)), *([] if basis else [text(row.basis)])]
        cells += [text(words(found.question) if found else ""), text(_sure(row, found)), text(short(row.inside))]
        cells.append(text(found.claim if found else ""))
        lines.append(Line(row.finding, tuple(cells), target("finding", row.finding)))
    more = f", {len(rows) - len(shown)} more in findings (f)" if len(rows) > len(shown) else ""
    return [Grid(f"Bottlenecks{basis}{more}; never added up", tuple(columns), tuple(lines))]


def _sure(row: RankedRow, found: Finding | None) -> str:
    return row.confidence if found is None or found.trusted else "untrusted"


def _place(place: int, here: int) -> str:
    """Its place now; where the screen still holds another, which way it goes."""
    return str(place) if place == here else f"{place} {'rising' if place < here else 'falling'}"


def _wrong_if(rows: list[RankedRow]) -> str:
    return rows[0].counter_evidence if rows else ""
