"""Rules judged, and calls of a fast path in each single step beyond their mean.

The analysis keeps a path's calls by rank and phase, so that a rule on them compares a mean. Where kernels or a census tell
each step's own calls, two steps of 56 and 58 are not two of 57.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from m3probe.analyzers._anchors import Names, calls_of, total_of
from m3probe.analyzers._places import places
from m3probe.fastpaths import fast_paths
from m3probe.model.executed import executed
from m3probe.model.findings import evidence
from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.tables import Array
from m3probe.rules import Rule, RulesFile, Span, judge
from m3probe.rules._values import values_of
from m3probe.schema.verdicts import PHASES, Phase, RuleOutcome


def judged(rules: RulesFile, rec: Recording, answer: Answer) -> Judgement:
    """One result per rule: what ``assert`` and the pytest plugin say."""
    judgement = judge(rules, rec, answer)
    asked = {rule.number: rule for rule in rules.rules if rule.kind == "path" and rule.per_step is not None}
    return replace(judgement, results=tuple(_each(rec, asked.get(r.number), r) for r in judgement.results))


def _each(rec: Recording, rule: Rule | None, found: RuleResult) -> RuleResult:
    if rule is None or found.outcome is not RuleOutcome.HOLDS:
        return found
    return _uneven(rec, rule) or found


def _uneven(rec: Recording, rule: Rule) -> RuleResult | None:
    """The failure of a rule whose mean holds and whose single steps do not; None where all do, or none is told."""
    steps, counts = _per_step(rec, rule)
    if rule.per_step is None or not counts.any():
        return None  # a live recording has steps by kind: their sums are all there is
    wanted = rule.per_step.known({**values_of(rec).known, "steps": len(steps)})
    over = counts > (np.inf if wanted.high is None else wanted.high)
    bad = steps[over | (counts < (wanted.low or 0))]
    return _failed(rec, rule, wanted, counts, bad) if len(bad) else None


def _per_step(rec: Recording, rule: Rule) -> tuple[Array, Array]:
    """Rows of the steps table that the rule looks at, and the path's calls in each."""
    path = fast_paths()[rule.name]
    where = places(rec)
    total = total_of(path, calls_of(rec, path, Names(rec, executed(rec)), where), where)
    phases = [rule.phase] if rule.phase else path.decided_by or path.phases
    wanted = [PHASES.index(Phase(phase)) for phase in phases]
    files = [i for i, f in enumerate(rec.files) if f.role == "rank" and rule.rank in (None, f.rank)]
    at = np.flatnonzero(where.is_step & np.isin(where.phase, wanted) & np.isin(where.file, files))
    return at, total[at]


def _failed(rec: Recording, rule: Rule, wanted: Span, counts: Array, bad: Array) -> RuleResult:
    found = Counter(counts.tolist()).most_common()
    said = ", ".join(f"{number:,} in {steps:,}" for number, steps in found[:4])
    observed = f"{said}{', ...' if len(found) > 4 else ''} of {len(counts):,} steps"
    names = rec.strings.of(rec.steps["name"][bad[:3]].tolist())
    where = ", ".join(f"step {row} {name}" for row, name in zip(bad[:3].tolist(), names, strict=True))
    why = f"{len(bad):,} of {len(counts):,} steps made another number of calls, though their mean fits"
    seen = (evidence("steps", bad, observed, wanted.words()),)
    move = "Name the phase or the rank where they differ, or give a range."
    expected = f"{wanted.words()} in every step"
    return RuleResult(
        rule.number, rule.line, rule.text, RuleOutcome.FAILED, expected, observed, "kernels", where, why, seen, move
    )
