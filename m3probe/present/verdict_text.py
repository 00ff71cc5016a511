"""``m3probe assert``: one line per rule, its next move below it, and a summary; or the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from m3probe.model.judgement import Judgement, RuleResult
from m3probe.present.escape import safe
from m3probe.schema.verdicts import RuleOutcome

WORDS = {RuleOutcome.HOLDS: "ok", RuleOutcome.FAILED: "FAILED", RuleOutcome.INCONCLUSIVE: "inconclusive"}
_MEANING = {0: "every rule holds", 1: "a rule failed", 4: "evidence is missing or untrusted"}


_INDENT = 14
"""Columns before a rule's text: the longest outcome word, padded, and a space."""
_PROOFS = 3


def judgement_text(judgement: Judgement) -> str:
    """One line per rule in the order of the file, then totals, trust and the exit status."""
    return "\n".join([*map(result_line, judgement.results), summary_line(judgement)])


def result_line(result: RuleResult) -> str:
    """``FAILED        rule 2: kernel x in decode: exactly 6 per step | observed 5 in ... [kernels]``.

    What changed the state, and what to do, stands on a second line behind an arrow.
    """
    line = safe(f"{WORDS[result.outcome]:<{_INDENT - 1}} {title(result)} | {' | '.join(_said(result))}")
    return f"{line}\n{' ' * _INDENT}-> {safe(result.next_move)}" if result.next_move else line


def title(result: RuleResult) -> str:
    """The rule with its number, as results and test reports name it."""
    return f"rule {result.number}: {result.rule}" if result.number else result.rule


def summary_line(judgement: Judgement) -> str:
    """``3 hold, 1 failed, 0 inconclusive; trust complete; exit 1: a rule failed``."""
    holds, failed, inconclusive = (judgement.count(word) for word in WORDS)
    trust = judgement.trust.verdict if judgement.trust else "not judged"
    code = judgement.exit_code
    counts = f"{holds} hold{'' if holds != 1 else 's'}, {failed} failed, {inconclusive} inconclusive"
    return f"{counts}; trust {trust}; exit {code}: {_MEANING[code]}"


def judgement_dict(judgement: Judgement) -> dict[str, Any]:
    """The judgement for machines; ``exit_code`` is the process's status."""
    return {
        "rules": judgement.rules_path,
        "exit_code": judgement.exit_code,
        "totals": {str(word): judgement.count(word) for word in WORDS},
        "trust": asdict(judgement.trust) if judgement.trust else None,
        "results": [asdict(result) for result in judgement.results],
    }


def judgement_json(judgement: Judgement) -> str:
    """``assert --json``: ASCII, with foreign text spelt as on the terminal."""
    return json.dumps(_spelt(judgement_dict(judgement)), indent=1)


def details(result: RuleResult) -> str:
    """Everything known about a result, one fact a line."""
    lines = [f"expected: {result.expected}", f"observed: {result.observed} [{result.basis}]"]
    lines += [f"where: {result.where}"] if result.where else []
    lines += [f"why: {result.why}"] if result.why else []
    lines += [f"evidence: {proof}" for proof in proofs(result)]
    lines += [f"next move: {result.next_move}"] if result.next_move else []
    return "\n".join(map(safe, lines))


def proofs(result: RuleResult) -> list[str]:
    """Each piece of evidence as its table and rows (``kernels rows 4, 5 of 7``), or as what was seen without rows."""
    return [
        f"{row.table} rows {', '.join(map(str, row.rows))} of {row.count:,}"
        if row.rows
        else f"{row.table}: {row.observed}"
        for row in result.evidence
    ]


def _said(result: RuleResult) -> Iterator[str]:
    yield f"observed {result.observed} [{result.basis}]"
    if result.where:
        yield f"at {result.where}"
    if result.why:
        yield result.why
    if found := proofs(result):
        more = f"; and {len(found) - _PROOFS} more" if len(found) > _PROOFS else ""
        yield f"evidence: {'; '.join(found[:_PROOFS])}{more}"


def _spelt(value: Any) -> Any:
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {key: _spelt(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_spelt(inner) for inner in value]
    return value
