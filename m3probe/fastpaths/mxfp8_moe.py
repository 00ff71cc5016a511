"""MXFP8 experts: AITER FlyDSL, vLLM's native Triton kernel, or BF16 emulation.

Sources: vLLM PR 46184, 46117; ``oracle/mxfp8.py`` and ``experts/aiter_mxfp8_moe.py`` at 0.25.1, 0.32, 0.33; at 0.24 the
oracle knows neither AITER nor the word triton. A name on the command line never falls back; auto does, without a word.
"""

from m3probe.fastpaths._expert_variants import FLYDSL_MXFP8, FUSED_MOE, NATIVE_MXFP8
from m3probe.fastpaths._experts import aiter_lacks, aiter_off, backend_word, expert_layers, no_such_name, when_auto
from m3probe.fastpaths._experts_mxfp8 import (
    MXFP8_AITER,
    mxfp8_activation,
    mxfp8_arch,
    mxfp8_gate_mode,
    mxfp8_invariance,
    mxfp8_pick,
    mxfp8_switch,
    mxfp8_wants_switch,
)
from m3probe.fastpaths._m3 import absent, build_name, yes
from m3probe.fastpaths._tp_group import no_amd
from m3probe.schema.paths import Asked, Effect, FastPath, Need, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family


def asked(setup: Setup) -> Asked:
    """An MXFP8 checkpoint, and a --moe-backend that leads to AITER (or nowhere, which a need tells)."""
    quant, word = setup.model.moe_quant, backend_word(setup, "moe-backend")
    said = f"--moe-backend {word}"
    if quant not in (None, "mxfp8"):
        return Asked(Held.NO, f"the experts are {quant}, not mxfp8")
    lacks = aiter_lacks(setup)
    if not lacks and word == "auto" and absent(setup, "mxfp8_moe_aiter") and not no_amd(setup):
        lacks = f"{build_name(setup)} has no AITER MXFP8 experts: {mxfp8_pick(setup).text}"
    if lacks:
        return Asked(Held.NO, lacks)
    names = setup.build.rule("moe_backend_names")
    if quant is None or not names.known or no_amd(setup):
        why = "the experts' quantisation is not known" if quant is None else f"rule moe_backend_names is {names.status}"
        return Asked(Held.UNKNOWN, f"{said}: {no_amd(setup) or why}")
    if word == "auto" and aiter_off(setup) and mxfp8_wants_switch(setup):
        return Asked(Held.NO, mxfp8_pick(setup).text)
    members = names.value["mxfp8"].get(word, [])
    if word == "auto" or not members or MXFP8_AITER in members or mxfp8_pick(setup).starts is False:
        return Asked(Held.YES, said)
    return Asked(Held.NO, mxfp8_pick(setup).text)


def _named(setup: Setup, _point: Point) -> Met:
    """A name that is none, or one whose experts refuse, stops the engine."""
    word = backend_word(setup, "moe-backend")
    if word == "auto":
        return yes("--moe-backend auto: a refused backend is passed over")
    missing = no_such_name(setup, "mxfp8", word)
    chosen = mxfp8_pick(setup)
    return met(False if missing else chosen.starts, missing or chosen.text)


def _mask(setup: Setup, _point: Point) -> Met:
    if not setup.expert_parallel:
        return yes("no expert parallelism: no expert mask")
    return yes(f"EP{setup.ep} is allowed; gate expert_mask has to hold")


_RULES = ("mxfp8_moe_aiter",)

FAST_PATH = FastPath(
    title="AITER MXFP8 experts",
    question="Did AITER multiply the MXFP8 experts?",
    configured="--moe-backend auto or aiter, with VLLM_ROCM_USE_AITER=1 (0.32, 0.33); 0.25.1 asks for no variable",
    default="auto: AITER where it takes the model, else native Triton on gfx95x, else BF16 emulation",
    acts_on=(
        Family.MOE_GEMM,
        Family.MOE_ROUTE,
        Family.QUANT,
        Family.ACTIVATION,
    ),
    needs=(
        Need("the model has expert layers", expert_layers),
        Need("a --moe-backend that MXFP8 knows and that takes this model", _named, When.START, ("moe_backend_names",)),
        Need("a GPU with MX hardware", when_auto(mxfp8_arch), When.LOAD, _RULES),
        Need("AITER and its MoE switch; 0.25.1: the package alone", when_auto(mxfp8_switch), When.LOAD, _RULES),
        Need("0.33: an aiter.fused_moe that takes gate_mode", when_auto(mxfp8_gate_mode), When.LOAD, _RULES),
        Need("0.32, 0.33: SwiGLU-OAI with alpha 1.702, beta 1.0", when_auto(mxfp8_activation), When.LOAD, _RULES),
        Need("0.32, 0.33: no batch invariance", when_auto(mxfp8_invariance), When.LOAD, _RULES),
        Need("with expert parallelism, a mask of this rank's experts", _mask),
    ),
    variants=(FLYDSL_MXFP8, NATIVE_MXFP8, FUSED_MOE),
    asked=asked,
    instead="auto: _mxfp8_grouped_gemm_kernel on gfx95x, fused_moe_kernel on BF16 weights elsewhere; named: no start",
    gates=("fused_params", "expert_mask", "token_conservation", "cosine", "eval_file"),
    effects=(
        Effect("8 to 46 % with tuned tiles, from high to low concurrency (native Triton; bundle)", "vLLM PR 46117"),
        Effect("tuned table: 25.6 us at 1 row, 299.3 us at 128 rows, TP4, 129/5", "AITER minimax_m3 table"),
    ),
    logs=(
        "Using 'AITER_MXFP8' MxFp8 MoE backend.",
        "Using 'TRITON_MXFP8' MxFp8 MoE backend (user-requested).",
        "Using native CDNA4 (gfx950) MXFP8 dot_scaled MoE backend. (0.24, 0.25.1)",
    ),
    functions=("AiterMxfp8Experts.apply", "rocm_aiter_ops.fused_moe", "Mxfp8NativeTritonExperts.apply"),
    sources=(
        "vLLM PR 46184, 46117",
        "oracle/mxfp8.py: 0.24 knows flashinfer_trtllm, deep_gemm, marlin, xpu alone; no version knows emulation as a name",
    ),
)
