"""The triple of a pass: the output is right, the intended paths ran, and the end-to-end metric is better.

A kernel that ran and answers nonsense is no win, and neither is one that is right and was never called, nor one that
made nothing faster. Each leg is a result of its own; a leg without evidence is inconclusive, never a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.comparing import FASTER, AskedRun, compare
from m3probe.errors import UnreadableInput, UsageError
from m3probe.model.compare_bench import BenchComparison
from m3probe.model.findings import Evidence
from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.path_report import GateRow, PathsSection
from m3probe.model.report import Answer
from m3probe.rules import Rule
from m3probe.schema.gates import GateState
from m3probe.schema.verdicts import PathVerdict, RuleOutcome

HOLDS, FAILED, INCONCLUSIVE = RuleOutcome.HOLDS, RuleOutcome.FAILED, RuleOutcome.INCONCLUSIVE
NO_PAIR = "the two hold no benchmark result of one workload point"
QUALITY_GATES = ("eval_file", "cosine")
"""Either shows that the output is right."""
SPOILING_GATES = ("eval_acceptance", "eval_length")
"""Broken, they take an evaluation's worth away; alone they show nothing."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Files with the end-to-end metric of this run, and of the one it is held against, under the same contract."""

    measured: Path | None = None
    baseline: Path | None = None


def asked_metric(measured: Path | None, baseline: Path | None, *, triple: bool) -> Metric | None:
    """The metric leg's files where the triple is asked for; None where it is not.

    Raises:
        UsageError: a file of a triple that is not asked for, or a baseline of nothing.
    """
    if not triple and (measured or baseline):
        option = "--metric" if measured else "--metric-baseline"
        raise UsageError(f"{option} is a leg of --triple", next_move="Add --triple")
    if baseline and not measured:
        raise UsageError("--metric-baseline without --metric", next_move="Give the metric that it is held against")
    return Metric(measured, baseline) if triple else None


def with_legs(judgement: Judgement, rules: Sequence[Rule], answer: Answer, metric: Metric) -> Judgement:
    """The judgement with three more results, behind those of the rules.

    Raises:
        UnreadableInput: a metric file that is named is not there.
    """
    section = answer.section(PathsSection)
    legs = (
        quality_leg(section.gates if section else ()),
        executed_leg(judgement.results, rules),
        metric_leg(metric),
    )
    return replace(judgement, results=(*judgement.results, *legs))


def quality_leg(gates: Sequence[GateRow]) -> RuleResult:
    """Output right: the evaluation or the cosines hold, and nothing says that they are worth nothing."""
    known = {gate.id: gate for gate in gates}
    asked = [known[name] for name in (*QUALITY_GATES, *SPOILING_GATES) if name in known]
    broken = [gate for gate in asked if gate.verdict == GateState.BROKEN]
    held = [gate for gate in asked if gate.id in QUALITY_GATES and gate.verdict == GateState.HOLDS]
    told = broken or held or [gate for gate in asked if gate.id in QUALITY_GATES]
    outcome = FAILED if broken else HOLDS if held else INCONCLUSIVE
    observed = "; ".join(gate.text for gate in told) or "nothing"
    why, move = "", ""
    if outcome is INCONCLUSIVE:
        why = "nothing shows that the output is right"
        move = "Give --eval FILE (with --eval-baseline FILE where it is not GSM8K), or --cosine FILE"
    elif outcome is FAILED:
        move = "Leave the change out until the output is right: what ran fast and wrong is no win"
    seen = tuple(Evidence("gates", (), 1, f"{gate.id} {gate.verdict}") for gate in told)
    expected = "an evaluation or cosines as of a healthy server"
    return _leg("output right", outcome, expected, observed, "quality", why, seen, move)


def executed_leg(results: Sequence[RuleResult], rules: Sequence[Rule]) -> RuleResult:
    """Path executed: some rule asks that something runs, and every rule holds."""
    asking = [rule.number for rule in rules if asks_for_execution(rule)]
    failed, open_ = (_numbers(results, word) for word in (FAILED, INCONCLUSIVE))
    held = sum(result.outcome is HOLDS for result in results)
    observed = f"{held:,} of {len(results):,} rules hold"
    expected = "every rule holds, and one of them asks that something runs"
    why, move = "", ""
    if failed:
        outcome, why = FAILED, f"failed: {failed}"
        move = "See the failed rules: each says what changed the state"
    elif not asking:
        outcome, why = INCONCLUSIVE, "no rule asks that anything runs"
        move = 'Add a rule with path and verdict = "executed", or with per_step or min_count'
    elif open_:
        outcome, why = INCONCLUSIVE, f"inconclusive: {open_}"
        move = "See the inconclusive rules: each says which evidence is missing"
    else:
        outcome = HOLDS
    seen = tuple(Evidence("rules", tuple(asking[:5]), len(asking), "rules that ask for execution") for _ in asking[:1])
    return _leg("path executed", outcome, expected, observed, "paths", why, seen, move)


def metric_leg(metric: Metric) -> RuleResult:
    """End-to-end metric better under the same contract: what ``compare`` says of the two runs (docs/compare.md).

    Raises:
        UnreadableInput: a file that is named is not there, or holds nothing that can be read.
    """
    expected = "better than the baseline's, beyond noise, under the same contract"
    if metric.measured is None or metric.baseline is None:
        for path in (path for path in (metric.measured, metric.baseline) if path is not None):
            _there(path)
        observed = f"not compared: {metric.measured}" if metric.measured else "nothing"
        move = (
            "Give --metric FILE with --metric-baseline FILE: the benchmark's results of both runs, or folders with them"
        )
        why = "no two runs to compare"
        return _leg("end-to-end metric", INCONCLUSIVE, expected, observed, "compare", why, (), move)
    runs = (AskedRun((metric.baseline,), "baseline"), AskedRun((metric.measured,), "this run"))
    report = compare(runs, (FASTER,))
    (pair,), (required,) = report.pairs, report.required
    if pair.metrics is None or not pair.metrics.pairs:
        return _no_pair(expected, pair.metrics)
    outcome = RuleOutcome(required.outcome)
    seen = (Evidence("bench.runs", (), len(pair.metrics.pairs), pair.answer),)
    why = "" if outcome is HOLDS else required.why
    move = "" if outcome is HOLDS else _METRIC_MOVES[outcome]
    return _leg("end-to-end metric", outcome, expected, pair.answer, "compare", why, seen, move)


def _no_pair(expected: str, found: BenchComparison | None) -> RuleResult:
    """No point of both: since none was measured, or since results that contradict themselves were left out."""
    out = [f"{one.name}: {one.why}" for one in found.left_out] if found else []
    move = "Measure both at one concurrency and one length of prompts and answers (vllm bench serve --save-result)"
    if out:
        move = "Measure these again: such figures are not held against any"
    why = f"{NO_PAIR}; left out: {'; '.join(out)}" if out else NO_PAIR
    return _leg("end-to-end metric", INCONCLUSIVE, expected, why, "compare", why, (), move)


_METRIC_MOVES = {
    FAILED: "Leave the change out, or find what else changed: m3probe compare BASELINE RUN shows where the time went",
    INCONCLUSIVE: "m3probe compare BASELINE RUN says what differs or is not known; repeat each point three times, keep the "
    "requests (--save-detailed), and put the server's log beside the result in a folder",
}


def asks_for_execution(rule: Rule) -> bool:
    """Whether the rule cannot hold where nothing of it ran."""
    spans = (rule.per_step, rule.count, rule.share)
    least = [span.low or span.low_formula for span in spans if span is not None]
    return rule.verdict is PathVerdict.EXECUTED or any(least)


def _leg(
    name: str,
    outcome: RuleOutcome,
    expected: str,
    observed: str,
    basis: str,
    why: str,
    seen: tuple[Evidence, ...],
    move: str,
) -> RuleResult:
    text = f"leg {name}"
    return RuleResult(0, None, text, outcome, expected, observed, basis, "", why, seen, move)


def _numbers(results: Sequence[RuleResult], outcome: RuleOutcome) -> str:
    found = [f"rule {r.number}" if r.number else r.rule for r in results if r.outcome is outcome]
    return ", ".join(found[:5]) + (f" and {len(found) - 5:,} more" if len(found) > 5 else "")


def _there(path: Path) -> None:
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise UnreadableInput(f"cannot be read: {reason}", where=str(path), next_move="Check the path") from error
