"""Rules on fast paths: the verdicts that the paths analyzer gave, never worked out again here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from m3probe.model.findings import Evidence
from m3probe.model.judgement import RuleResult
from m3probe.model.path_report import PathCell, PathRow
from m3probe.rules import _advice
from m3probe.rules._forbidden import JOINED_BY, Absence, absence
from m3probe.rules._result import FAILED, HOLDS, INCONCLUSIVE, WORST, joined, nothing, result
from m3probe.rules._view import View
from m3probe.rules.formula import STEP_NAMES, FormulaError
from m3probe.rules.rule import Rule
from m3probe.schema.verdicts import PathVerdict, RuleOutcome

NO_CALL = "no call was seen, and the names of its kernels may be others"

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
    cells: list[PathCell]


@dataclass(frozen=True, slots=True)
class _Said:
    """One check of the rule."""

    outcome: RuleOutcome
    observed: str
    why: str = ""
    where: str = ""
    evidence: tuple[Evidence, ...] = ()


def judge_path(rule: Rule, view: View) -> RuleResult:
    """Compare the path's verdict (of the rule's phase and rank, where it names one) with the wanted one."""
    if view.paths is None:
        return nothing(rule, "the fast paths were not analyzed")
    rows = [row for row in view.paths.paths if row.id == rule.name]
    if not rows:
        return nothing(rule, "the analysis says nothing about this path")
    found = [(scope, row) for row in rows if (scope := _scope(row, rule)) is not None]
    if not found:
        place = f"a {rule.phase} step" if rule.phase else "a step"
        whose = "" if rule.rank is None else f" of rank {rule.rank}"
        told = joined([f"no evidence about this path in {place}{whose}", *(why for row in rows for why in row.reasons)])
        return nothing(rule, told, _advice.no_steps(rule.phase, view.rec) if rule.phase else "Give that rank's trace.")
    scope, row = min(found, key=lambda item: _ORDER.index(item[0].verdict))
    return _joined(rule, view, row, list(_checks(rule, view, scope, row)))


def _scope(row: PathRow, rule: Rule) -> _Scope | None:
    """The whole row, or its cells of one phase and rank: the worst verdict and every variant that ran there."""
    if rule.phase is None and rule.rank is None:
        whole = tuple((word, number) for word, number in row.counts.items() if "." not in word)
        cells = [c for c in row.cells if c.decides] or list(row.cells)
        absent = sum(c.absent for c in row.cells if c.decides)
        return _Scope(PathVerdict(row.verdict), row.variant, whole, absent, cells)
    cells = [c for c in row.cells if rule.phase in (None, c.phase) and rule.rank in (None, c.rank)]
    if rule.phase is None:
        cells = [c for c in cells if c.decides] or cells
    if not cells:
        return None
    verdicts = {PathVerdict(c.verdict) for c in cells}
    worst = PathVerdict.UNPROVEN if PathVerdict.UNPROVEN in verdicts else min(verdicts, key=_ORDER.index)
    variants = dict.fromkeys(name for c in cells for name in c.variant.split(JOINED_BY) if name)
    counts = tuple((word, sum(getattr(c, word) for c in cells)) for word in ("steps", "executed", "calls"))
    return _Scope(worst, JOINED_BY.join(variants), counts, sum(c.absent for c in cells), cells)


def _checks(rule: Rule, view: View, scope: _Scope, row: PathRow) -> Iterator[_Said]:
    if rule.verdict:
        yield _compared(rule, scope, row)
    if rule.per_step:
        yield _per_step(rule, view, scope)
    if rule.forbidden:
        found: Absence = absence(rule, view, row, scope.cells)
        yield _Said(found.outcome, found.observed, found.why, found.where, found.evidence)


def _compared(rule: Rule, scope: _Scope, row: PathRow) -> _Said:
    variant = f" as {scope.variant}" if scope.variant else ""
    counts = ", ".join(f"{word} {number:,}" for word, number in scope.counts)
    observed = f"{scope.verdict}{variant}" + (f"; {counts}" if counts else "")
    if scope.absent and rule.verdict == PathVerdict.EXECUTED:
        return _Said(FAILED, observed, f"{scope.absent:,} step(s) made no call of it, and nothing can have hidden one")
    if scope.verdict is PathVerdict.UNPROVEN:
        why = "; ".join(row.reasons) or "the evidence neither shows the path nor its fallback"
        return _Said(INCONCLUSIVE, observed, why)
    if scope.verdict != rule.verdict:
        return _Said(FAILED, observed, "; ".join(row.reasons))
    ran = scope.variant.split(JOINED_BY)
    if not rule.variant or ran == [rule.variant]:
        return _Said(HOLDS, observed)
    if rule.variant in ran:
        return _Said(INCONCLUSIVE, observed, "several variants ran here: name the phase, or the kernel instead")
    return _Said(FAILED, observed, "; ".join(row.reasons))


def _per_step(rule: Rule, view: View, scope: _Scope) -> _Said:
    """Calls over the steps of each rank and phase: a mean, as the report keeps no calls of one step."""
    wanted = rule.per_step
    if wanted is None or wanted.names.intersection(STEP_NAMES):
        return _Said(INCONCLUSIVE, "no number", "rows and requests differ from step to step: use a rule on its kernel")
    told: list[_Said] = []
    for cell in scope.cells:
        place = f"{cell.phase} on rank {cell.rank}"
        if not cell.steps:
            told.append(_Said(INCONCLUSIVE, "no step", f"no step was recorded of {place}"))
            continue
        try:
            span = wanted.known({"steps": cell.steps})
        except FormulaError as error:
            return _Said(INCONCLUSIVE, "no number to compare with", str(error))
        mean = cell.calls / cell.steps
        under, over = span.low is not None and mean < span.low, span.high is not None and mean > span.high
        hidden = joined(view.hiding()) or ("" if cell.calls or not under or cell.absent else NO_CALL)
        outcome = FAILED if over or (under and not hidden) else INCONCLUSIVE if hidden else HOLDS
        where = place if outcome is FAILED else ""
        told.append(_Said(outcome, f"{cell.calls:,} calls in {cell.steps:,} steps ({mean:,g} each)", hidden, where))
    worst = min((said.outcome for said in told), key=WORST.index, default=INCONCLUSIVE)
    bad = [said for said in told if said.outcome is worst]
    why = joined(said.why for said in bad) if worst is INCONCLUSIVE else ""
    return _Said(worst, joined(said.observed for said in bad), why, joined(said.where for said in bad))


def _joined(rule: Rule, view: View, row: PathRow, told: list[_Said]) -> RuleResult:
    """The worst check speaks for the rule."""
    outcome = min((said.outcome for said in told), key=WORST.index)
    decided = [said for said in told if said.outcome is outcome]
    seen = tuple(Evidence("paths", (), 1, text) for text in row.evidence)
    found = result(
        rule,
        outcome,
        joined(said.observed for said in decided),
        "paths",
        joined(said.why for said in decided),
        (*(one for said in decided for one in said.evidence), *seen),
        joined(said.where for said in decided),
        "",
    )
    if outcome is HOLDS:
        return found
    return _with_advice(found, view, row)


def _with_advice(found: RuleResult, view: View, row: PathRow) -> RuleResult:
    lost = _advice.by_trust(view.trust) if found.outcome is INCONCLUSIVE else ""
    own = _advice.of_path(row, view.rec, failed=found.outcome is FAILED)
    return replace(found, next_move=" ".join(part for part in (lost, own) if part))
