"""Which backend a W4A4 checkpoint's experts get on ROCm (amd/MiniMax-M3-MXFP4, Quark).

Sources: ``oracle/mxfp4.py``, ``experts/rocm_aiter_moe.py``, ``quark_moe.py`` at 0.24, 0.25.1, 0.32, 0.33.
"""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.fastpaths._experts import (
    EMULATION,
    Pick,
    aiter_switch,
    arch_met,
    backend_word,
    held_by_all,
    invariance,
    lost_rule,
    no_such_name,
    on_arch,
    refusals,
)
from m3probe.fastpaths._m3 import absent, build_name, unknown
from m3probe.fastpaths._tp_group import no_amd, release
from m3probe.schema.setup import Held, Met, Setup, met

MXFP4_AITER, MXFP4_UNFUSED = "AITER_MXFP4_MXFP4", "TRITON_UNFUSED"
_W4A4 = (MXFP4_AITER, "AITER_TRITON_MXFP4_MXFP4", "CUTLASS_MXFP4_MXFP4", EMULATION)
_NOT_ROCM = ("FLASHINFER_", "MARLIN", "BATCHED_MARLIN", "HUMMING", "B12X_", "CUTLASS_", "XPU", "CPU")
_ACTIVATION_ALONE, _BF16_FOLLOWS = ("0.24.0", "0.25.1"), ("0.32.0", "0.33.0")


def mxfp4_arch(setup: Setup) -> Met:
    """gfx950 alone: gfx1250 is excluded by name."""
    return arch_met(setup, ("gfx950",), "AITER's MXFP4 experts need")


def mxfp4_activation(setup: Setup) -> Met:
    """0.24 does not list M3's activation.

    No rule holds AITER's list; the release that brought AITER's MXFP8 experts is the one that added the word.
    """
    rule = setup.build.rule("mxfp8_moe_aiter")
    if not rule.known:
        return unknown(f"whether AITER's experts take M3's activation: rule mxfp8_moe_aiter is {rule.status}")
    takes = not absent(setup, "mxfp8_moe_aiter")
    said = "take" if takes else "do not take"
    return met(takes, f"AITER's experts of {build_name(setup)} {said} M3's activation swigluoai_uninterleave")


MXFP4_CHECKS = (mxfp4_arch, aiter_switch, mxfp4_activation, invariance)


def mxfp4_asks(setup: Setup) -> tuple[Met, ...]:
    """What AITER's MXFP4 experts ask for (``AiterExperts``, from 0.33 ``AiterMxfp4Experts``)."""
    return tuple(check(setup) for check in MXFP4_CHECKS)


def mxfp4_pick(setup: Setup) -> Pick:
    """Which backend a W4A4 checkpoint (amd/MiniMax-M3-MXFP4, Quark) gets."""
    lost = lost_rule(setup)
    if lost:
        return Pick(None, lost, None)
    if no_amd(setup):
        return Pick(None, no_amd(setup), None)
    word = backend_word(setup, "moe-backend")
    if word == "auto":
        return _mxfp4_auto(setup)
    missing = no_such_name(setup, "mxfp4", word)
    if missing:
        return Pick(None, missing, starts=False)
    return _mxfp4_named(setup, word)


def _mxfp4_named(setup: Setup, word: str) -> Pick:
    said = f"--moe-backend {word}"
    if word == "emulation":
        return Pick(EMULATION, f"{said}: BF16 experts, weights dequantised at each call (amd-quark has to be there)")
    members = setup.build.rule("moe_backend_names").value["mxfp4"][word]
    if MXFP4_AITER not in members:
        return _other_named(setup, said, members)
    asks = mxfp4_asks(setup)
    fits = held_by_all(asks)
    if fits is False:
        return Pick(None, f"{said}: {refusals(asks)}; the engine does not start", starts=False)
    return Pick(MXFP4_AITER if fits else None, f"{said}: {MXFP4_AITER if fits else refusals(asks)}", fits)


def _other_named(setup: Setup, said: str, members: Sequence[str]) -> Pick:
    """A name that does not stand for AITER's W4A4 experts (``_filter_by_activation``, each class's own guards).

    0.24 and 0.25.1 keep members that take the checkpoint's MXFP4 activations alone; 0.32 and 0.33 put those with BF16
    activations behind them, with a warning.
    """
    new = release(setup) in _BF16_FOLLOWS
    if not new and release(setup) not in _ACTIVATION_ALONE:
        return Pick(None, f"{said}: not judged for a W4A4 checkpoint on this build", None)
    left = [m for m in members if m in _W4A4 or (new and not _other_activation(m))]
    if not left:
        why = f"{', '.join(members)} takes no MXFP4 activations"
        return Pick(None, f"{said}: {why}, the engine does not start (ValueError)", starts=False)
    if left == [MXFP4_UNFUSED]:
        order = invariance(setup)
        if order.held is not Held.YES:
            return Pick(None, f"{said}: {order.text}", False if order.held is Held.NO else None)
        return Pick(MXFP4_UNFUSED, f"{said}: {MXFP4_UNFUSED} with BF16 activations (triton_kernels has to be there)")
    refused = [why for m in left if (why := _refuses(setup, m))]
    if len(refused) == len(left):
        return Pick(None, f"{said}: {'; '.join(refused)}; the engine does not start (ValueError)", starts=False)
    return Pick(None, f"{said}: not judged for a W4A4 checkpoint", None)


def _other_activation(member: str) -> bool:
    """Members for FP8 or MXFP8 activations (``_backend_activation_key``)."""
    return member.endswith(("_MXFP8", "_FP8")) or member == "DEEPGEMM_MXFP4"


def _refuses(setup: Setup, member: str) -> str:
    """Why a member's experts do not take MiniMax M3 on ROCm; empty where that is not known."""
    if member.startswith(_NOT_ROCM):
        return f"{member} does not run on ROCm"
    if member in ("TRITON", "AITER_TRITON_MXFP4_BF16"):
        return f"{member} does not take M3's activation swigluoai_uninterleave"
    if member == "AITER_TRITON_MXFP4_MXFP4" and on_arch(setup, ("gfx1250",)) is False:
        return f"{member} is for gfx1250 alone, not {setup.gfx}"
    return ""


def _mxfp4_auto(setup: Setup) -> Pick:
    """0.24 has no emulation in its order: on ROCm it ends with triton_kernels and BF16 activations."""
    asks, said = mxfp4_asks(setup), "--moe-backend auto"
    fits = held_by_all(asks)
    if fits is not False:
        return Pick(MXFP4_AITER if fits else None, f"{said}: {MXFP4_AITER if fits else refusals(asks)}")
    order = setup.build.rule("moe_backend_order").value["mxfp4"]
    taken = EMULATION if EMULATION in order else MXFP4_UNFUSED
    return Pick(taken, f"{said} passes {MXFP4_AITER} over ({refusals(asks)}): {taken}")
