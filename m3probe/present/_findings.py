"""Findings, largest trusted bound first."""

from __future__ import annotations

from m3probe.model.findings import Evidence, Finding
from m3probe.present._page import Page, Piece
from m3probe.present._paths import LOOKS, verdict
from m3probe.present._top import bound_text

SHOWN = 8
_WIDE = 4


def ranked(findings: tuple[Finding, ...]) -> list[Finding]:
    """Trusted before untrusted, then by what could be won at most; no bound is last."""
    return sorted(findings, key=lambda f: (not f.trusted, -(f.bound.high if f.bound else -1.0)))


def findings(page: Page, found: tuple[Finding, ...]) -> None:
    """The first few with claim, evidence and advice."""
    shown = ranked(found)[:SHOWN]
    page.heading("Findings", f"{len(shown)} of {len(found)}, by what could be won at most" if found else "")
    if not found:
        page.say("No findings: no analyzer saw anything to act on.", indent=2)
    for place, finding in enumerate(shown, 1):
        _finding(page, place, finding)
    if len(found) > len(shown):
        page.say((f"{len(found) - len(shown):,} more in --json", "dim"), indent=2)


def _finding(page: Page, place: int, finding: Finding) -> None:
    bound = bound_text(finding.bound) if finding.bound else "no bound"
    aside: list[Piece] = [(f"  {bound}", "accent" if finding.bound else "dim")]
    if finding.verdict:
        aside += [("  ", ""), verdict(finding.verdict) if finding.verdict in LOOKS else (finding.verdict, "")]
    if not finding.trusted:
        aside.append(("  untrusted: kernels may be hidden", "warn"))
    if finding.confidence != "high":
        aside.append((f"  {finding.confidence} confidence", "dim"))
    page.say((f"{place}.".rjust(3) + " ", ""), (finding.claim, "bold"), *aside, indent=1, hang=_WIDE)
    for seen in finding.evidence[:2]:
        page.say((_evidence(seen), "dim"), indent=1 + _WIDE, hang=2)
    if finding.advice:
        page.say(f"→ {finding.advice}", indent=1 + _WIDE, hang=2)
    where = f" · {finding.where}" if finding.where else ""
    page.say((f"{finding.id}{where}", "dim"), indent=1 + _WIDE, hang=2)


def _evidence(seen: Evidence) -> str:
    rows = ", ".join(map(str, seen.rows)) + (", …" if seen.count > len(seen.rows) else "")
    expected = f"; expected {seen.expected}" if seen.expected else ""
    return f"{seen.table} {seen.count:,} rows ({rows}): {seen.observed}{expected}"
