"""Question 2: what repeats per step, layer, output token and request, and what does it add up to?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._costs import RESPONSE_TOKENS, cost_findings, costs, drafts
from m3probe.analyzers._coverage import coverage_findings, graph_coverage
from m3probe.analyzers._engine import count, told
from m3probe.analyzers._layers import Layers, layers
from m3probe.analyzers._ledger_repeats import coverage_rows, repeat_rows
from m3probe.analyzers._relayout import relayout_findings
from m3probe.analyzers._sparse_work import index_reuse_finding, shared_expert_finding
from m3probe.analyzers._view import UNTIMED_SHARE, View, decode_tokens, in_phases, view
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.repeat_report import LayersRow, RepeatRow, RepeatsSection
from m3probe.model.report import Answer
from m3probe.model.tables import Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import FAMILIES, Evidence, Phase

_PHASES = (Phase.PREFILL, Phase.DECODE, Phase.MIXED, Phase.UNKNOWN)


def judge(rec: Recording, so_far: Answer) -> Answer:
    """Launches by family, graph coverage and costs, with findings about work that need not repeat."""
    seen = view(rec, so_far)
    found = layers(seen)
    rows = (*_rows(seen, found), *repeat_rows(rec))
    covered = tuple(coverage_rows(rec)) or graph_coverage(rec)
    section = RepeatsSection(rows, covered, costs(seen), _layers(found))
    graphs = tuple(coverage_findings(seen))
    # the same idle time is bounded once, by the finding that names its cause
    explained = next((finding.id for finding in graphs if finding.bound is not None), "")
    findings = (
        *_unproven(seen),
        *_launches(seen, found),
        *graphs,
        *cost_findings(seen, explained=explained),
        *shared_expert_finding(seen),
        *index_reuse_finding(seen, found),
        *relayout_findings(seen),
    )
    return Answer((section,), findings)


ANALYZER = Analyzer(title="What runs again and again?", order=30, judge=judge)


def _layers(found: Layers) -> LayersRow:
    return LayersRow(dense_attention=found.dense, sparse_attention=found.sparse, moe=found.moe)


def _rows(view: View, layers: Layers) -> Iterator[RepeatRow]:
    """Families of each phase, the most expensive first."""
    for phase in _PHASES:
        steps = view.steps(phase)
        if len(steps):
            found = [row for row in (_row(view, layers, phase, steps, i) for i in range(len(FAMILIES))) if row]
            yield from sorted(found, key=lambda row: (-(row.ns_per_step or 0.0), -row.per_step, row.family))


def _row(view: View, layers: Layers, phase: Phase, steps: Array, family: int) -> RepeatRow | None:
    rows = view.rows_in(steps) & (view.ex.family == family)
    number_of = int(rows.sum())
    if not number_of:
        return None
    per_step = number_of / len(steps)
    # a step of unknown phase may hold several passes through the layers
    number = None if phase is Phase.UNKNOWN else layers.of(FAMILIES[family], per_step)
    untimed = int((view.ex.dur_ns[rows] < 0).sum())
    known = untimed <= UNTIMED_SHARE * number_of and not view.time.short[in_phases(view.rec, phase)].any()
    time_ns = view.time_ns(rows) if known else None
    return RepeatRow(
        phase=str(phase),
        family=str(FAMILIES[family]),
        per_step=per_step,
        per_layer=per_step / number if number else None,
        ns_per_output_token=_per_token(view, phase, steps, time_ns),
        ns_per_step=None if time_ns is None else time_ns / len(steps),
        evidence=str(Evidence.CENSUS if (view.ex.kernel[rows] < 0).any() else Evidence.KERNELS),
    )


def _per_token(view: View, phase: Phase, steps: Array, time_ns: int | None) -> float | None:
    """Only decode makes output tokens alone; rows that hold drafts do not say how many came out."""
    tokens = decode_tokens(view.rec)[steps]
    if phase is not Phase.DECODE or time_ns is None or (tokens < 0).any() or not tokens.sum():
        return None
    return None if drafts(view.rec, steps) else time_ns / int(tokens.sum())


def _unproven(view: View) -> Iterator[Finding]:
    """Steps of which the trace shows no kernels, or not those of their graphs."""
    working = in_phases(view.rec, *_PHASES)
    steps = np.flatnonzero(working & ~view.proven)
    if not len(steps):
        return
    yield Finding(
        id="repeats.unproven",
        question="repeats",
        verdict="unproven",
        claim=f"What ran in {count(view.rec, steps):,} of {count(view.rec, np.flatnonzero(working)):,} steps is unproven: the trace holds no kernels of theirs, "
        "or not those of their graphs; they are left out of every mean",
        where="",
        evidence=(evidence("steps", steps, "no kernels, or graph launches without kernels"),),
        advice="Add the graph-capture traces of the run (capture_traces/), or record with a profiler build that keeps graph "
        "kernels",
        trusted=view.trusted,
    )


def _launches(view: View, layers: Layers) -> Iterator[Finding]:
    """A cost paid per layer and token is paid tens of thousands of times in one response (method W2)."""
    steps = view.steps(Phase.DECODE)
    if not len(steps):
        return
    total = int(view.rows_in(steps).sum())
    per_step = total / len(steps)
    kinds = ((layers.dense, "dense attention"), (layers.sparse, "sparse attention"), (layers.moe, "MoE"))
    parts = ", ".join(f"{number} {kind}" for number, kind in kinds if number)
    said = f" over {layers.all} layers ({parts})" if layers.all else ""
    sparse = (
        f"; work done once per sparse layer is done {layers.sparse * RESPONSE_TOKENS:,} times" if layers.sparse else ""
    )
    yield Finding(
        id="repeats.launches",
        question="repeats",
        verdict="measured",
        claim=f"A decode step runs {per_step:,.1f} kernels{said}: {per_step * RESPONSE_TOKENS:,.0f} in the "
        f"{RESPONSE_TOKENS:,} steps of a {RESPONSE_TOKENS:,}-token response{sparse}",
        where="decode",
        evidence=(evidence("steps", steps, f"{total:,} kernels in {told(view.rec, steps, 'decode steps')}"),),
        advice="Multiply every small cost by these numbers before judging it small",
        trusted=view.trusted,
    )
