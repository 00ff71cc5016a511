"""Findings, largest trusted bound first."""

from __future__ import annotations

from collections import Counter

from m3probe.model.findings import Evidence, Finding
from m3probe.present._numbers import UNKNOWN
from m3probe.present._page import TIE, Page, Piece, items, middle_cut
from m3probe.present._paths import LOOKS, verdict
from m3probe.present._top import bound_text

SHOWN = 8
EVIDENCE_SHOWN = 2
EVIDENCE_CELLS = 180
_NUMBER = 4


def ranked(findings: tuple[Finding, ...]) -> list[Finding]:
    """Trusted before untrusted, then by what could be won at most; bounds on another time, and none, are last."""
    main = basis(findings)

    def place(finding: Finding) -> tuple[bool, int, float]:
        bound = finding.bound
        if bound is None:
            return not finding.trusted, 2, 0.0
        return not finding.trusted, int(bound.basis != main), -bound.high

    return sorted(findings, key=place)


def basis(findings: tuple[Finding, ...]) -> str:
    """What most bounds are shares of; bounds on unlike times are not compared."""
    counted = Counter(finding.bound.basis for finding in findings if finding.bound)
    return counted.most_common(1)[0][0] if counted else ""


def findings(page: Page, found: tuple[Finding, ...]) -> None:
    """The first few with claim, evidence and advice."""
    shown = ranked(found)[:SHOWN]
    main = basis(found)
    of = f" of {main}" if main else ""
    page.heading("Findings", f"{len(shown)} of {len(found)}, by what could be won at most{of}" if found else "")
    if not found:
        page.say("No findings: no analyzer saw anything to act on.", indent=2)
    wide = max((len(_bound(finding)) for finding in shown), default=0)
    for place, finding in enumerate(shown, 1):
        _finding(page, place, finding, wide, main)
    if len(found) > len(shown):
        page.say((f"{len(found) - len(shown):,} more in --json", "dim"), indent=2)


def _finding(page: Page, place: int, finding: Finding, wide: int, main: str) -> None:
    below = 1 + _NUMBER + wide + 2
    bound = _bound(finding).rjust(wide)
    head: list[Piece] = [
        (f"{place}.".rjust(_NUMBER - 1) + " ", ""),
        (bound.replace(" ", TIE), "accent" if finding.bound else "dim"),
        ("  ", ""),
    ]
    page.say(*head, (finding.claim, "bold"), indent=1, hang=below - 1)
    for seen in finding.evidence[:EVIDENCE_SHOWN]:
        page.say(
            (middle_cut(page.clean(evidence_text(seen)), EVIDENCE_CELLS, page.clean("…")), "dim"), indent=below, hang=2
        )
    if finding.advice:
        page.say(f"→ {finding.advice}", indent=below, hang=2)
    page.say(*_standing(finding, main), indent=below, hang=2)


def _bound(finding: Finding) -> str:
    return bound_text(finding.bound) if finding.bound else UNKNOWN


def _standing(finding: Finding, main: str) -> list[Piece]:
    """Verdict, what weakens it, and where to look it up in ``--json``."""
    word, style = verdict(finding.verdict) if finding.verdict in LOOKS else (finding.verdict, "")
    weak = [] if finding.trusted else ["untrusted: kernels may be hidden"]
    weak += [] if finding.confidence == "high" else [f"{finding.confidence} confidence"]
    weak += [f"of {finding.bound.basis}"] if finding.bound and finding.bound.basis != main else []
    rest = [*weak, finding.id, *filter(None, [finding.where])]
    return [(word, style), (" · " if word else "", "dim"), items(rest, "dim")]


def evidence_text(seen: Evidence) -> str:
    """``kernels 12 rows (3, 9, …): what was seen; expected what``."""
    rows = ", ".join(map(str, seen.rows)) + (", …" if seen.count > len(seen.rows) else "")
    expected = f"; expected {seen.expected}" if seen.expected else ""
    return f"{seen.table} {seen.count:,} rows ({rows}): {seen.observed}{expected}"
