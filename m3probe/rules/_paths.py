"""Rules on fast paths: the verdicts that the paths analyzer gave, never worked out again here."""

from __future__ import annotations

from m3probe.model.findings import Evidence
from m3probe.model.judgement import RuleResult
from m3probe.model.report import PathRow
from m3probe.rules._view import View
from m3probe.rules.rule import Rule
from m3probe.schema.verdicts import PathVerdict, RuleOutcome

VARIANTS_JOINED_BY = " + "
"""How a path row names several variants that ran."""

# Variants of one path are alternatives: what went wrong comes first, then the one that ran; a variant
# that was not observed does not hide it.
_ORDER = (
    PathVerdict.MISSED,
    PathVerdict.UNEXPECTED,
    PathVerdict.REFUSED_AT_START,
    PathVerdict.EXECUTED,
    PathVerdict.DECLINED,
    PathVerdict.OFF,
    PathVerdict.UNPROVEN,
)


def judge_path(rule: Rule, view: View) -> RuleResult:
    """Compare the path's verdict (of the rule's phase, where it names one) with the wanted one."""
    if view.paths is None:
        return _result(rule, RuleOutcome.INCONCLUSIVE, "nothing", why="the fast paths were not analyzed")
    if rule.rank is not None and len(view.units) > 1:
        why = "path verdicts are rolled up over the ranks; give the trace of this rank alone"
        return _result(rule, RuleOutcome.INCONCLUSIVE, "nothing", why=why)
    rows = [row for row in view.paths.paths if row.id == rule.name]
    if not rows:
        return _result(rule, RuleOutcome.INCONCLUSIVE, "nothing", why="the analysis says nothing about this path")
    given = [(_verdict(row, rule), row) for row in rows]
    known = [(PathVerdict(verdict), row) for verdict, row in given if verdict]
    if not known:
        why = f"no evidence about this path in a {rule.phase} step"
        return _result(rule, RuleOutcome.INCONCLUSIVE, "nothing", why=why)
    verdict, row = min(known, key=lambda item: _ORDER.index(item[0]))
    return _compared(rule, verdict, row)


def _verdict(row: PathRow, rule: Rule) -> str | None:
    return row.verdict if rule.phase is None else row.by_phase.get(str(rule.phase))


def _compared(rule: Rule, verdict: PathVerdict, row: PathRow) -> RuleResult:
    variant = f" as {row.variant}" if row.variant else ""
    counts = ", ".join(f"{word} {number:,}" for word, number in _counts(rule, row))
    observed = f"{verdict}{variant}" + (f"; {counts}" if counts else "")
    if verdict is PathVerdict.UNPROVEN:
        why = "; ".join(row.reasons) or "the evidence neither shows the path nor its fallback"
        return _result(rule, RuleOutcome.INCONCLUSIVE, observed, why, row)
    if verdict != rule.verdict:
        return _result(rule, RuleOutcome.FAILED, observed, "", row)
    ran = row.variant.split(VARIANTS_JOINED_BY)
    if not rule.variant or ran == [rule.variant]:
        return _result(rule, RuleOutcome.HOLDS, observed, "", row)
    if rule.variant in ran:
        why = "several variants ran, and the verdict does not say where each did: name the kernel instead"
        return _result(rule, RuleOutcome.INCONCLUSIVE, observed, why, row)
    return _result(rule, RuleOutcome.FAILED, observed, "", row)


def _counts(rule: Rule, row: PathRow) -> list[tuple[str, int]]:
    """The counts of the rule's phase (``decode.calls``), or those of the whole recording."""
    prefix = f"{rule.phase}." if rule.phase else ""
    return [
        (word.removeprefix(prefix), number)
        for word, number in row.counts.items()
        if word.startswith(prefix) and "." not in word.removeprefix(prefix)
    ]


def _result(rule: Rule, outcome: RuleOutcome, observed: str, why: str = "", row: PathRow | None = None) -> RuleResult:
    seen: tuple[Evidence, ...] = ()
    where = ""
    if row is not None:
        seen = tuple(Evidence("paths", (), 1, text) for text in row.evidence)
        where = "; ".join(row.reasons) if outcome is RuleOutcome.FAILED else ""
    basis = "paths" if row is not None else "none"
    return RuleResult(rule.number, rule.line, rule.text, outcome, rule.expected, observed, basis, where, why, seen)
