"""Implementations of the sparse attend that several paths count, each written once."""

from __future__ import annotations

from m3probe.schema.paths import Need, Role, Variant
from m3probe.schema.setup import Point, Setup
from m3probe.schema.verdicts import Phase

ONCE_PER_SIDE = "sparse_layers, once for the decode rows and once for the prefill rows of a step"


def sparse_layers(setup: Setup, point: Point) -> int | None:
    """Launches of one step; a mixed step has a decode and a prefill side."""
    layers = setup.model.sparse_layers
    return None if layers is None else layers * (2 if point.phase is Phase.MIXED else 1)


AITER_PA = Variant(
    name="AITER page-16",
    role=Role.FAST,
    anchors=(
        "*paged_attention_decode_v2_gluon_dot_kernel*",
        "*paged_attention_decode_v2_gluon_large_block_dot_kernel*",
        "*paged_attention_decode_sliding_window*",
    ),
    also=(
        "_build_sparse_block_table*",
        "*paged_attention_decode_ps_reduce*",
        "*paged_attention_decode_v2_reduce*",
        "*pa_decode_ps_reduce_flydsl*",
    ),
    # AITER's paged attention serves dense models too; only a selector beside it makes it this path.
    beside=("_build_sparse_block_table*", "_decode_topk_fused*", "*index_score*", "_index_block_score*"),
    vendor="amd",
    needs=(
        Need("one KV head per rank (TP4, TP8, TP16), unless the indexer emits the attend's page table"),
        Need("block size 128, head_dim 128, KV dtype bf16 or fp8"),
    ),
    calls_per_step=ONCE_PER_SIDE,
    expected=sparse_layers,
    names_from_source=True,
    source="vLLM PR 47287, amd/ops/sparse_pa.py:_run_gluon_decode at 0.32 and 0.33; kernel names from "
    "AITER ops/triton/gluon/pa_decode_gluon.py",
    vllm="0.32, 0.33",
    note="both settings with more than one KV head per rank: the engine does not start",
)

TRITON = Variant(
    name="Triton",
    role=Role.FALLBACK,
    anchors=("_gqa_sparse_decode_kernel*", "_gqa_sparse_fwd_kernel*"),
    also=("_merge_topk_attn_out_kernel*",),
    calls_per_step=ONCE_PER_SIDE,
    expected=sparse_layers,
    source="vLLM PR 46035, common/ops/sparse_attn.py and amd/ops/sparse_attn.py; seen in H200 traces",
    vllm="0.24 to 0.33",
)
