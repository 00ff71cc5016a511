"""Rules against a recording and its answers -> one result per rule. Pure: nothing is read, printed or raised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, TrustRow
from m3probe.rules._counts import FAILED, HOLDS, INCONCLUSIVE, Check, checks
from m3probe.rules._paths import judge_path
from m3probe.rules._view import Unit, View
from m3probe.rules.file import RulesFile
from m3probe.rules.rule import Rule
from m3probe.schema.verdicts import RuleOutcome, Trust

_WORST = (FAILED, INCONCLUSIVE, HOLDS)
_LEVEL = {Trust.UNUSABLE: 0, Trust.DEGRADED: 1, Trust.COMPLETE: 2}


def judge(rules: RulesFile, rec: Recording, answer: Answer) -> Judgement:
    """Judge every rule.

    Args:
        rules: from ``load_rules``.
        rec: the recording; kernels and steps are counted in it.
        answer: the analyzers' sections; trust and fast paths are taken from them.
    """
    view = View(rec, answer)
    required = [_required(rules.trust, view.trust)] if rules.trust else []
    results = [_trusted(rule, _judged(rule, view), view) for rule in rules.rules]
    return Judgement(rules.path, view.trust, (*required, *results))


def _judged(rule: Rule, view: View) -> RuleResult:
    units = view.chosen(rule)
    if not units:
        there = ", ".join(unit.label for unit in view.units) or "no rank's trace"
        return _nothing(rule, f"rank {rule.rank} is not in the recording (it holds {there})")
    if rule.kind == "path":
        return judge_path(rule, view)
    scopes = [view.scope(unit, rule.phase) for unit in units]
    seen = [scope for scope in scopes if rule.phase is None or len(scope.steps)]
    if not seen:
        return _nothing(rule, f"no {rule.phase} step was recorded")
    found = [check for scope in seen for check in checks(rule, view, scope)]
    left_out = [scope.unit for scope in scopes if scope not in seen]
    return _rolled_up(rule, view, found, left_out)


def _nothing(rule: Rule, why: str) -> RuleResult:
    return RuleResult(rule.number, rule.line, rule.text, INCONCLUSIVE, rule.expected, "nothing", "none", "", why)


def _rolled_up(rule: Rule, view: View, found: list[Check], left_out: list[Unit]) -> RuleResult:
    """The worst checks speak for the rule; a rank that broke it is never averaged away."""
    outcome = next(word for word in _WORST if any(check.outcome is word for check in found))
    told = [check for check in found if check.outcome is outcome]
    several = len(view.units) > 1
    observed = _observed(told, several)
    if several and left_out:
        observed += f" (no {rule.phase} step on {', '.join(unit.label for unit in left_out)})"
    near = "" if rule.forbid or view.hits(rule).any() else view.near(rule)
    if near:
        observed += f"; the nearest kernel name seen is {near}"
    return RuleResult(
        number=rule.number,
        line=rule.line,
        rule=rule.text,
        outcome=outcome,
        expected=rule.expected,
        observed=observed,
        basis=told[0].basis,
        where=_joined(f"{c.label}: {c.where}" if several else c.where for c in told if c.where),
        why=_joined(check.why for check in told),
        evidence=tuple(row for check in told for row in check.evidence)[:8],
    )


def _observed(told: list[Check], several: bool) -> str:
    """All checks of the first unit that decided, and how many more units ended the same way."""
    first = told[0].label
    text = "; ".join(check.observed for check in told if check.label == first)
    if not several:
        return text
    others = len({check.label for check in told} - {first})
    return f"{first}: {text}" + (f" (and {others} more ranks)" if others else "")


def _joined(texts: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(text for text in texts if text))
    return "; ".join(distinct[:3]) + (f"; and {len(distinct) - 3} more" if len(distinct) > 3 else "")


# --- trust -------------------------------------------------------------------------------------------------


def _meets(trust: TrustRow | None, wanted: Trust) -> bool:
    return trust is not None and _LEVEL[Trust(trust.verdict)] >= _LEVEL[wanted]


def _required(wanted: Trust, trust: TrustRow | None) -> RuleResult:
    """``[require]``: evidence below what is asked leaves the file undecided."""
    met = _meets(trust, wanted)
    outcome: RuleOutcome = HOLDS if met else INCONCLUSIVE
    observed = trust.verdict if trust else "not judged"
    why = "" if met else _reasons(trust)
    return RuleResult(0, None, f"require trust {wanted}", outcome, f"trust {wanted}", observed, "trust", "", why)


def _reasons(trust: TrustRow | None) -> str:
    if trust is None:
        return "nothing judged whether this recording can be trusted"
    return _joined(f"{reason.word}: {reason.text}" for reason in trust.reasons) or f"trust is {trust.verdict}"


def _trusted(rule: Rule, result: RuleResult, view: View) -> RuleResult:
    """Take back what the evidence cannot carry: any verdict on unusable evidence, a pass on too little trust."""
    if view.trust is not None and view.trust.verdict == Trust.UNUSABLE and result.outcome is not INCONCLUSIVE:
        return replace(result, outcome=INCONCLUSIVE, why=f"the evidence is unusable ({_reasons(view.trust)})")
    if result.outcome is not HOLDS:
        return result
    if rule.trust and not _meets(view.trust, rule.trust):
        return replace(result, outcome=INCONCLUSIVE, why=f"trust {rule.trust} is asked for ({_reasons(view.trust)})")
    missing = view.missing_ranks()
    if missing and rule.rank is None:
        return replace(result, outcome=INCONCLUSIVE, why=f"holds on the ranks that are there, but {missing}")
    return result
