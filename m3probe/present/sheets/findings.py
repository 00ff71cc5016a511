"""All findings, and one of them with everything that it stands on."""

from __future__ import annotations

from m3probe.model.counter_evidence import counter_evidence
from m3probe.model.findings import Bound, Evidence, Finding
from m3probe.model.report import RankedRow, Report
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, percent, plural
from m3probe.present._top import bound_text
from m3probe.present.escape import safe
from m3probe.present.sheets._told import at_most, lacks, mark, named, ranking, short, verdict, whole, without, words
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import target
from m3probe.schema.verdicts import PHASES

NO_PLACE = 1 << 30
"""Sorts what is not ranked behind all that is."""


def findings(view: View, lens: Lens) -> Sheet:
    """Every finding, ranked ones first; the lens chooses by verdict and phase."""
    report = view.report
    if report is None:
        return Sheet("findings", (Said(lacks(view)),))
    places = {row.finding: row.place for row in ranking(report)}
    every = sorted(report.answer.findings, key=lambda each: places.get(each.id, NO_PLACE))
    shown = [each for each in every if _chosen(each, lens)]
    columns = (
        Column("#", right=True, keep=1),
        Column("at most %", right=True),
        Column("question", keep=1),
        Column("verdict"),
        Column("claim", wide=True),
        Column("of", keep=3),
        Column("confidence", keep=2),
        Column("what", keep=4),
    )
    lines = tuple(_line(each, places.get(each.id)) for each in shown)
    title = f"Findings, computed{without(len(shown), len(every))}"
    return Sheet("findings", (Grid(title, columns, lines, _empty(report, lens)),))


def _chosen(finding: Finding, lens: Lens) -> bool:
    """A finding that names no phase is of all of them."""
    if lens.verdict is not None and finding.verdict != lens.verdict:
        return False
    named_here = set(finding.where.replace(",", " ").split()) & set(PHASES)
    return lens.phase is None or not named_here or lens.phase in named_here


def _empty(report: Report, lens: Lens) -> str:
    if not report.answer.findings:
        return "No findings: no analyzer saw anything to act on."
    said = [f"verdict {words(lens.verdict)}"] if lens.verdict else []
    said += [f"phase {lens.phase}"] if lens.phase else []
    keys = " or ".join(key for key, on in (("v", lens.verdict), ("p", lens.phase)) if on)
    return f"No findings with {' and '.join(said)}. Press {keys} to change the filter."


def _line(finding: Finding, place: int | None) -> Line:
    trusted = finding.confidence if finding.trusted else "untrusted"
    cells = (
        whole(place),
        at_most(finding.bound),
        Cell(words(finding.question), finding.question),
        verdict(finding.verdict),
        Cell(finding.claim, finding.claim),
        Cell(finding.bound.basis if finding.bound and finding.bound.basis else UNKNOWN),
        Cell(trusted, trusted),
        Cell(short(finding.id), finding.id),
    )
    return Line(finding.id, cells, target("finding", finding.id))


def finding(view: View, _lens: Lens, which: str) -> Sheet:
    """One finding: claim, place and why, arithmetic, evidence, what would prove it wrong, advice, standing.

    Raises:
        KeyError: it is not in the report any more.
    """
    found = named(view.report, which)
    row = next((each for each in ranking(view.report) if each.finding == which), None)
    wrong = row.counter_evidence if row else counter_evidence(which)
    blocks: list[Block] = [Said(found.claim, mark(found.verdict)), Said(_standing(found), dim=True)]
    blocks += [*_place(row), *_bound(found.bound), *_seen(found), Said(f"Wrong if: {wrong}.")]
    blocks += [Said(f"Do: {found.advice}")] if found.advice else []
    return Sheet(short(which), tuple(blocks), copy=markdown(found, row, wrong))


def _standing(found: Finding) -> str:
    weak = "" if found.trusted else "not trusted: kernels may be hidden, or the evidence may show another thing"
    said = (words(found.verdict), words(found.question), found.where, f"{found.confidence} confidence", weak, found.id)
    return " · ".join(filter(None, said))


def _place(row: RankedRow | None) -> list[Said]:
    if row is None:
        return [Said("Place: not ranked: it has no bound and is of no level of its own.", dim=True)]
    return [Said(f"Place {row.place}: {row.why}.")]


def _bound(bound: Bound | None) -> list[Said]:
    """The formula in words, then each expression with its result."""
    if bound is None:
        return [Said("Bound: none: nothing was measured that bounds what could be won.", dim=True)]
    said = [Said(f"Bound: {bound_text(bound)} of {bound.basis or 'a time that is not named'}, computed.")]
    said += [Said(f"Formula: {bound.formula}")] if bound.formula else []
    results = (bound.low, bound.high)[-len(bound.arithmetic) :] if bound.arithmetic else ()
    worked = zip(bound.arithmetic, results, strict=False)
    return said + [Said(f"= {text} = {result:.6g} = {percent(result)} %") for text, result in worked]


def _seen(found: Finding) -> list[Block]:
    columns = (
        Column("evidence"),
        Column("times", right=True),
        Column("rows kept", right=True, keep=2),
        Column("observed", wide=True),
        Column("expected", keep=1),
    )
    lines = tuple(_evidence(found, place, each) for place, each in enumerate(found.evidence))
    where = f" Look at {found.where}." if found.where else ""
    return [Grid("Evidence", columns, lines, f"No table row shows it: it is worked out.{where}")]


def _evidence(found: Finding, place: int, seen: Evidence) -> Line:
    cells = (
        Cell(words(seen.table), seen.table),
        whole(seen.count),
        whole(len(seen.rows)),
        Cell(seen.observed, seen.observed),
        Cell(seen.expected or UNKNOWN, seen.expected or None),
    )
    return Line(f"evidence/{place}", cells, target("evidence", found.id, place))


def markdown(found: Finding, row: RankedRow | None, wrong: str) -> str:
    """The finding as it is pasted into an issue; identifiers as code, so that no name is read as markup."""
    bound = f"{bound_text(found.bound)} of {found.bound.basis or 'a time not named'}" if found.bound else "no bound"
    lines = [
        f"### {found.claim}",
        "",
        f"`{found.id}` · {words(found.verdict)} · {bound} · {found.confidence} confidence",
    ]
    lines += ["", f"- Place {row.place}: {row.why}"] if row else [""]
    if found.bound:
        lines += [f"- Formula: {found.bound.formula}", *(f"- `{text}`" for text in found.bound.arithmetic)]
    for seen in found.evidence:
        expected = f"; expected {seen.expected}" if seen.expected else ""
        lines.append(f"- Evidence: {seen.table}, {plural(seen.count, 'time')}: {seen.observed}{expected}")
    lines += [f"- Wrong if: {wrong}", *([f"- Do: {found.advice}"] if found.advice else [])]
    lines += [] if found.trusted else ["- Not trusted: the evidence can hide kernels."]
    return safe("\n".join(lines), keep="\n")
