"""The all-reduce after attention and the norm behind it in one AITER kernel.

Sources: ``fused_allreduce_gemma_rms_norm.py`` and ``use_1stage_fused_ar_rms`` at 0.32 and 0.33 (0.24 and 0.25.1 hold the
FlashInfer branch alone). M3's call is by hand, not by the compiler's ``fuse_allreduce_rms`` pass: it is asked before any
backend, so it wins over QuickReduce. 0.33's warning that FlyDSL QuickReduce bypasses the fusion is about that pass and
about payloads above the one-stage limits, which M3 never sends to the fused op.
"""

from m3probe.fastpaths._all_reduce import aiter_asked, aiter_custom
from m3probe.fastpaths._comm_variants import fused_bytes, fused_calls, fused_packs, fused_rows
from m3probe.fastpaths._m3 import absent, build_name, yes
from m3probe.fastpaths._tp_group import ONE_RANK, allowed, amd, at_size, no_amd
from m3probe.schema.paths import Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family

_RULE = ("fused_ar_norm",)


def asked(setup: Setup) -> Asked:
    """On with AITER's all-reduce, in builds whose model file calls it; one rank has nothing to reduce."""
    if setup.tp == 1:
        return Asked(Held.NO, ONE_RANK)
    if no_amd(setup):
        return Asked(Held.UNKNOWN, no_amd(setup))
    if absent(setup, "fused_ar_norm"):
        return Asked(Held.NO, f"{build_name(setup)} has the FlashInfer branch alone, which is NVIDIA's")
    theirs = aiter_asked(setup)
    return Asked(theirs.held, f"AITER's all-reduce: {theirs.text}")


def _model(setup: Setup, _point: Point) -> Met:
    return met(
        setup.model.is_minimax_m3, f"model {setup.model.name or 'not named'}; MiniMax M3's file calls the fusion"
    )


def _allowed(setup: Setup, _point: Point) -> Met:
    return allowed(setup)


def _built(setup: Setup, _point: Point) -> Met:
    return aiter_custom(setup).built


def _rows(setup: Setup, point: Point) -> Met:
    return at_size(setup, point, lambda payload: fused_rows(setup, payload))


def _bytes(setup: Setup, point: Point) -> Met:
    return at_size(setup, point, lambda payload: fused_bytes(setup, payload))


def _taken(setup: Setup, payload: int) -> Met:
    found = aiter_custom(setup)
    return Met(found.takes(payload), found.says(payload)) if found.built.held is Held.YES else yes("not built")


def _fits(setup: Setup, point: Point) -> Met:
    return at_size(setup, point, lambda payload: _taken(setup, payload))


FAST_PATH = FastPath(
    title="fused all-reduce and Gemma RMSNorm",
    question="Was attention's all-reduce fused with the norm behind it?",
    configured="VLLM_ROCM_USE_AITER=1 with VLLM_ROCM_USE_AITER_CUSTOM_AR (on by default); no setting of its own",
    default="off: VLLM_ROCM_USE_AITER defaults to 0",
    acts_on=(
        Family.COMM,
        Family.NORM,
    ),
    needs=(
        Need("MiniMax M3's model file", _model),
        Need("custom all-reduces: more than one rank, gfx94x or gfx95x, one node, not switched off", _allowed),
        Need("AITER's all-reduce is built", amd(_built), rules=("aiter_ar",)),
        Need("a row of at most 1,024 packs of 16 B, in fp16 or bf16", amd(fused_packs), rules=_RULE),
        Need("at most 80 rows", amd(_rows), When.CALL, _RULE),
        Need("TP2 any size, up to TP4 < 262,144 B, up to TP8 < 131,072 B", amd(_bytes), When.CALL, _RULE),
        Need("a payload that AITER's all-reduce takes", amd(_fits), When.CALL),
    ),
    variants=(
        Variant(
            name="AITER one-stage",
            role=Role.FAST,
            anchors=("*allreduce_fusion_kernel_1stage*",),
            vendor="amd",
            calls_per_step="layers (after attention; the all-reduce after MLP or experts is never fused on ROCm)",
            expected=fused_calls,
            names_from_source=True,
            source="AITER csrc/include/custom_all_reduce.cuh; fused_allreduce_gemma_rms_norm.py at 0.32 and 0.33",
            vllm="0.32, 0.33",
            note="not fused: as many more all-reduces and _gemma_fused_add_rmsnorm_kernel launches as there are layers",
        ),
        Variant(
            name="AITER two-stage",
            role=Role.FALLBACK,
            anchors=("*allreduce_fusion_kernel_2stage*", "*allreduce_fusion_kernel_split*"),
            vendor="amd",
            calls_per_step="0: vLLM asks for the one-stage form first, as this one is slower than two kernels",
            names_from_source=True,
            source="docstring of use_1stage_fused_ar_rms at 0.32 and 0.33",
            vllm="0.32, 0.33",
        ),
    ),
    asked=asked,
    family=Family.COMM,
    only_m3=True,
    instead="an all-reduce by the usual order, then GemmaRMSNorm",
    gates=("eval_file", "cosine"),
    effects=(
        Effect("the input-side fusion of July changed nothing on AMD: it is FlashInfer's", "InferenceX PR 1969"),
        Effect(
            "a one-stage kernel that added the residual before rounding cost 2.6 points of GSM8K on another model",
            "ROCm/aiter 2586",
        ),
    ),
    logs=(),
    functions=("rocm_aiter_ops.get_fused_allreduce_rmsnorm_op()", "AiterCustomAllreduce.use_1stage_fused_ar_rms"),
    sources=(
        "fused_allreduce_gemma_rms_norm.py:116 (_can_use_aiter_fused_ar_rms) at 0.32 and 0.33",
        "aiter_custom_all_reduce.py:90 at 0.33, :76 at 0.32",
        "_aiter_ops.py:1191 at 0.33 (FlyDSL is asked only when the one-stage form is refused)",
    ),
)
