"""What does drafting cost? The share of step time behind the target's graph, which holds the draft loop.

Kernels carry no role: draft and target share their names. Where the target replays one graph, all that is launched after
it in a step that verifies drafts is sampling and the draft loop: an upper bound of it. Elsewhere it stays unproven.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._basis import removable_share
from m3probe.analyzers._engine import told
from m3probe.analyzers._view import View, decode_tokens, in_phases, percent, view
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.tables import NONE, Array
from m3probe.plugs import Analyzer
from m3probe.schema.verdicts import Phase

TARGET = 0.5
"""The first graph of a step is the target's where it holds more than this share of the step's kernels."""


def judge(rec: Recording, so_far: Answer) -> Answer:
    """One finding where drafts are verified or configured; none elsewhere."""
    seen = view(rec, so_far)
    steps = verifying(rec)
    asked = rec.meta.setup is not None and rec.meta.setup.spec_tokens > 0
    if not len(steps) and not asked and not len(rec.tables["draft_replays"]):
        return Answer()
    return Answer(findings=tuple(_finding(seen, steps)))


ANALYZER = Analyzer(title="What does drafting cost?", order=32, judge=judge)


def verifying(rec: Recording) -> Array:
    """Rows of decode steps whose rows hold drafts."""
    steps = np.flatnonzero(in_phases(rec, Phase.DECODE))
    requests = np.where(rec.steps["gen_reqs"] >= 0, rec.steps["gen_reqs"], rec.steps["requests"])
    return steps[decode_tokens(rec)[steps] > np.maximum(requests[steps], 0)]


def behind_target(rec: Recording, steps: Array) -> Array | None:
    """Kernels launched after the first graph of each step; None where one step's first graph is not most of it."""
    calls, kernels = rec.launches, rec.kernels
    graphs = np.flatnonzero(rec.graph_launches & np.isin(calls["step"], steps))
    graphs = graphs[np.argsort(calls["start_ns"][graphs], kind="stable")]
    known, at = np.unique(calls["step"][graphs], return_index=True)
    if len(known) < len(steps):
        return None
    first = np.full(len(rec.steps), NONE)
    first[known] = graphs[at]
    own = np.flatnonzero((kernels["launch"] != NONE) & np.isin(kernels["step"], steps))
    launch, target = kernels["launch"][own], first[kernels["step"][own]]
    inside = launch == target
    of_graph, of_all = (np.bincount(kernels["step"][rows], minlength=len(rec.steps)) for rows in (own[inside], own))
    if (of_graph[steps] <= TARGET * of_all[steps]).any():
        return None
    found: Array = own[~inside & (calls["start_ns"][launch] > calls["start_ns"][target])]
    return found


def _finding(seen: View, steps: Array) -> Iterator[Finding]:
    rec = seen.rec
    timed = steps if seen.decode is None else np.intersect1d(steps, seen.decode.steps)
    behind = behind_target(rec, timed) if len(timed) else None
    if seen.decode is None or behind is None:
        yield _unproven(rec, steps, "no decode step has one graph for the target, behind which drafting could be told")
        return
    bound = removable_share(
        rec, behind, seen.decode, more=" (all kernels behind the target's graph: sampling and drafting)"
    )
    yield Finding(
        id="draft.loop",
        question="draft",
        verdict="at_most",
        claim=f"Drafting takes at most {percent(bound.high)} of {seen.decode.name}: that is all work launched behind the target's "
        "graph, sampling with it",
        where=seen.decode.where,
        evidence=(
            evidence(
                "kernels", behind, f"{len(behind):,} kernels behind the graph in {told(rec, timed, 'decode steps')}"
            ),
        ),
        advice="Fewer drafted tokens, a graph for the drafter, or its attention backend (question paths, draft_attention); "
        "what a shorter loop is worth depends on the tokens accepted (question queues)",
        bound=bound,
        confidence="low",
        trusted=seen.trusted,
    )


def _unproven(rec: Recording, steps: Array, why: str) -> Finding:
    return Finding(
        id="draft.unproven",
        question="draft",
        verdict="unproven",
        claim=f"The draft loop's share of a step is unproven: kernels of draft and target share their names, and {why}",
        where="decode",
        evidence=(evidence("steps", steps, f"{told(rec, steps, 'decode steps')} verify drafts"),) if len(steps) else (),
        advice="Record decode steps in which the target runs as one FULL graph, or compare a server without drafts",
    )
