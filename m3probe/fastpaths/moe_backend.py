"""Which kernels multiply the experts.

Sources: vLLM PR 46184 (AITER MXFP8), 46419 (AITER MXFP4), 46117 (native MXFP8); ``oracle/mxfp8.py`` and
``oracle/mxfp4.py`` at 0.33 for the order of ``--moe-backend auto``; AITER tuning tables for FlyDSL's names.
"""

from m3probe.schema.paths import FastPath, Need, Role, Variant
from m3probe.schema.verdicts import Family

_TWO_GEMMS = "2 x moe_layers (gate and up, then down)"
_GFX950 = Need("gfx950, VLLM_ROCM_USE_AITER=1, activation SiLU or SwiGLU-OAI with alpha 1.702 and beta 1.0")

FAST_PATH = FastPath(
    title="MoE backend",
    question="Which implementation ran the experts' GEMMs?",
    configured="--moe-backend {auto,aiter,triton,...}; VLLM_ROCM_USE_AITER and VLLM_ROCM_USE_AITER_MOE",
    default="auto; AITER is off unless VLLM_ROCM_USE_AITER=1",
    needs=(Need("the model has expert layers"),),
    variants=(
        Variant(
            name="AITER FlyDSL",
            role=Role.FAST,
            anchors=("*flydsl_moe[12]*", "*flydsl_fmoe*"),
            also=("*opus_moe_sorting*", "*mx_quant_moe_sort*", "*mxfp4_moe_sort*"),
            vendor="amd",
            needs=(_GFX950, Need("AITER 0.1.14 or newer for MXFP8")),
            calls_per_step=_TWO_GEMMS,
            names_from_source=True,
            source="vLLM PR 46184 and 46419; AITER tuned-fmoe tables (flydsl_moe1_afp8_wfp8_bf16_t...)",
            vllm="0.25 to 0.33",
            note="the name holds stage, activation and weight dtype, and the tile",
        ),
        Variant(
            name="AITER CK",
            role=Role.FAST,
            anchors=("*kernel_moe_mxgemm*", "*moe_mxgemm*", "*ck_moe_stage[12]*", "*kernel_moe_gemm*"),
            vendor="amd",
            needs=(Need("VLLM_ROCM_USE_AITER=1"),),
            calls_per_step=_TWO_GEMMS,
            names_from_source=True,
            source="SemiAnalysisAI/InferenceX PR 1005 (kernel_moe_mxgemm_2lds on MI355X); AITER source",
        ),
        Variant(
            name="AITER asm",
            role=Role.FAST,
            anchors=("*fmoe_*g1u1*", "*aiter::fmoe*", "fmoe_stage1*"),
            vendor="amd",
            needs=(Need("VLLM_ROCM_USE_AITER=1"),),
            calls_per_step="moe_layers (one launch holds both GEMMs)",
            names_from_source=True,
            source="SemiAnalysisAI/InferenceX PR 863 (fmoe_bf16_blockscaleFp8_g1u1_vs_silu); AITER source",
        ),
        Variant(
            name="monokernel",
            role=Role.FAST,
            anchors=("*minimax_m3_mono_ffn*",),
            vendor="amd",
            needs=(Need("--monokernel; not with index reuse"),),
            calls_per_step="moe_layers (router, experts, shared expert and combine in one)",
            names_from_source=True,
            source="amd/specialized_decode at 0.33",
            vllm="0.33",
        ),
        Variant(
            name="TRT-LLM",
            role=Role.FAST,
            anchors=("bmm_*dynbatch*",),
            vendor="nvidia",
            needs=(Need("SM100"),),
            calls_per_step=_TWO_GEMMS,
            source="seen in B200 traces (FlashInfer's trtllm-gen batched GEMM)",
        ),
        Variant(
            name="triton_kernels",
            role=Role.FAST,
            anchors=("_matmul_ogs*", "_p_matmul_ogs*", "matmul_ogs*"),
            also=("_finalize_matmul_scatter*", "_combined_routing*", "_sum_bitmatrix_rows*", "_topk_forward*"),
            needs=(Need("MXFP4 weights"),),
            calls_per_step=_TWO_GEMMS,
            source="seen in MI300X traces",
            note="the name holds both operands' dtypes; suffix _swiglu: activation inside",
        ),
        Variant(
            name="Triton MXFP8",
            role=Role.FALLBACK,
            anchors=("_mxfp8_grouped_gemm_kernel*",),
            needs=(Need("gfx950 (dot_scaled)"),),
            calls_per_step=_TWO_GEMMS,
            names_from_source=True,
            source="vLLM PR 46117; TRITON_MXFP8 of oracle/mxfp8.py at 0.33",
            vllm="0.25 to 0.33",
        ),
        Variant(
            name="Triton fused_moe",
            role=Role.FALLBACK,
            anchors=("fused_moe_kernel*",),
            also=("*moe_align_block_size*", "*count_and_sort_expert_tokens*", "*moe_sum*"),
            calls_per_step=_TWO_GEMMS,
            source="seen in H200 traces",
            note="BF16 weights, and what the emulation of MXFP8 and MXFP4 launches: the name does not tell them apart",
        ),
    ),
    family=Family.MOE_GEMM,
)
