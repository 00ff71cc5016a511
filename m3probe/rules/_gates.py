"""Rules on correctness gates: the verdict that the analysis gave, with its numbers."""

from __future__ import annotations

from m3probe.model.findings import Evidence
from m3probe.model.judgement import RuleResult
from m3probe.rules._result import FAILED, HOLDS, INCONCLUSIVE, nothing, result
from m3probe.rules._view import View
from m3probe.rules.file import GATES
from m3probe.rules.rule import Rule
from m3probe.schema.gates import GateState

_OUTCOMES = {GateState.HOLDS: HOLDS, GateState.BROKEN: FAILED, GateState.UNPROVEN: INCONCLUSIVE}


def judge_gate(rule: Rule, view: View) -> RuleResult:
    """``holds`` holds, ``broken`` fails, ``unproven`` is inconclusive."""
    row = next((row for row in view.paths.gates if row.id == rule.name), None) if view.paths else None
    if row is None:
        return nothing(rule, "the gates were not analyzed")
    outcome = _OUTCOMES[row.verdict]
    gate = GATES.load(rule.name)
    next_move = ""
    if gate is not None and outcome is FAILED:
        next_move = f"{row.title} is what must be true; the facts: {gate.facts}. What it did once: {gate.trap}"
    elif gate is not None and outcome is INCONCLUSIVE:
        next_move = f"{_INPUTS.get(rule.name, _RECORD)} The facts: {gate.facts}"
    said = (Evidence("gates", (), 1, row.text, row.title),)
    why = "" if outcome is HOLDS else row.text
    return result(rule, outcome, f"{row.verdict}: {row.text}", "gates", why, said, "", next_move)


_RECORD = "Record the server with m3probe attach."
_EVAL = "Give the evaluation with --eval FILE."
_INPUTS = {
    "eval_file": _EVAL,
    "eval_acceptance": _EVAL,
    "eval_length": _EVAL,
    "cosine": "Give cosines with a float32 reference with --cosine FILE.",
}
