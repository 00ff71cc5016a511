"""Rules against a recording and its answers -> one result per rule. Pure: nothing is read, printed or raised."""

from __future__ import annotations

from dataclasses import replace

from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, TrustRow
from m3probe.rules._advice import by_trust
from m3probe.rules._agree import judge_agree
from m3probe.rules._counted import judge_counted
from m3probe.rules._gates import judge_gate
from m3probe.rules._paths import judge_path
from m3probe.rules._result import HOLDS, INCONCLUSIVE, joined, nothing
from m3probe.rules._roles import by_role
from m3probe.rules._values import Values, values_of
from m3probe.rules._view import View
from m3probe.rules.file import RulesFile
from m3probe.rules.formula import FormulaError
from m3probe.rules.rule import Rule
from m3probe.schema.verdicts import RuleOutcome, Trust

_LEVEL = {Trust.UNUSABLE: 0, Trust.DEGRADED: 1, Trust.COMPLETE: 2}
_FACTS = ("gate", "agree")
"""Rules on recorded facts: no kernel that was lost changes them."""


def judge(rules: RulesFile, rec: Recording, answer: Answer) -> Judgement:
    """Judge every rule.

    Args:
        rules: from ``load_rules``.
        rec: the recording; kernels and steps are counted in it.
        answer: the analyzers' sections; trust, gates and fast paths are taken from them.
    """
    view = View(rec, answer)
    values = values_of(rec) if any(_names(rule) for rule in rules.rules) else Values()
    required = [_required(rules.trust, view.trust)] if rules.trust else []
    results = [_trusted(rule, _known(rule, values, view), view) for rule in rules.rules]
    return Judgement(rules.path, view.trust, (*required, *results))


def _names(rule: Rule) -> frozenset[str]:
    return frozenset(name for span in (rule.per_step, rule.count) if span for name in span.names)


def _known(rule: Rule, values: Values, view: View) -> RuleResult:
    """The rule with its formulas worked out; one without a value cannot be judged."""
    names = _names(rule)
    why = values.why(names)
    if why:
        missing = frozenset(name for name in names if name in values.unknown)
        return nothing(rule, f"the formula has no value: {why}", f"{Values.tell(missing)}.")
    try:
        per_step, count = (span.known(values.known) if span else None for span in (rule.per_step, rule.count))
    except FormulaError as error:
        return nothing(rule, f"the formula has no value: {error}", "Change the formula in the rules file.")
    known = replace(rule, per_step=per_step, count=count)
    if count and not known.possible:
        return nothing(known, "minimum and maximum come to numbers that cannot both hold", "Change the formula.")
    return _judged(known, view)


def _judged(rule: Rule, view: View) -> RuleResult:
    if rule.kind == "gate":
        return judge_gate(rule, view)
    if rule.kind == "agree":
        return judge_agree(rule, view)
    units = view.chosen(rule)
    if not units and not (rule.kind == "path" and view.recorded(rule.rank)):
        return _absent(rule, view)
    decided = by_role(rule, view)
    if decided is not None:
        return decided
    return judge_path(rule, view) if rule.kind == "path" else judge_counted(rule, view, units)


def _absent(rule: Rule, view: View) -> RuleResult:
    if not view.units and rule.rank is None:
        why = "no trace of a rank was given: what was read holds no kernels of steps to count"
        return nothing(
            rule,
            why,
            "Add a trace, or a profiler window to a live recording (m3probe attach --profile-steps N), or ask for the path.",
        )
    there = ", ".join(unit.label for unit in view.units) or "no rank's trace"
    return nothing(rule, f"rank {rule.rank} is not in the recording (it holds {there})", "Give that rank's trace.")


# --- trust -------------------------------------------------------------------------------------------------


def _meets(trust: TrustRow | None, wanted: Trust) -> bool:
    return trust is not None and _LEVEL[Trust(trust.verdict)] >= _LEVEL[wanted]


def _required(wanted: Trust, trust: TrustRow | None) -> RuleResult:
    """``[require]``: evidence below what is asked leaves the file undecided."""
    met = _meets(trust, wanted)
    outcome: RuleOutcome = HOLDS if met else INCONCLUSIVE
    observed = trust.verdict if trust else "not judged"
    why, move = ("", "") if met else (_reasons(trust), by_trust(trust))
    return RuleResult(
        0, None, f"require trust {wanted}", outcome, f"trust {wanted}", observed, "trust", "", why, (), move
    )


def _reasons(trust: TrustRow | None) -> str:
    if trust is None:
        return "nothing judged whether this recording can be trusted"
    return joined(f"{reason.word}: {reason.text}" for reason in trust.reasons) or f"trust is {trust.verdict}"


def _trusted(rule: Rule, result: RuleResult, view: View) -> RuleResult:
    """Take back what the evidence cannot carry: any verdict on unusable evidence, a pass on too little trust."""
    facts = rule.kind in _FACTS
    unusable = view.trust is not None and view.trust.verdict == Trust.UNUSABLE
    if unusable and result.outcome is not INCONCLUSIVE and not facts:
        return _open(result, view, f"the evidence is unusable ({_reasons(view.trust)})")
    if result.outcome is not HOLDS:
        return result
    if rule.trust and not _meets(view.trust, rule.trust):
        return _open(result, view, f"trust {rule.trust} is asked for ({_reasons(view.trust)})")
    missing = view.missing_ranks()
    if missing and rule.rank is None and rule.kind != "gate":
        return _open(result, view, f"holds on the ranks that are there, but {missing}")
    return result


def _open(result: RuleResult, view: View, why: str) -> RuleResult:
    return replace(result, outcome=INCONCLUSIVE, why=why, next_move=by_trust(view.trust))
