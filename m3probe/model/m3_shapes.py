"""Predicted local weight shapes of one rank, and the parallel layout that a set of observed shapes proves.

A GEMM computes M x K times the transpose of its N x K weight; N and K here are the rank's own, after tensor or
expert parallelism, head replication and vocabulary padding.  The formulas restate what vLLM 0.33.0 builds:
``models/minimax_m3/amd/model.py``, ``MinimaxM3QKVParallelLinearWithIndexer`` in ``layers/linear.py``, the MoE
layout of ``fused_moe/config.py`` and ``fused_moe/expert_map_manager.py``.  Padding added by one MoE or
quantisation backend for its own kernels is not in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from m3probe.model.model_config import ModelConfig

Kind = Literal["linear", "moe_w13", "moe_w2"]
TP_SIZES = (1, 2, 4, 8, 16)
VOCAB_PADDING = 64  # vLLM rounds the vocabulary up to this before it divides it
# Left out when layouts are told apart: the router is the same on every rank and may run as its own op
# (fp32_router_gemm), and a rig that imitates one rank may keep the vocabulary whole.
OPTIONAL_MODULES = frozenset({"router", "lm_head"})
_LEAST_PAIRS = 2  # one equal (N, K) is chance: (6144, 6144) is a dense gate_up at TP4 and a dense down at TP2


@dataclass(frozen=True)
class LocalGemm:
    """One weight of one rank: ``layers`` copies of [N, K], or of [experts, N, K] for the two MoE kinds.

    ``experts`` and ``top_k`` are those the grouped GEMM works with (a fused shared expert counted); None for
    linear layers.  ``dtype_note`` says what is known of the element type from the model file alone.
    """

    module: str
    layers: int
    N: int
    K: int
    kind: Kind = "linear"
    experts: int | None = None
    top_k: int | None = None
    dtype_note: str = "the checkpoint's linear dtype"

    @property
    def pair(self) -> tuple[int, int]:
        """(N, K)."""
        return self.N, self.K


def illegal_reason(config: ModelConfig, tp: int, ep: int = 1, *, dp: int = 1) -> str | None:
    """Why vLLM 0.33.0 would not build this layout, with the numbers that fail; None when it would.

    Args:
        tp: tensor parallel size.
        ep: expert parallel size, 1 for none; vLLM makes it tp x dp, so it is a multiple of ``tp``.
        dp: data parallel size; without expert parallelism the experts are split over tp x dp ranks.
    """
    if min(tp, ep, dp) < 1:
        return f"parallel sizes must be at least 1, got tp={tp} ep={ep} dp={dp}"
    reasons = (
        _not_split(config.q_heads, tp, "query heads"),
        _kv_reason(config, tp),
        _not_split(config.dense_intermediate, tp, "dense MLP columns") if config.dense_layers else None,
        _moe_reason(config, tp, ep, dp) if config.sparse_layers else _ep_without_experts(ep),
        _not_split(_padded_vocab(config), tp, "padded vocabulary rows"),
    )
    return next((reason for reason in reasons if reason), None)


def _not_split(total: int, ranks: int, what: str) -> str | None:
    return f"{total} {what} cannot be split over {ranks} ranks" if total % ranks else None


def _kv_reason(config: ModelConfig, tp: int) -> str | None:
    kv = config.kv_heads
    if kv >= tp and kv % tp:
        return f"{kv} KV heads cannot be split over {tp} ranks"
    if kv < tp and tp % kv:
        return f"{kv} KV heads cannot be replicated evenly over {tp} ranks"
    if config.sparse_attention_layers and config.index_heads != kv:
        return f"the fused QKV projection wants as many index heads as KV heads, got {config.index_heads} and {kv}"
    return None


def _moe_reason(config: ModelConfig, tp: int, ep: int, dp: int) -> str | None:
    if tp > config.num_experts:
        return f"tensor parallel size {tp} exceeds the number of experts {config.num_experts}"
    if ep == 1:
        return _not_split(config.moe_intermediate, tp * dp, "expert MLP columns")
    if ep % tp or (dp > 1 and ep != tp * dp):
        return f"expert parallel size {ep} is not tp x dp (tp={tp}, dp={dp})"
    if ep > config.num_experts:
        return f"expert parallel size {ep} leaves ranks without any of the {config.num_experts} experts"
    return _not_split(config.shared_intermediate, tp, "shared expert columns")


def _ep_without_experts(ep: int) -> str | None:
    return f"expert parallel size {ep}, but the model has no experts" if ep > 1 else None


def _padded_vocab(config: ModelConfig) -> int:
    return -(-config.vocab_size // VOCAB_PADDING) * VOCAB_PADDING


def local_shapes(
    config: ModelConfig,
    tp: int,
    ep: int = 1,
    *,
    dp: int = 1,
    indexer_cp: bool = False,
    fuse_shared_experts: bool = False,
) -> tuple[LocalGemm, ...]:
    """Every weight that one rank multiplies by, in model order; parts that the model lacks are left out.

    Args:
        tp: tensor parallel size of attention, dense MLP, shared expert and vocabulary.
        ep: expert parallel size (tp x dp), 1 for none: experts are then whole, 128 / ep of them on a rank
            (the first ranks hold one more when that leaves a remainder), and the shared expert stays unfused.
        dp: data parallel size; matters only to experts that are not expert parallel.
        indexer_cp: indexer context parallelism, which keeps every index query head on every rank.
        fuse_shared_experts: the shared expert is one more slot of the routed experts.

    Raises:
        ValueError: the layout is one of those that `illegal_reason` explains.
    """
    reason = illegal_reason(config, tp, ep, dp=dp)
    if reason:
        raise ValueError(reason)
    fused = fuse_shared_experts and ep == 1 and config.shared_experts > 0
    gemms = (
        *_attention(config, tp, indexer_cp),
        *_mlp("dense", config.dense_layers, config.hidden_size, config.dense_intermediate // tp),
        *_experts(config, tp, ep, dp, fused),
        LocalGemm("lm_head", 1, _padded_vocab(config) // tp, config.hidden_size, dtype_note="BF16 unless quantised"),
    )
    return tuple(gemm for gemm in gemms if gemm.layers)


def _kv_heads_local(config: ModelConfig, tp: int) -> int:
    """KV heads on a rank: with more ranks than heads each rank holds a copy of one."""
    return max(1, config.kv_heads // tp)


def _attention(config: ModelConfig, tp: int, indexer_cp: bool) -> Iterator[LocalGemm]:
    hidden, kv = config.hidden_size, _kv_heads_local(config, tp)
    plain = (config.q_heads // tp + 2 * kv) * config.head_dim
    # Index queries are sharded and replicated like KV heads; the one index key is on every rank.
    index_heads = config.index_heads if indexer_cp else kv
    indexed = plain + (index_heads + 1) * config.index_dim
    yield LocalGemm("qkv_dense", config.num_layers - config.sparse_attention_layers, plain, hidden)
    yield LocalGemm("qkv_sparse", config.sparse_attention_layers, indexed, hidden)
    yield LocalGemm("o_proj", config.num_layers, hidden, config.q_heads * config.head_dim // tp)


def _mlp(name: str, layers: int, hidden: int, intermediate: int) -> Iterator[LocalGemm]:
    yield LocalGemm(f"{name}_gate_up", layers, 2 * intermediate, hidden)
    yield LocalGemm(f"{name}_down", layers, hidden, intermediate)


def _experts(config: ModelConfig, tp: int, ep: int, dp: int, fused: bool) -> Iterator[LocalGemm]:
    layers, hidden = config.sparse_layers, config.hidden_size
    if not layers:
        return
    if config.shared_experts and not fused:
        yield from _mlp("shared", layers, hidden, config.shared_intermediate // tp)
    yield LocalGemm("router", layers, config.num_experts, hidden, dtype_note="FP32 weight and logits, on every rank")
    slots = config.shared_experts if fused else 0
    experts = -(-config.num_experts // ep) + slots
    intermediate = config.moe_intermediate if ep > 1 else config.moe_intermediate // (tp * dp)
    top_k, note = config.top_k + slots, "the checkpoint's expert dtype"
    yield LocalGemm("moe_w13", layers, 2 * intermediate, hidden, "moe_w13", experts, top_k, note)
    yield LocalGemm("moe_w2", layers, hidden, intermediate, "moe_w2", experts, top_k, note)


def kv_bytes_per_token(config: ModelConfig, tp: int, kv_dtype_bytes: float, index_dtype_bytes: float) -> float:
    """Bytes that one cached token takes on one rank, over all layers, without draft layers and block padding.

    Keys and values of every layer, plus one index key for each layer with the index branch (that cache has one
    head on every rank).  At TP4 with FP8 keys and values: 29,952 B with BF16 index keys, 22,656 B with FP8.
    """
    main = config.num_layers * 2 * _kv_heads_local(config, tp) * config.head_dim * kv_dtype_bytes
    return main + config.sparse_attention_layers * config.index_dim * index_dtype_bytes


@dataclass(frozen=True)
class LayoutCandidate:
    """One parallel layout held against the observed shapes.

    ``matched`` and ``missing`` split its linear layers (without `OPTIONAL_MODULES`, of which those seen are in
    ``optional``; a vocabulary seen whole has its whole N there).  None means that the shapes cannot tell: ``ep``
    without MoE evidence, ``indexer_cp`` where it changes no shape (TP1, no index branch),
    ``fuse_shared_experts`` without a shared expert.  ``unexplained`` are observed (N, K) that are not predicted.
    """

    tp: int
    ep: int | None
    indexer_cp: bool | None
    fuse_shared_experts: bool | None
    matched: tuple[LocalGemm, ...]
    missing: tuple[LocalGemm, ...]
    optional: tuple[LocalGemm, ...]
    lm_head: Literal["divided", "whole", "absent"]
    unexplained: tuple[tuple[int, int], ...]

    @property
    def router_seen(self) -> bool:
        """The router ran as a plain linear layer; False proves nothing (see `OPTIONAL_MODULES`)."""
        return any(gemm.module == "router" for gemm in self.optional)

    @property
    def fits(self) -> bool:
        """Every linear layer of the layout was observed."""
        return not self.missing

    def modules_of(self, pair: tuple[int, int]) -> tuple[str, ...]:
        """Names of the linear layers that this (N, K) belongs to; empty when none was predicted."""
        return tuple(gemm.module for gemm in self.matched + self.optional if gemm.pair == pair)


@dataclass(frozen=True)
class ShapeMatch:
    """All layouts that explain the observed shapes, best first; at least one.

    When ``fits`` is false none does, and every candidate lists what it misses.
    """

    candidates: tuple[LayoutCandidate, ...]

    @property
    def best(self) -> LayoutCandidate:
        """The layout that misses least, and of those the one that explains most."""
        return self.candidates[0]

    @property
    def fits(self) -> bool:
        """At least one layout is there as a whole."""
        return self.best.fits

    @property
    def ambiguous(self) -> bool:
        """More than one layout fits, as with the shapes of a TP4 and a TP8 server in one folder."""
        return self.fits and len(self.candidates) > 1


def match_shapes(
    observed: Collection[tuple[int, int]],
    config: ModelConfig,
    *,
    tp_sizes: Collection[int] = TP_SIZES,
    moe: Collection[tuple[int, int, int]] = (),
) -> ShapeMatch | None:
    """Find the layout whose whole set of linear (N, K) is among the observed ones; never decided by one pair.

    A pipeline stage holds only a part of the layers (the later ones no dense MLP), so it fits no layout as a
    whole; then ``missing`` of the best candidate names just those layers.

    Args:
        observed: (N, K) of every linear layer seen; foreign pairs do no harm and are listed as unexplained.
        config: global sizes to shard.
        tp_sizes: tensor parallel sizes to try; illegal ones are skipped.
        moe: (experts, N, K) of grouped weights seen, which settle ``ep`` where they can.

    Returns:
        The fitting layouts, those dropped that explain only a part of what another fitting one explains; else
        all layouts with at least two matching pairs, fewest missing first; None when there is none of these.
    """
    seen, grouped = frozenset(observed), frozenset(moe)
    tried = [
        _held_against(seen, grouped, config, tp, indexer_cp, fused)
        for tp in tp_sizes
        if illegal_reason(config, tp) is None
        for indexer_cp in _indexer_cp_choices(config, tp)
        for fused in ((False, True) if config.shared_experts and config.sparse_layers else (None,))
    ]
    plausible = [candidate for candidate in tried if len(_pairs(candidate.matched)) >= _LEAST_PAIRS]
    fitting = [candidate for candidate in plausible if candidate.fits]
    chosen = [c for c in fitting if not any(_pairs(c.matched) < _pairs(other.matched) for other in fitting)]
    ranked = sorted(chosen or plausible, key=lambda c: (len(c.missing), -len(_pairs(c.matched)), c.tp))
    return ShapeMatch(tuple(ranked)) if ranked else None


def _pairs(gemms: tuple[LocalGemm, ...]) -> frozenset[tuple[int, int]]:
    return frozenset(gemm.pair for gemm in gemms)


def _indexer_cp_choices(config: ModelConfig, tp: int) -> tuple[bool | None, ...]:
    changes = config.sparse_attention_layers and config.index_heads != _kv_heads_local(config, tp)
    return (False, True) if changes else (None,)


def _held_against(
    seen: frozenset[tuple[int, int]],
    grouped: frozenset[tuple[int, int, int]],
    config: ModelConfig,
    tp: int,
    indexer_cp: bool | None,
    fused: bool | None,
) -> LayoutCandidate:
    shapes = local_shapes(config, tp, indexer_cp=bool(indexer_cp), fuse_shared_experts=bool(fused))
    linear = [gemm for gemm in shapes if gemm.kind == "linear" and gemm.module not in OPTIONAL_MODULES]
    optional = [gemm for gemm in shapes if gemm.module in OPTIONAL_MODULES]
    lm_head = _head_seen(seen, config, tp)
    if lm_head == "whole":
        optional = [replace(g, N=_padded_vocab(config)) if g.module == "lm_head" else g for g in optional]
    return LayoutCandidate(
        tp=tp,
        ep=_expert_parallel(grouped, config, tp, bool(fused)),
        indexer_cp=indexer_cp,
        fuse_shared_experts=fused,
        matched=tuple(gemm for gemm in linear if gemm.pair in seen),
        missing=tuple(gemm for gemm in linear if gemm.pair not in seen),
        optional=tuple(gemm for gemm in optional if gemm.pair in seen),
        lm_head=lm_head,
        unexplained=tuple(sorted(seen.difference(gemm.pair for gemm in linear + optional))),
    )


def _head_seen(seen: frozenset[tuple[int, int]], config: ModelConfig, tp: int) -> Literal["divided", "whole", "absent"]:
    rows, hidden = _padded_vocab(config), config.hidden_size
    if tp > 1 and (rows // tp, hidden) in seen:
        return "divided"
    return "whole" if (rows, hidden) in seen else "absent"


def _expert_parallel(grouped: frozenset[tuple[int, int, int]], config: ModelConfig, tp: int, fused: bool) -> int | None:
    """The one expert parallel size whose two grouped weights were both seen; None when none or several are."""
    if not config.sparse_layers:
        return None
    sizes = (1,) if fused else {1, *(tp * dp for dp in TP_SIZES if tp * dp <= config.num_experts)}
    found = []
    for ep in sizes:
        shapes = local_shapes(config, tp, ep, fuse_shared_experts=fused)
        wanted = {(g.experts, g.N, g.K) for g in shapes if g.kind != "linear"}
        if wanted <= grouped:
            found.append(ep)
    return found[0] if len(found) == 1 else None
