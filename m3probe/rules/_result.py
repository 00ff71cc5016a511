"""A rule's result from what was found of it."""

from __future__ import annotations

from collections.abc import Iterable

from m3probe.model.findings import Evidence
from m3probe.model.judgement import RuleResult
from m3probe.rules.rule import Rule
from m3probe.schema.verdicts import RuleOutcome

HOLDS, FAILED, INCONCLUSIVE = RuleOutcome.HOLDS, RuleOutcome.FAILED, RuleOutcome.INCONCLUSIVE
WORST = (FAILED, INCONCLUSIVE, HOLDS)


def result(
    rule: Rule,
    outcome: RuleOutcome,
    observed: str,
    basis: str = "none",
    why: str = "",
    evidence: tuple[Evidence, ...] = (),
    where: str = "",
    next_move: str = "",
) -> RuleResult:
    """The result of one rule."""
    return RuleResult(
        number=rule.number,
        line=rule.line,
        rule=rule.text,
        outcome=outcome,
        expected=rule.expected,
        observed=observed,
        basis=basis,
        where=where,
        why=why,
        evidence=evidence,
        next_move=next_move,
    )


def nothing(rule: Rule, why: str, next_move: str = "") -> RuleResult:
    """Nothing was there to judge the rule by."""
    return result(rule, INCONCLUSIVE, "nothing", why=why, next_move=next_move)


def joined(texts: Iterable[str], most: int = 3) -> str:
    """Distinct texts, the first few."""
    distinct = list(dict.fromkeys(text for text in texts if text))
    return "; ".join(distinct[:most]) + (f"; and {len(distinct) - most} more" if len(distinct) > most else "")
