"""What a reader must know before any figure: losses, trust, and what to do next."""

from __future__ import annotations

from m3probe.model.findings import Bound, Finding
from m3probe.model.path_report import PathsSection
from m3probe.model.report import BottleneckSection, NextBottleneck, RankedRow, ReadNote, Report, TrustSection
from m3probe.present._numbers import percent
from m3probe.present._page import Page, Piece
from m3probe.schema.verdicts import Outcome, PathVerdict, Trust

NOTES_SHOWN = 8
THEN_SHOWN = 4
LEAST_THEN = 0.005
"""Bounds below half a per cent are in ``--explain`` and ``--json`` alone."""
_LABEL = 7
_TRUST_LOOK = {
    Trust.COMPLETE: ("●", "good bold"),
    Trust.DEGRADED: ("!", "warn bold"),
    Trust.UNUSABLE: ("✗", "bad bold"),
}
_OUTCOME_LOOK = {
    Outcome.PARTIAL: ("✗ partial: input was lost, and every figure below stands for what is left", "bad bold"),
    Outcome.ERROR: ("✗ error: reading failed", "bad bold"),
    Outcome.OK_WITH_WARNINGS: ("! read without loss; to be known:", "warn bold"),
}


def top(page: Page, report: Report) -> None:
    """Analyzers that failed, losses and notes, trust, next bottleneck, in this order."""
    before_all(page, report)
    page.blank()
    trust_line(page, report)
    _ranks(page, report.answer.findings)
    _next(page, report)
    _paths(page, report)


def before_all(page: Page, report: Report) -> None:
    """What makes every figure below it less than it seems."""
    _failed(page, report.answer.findings)
    _losses(page, report)


_TOLD_FIRST = (PathVerdict.MISSED, PathVerdict.UNEXPECTED, PathVerdict.REFUSED_AT_START)


def _paths(page: Page, report: Report) -> None:
    """Paths that did not do what the configuration says: news that must not wait for the fourth question."""
    section = report.answer.section(PathsSection)
    for word in _TOLD_FIRST if section else ():
        titles = [row.title for row in section.paths if row.verdict == word] if section else []
        if titles:
            said = f"{len(titles)} {word.replace('_', ' ')}: {', '.join(titles)}"
            _labelled(page, "Paths", (f"✗ {said}" if word == PathVerdict.MISSED else f"! {said}", "warn bold"))


def _failed(page: Page, findings: tuple[Finding, ...]) -> None:
    """A question without an answer: what it would have said is missing below, and nothing else says so."""
    failed = [finding for finding in findings if finding.id == f"{finding.question}.failed"]
    if not failed:
        return
    page.say((f"✗ not answered: {', '.join(finding.question for finding in failed)}", "bad bold"), hang=2)
    for finding in failed:
        page.say(f"{finding.claim} ({finding.where}). {finding.advice}", indent=2, hang=2)


def _losses(page: Page, report: Report) -> None:
    look = _OUTCOME_LOOK.get(Outcome(report.outcome))
    if look is not None:
        page.say(look, hang=2)
    for note in report.notes[:NOTES_SHOWN]:
        page.say(_note(note), indent=2, hang=2)
    rest = len(report.notes) - NOTES_SHOWN
    if rest > 0:
        page.say((f"{rest:,} more in --json", "dim"), indent=2)


def _note(note: ReadNote) -> str:
    times = f" ({note.count:,} x)" if note.count > 1 and f"{note.count:,}" not in note.text else ""
    return f"{note.path}: {note.text}{times}" if note.path else f"{note.text}{times}"


def _labelled(page: Page, label: str, *pieces: Piece) -> None:
    page.say((label.ljust(_LABEL), "dim"), *pieces, hang=_LABEL)


def trust_line(page: Page, report: Report) -> None:
    """Whether the evidence can be trusted, and why not."""
    section = report.answer.section(TrustSection)
    if section is None:
        _labelled(page, "Trust", ("? unknown: the check of the evidence did not run", "warn"))
        return
    row = section.trust
    glyph, style = _TRUST_LOOK[Trust(row.verdict)]
    told = {note.text for note in report.notes[:NOTES_SHOWN]}
    # a reason already told in full among the notes is named only
    reasons = [reason.word.replace("_", " ") if reason.text in told else reason.text for reason in row.reasons]
    nothing = "nothing seen that could hide kernels" if row.verdict == Trust.COMPLETE else "no reason was given"
    why = "; ".join(reasons) or f"{nothing}{unseen_launches(section)}"
    _labelled(page, "Trust", (f"{glyph} {row.verdict}", style), (f": {why}", ""))


def unseen_launches(section: TrustSection) -> str:
    """What complete trust leaves open where no kernel has its launch: kernels lost inside a graph show nowhere."""
    if section.coverage.get("kernels") and section.coverage.get("kernels_linked") == 0:
        return "; no launch was recorded, so that a lost graph would not be seen"
    return ""


def _ranks(page: Page, findings: tuple[Finding, ...]) -> None:
    """Ranks that are not alike: before any figure, as each one is then of several servers."""
    for finding in findings:
        if finding.id.startswith("trust.ranks."):
            _labelled(page, "Ranks", (f"! {finding.claim}", "warn bold"))


def _next(page: Page, report: Report) -> None:
    section = report.answer.section(BottleneckSection)
    if section is None:
        _labelled(page, "Next", ("— the ranking did not run, so no bottleneck is named", ""))
    elif section.next_bottleneck is None:
        _labelled(page, "Next", ("— nothing trusted bounds what could be won, so no bottleneck is named", ""))
    else:
        _bottleneck(page, section.next_bottleneck, report.answer.findings)
        _then(page, section.ranking)


def _bottleneck(page: Page, found: NextBottleneck, findings: tuple[Finding, ...]) -> None:
    named = next((finding for finding in findings if finding.id == found.finding), None)
    claim = (named.claim if named else found.finding).rstrip(". ")
    bound = f"{bound_text(found.bound)} to win" if found.bound else "what it could win is not known"
    # a claim or reason that names the bound itself has the better words for what it is a share of
    told = found.bound is not None and f"{percent(found.bound.high)} %" in f"{claim} {found.why}"
    why = found.why if told else ": ".join(filter(None, (bound, found.why)))
    _labelled(page, "Next", (f"{claim} — {why}".rstrip(".") + ".", "bold"))
    if found.bound and found.bound.formula:
        page.say(("bound = " + found.bound.formula, "dim"), indent=_LABEL, hang=2)


def _then(page: Page, rows: tuple[RankedRow, ...]) -> None:
    """What stands behind the next bottleneck, on the same time and not, in a line each."""
    rest = [row for row in rows[1:] if row.bound and row.bound.high >= LEAST_THEN]
    said = [
        f"{row.place}. {row.finding} {bound_text(row.bound)}{_of(row, rows[0])}"
        for row in rest[:THEN_SHOWN]
        if row.bound
    ]
    if said:
        more = f"; {len(rest) - THEN_SHOWN} more" if len(rest) > THEN_SHOWN else ""
        page.say(
            (f"then {'; '.join(said)}{more} (--explain shows the arithmetic; never added up)", "dim"),
            indent=_LABEL,
            hang=2,
        )


def _of(row: RankedRow, first: RankedRow) -> str:
    return f" of {row.basis}" if row.basis and row.basis != first.basis else ""


def bound_text(bound: Bound) -> str:
    """``up to 31.0 %``, ``12.0–31.0 %``: what is at most to be won, as a share of what the finding names."""
    high = percent(bound.high)
    if bound.low <= 0:
        return f"up to {high} %"
    low = percent(bound.low)
    return f"{high} %" if low == high else f"{low}–{high} %"
