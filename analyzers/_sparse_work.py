"""Work that sparse layers repeat and need not: a shared expert by itself, and a block choice in every layer."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.analyzers._layers import Layers, is_index_score
from m3probe.analyzers._mlp import SharedMlps, shared_mlps
from m3probe.analyzers._view import View, kernel_names, ms, percent, rows_named
from m3probe.model.findings import Bound, Evidence, Finding, evidence
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family, Phase

_BOUND = "their share of kernel time x (1 - idle share)"


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
    if len(rows):
        cost = f"{ms(view.time_ns(rows) / len(timed))} of kernel time per step"
        share = view.share_of_step(rows, timed)
        bound = None if share is None else Bound(0.0, share, f"{_BOUND}; the arithmetic itself stays")
    beside = " on a stream of its own, beside the routed experts" if found.own_stream else ""
    kernel = view.ex.kernel[found.rows]
    return Finding(
        id="repeats.shared_expert_separate",
        question="repeats",
        verdict="separate",
        claim=f"The shared expert runs as its own MLP in each of {int(found.moe_layers[0])} MoE layers{beside}: fusing it "
        f"into the grouped GEMM would touch {launches:,.0f} launches per decode step, {cost}",
        where="decode",
        evidence=(
            evidence("kernels", kernel[kernel >= 0], f"{len(found.rows):,} launches in {len(steps)} decode steps", "0"),
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
    kernel = view.ex.kernel[scores]
    steps = len(view.steps(Phase.DECODE))
    observed = f"{int(scores.sum()):,} score launches in {steps} decode steps"
    return (evidence("kernels", kernel[kernel >= 0], observed, f"{sparse} per step without reuse"),)


def _every_layer(view: View, scores: Array, sparse: int) -> Finding:
    timed = view.timed_steps(Phase.DECODE)
    rows = (view.ex.family == FAMILIES.index(Family.INDEXER)) & view.rows_in(timed)
    cost, bound = "", None
    if rows.any():
        cost = f", {ms(view.time_ns(rows) / len(timed))} per decode step"
        share = view.share_of_step(rows, timed)
        saved = (sparse - 1) / sparse
        if share is not None:
            bound = Bound(
                0.0, share * saved, f"indexer share of step time x {sparse - 1}/{sparse} (one layer still chooses)"
            )
    return Finding(
        id="repeats.index_every_layer",
        question="repeats",
        verdict="every_layer",
        claim=f"Every sparse layer chooses its own blocks: {sparse} block selections for {sparse} layers{cost}",
        where="decode",
        evidence=_seen(view, scores, sparse),
        advice="Neighbouring layers choose nearly the same blocks: index_topk_freq (with use_index_cache) in --hf-overrides, "
        "nested under text_config (the flat form does nothing), lets later layers reuse a choice. It changes the model's "
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
