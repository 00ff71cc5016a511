"""Findings of question 1 that are about what is proven: the layout, foreign shapes, and GEMMs without a shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from m3probe.analyzers._gemm import GemmGroup, Gemms, calls_of, evidence_of
from m3probe.analyzers._gemm_ops import GROUPED, LINEAR
from m3probe.analyzers._layout import Layout
from m3probe.analyzers._tensors import json_list, sizes_of
from m3probe.model.executed import Executed
from m3probe.model.findings import Evidence, Finding, evidence
from m3probe.model.m3_shapes import LayoutCandidate, LocalGemm, illegal_reason, local_shapes
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import PHASES

_SHOWN = 6
_AITER_SLOTS = (129, 5)
"""Experts and top-k of aiter's tuned M3 lists at commit e4048607 (minimax_m3_{mxfp8,fp4}_tuned_fmoe.csv)."""


def layout_findings(model: Layout, groups: Sequence[GemmGroup], opaque: Sequence[GemmGroup]) -> Iterator[Finding]:
    """Layout proven or not, another one than the user gave, and shapes that the layout does not have."""
    best = model.chosen
    linear = [g for g in groups if g.shape and g.shape.kind == LINEAR]
    if best is None or not best.fits:
        yield _unproven_layout(model, linear, opaque)
        return
    yield _proven_layout(model, best, linear)
    if model.tp and model.tp != best.tp:
        yield _other_layout(model, best, linear)
    foreign = [g for g in linear if g.shape and (g.shape.N, g.shape.K) in best.unexplained]
    if foreign:
        yield _foreign(model, best, foreign)


def _sizes(gemms: Sequence[LocalGemm]) -> str:
    return ", ".join(f"{g.module} [{g.N}, {g.K}]" for g in gemms)


def _proven_layout(model: Layout, best: LayoutCandidate, linear: Sequence[GemmGroup]) -> Finding:
    pairs = {gemm.pair for gemm in best.matched}
    seen = calls_of(g for g in linear if g.shape and (g.shape.N, g.shape.K) in pairs)
    shared = ", shared expert not fused" if best.fuse_shared_experts is False else ""
    head = ", lm_head not divided" if best.lm_head == "whole" and best.tp > 1 else ""
    return Finding(
        id="shapes.layout",
        question="shapes",
        verdict="proven",
        claim=f"The local shapes are those of {model.config.name} at TP{best.tp}{shared}{head}",
        where="all phases",
        evidence=evidence_of(seen, _sizes(best.matched), f"every linear layer of a TP{best.tp} rank"),
        advice="Tune on the (M, N, K) counts of the histogram; names like TP4 or decode are labels, not shapes.",
    )


def _other_layout(model: Layout, best: LayoutCandidate, linear: Sequence[GemmGroup]) -> Finding:
    given = model.tp or 1
    reason = illegal_reason(model.config, given)
    wanted = {g.module: g for g in local_shapes(model.config, given)} if reason is None else {}
    differ = [(g, wanted[g.module]) for g in best.matched if g.module in wanted and wanted[g.module].pair != g.pair]
    expected = _sizes([other for _, other in differ]) or reason or f"TP{given}"
    return Finding(
        id="shapes.layout_differs",
        question="shapes",
        verdict="unexpected",
        claim=f"TP{given} was given, but the shapes that ran are those of TP{best.tp}"
        + (f" (TP{given} is not possible: {reason})" if reason else ""),
        where="all phases",
        evidence=evidence_of(calls_of(linear), _sizes([g for g, _ in differ]) or _sizes(best.matched), expected),
        advice="Compare the server's --tensor-parallel-size with the recording before any conclusion from the layout.",
    )


def _unproven_layout(model: Layout, linear: Sequence[GemmGroup], opaque: Sequence[GemmGroup]) -> Finding:
    best = model.chosen
    if best:
        claim = f"No layout of {model.config.name} is there as a whole; TP{best.tp} comes nearest"
        seen, expected = f"seen: {_sizes(best.matched)}", f"not seen: {_sizes(best.missing)}"
    else:
        pairs = sorted({(g.shape.N, g.shape.K) for g in linear if g.shape})
        claim = f"The shapes prove no layout of {model.config.name}: fewer than two of any layout's were seen"
        seen, expected = f"seen (N, K): {pairs[:_SHOWN]}" if pairs else "no linear shape", "all of one layout"
    if opaque:
        claim += f" ({sum(g.count for g in opaque):,} GEMM calls have no shape)"
    return Finding(
        id="shapes.layout",
        question="shapes",
        verdict="unproven",
        claim=claim,
        where="all phases",
        evidence=evidence_of(calls_of(linear or opaque), seen, expected),
        advice="A pipeline stage or a single phase holds part of the layers only; record prefill and decode of one rank.",
    )


def _foreign(model: Layout, best: LayoutCandidate, foreign: Sequence[GemmGroup]) -> Finding:
    counts: Counter[tuple[int, int]] = Counter()
    for group in foreign:
        if group.shape:
            counts[group.shape.N, group.shape.K] += group.count
    shown = ", ".join(f"[{n}, {k}] x {count:,}" for (n, k), count in counts.most_common(_SHOWN))
    return Finding(
        id="shapes.unpredicted",
        question="shapes",
        verdict="unexpected",
        claim=f"{len(counts)} linear shapes are none of {model.config.name}'s at TP{best.tp}",
        where="all phases",
        evidence=evidence_of(calls_of(foreign), f"(N, K) {shown}", f"the layers of a TP{best.tp} rank"),
        advice="A draft model, an adapter or a padded weight brings shapes of its own; tune them by themselves.",
    )


def opaque_findings(rec: Recording, found: Gemms, *, trusted: bool) -> Iterator[Finding]:
    """How many GEMM calls show no shape, and which replays show no kernel: missing from the histogram, not zero."""
    groups = sorted(found.opaque, key=lambda g: -g.count)
    unseen = np.flatnonzero(rec.unseen_replays)
    if not groups and not len(unseen):
        return
    lost = _unseen_evidence(rec, unseen)
    calls, shaped = sum(g.count for g in groups), sum(g.count for g in found.shaped)
    claims = [f"{calls:,} of {calls + shaped:,} GEMM calls have no shape"] if groups else []
    claims += [f"the GEMMs of {_graphs(len(unseen))} are unknown (no kernel record, no census)"] if lost else []
    reasons = "; ".join(f"{count:,} {reason}" for reason, count in found.why.most_common(_SHOWN))
    shown = evidence_of(calls_of(groups), reasons, "M, N, K of an operator around the launch")
    steps = np.unique(rec.launches["step"][unseen])
    phases = {PHASES[i] for i in np.unique(rec.steps["phase"][steps[steps >= 0]]).tolist()} | {g.phase for g in groups}
    replayed = bool(lost) or any("graph" in reason for reason in found.why)
    census = "Give the graphs' capture trace with it (capture_traces/ beside the rank files), or record"
    yield Finding(
        id="shapes.unproven",
        question="shapes",
        verdict="unproven",
        claim=f"{'; '.join(claims)}: the histogram is without them",
        where=", ".join(sorted(map(str, phases))),
        evidence=(*lost, *shown),
        advice=f"{census if replayed else 'Record'} a short eager window with record_shapes.",
        trusted=trusted,
    )


def _graphs(count: int) -> str:
    return f"{count:,} graph launch{'es' * (count != 1)}"


def _unseen_evidence(rec: Recording, unseen: Array) -> tuple[Evidence, ...]:
    """Graph launches of which nothing is known, and their steps."""
    if not len(unseen):
        return ()
    at = rec.launches["step"][unseen]
    steps = np.unique(at[at >= 0])
    counts = Counter(str(PHASES[i]) for i in rec.steps["phase"][steps].tolist())
    inside = ", ".join(f"{count:,} {phase} step{'s' * (count != 1)}" for phase, count in counts.most_common())
    said = f"{_graphs(len(unseen))}{f' in {inside}' if inside else ''}"
    launches = evidence("launches", unseen, said, "kernel records, or the graph in a census")
    return (launches, evidence("steps", steps, inside, "kernels of their graphs")) if inside else (launches,)


def moe_findings(
    rec: Recording, ex: Executed, found: Gemms, model: Layout | None, *, trusted: bool
) -> Iterator[Finding]:
    """What is known of grouped GEMMs whose operator hides its weights, and the key that AITER would look up."""
    hidden = sorted(found.opaque_moe, key=lambda g: -g.count)
    if hidden:
        yield replace(_hidden_experts(hidden, _routing(rec, ex), model), trusted=trusted)
    yield from _aiter_key(found.shaped)


def _routing(rec: Recording, ex: Executed) -> dict[str, set[int]]:
    """Rows, hidden, router columns and top-k as the operators around the expert layer show them."""
    facts: dict[str, set[int]] = {"rows": set(), "hidden": set(), "router experts": set(), "top-k": set()}
    for op, dims in np.unique(np.stack([ex.op, ex.dims], axis=1), axis=0).tolist():
        name = rec.strings[op].rsplit("::", 1)[-1]
        forward, top = name.startswith("moe_forward"), name.startswith(("topk_sigmoid", "topk_softmax"))
        if not forward and not top:
            continue
        sizes = [s for s in map(sizes_of, json_list(rec.strings[dims])) if len(s) == 2]
        if forward and len(sizes) >= 2 and sizes[0][0] == sizes[1][0]:
            facts["rows"].add(sizes[0][0])
            facts["hidden"].add(sizes[0][1])
            facts["router experts"].add(sizes[1][1])
        elif top and sizes:
            facts["top-k"].add(sizes[0][1])
    return facts


def _hidden_experts(hidden: Sequence[GemmGroup], facts: dict[str, set[int]], model: Layout | None) -> Finding:
    known = "; ".join(f"{word} {', '.join(map(str, sorted(values)))}" for word, values in facts.items() if values)
    grouped = model.grouped if model and model.proven else ()
    would = ", ".join(f"{g.module} [{g.experts}, {g.N}, {g.K}]" for g in grouped)
    kernels = sum(g.count for g in hidden)
    return Finding(
        id="shapes.moe_unproven",
        question="shapes",
        verdict="unproven",
        claim=f"N, K and local experts of {kernels:,} grouped GEMM kernels are not in the trace: their operator hides the weights",
        where=", ".join(sorted({str(g.phase) for g in hidden})),
        evidence=evidence_of(
            calls_of(hidden),
            known or "no operator around the launches",
            f"without expert parallelism the proven layout has {would}" if would else "weights [E, N, K]",
        ),
        advice="Router columns count all experts, not this rank's: take E from the server's MoE configuration.",
    )


def _aiter_key(shaped: Sequence[GemmGroup]) -> Iterator[Finding]:
    """E=128 in an AITER expert layer of M3: the shared expert is no slot of it, and its tuned list is for 129."""
    slots, _ = _AITER_SLOTS
    found = [
        g for g in shaped if g.shape and g.shape.kind == GROUPED and "aiter" in g.op and g.shape.groups == slots - 1
    ]
    found = [g for g in found if g.shape and g.shape.K in {6144, 768, 384}]
    if found:
        # one call of the layer is one call of each of its two weights
        weights = [g for g in found if g.shape and g.shape.part == found[0].shape.part] if found[0].shape else []
        yield Finding(
            id="shapes.moe_untuned",
            question="shapes",
            verdict="unexpected",
            claim=f"The AITER expert layer has {slots - 1} local experts: the shared expert is not fused into it",
            where=", ".join(sorted({str(g.phase) for g in found})),
            evidence=evidence_of(
                calls_of(weights), f"{slots - 1} experts", f"{slots} experts, top-k 5 in aiter's tuned M3 lists"
            ),
            advice="Set VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS, or check that the installed aiter lists 128 experts.",
            confidence="medium",
        )
