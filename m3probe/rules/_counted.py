"""Rules on kernels and families over ranks: the worst check of any rank speaks for the rule."""

from __future__ import annotations

from m3probe.model.judgement import RuleResult
from m3probe.rules import _advice
from m3probe.rules._counts import Check, checks
from m3probe.rules._result import FAILED, HOLDS, WORST, joined, nothing, result
from m3probe.rules._view import Unit, View
from m3probe.rules.rule import Rule


def judge_counted(rule: Rule, view: View, units: list[Unit]) -> RuleResult:
    """Every unit by itself; a rank that broke the rule is never averaged away."""
    scopes = [view.scope(unit, rule.phase) for unit in units]
    seen = [scope for scope in scopes if rule.phase is None or len(scope.steps)]
    if not seen:
        return nothing(rule, f"no {rule.phase} step was recorded", _advice.no_steps(str(rule.phase), view.rec))
    found = [check for scope in seen for check in checks(rule, view, scope)]
    left_out = [scope.unit for scope in scopes if scope not in seen]
    return _rolled_up(rule, view, found, left_out)


def _rolled_up(rule: Rule, view: View, found: list[Check], left_out: list[Unit]) -> RuleResult:
    outcome = next(word for word in WORST if any(check.outcome is word for check in found))
    told = [check for check in found if check.outcome is outcome]
    several = len(view.units) > 1
    observed = _observed(told, several)
    if several and left_out:
        observed += f" (no {rule.phase} step on {', '.join(unit.label for unit in left_out)})"
    near = "" if rule.forbid or view.hits(rule).any() else view.near(rule)
    if near:
        observed += f"; the nearest kernel name seen is {near}"
    where = joined(f"{c.label}: {c.where}" if several else c.where for c in told if c.where)
    return result(
        rule,
        outcome,
        observed,
        told[0].basis,
        joined(check.why for check in told),
        tuple(row for check in told for row in check.evidence)[:8],
        where,
        "" if outcome is HOLDS else _next_move(rule, view, failed=outcome is FAILED),
    )


def _next_move(rule: Rule, view: View, *, failed: bool) -> str:
    lost = "" if failed else _advice.by_trust(view.trust)
    rows = view.paths.paths if view.paths and rule.kind == "kernel" else ()
    own = _advice.of_kernel(rule.name, rows, view.rec, failed=failed) if rows else ""
    ran = view.instead(rule) if failed else ""
    instead = f"Kernels of its family that ran: {ran}." if ran else ""
    said = " ".join(part for part in (lost, instead, own) if part)
    if said:
        return said
    if failed:
        return _CHANGED
    return _advice.no_steps("", view.rec) if rule.per_step else _advice.AGAIN


_CHANGED = (
    "Compare with the last recording on which it held: what was changed in the image, the flags or the environment."
)


def _observed(told: list[Check], several: bool) -> str:
    """All checks of the first unit that decided, and how many more units ended the same way."""
    first = told[0].label
    text = "; ".join(check.observed for check in told if check.label == first)
    if not several:
        return text
    others = len({check.label for check in told} - {first})
    return f"{first}: {text}" + (f" (and {others} more ranks)" if others else "")
