"""Kernels of the experts' implementations, each written once for the paths that count them."""

from __future__ import annotations

from dataclasses import replace

from m3probe.fastpaths._expert_pick import pick
from m3probe.fastpaths._experts import EMULATION, asks_monokernel
from m3probe.fastpaths._experts_mxfp4 import MXFP4_AITER, MXFP4_UNFUSED
from m3probe.fastpaths._experts_mxfp8 import MXFP8_AITER, MXFP8_NATIVE
from m3probe.schema.paths import Expected, Need, Role, Variant
from m3probe.schema.setup import Point, Setup, State
from m3probe.schema.verdicts import Phase

TWO_GEMMS = "2 x moe_layers (gate and up, then down)"


def here(setup: Setup, layers: int | None) -> int | None:
    """How many of these layers a rank runs; not told under pipeline parallelism, where a stage has some of them."""
    return layers if setup.pp == 1 else None


def two_gemms(*members: str) -> Expected:
    """Launches of one step, whatever its rows, where the setup leads to one of these backends; 0 where to another.

    Not told (None) for decode steps that the monokernel may take whole.
    """

    def expected(setup: Setup, point: Point) -> int | None:
        layers, member = here(setup, setup.model.moe_layers), pick(setup).member
        whole = asks_monokernel(setup) and point.phase is Phase.DECODE
        if layers is None or member is None or whole:
            return None
        return 2 * layers if member in members else 0

    return expected


def calls_in(state: State, setup: Setup) -> int | None:
    """Calls of a path that each expert layer makes once where it is eligible; None where that is not known."""
    if state in (State.OFF, State.REFUSED):
        return 0
    return here(setup, setup.model.moe_layers) if state is State.ELIGIBLE else None


_FP8_GLOBS = ("*flydsl_moe[12]*_afp8_wfp8*", "*flydsl_moe[12]_mxfp8*")
_FP4_GLOBS = ("*flydsl_moe[12]*_afp4_wfp4*", "*flydsl_mxmoe_g[12]_a4w4*")
_GFX950 = Need("gfx950, VLLM_ROCM_USE_AITER=1, activation SiLU or SwiGLU-OAI with alpha 1.702 and beta 1.0")

FLYDSL = Variant(
    name="AITER FlyDSL",
    role=Role.FAST,
    anchors=("*flydsl_moe[12]*", "*flydsl_mxmoe_g[12]*", "*flydsl_fmoe*"),
    also=("*opus_moe_sorting*", "*mx_quant_moe_sort*", "*mxfp4_moe_sort*"),
    vendor="amd",
    needs=(_GFX950, Need("AITER 0.1.14 or newer for MXFP8")),
    calls_per_step=TWO_GEMMS,
    expected=two_gemms(MXFP8_AITER, MXFP4_AITER),
    names_from_source=True,
    source="vLLM PR 46184 and 46419; AITER tuned-fmoe tables (flydsl_moe1_afp8_wfp8_bf16_t..., flydsl_mxmoe_g1_a4w4_...)",
    vllm="0.25 to 0.33",
    note="the name holds stage, activation and weight dtype, and the tile",
)
FLYDSL_MXFP8 = replace(FLYDSL, name="AITER FlyDSL MXFP8", anchors=_FP8_GLOBS)
FLYDSL_W4A4 = replace(
    FLYDSL, name="AITER FlyDSL W4A4", anchors=_FP4_GLOBS, needs=(Need("gfx950, both AITER settings"),)
)
CK = Variant(
    name="AITER CK",
    role=Role.FAST,
    anchors=("*kernel_moe_mxgemm*", "*moe_mxgemm*", "*ck_moe_stage[12]*", "*kernel_moe_gemm*"),
    vendor="amd",
    needs=(Need("VLLM_ROCM_USE_AITER=1"),),
    calls_per_step=TWO_GEMMS,
    names_from_source=True,
    source="SemiAnalysisAI/InferenceX PR 1005 (kernel_moe_mxgemm_2lds on MI355X); AITER source",
)
ASM = Variant(
    name="AITER asm",
    role=Role.FAST,
    anchors=("*fmoe_*g1u1*", "*aiter::fmoe*", "fmoe_stage1*"),
    vendor="amd",
    needs=(Need("VLLM_ROCM_USE_AITER=1"),),
    calls_per_step="moe_layers (one launch holds both GEMMs)",
    names_from_source=True,
    source="SemiAnalysisAI/InferenceX PR 863 (fmoe_bf16_blockscaleFp8_g1u1_vs_silu); AITER source",
)
NATIVE_MXFP8 = Variant(
    name="Triton MXFP8",
    role=Role.FALLBACK,
    anchors=("_mxfp8_grouped_gemm_kernel*",),
    also=("_swiglu_oai_quant_kernel*",),
    needs=(Need("gfx950 (dot_scaled)"),),
    calls_per_step=TWO_GEMMS,
    expected=two_gemms(*MXFP8_NATIVE),
    names_from_source=True,
    source="vLLM PR 46117; TRITON_MXFP8 of oracle/mxfp8.py at 0.33",
    vllm="0.24 to 0.33",
    note="its activation and quantisation are one kernel more per layer, _swiglu_oai_quant_kernel",
)
FUSED_MOE = Variant(
    name="Triton fused_moe",
    role=Role.FALLBACK,
    anchors=("fused_moe_kernel*",),
    also=("*moe_align_block_size*", "*count_and_sort_expert_tokens*", "*moe_sum*"),
    calls_per_step=TWO_GEMMS,
    expected=two_gemms(EMULATION),
    source="seen in H200 traces",
    note="BF16 weights, and what the emulation of MXFP8 and MXFP4 launches: the name does not tell them apart",
)
TRITON_KERNELS = Variant(
    name="triton_kernels",
    role=Role.FAST,
    anchors=("_matmul_ogs*", "_p_matmul_ogs*", "matmul_ogs*"),
    also=("_finalize_matmul_scatter*", "_combined_routing*", "_sum_bitmatrix_rows*", "_topk_forward*"),
    needs=(Need("MXFP4 weights"),),
    calls_per_step=TWO_GEMMS,
    expected=two_gemms(MXFP4_UNFUSED),
    source="seen in MI300X traces",
    note="the name holds both operands' dtypes; suffix _swiglu: activation inside",
)
