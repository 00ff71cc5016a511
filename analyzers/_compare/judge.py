"""Runs held against the first of them: one answer per pair, in the order in which it must be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from m3probe.analyzers._compare.contract import contract
from m3probe.analyzers._compare.credit import put_down
from m3probe.analyzers._compare.doubt import doubted
from m3probe.analyzers._compare.effects import OF_PHASE, Effect, beside, effects, listed, noise, what_others_do
from m3probe.analyzers._compare.evals import evaluation
from m3probe.analyzers._compare.hosts import host_changes
from m3probe.analyzers._compare.kernels import mix, phase_changes
from m3probe.analyzers._compare.known_gates import workload_gates
from m3probe.analyzers._compare.metrics import metrics
from m3probe.analyzers._compare.moved import moved
from m3probe.analyzers._compare.paths import path_changes
from m3probe.analyzers._compare.shapes import shape_changes
from m3probe.analyzers._compare.trail import trail
from m3probe.model.compare_bench import BenchComparison, Crossing
from m3probe.model.compare_report import (
    BETTER,
    NO_CHANGE,
    WORSE,
    CompareReport,
    Contract,
    Pair,
    RunRow,
    Setting,
)  # fmt: skip
from m3probe.model.compare_run import RunKept
from m3probe.schema.verdicts import Trust

WIDE = 0.10
"""Noise from which on the answer tells it: what a change of this model's flags brings is of this size."""
Settings = Mapping[str, Sequence[Setting] | None]


def compared(runs: Sequence[RunKept], settings: Settings, crossings: Mapping[str, Crossing | None]) -> CompareReport:
    """The whole answer, without what was required.

    Args:
        runs: two or more; the first is what the others are held against.
        settings: name of a later run -> what its configuration changes; None where it is not known of both.
        crossings: name of a later run -> where its kernels overtake the first run's.
    """
    first, *others = runs
    pairs = tuple(pair(first, run, settings.get(run.name), crossings.get(run.name)) for run in others)
    return CompareReport(tuple(map(_row, runs)), pairs, trail(runs))


def pair(a: RunKept, b: RunKept, settings: Sequence[Setting] | None, crossing: Crossing | None) -> Pair:
    """One run against the first."""
    found = contract(a, b, settings)
    measured = _measured(a, b, crossing)
    hosts = host_changes(a, b)
    phases = doubted(phase_changes(a, b), hosts, a, b)
    told = effects(measured, phases)
    return Pair(
        before=a.name,
        after=b.name,
        answer=_answer(a, b, found, told, measured),
        beside=beside(measured, phases),
        contract=found,
        metrics=measured,
        mix=mix(a, b),
        phases=phases,
        hosts=hosts,
        shapes=shape_changes(a, b),
        paths=path_changes(a, b),
        credits=put_down(a, b, found, told, phases),
        moved=moved(a, b),
        crossing=crossing,
    )


def _measured(a: RunKept, b: RunKept, crossing: Crossing | None) -> BenchComparison | None:
    """The clients' figures, and what the answers were worth; None where neither is known of both."""
    evals = (a.gates.run, b.gates.run)
    if a.bench and b.bench:
        setup = b.setup or a.setup
        layers = setup.model.moe_layers if setup else None
        gates = workload_gates(a.setup, b.setup)
        return metrics(a.bench, b.bench, moe_layers=layers, evals=evals, gates=gates, crossing=crossing)
    graded = evaluation(*evals)
    return BenchComparison(evaluation=graded) if graded else None


def doubts(runs: Sequence[RunKept]) -> tuple[str, ...]:
    """What keeps a run from being held against anything: ranks that are not one server, evidence that is unusable."""
    found = [f"{run.name} is not one server: {text}" for run in runs for text in run.ranks]
    unusable = [r for r in runs if r.trust and r.trust.verdict == Trust.UNUSABLE and not r.bench]
    reasons = [(run.name, run.trust.reasons) for run in unusable if run.trust]
    found += [f"{name} cannot be trusted: {'; '.join(r.text for r in why)}" for name, why in reasons]
    return tuple(found)


def faster(p: Pair, runs: Sequence[RunKept]) -> tuple[str, str]:
    """(``holds failed inconclusive``, why): better beyond noise under the same contract, and nowhere worse."""
    asked = [run for run in runs if run.name in (p.before, p.after)]
    if unfit := doubts(asked):
        return "inconclusive", unfit[0]
    if not p.contract.comparable:
        return "inconclusive", p.contract.claim
    told = effects(p.metrics, p.phases)
    words = {effect.verdict for effect in told.values() if not effect.bare}
    said = "; ".join(effect.said(3) for effect in told.values()) or "nothing was measured of both"
    if WORSE in words:
        return "failed", f"worse: {said}"
    if BETTER in words:
        return "holds", said
    if words == {NO_CHANGE}:
        hidden = _wide(told)  # wide noise proves no sameness
        return ("inconclusive" if hidden else "failed"), f"no change beyond noise{hidden}: {said}"
    return "inconclusive", f"no figure that is sure: {said}"


def _answer(
    a: RunKept, b: RunKept, found: Contract, told: Mapping[str, Effect], measured: BenchComparison | None
) -> str:
    figures = _figures(told)
    figures = figures or ("no point was measured by both" if measured is not None else "no figure is known of both")
    if unfit := doubts((a, b)):
        return f"no claim: {unfit[0]}"
    still = f"no change beyond noise{_wide(told)}"
    if not found.comparable:
        unmoved = told and all(effect.verdict == NO_CHANGE for effect in told.values())
        return f"{f'{still}: ' if unmoved else ''}{figures}: {found.claim}"
    verdicts = {effect.verdict for effect in told.values() if not effect.bare}
    word = (
        "worse" if WORSE in verdicts and BETTER not in verdicts
        else "better" if BETTER in verdicts and WORSE not in verdicts
        else "better in one thing and worse in another" if {BETTER, WORSE} <= verdicts
        else still if verdicts == {NO_CHANGE}
        else "no difference is proven"
    )  # fmt: skip
    return f"{word}: {figures} ({found.claim})"


def _figures(told: Mapping[str, Effect]) -> str:
    """Of each thing measured the figures that say what happened to it; where some moved those alone, with the word."""
    found = [told[key] for key in ("", *OF_PHASE) if key in told]
    if all(effect.verdict not in (BETTER, WORSE) for effect in found):
        return "; ".join(effect.said(SHOWN) for effect in found)
    moved_ = [e for e in found if e.verdict in (BETTER, WORSE)]
    mixed = len({e.verdict for e in moved_}) > 1
    mine = [
        listed([f for f in e.figures if f.verdict == e.verdict], SHOWN, verdicts=mixed)
        + (f" (unsure: {e.bare})" if e.bare else "")
        for e in moved_
    ]
    still = [f for e in found for f in e.figures if e not in moved_ or f.verdict != e.verdict]
    return "; ".join([*mine, *([what_others_do(still)] if still else [])])


def _wide(told: Mapping[str, Effect]) -> str:
    """How large a change the noise hides: nothing is the same because nobody could have seen a difference."""
    found = noise(told)
    if found is None or found[1] < WIDE:
        return ""
    return f", which hides up to {100 * found[0]:.0f} to {100 * found[1]:.0f} %"


SHOWN = 3


def _row(run: RunKept) -> RunRow:
    steps = tuple(group.times for group in run.groups if group.times is not None)
    return RunRow(run.name, run.inputs, run.outcome, run.notes, run.trust, run.ranks, run.stated, steps, run.paths)
