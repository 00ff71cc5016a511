"""Which kernels attend to the chosen blocks of MiniMax M3's sparse layers.

Sources: vLLM PR 47287 (AITER page-16), PR 47984 (its multi-token form), PR 46035 (Triton); files at 0.33:
``models/minimax_m3/common/sparse_attention.py``, ``amd/ops/sparse_pa.py``, ``nvidia/sparse_attention_msa.py``.
"""

from m3probe.schema.paths import FastPath, Need, Role, Variant
from m3probe.schema.verdicts import Family

FAST_PATH = FastPath(
    title="sparse attention",
    question="Which implementation attended to the selected blocks?",
    configured="AMD: VLLM_ROCM_USE_AITER=1 and VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=1; NVIDIA: chosen by device and KV dtype",
    default="Triton (both AMD settings are off)",
    needs=(Need("the model has sparse attention layers (57 of MiniMax M3's 60)"),),
    variants=(
        Variant(
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
            calls_per_step="sparse_layers, once for the decode rows and once for the prefill rows of a step",
            names_from_source=True,
            source="vLLM PR 47287, amd/ops/sparse_pa.py:_run_gluon_decode at 0.32 and 0.33; kernel names from "
            "AITER ops/triton/gluon/pa_decode_gluon.py",
            vllm="0.32, 0.33",
            note="both settings with more than one KV head per rank: the engine does not start",
        ),
        Variant(
            name="MSA",
            role=Role.FAST,
            anchors=("*sparseattentionforwardsm100*", "*sparse_atten*sm100*"),
            also=("*build_k2q_csr*", "*fmha_sm100*"),
            vendor="nvidia",
            needs=(Need("SM100, BF16 KV cache, 4, 8, 16 or 32 blocks per query"),),
            calls_per_step="sparse_layers in steps with prefill rows",
            names_from_source=True,
            source="nvidia/sparse_attention_msa.py; class SparseAttentionForwardSm100 of vllm-project/MSA "
            "(fmha_sm100), which the compiler writes into the kernel's name",
            vllm="0.24 to 0.33",
            note="prefill only: decode under MSA launches the Triton kernels",
        ),
        Variant(
            name="Triton",
            role=Role.FALLBACK,
            anchors=("_gqa_sparse_decode_kernel*", "_gqa_sparse_fwd_kernel*"),
            also=("_merge_topk_attn_out_kernel*",),
            calls_per_step="sparse_layers, once for the decode rows and once for the prefill rows of a step",
            source="vLLM PR 46035, common/ops/sparse_attn.py; seen in H200 traces",
            vllm="0.24 to 0.33",
        ),
    ),
    family=Family.SPARSE_ATTENTION,
)
