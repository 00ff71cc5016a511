"""MXFP4 experts on AITER: three precisions by name, one of them for M3's checkpoint.

Sources: vLLM PR 45794, 46419; ``map_mxfp4_backend``, ``_filter_by_activation`` (oracle/mxfp4.py) and ``AiterExperts`` at
0.24, 0.25.1, 0.32, 0.33. amd/MiniMax-M3-MXFP4 declares MXFP4 activations (W4A4), and that filter comes first.
"""

from dataclasses import replace

from m3probe.fastpaths._expert_variants import CK, FLYDSL_W4A4, FUSED_MOE, TRITON_KERNELS, TWO_GEMMS
from m3probe.fastpaths._experts import (
    aiter_lacks,
    aiter_off,
    aiter_switch,
    backend_word,
    expert_layers,
    invariance,
    no_such_name,
    when_auto,
)
from m3probe.fastpaths._experts_mxfp4 import MXFP4_AITER, mxfp4_activation, mxfp4_arch, mxfp4_pick
from m3probe.fastpaths._m3 import yes
from m3probe.fastpaths._tp_group import no_amd
from m3probe.schema.paths import Asked, Effect, FastPath, Need, Role, Variant, When
from m3probe.schema.setup import Held, Met, Point, Setup, met
from m3probe.schema.verdicts import Family

PRECISIONS = {
    "AITER_MXFP4_BF16": "W4A16",
    "AITER_TRITON_MXFP4_BF16": "W4A16",
    "AITER_MXFP4_FP8": "W4A8",
    "AITER_MXFP4_MXFP4": "W4A4",
    "AITER_TRITON_MXFP4_MXFP4": "W4A4",
}
"""Enum members that ``aiter`` and its longer names stand for."""


def candidates(setup: Setup, word: str) -> tuple[str, ...]:
    """Members that a --moe-backend stands for and whose activations are the checkpoint's, in the order asked."""
    names = setup.build.rule("moe_backend_names").value["mxfp4"]
    return tuple(member for member in names.get(word, ()) if PRECISIONS.get(member) == "W4A4")


def asked(setup: Setup) -> Asked:
    """An MXFP4 checkpoint, and a --moe-backend that leads to AITER (or nowhere, which a need tells)."""
    quant, word = setup.model.moe_quant, backend_word(setup, "moe-backend")
    said = f"--moe-backend {word}"
    if quant not in (None, "mxfp4"):
        return Asked(Held.NO, f"the experts are {quant}, not mxfp4")
    if aiter_lacks(setup):
        return Asked(Held.NO, aiter_lacks(setup))
    names = setup.build.rule("moe_backend_names")
    if quant is None or not names.known or no_amd(setup):
        why = "the experts' quantisation is not known" if quant is None else f"rule moe_backend_names is {names.status}"
        return Asked(Held.UNKNOWN, f"{said}: {no_amd(setup) or why}")
    members = names.value["mxfp4"].get(word, [])
    if word == "auto" and aiter_off(setup):
        return Asked(Held.NO, mxfp4_pick(setup).text)
    if word == "auto" or not members or MXFP4_AITER in members or mxfp4_pick(setup).starts is False:
        return Asked(Held.YES, f"{said}{_list(setup, word)}")
    return Asked(Held.NO, mxfp4_pick(setup).text)


def _list(setup: Setup, word: str) -> str:
    members = setup.build.rule("moe_backend_names").value["mxfp4"].get(word, [])
    if not members:
        return ""
    stands = ", ".join(f"{member} ({PRECISIONS.get(member, '?')})" for member in members)
    kept = ", ".join(candidates(setup, word))
    return f" stands for {stands}; the checkpoint's MXFP4 activations leave {kept}"


def _named(setup: Setup, _point: Point) -> Met:
    word = backend_word(setup, "moe-backend")
    if word == "auto":
        return yes("--moe-backend auto: a refused backend is passed over")
    missing = no_such_name(setup, "mxfp4", word)
    chosen = mxfp4_pick(setup)
    return met(False if missing else chosen.starts, missing or chosen.text)


def _parallel(setup: Setup, _point: Point) -> Met:
    """No release refuses EP here; a nightly fell to emulation with it (InferenceX PR 1964)."""
    if not setup.expert_parallel:
        return yes("no expert parallelism")
    return yes(f"EP{setup.ep} is allowed; gate expert_mask has to hold")


def _other(name: str, globs: tuple[str, ...], why: str) -> Variant:
    return Variant(
        name=name,
        role=Role.FAST,
        anchors=globs,
        vendor="amd",
        calls_per_step=TWO_GEMMS,
        names_from_source=True,
        source=why,
        note="never taken for M3's W4A4 checkpoint: seen, it is another model",
    )


FAST_PATH = FastPath(
    title="AITER MXFP4 experts",
    question="Did AITER multiply the MXFP4 experts, and in which precision?",
    configured="--moe-backend auto or aiter, with VLLM_ROCM_USE_AITER=1",
    default="auto with AITER off: emulation in BF16 (0.24: triton_kernels)",
    acts_on=(
        Family.MOE_GEMM,
        Family.MOE_ROUTE,
        Family.QUANT,
        Family.ACTIVATION,
    ),
    needs=(
        Need("the model has expert layers", expert_layers),
        Need("a --moe-backend that MXFP4 knows and that takes this model", _named, When.START, ("moe_backend_names",)),
        Need("gfx950", when_auto(mxfp4_arch)),
        Need("AITER and its MoE switch", when_auto(aiter_switch)),
        Need("AITER's experts take M3's activation", when_auto(mxfp4_activation), When.LOAD, ("mxfp8_moe_aiter",)),
        Need("no batch invariance", when_auto(invariance)),
        Need("with expert parallelism, a mask of this rank's experts", _parallel),
    ),
    variants=(
        FLYDSL_W4A4,
        replace(CK, anchors=("*moe_mxgemm*",), note="the name does not tell the precision"),
        _other(
            "AITER W4A8",
            ("*flydsl_moe[12]*_afp8_wfp4*", "*moe_gemm_a8w4*"),
            "AiterW4A8ExpertsMonolithic (aiter_mxfp4_w4a8_moe.py): static FP8 activations, swigluoai alone",
        ),
        _other(
            "AITER W4A16",
            ("*flydsl_moe[12]*_abf16_wfp4*", "*flydsl_mxmoe_g[12]_a16w4*", "*moe_gemm_a16w4*"),
            "AITER_MXFP4_BF16 and AITER_TRITON_MXFP4_BF16 of oracle/mxfp4.py: weight-only checkpoints",
        ),
        replace(TRITON_KERNELS, role=Role.FALLBACK, vllm="0.24: what auto ends with on ROCm"),
        FUSED_MOE,
    ),
    asked=asked,
    instead="auto: emulation, weights dequantised at each call (0.32, 0.33 need amd-quark); named: no start",
    gates=("fused_params", "expert_mask", "token_conservation", "cosine", "eval_file"),
    effects=(
        Effect("GSM8K 0.9401 and 0.9409 at TP8", "vLLM PR 46419"),
        Effect("auto with EP ended in emulation and built a C++ extension for 8 hours", "InferenceX PR 1964"),
        Effect("tuned table: 16.1 us at 1 row, 165.5 us at 128 rows, TP4, 129/5", "AITER minimax_m3_fp4 table"),
    ),
    logs=(
        "Using 'AITER_MXFP4_MXFP4' Mxfp4 MoE backend.",
        "No Mxfp4 MoE backend supports activation=%s ... Falling back to '%s' with BF16 activations. (0.32, 0.33)",
    ),
    functions=("AiterExperts.apply (0.33: AiterMxfp4Experts)", "rocm_aiter_ops.fused_moe"),
    sources=("vLLM PR 45794, 46419", "quark_moe.py:QuarkOCP_MX_MoEMethod at 0.24 to 0.33"),
)
