"""Which kernels multiply the experts.

Sources: vLLM PR 46184 (AITER MXFP8), 46419 (AITER MXFP4), 46117 (native MXFP8); ``oracle/mxfp8.py`` and
``oracle/mxfp4.py`` for the order of ``--moe-backend auto``; AITER tuning tables for FlyDSL's names. What a checkpoint's
quantisation asks for is judged in ``mxfp8_moe.py`` and ``mxfp4_moe.py`` beside this file.
"""

from m3probe.fastpaths._expert_pick import pick
from m3probe.fastpaths._expert_variants import (
    ASM,
    CK,
    FLYDSL,
    FUSED_MOE,
    NATIVE_MXFP8,
    TRITON_KERNELS,
    TWO_GEMMS,
)
from m3probe.fastpaths._experts import backend_word, expert_layers
from m3probe.fastpaths.monokernel import MONO
from m3probe.schema.paths import Asked, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family


def asked(setup: Setup) -> Asked:
    """Every model with experts has a backend."""
    return Asked(Held.YES, f"--moe-backend {backend_word(setup, 'moe-backend')}")


def _starts(setup: Setup, _point: Point) -> Met:
    chosen = pick(setup)
    return met(chosen.starts, chosen.text)


FAST_PATH = FastPath(
    title="MoE backend",
    question="Which implementation ran the experts' GEMMs?",
    configured="--moe-backend {auto,aiter,triton,...}; VLLM_ROCM_USE_AITER and VLLM_ROCM_USE_AITER_MOE",
    default="auto; AITER is off unless VLLM_ROCM_USE_AITER=1",
    acts_on=(
        Family.MOE_GEMM,
        Family.MOE_ROUTE,
        Family.QUANT,
        Family.ACTIVATION,
    ),
    needs=(
        Need("the model has expert layers", expert_layers),
        Need(
            "the backend that is named, or one that auto finds, takes this checkpoint on this GPU",
            _starts,
            When.START,
            ("moe_backend_names", "moe_backend_order"),
        ),
    ),
    variants=(
        FLYDSL,
        CK,
        ASM,
        MONO,
        Variant(
            name="TRT-LLM",
            role=Role.FAST,
            anchors=("bmm_*dynbatch*",),
            vendor="nvidia",
            needs=(Need("SM100"),),
            calls_per_step=TWO_GEMMS,
            source="seen in B200 traces (FlashInfer's trtllm-gen batched GEMM)",
        ),
        TRITON_KERNELS,
        NATIVE_MXFP8,
        FUSED_MOE,
    ),
    asked=asked,
    chooses=True,
    family=Family.MOE_GEMM,
    instead="nothing: a named backend that refuses stops the engine, and auto ends with one that takes anything",
    gates=("fused_params", "expert_mask", "token_conservation", "eval_file"),
    logs=("Using '%s' MxFp8 MoE backend.", "Using '%s' Mxfp4 MoE backend."),
    functions=("select_mxfp8_moe_backend", "select_mxfp4_moe_backend"),
    sources=("vLLM PR 46184, 46419, 46117", "fused_moe/oracle/mxfp8.py, mxfp4.py at 0.24 to 0.33"),
)
