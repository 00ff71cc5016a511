"""Work that sparse layers repeat and need not: a shared expert by itself, and a block choice in every layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from m3probe.analyzers._basis import removable_share, step_share
from m3probe.analyzers._engine import told
from m3probe.analyzers._layers import Layers
from m3probe.analyzers._mlp import SharedMlps, shared_mlps
from m3probe.analyzers._names import is_index_score
from m3probe.analyzers._view import View, kernel_names, ms, percent, rows_named
from m3probe.model.findings import Evidence, Finding, evidence
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family, Phase

_BESIDE = 0.01
"""Below this share of its own time, work on another stream is not called concurrent."""


def shared_expert_finding(view: View) -> Iterator[Finding]:
    """The shared expert ran as its own MLP in each MoE layer of the decode steps."""
    steps = view.steps(Phase.DECODE)
    if not len(steps):
        return
    found = shared_mlps(view, steps)
    whole = (found.mlps == found.moe_layers) & (found.moe_layers > 0)
    if whole.all():
        yield _separate(view, found, steps)


def _separate(view: View, found: SharedMlps, steps: Array) -> Finding:
    launches = len(found.rows) / len(steps)
    timed = view.timed_steps(Phase.DECODE)
    rows = found.rows[view.rows_in(timed)[found.rows]]
    cost, bound = "time unknown", None
    beside = " on a stream of its own" if found.own_stream else ""
    if len(rows) and view.decode is not None:
        cost = f"{ms(view.time_ns(rows) / len(timed))} of kernel time per step"
        kernels = view.kernels_of(rows)
        bound = removable_share(view.rec, kernels, view.decode, more="; the arithmetic itself stays")
        hidden = 1.0 - bound.high / step_share(view.rec, kernels, view.decode)
        beside += f" ({percent(hidden)} of its time beside other work)" if hidden > _BESIDE else ""
        beside += ", with nothing beside it" if found.own_stream and hidden <= _BESIDE else ""
    kernel = view.kernels_of(found.rows)
    return Finding(
        id="repeats.shared_expert_separate",
        question="repeats",
        verdict="separate",
        claim=f"The shared expert runs as its own MLP in each of {int(found.moe_layers[0])} MoE layers{beside}: fusing it "
        f"into the grouped GEMM would touch {launches:,.0f} launches per decode step, {cost}",
        where="decode",
        evidence=(
            evidence(
                "kernels", kernel, f"{len(found.rows):,} launches in {told(view.rec, steps, 'decode steps')}", "0"
            ),
        ),
        advice="Append it to the routed experts (MiniMax M3 on ROCm: VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS=1, never "
        "with expert parallelism; vLLM 0.32.0 refuses it for MXFP8). Its arithmetic stays, launches and intermediate "
        "traffic go, so the gain shrinks as concurrency grows (published: +30.2 % at 1, +5.6 % at 128): measure both ends",
        bound=bound,
        trusted=view.trusted,
    )


def index_reuse_finding(view: View, layers: Layers) -> Iterator[Finding]:
    """Whether sparse layers choose their key blocks themselves or reuse the choice of an earlier layer."""
    chosen, sparse = layers.index, layers.sparse
    steps = view.steps(Phase.DECODE)
    if not chosen or not sparse or sparse < 2 or not len(steps) or chosen > sparse:
        return
    inside = view.rows_in(steps)
    scores = rows_named(view, [i for i, name in kernel_names(view).items() if is_index_score(name)]) & inside
    if not scores.any():
        return
    yield _every_layer(view, scores, sparse) if chosen == sparse else _reused(view, scores, chosen, sparse)


def _seen(view: View, scores: Array, sparse: int) -> tuple[Evidence, ...]:
    steps = told(view.rec, view.steps(Phase.DECODE), "decode steps")
    observed = f"{int(scores.sum()):,} score launches in {steps}"
    return (evidence("kernels", view.kernels_of(scores), observed, f"{sparse} per step without reuse"),)


def _every_layer(view: View, scores: Array, sparse: int) -> Finding:
    timed = view.timed_steps(Phase.DECODE)
    rows = (view.ex.family == FAMILIES.index(Family.INDEXER)) & view.rows_in(timed)
    cost, bound = "", None
    if rows.any() and view.decode is not None:
        cost = f", {ms(view.time_ns(rows) / len(timed))} of kernel time per decode step"
        kept = f" x {sparse - 1}/{sparse} (one layer still chooses)"
        whole = removable_share(view.rec, view.kernels_of(rows), view.decode, more=kept)
        worked = tuple(f"{each} * {sparse - 1} / {sparse}" for each in whole.arithmetic)
        bound = replace(whole, high=whole.high * (sparse - 1) / sparse, arithmetic=worked)
    return Finding(
        id="repeats.index_every_layer",
        question="repeats",
        verdict="every_layer",
        claim=f"Every sparse layer chooses its own blocks: {sparse} block selections for {sparse} layers{cost}",
        where="decode",
        evidence=_seen(view, scores, sparse),
        advice="Neighbouring layers choose nearly the same blocks: index_topk_freq (with use_index_cache) in --hf-overrides, "
        "nested under text_config (the flat form never reaches it), lets later layers reuse a choice. It changes the model's "
        "work: a fixed-shape contract forbids it, and GSM8K is too short to test it",
        bound=bound,
        trusted=view.trusted,
    )


def _reused(view: View, scores: Array, chosen: int, sparse: int) -> Finding:
    return Finding(
        id="repeats.index_reused",
        question="repeats",
        verdict="reused",
        claim=f"Sparse layers reuse block choices: {chosen} selections for {sparse} layers per decode step "
        f"({percent(1 - chosen / sparse)} skipped)",
        where="decode",
        evidence=_seen(view, scores, sparse),
        advice="This changes the model's work: do not compare it with a run that chooses in every layer, and test quality "
        "on contexts above 2,048 tokens (16 blocks of 128), below which every block is chosen anyway",
        trusted=view.trusted,
    )
