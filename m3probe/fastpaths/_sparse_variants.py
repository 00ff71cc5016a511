"""Implementations of the sparse attend that several paths count, each written once."""

from __future__ import annotations

from dataclasses import replace

from m3probe.fastpaths._m3 import calls, kv_dtype
from m3probe.fastpaths._sparse_pa import asked, selected
from m3probe.schema.paths import Need, Role, Variant
from m3probe.schema.setup import Held, Point, Setup
from m3probe.schema.verdicts import Phase

ONCE_PER_SIDE = "sparse_layers, once for the decode rows and once for the prefill rows of a step"


def msa(setup: Setup, point: Point) -> bool:
    """Whether NVIDIA's MSA attends to this step: SM100, any KV dtype but fp8_e5m2, and rows of a prefill."""
    return (
        bool(setup.gfx and setup.gfx.startswith("sm10"))
        and setup.model.sparse_topk_blocks in (4, 8, 16, 32)
        and kv_dtype(setup) != "fp8_e5m2"
        and point.phase is not Phase.DECODE
    )


def aiter_calls(setup: Setup, point: Point) -> int | None:
    """Launches of AITER's attend where the setup selects it, else None."""
    return calls(setup, point, setup.model.sparse_layers) if selected(setup, point) else None


def msa_calls(setup: Setup, point: Point) -> int | None:
    """Launches of MSA's attend: once per layer, as decode rows are Triton's."""
    return calls(setup, replace(point, phase=Phase.PREFILL), setup.model.sparse_layers) if msa(setup, point) else None


def triton_calls(setup: Setup, point: Point) -> int | None:
    """Launches of Triton's attend where neither of the others is selected."""
    if selected(setup, point) or asked(setup).state is Held.UNKNOWN or msa(setup, point):
        return None
    return calls(setup, point, setup.model.sparse_layers)


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
    expected=aiter_calls,
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
    expected=triton_calls,
    source="vLLM PR 46035, common/ops/sparse_attn.py and amd/ops/sparse_attn.py; seen in H200 traces",
    vllm="0.24 to 0.33",
)
