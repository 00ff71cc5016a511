"""``--explain``: each ranked bound with its formula, the numbers put in, its evidence, and what would prove it wrong."""

from __future__ import annotations

from m3probe.model.counter_evidence import counter_evidence
from m3probe.model.findings import Bound, Finding
from m3probe.model.report import BottleneckSection, RankedRow, Report
from m3probe.present._findings import evidence_text
from m3probe.present._numbers import percent
from m3probe.present._page import Page
from m3probe.present._top import before_all, bound_text, trust_line

_WIDE = 10


def explained(page: Page, report: Report, name: str) -> None:
    """One finding by its id, or the whole ranking where ``name`` is empty; losses and trust before both."""
    before_all(page, report)
    trust_line(page, report)
    section = report.answer.section(BottleneckSection)
    rows = section.ranking if section else ()
    by_id = {finding.id: finding for finding in report.answer.findings}
    if name:
        row = next((row for row in rows if row.finding == name), None)
        _one(page, by_id[name], row)
        return
    if section is None or section.next_bottleneck is None:
        page.say("No next bottleneck is named: nothing trusted bounds what could be won.")
    page.heading("Ranking", f"{len(rows)} findings; bounds that overlap are never added up")
    for row in rows:
        _one(page, by_id[row.finding], row)


def _one(page: Page, finding: Finding, row: RankedRow | None) -> None:
    bound = finding.bound
    page.blank()
    what = f"{bound_text(bound)} of {bound.basis or 'a time that is not named'}" if bound else "no bound"
    place = f"{row.place}. " if row else ""
    page.say((f"{place}{finding.id}", "bold"), f"  {what}, {finding.confidence} confidence", hang=2)
    _line(page, "claim", finding.claim)
    if bound:
        _bound(page, bound)
    else:
        _line(page, "formula", "none: nothing was measured that bounds what could be won")
    for seen in finding.evidence:
        _line(page, "evidence", evidence_text(seen))
    _line(page, "place", f"{row.why}" if row else "not ranked: it has no bound and is of no level of its own")
    if not finding.trusted:
        _line(page, "trust", "kernels may be hidden, or the evidence may show another thing: not trusted")
    _line(page, "wrong if", row.counter_evidence if row else counter_evidence(finding.id))
    _line(page, "advice", finding.advice)


def _bound(page: Page, bound: Bound) -> None:
    """The formula in words, then each expression with its result."""
    _line(page, "formula", bound.formula)
    results = (bound.low, bound.high)[-len(bound.arithmetic) :] if bound.arithmetic else ()
    for worked, result in zip(bound.arithmetic, results, strict=False):
        _line(page, "numbers", f"{worked} = {result:.6g} = {percent(result)} %")
    if not bound.arithmetic:
        _line(page, "numbers", "not recorded")


def _line(page: Page, word: str, text: str) -> None:
    if text:
        page.say((word.ljust(_WIDE), "dim"), text, indent=3, hang=_WIDE)
