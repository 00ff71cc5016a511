"""Which backend a W4A4 checkpoint's experts get on ROCm (amd/MiniMax-M3-MXFP4, Quark).

Sources: ``oracle/mxfp4.py``, ``experts/rocm_aiter_moe.py``, ``quark_moe.py`` at 0.24, 0.25.1, 0.32, 0.33.
"""

from __future__ import annotations

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
    refusals,
)
from m3probe.fastpaths._m3 import absent, build_name, unknown
from m3probe.schema.setup import Met, Setup, met

MXFP4_AITER, MXFP4_UNFUSED = "AITER_MXFP4_MXFP4", "TRITON_UNFUSED"


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
    if MXFP4_AITER not in setup.build.rule("moe_backend_names").value["mxfp4"][word]:
        return Pick(None, f"{said}: not judged for a W4A4 checkpoint", None)
    asks = mxfp4_asks(setup)
    fits = held_by_all(asks)
    if fits is False:
        return Pick(None, f"{said}: {refusals(asks)}; the engine does not start", starts=False)
    return Pick(MXFP4_AITER if fits else None, f"{said}: {MXFP4_AITER if fits else refusals(asks)}", fits)


def _mxfp4_auto(setup: Setup) -> Pick:
    """0.24 has no emulation in its order: on ROCm it ends with triton_kernels and BF16 activations."""
    asks, said = mxfp4_asks(setup), "--moe-backend auto"
    fits = held_by_all(asks)
    if fits is not False:
        return Pick(MXFP4_AITER if fits else None, f"{said}: {MXFP4_AITER if fits else refusals(asks)}")
    order = setup.build.rule("moe_backend_order").value["mxfp4"]
    taken = EMULATION if EMULATION in order else MXFP4_UNFUSED
    return Pick(taken, f"{said} passes {MXFP4_AITER} over ({refusals(asks)}): {taken}")
