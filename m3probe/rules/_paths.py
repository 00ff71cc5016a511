"""Rules on fast paths: the verdicts that the paths analyzer gave, never worked out again here."""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.model.findings import Evidence
from m3probe.model.judgement import RuleResult
from m3probe.model.path_report import PathRow
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


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the path did where the rule looks."""

    verdict: PathVerdict
    variant: str
    counts: tuple[tuple[str, int], ...]
    absent: int


def judge_path(rule: Rule, view: View) -> RuleResult:
    """Compare the path's verdict (of the rule's phase and rank, where it names one) with the wanted one."""
    if view.paths is None:
        return _result(rule, RuleOutcome.INCONCLUSIVE, "nothing", why="the fast paths were not analyzed")
    rows = [row for row in view.paths.paths if row.id == rule.name]
    if not rows:
        return _result(rule, RuleOutcome.INCONCLUSIVE, "nothing", why="the analysis says nothing about this path")
    found = [(scope, row) for row in rows if (scope := _scope(row, rule)) is not None]
    if not found:
        place = f"a {rule.phase} step" if rule.phase else "a step"
        whose = "" if rule.rank is None else f" of rank {rule.rank}"
        why = f"no evidence about this path in {place}{whose}"
        return _result(rule, RuleOutcome.INCONCLUSIVE, "nothing", why=why)
    scope, row = min(found, key=lambda item: _ORDER.index(item[0].verdict))
    return _compared(rule, scope, row)


def _scope(row: PathRow, rule: Rule) -> _Scope | None:
    """The whole row, or its cells of one phase and rank: the worst verdict and every variant that ran there."""
    if rule.phase is None and rule.rank is None:
        whole = tuple((word, number) for word, number in row.counts.items() if "." not in word)
        absent = sum(c.absent for c in row.cells if c.decides)
        return _Scope(PathVerdict(row.verdict), row.variant, whole, absent)
    cells = [c for c in row.cells if rule.phase in (None, c.phase) and rule.rank in (None, c.rank)]
    if rule.phase is None:
        cells = [c for c in cells if c.decides] or cells
    if not cells:
        return None
    verdicts = {PathVerdict(c.verdict) for c in cells}
    worst = PathVerdict.UNPROVEN if PathVerdict.UNPROVEN in verdicts else min(verdicts, key=_ORDER.index)
    variants = dict.fromkeys(name for c in cells for name in c.variant.split(VARIANTS_JOINED_BY) if name)
    counts = tuple((word, sum(getattr(c, word) for c in cells)) for word in ("steps", "executed", "calls"))
    return _Scope(worst, VARIANTS_JOINED_BY.join(variants), counts, sum(c.absent for c in cells))


def _compared(rule: Rule, scope: _Scope, row: PathRow) -> RuleResult:
    variant = f" as {scope.variant}" if scope.variant else ""
    counts = ", ".join(f"{word} {number:,}" for word, number in scope.counts)
    observed = f"{scope.verdict}{variant}" + (f"; {counts}" if counts else "")
    if scope.absent and rule.verdict == PathVerdict.EXECUTED:
        why = f"{scope.absent:,} step(s) made no call of it, and nothing can have hidden one"
        return _result(rule, RuleOutcome.FAILED, observed, why, row)
    if scope.verdict is PathVerdict.UNPROVEN:
        why = "; ".join(row.reasons) or "the evidence neither shows the path nor its fallback"
        return _result(rule, RuleOutcome.INCONCLUSIVE, observed, why, row)
    if scope.verdict != rule.verdict:
        return _result(rule, RuleOutcome.FAILED, observed, "", row)
    ran = scope.variant.split(VARIANTS_JOINED_BY)
    if not rule.variant or ran == [rule.variant]:
        return _result(rule, RuleOutcome.HOLDS, observed, "", row)
    if rule.variant in ran:
        why = "several variants ran here: name the phase, or the kernel instead"
        return _result(rule, RuleOutcome.INCONCLUSIVE, observed, why, row)
    return _result(rule, RuleOutcome.FAILED, observed, "", row)


def _result(rule: Rule, outcome: RuleOutcome, observed: str, why: str = "", row: PathRow | None = None) -> RuleResult:
    seen: tuple[Evidence, ...] = ()
    if row is not None:
        seen = tuple(Evidence("paths", (), 1, text) for text in row.evidence)
        why = why or ("; ".join(row.reasons) if outcome is RuleOutcome.FAILED else "")
    basis = "paths" if row is not None else "none"
    return RuleResult(rule.number, rule.line, rule.text, outcome, rule.expected, observed, basis, "", why, seen)
