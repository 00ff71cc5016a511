"""Which backend an MXFP8 checkpoint's experts get on ROCm.

Sources: ``oracle/mxfp8.py``, ``experts/aiter_mxfp8_moe.py``, ``experts/mxfp8_native_moe.py`` at 0.24, 0.25.1, 0.32, 0.33.
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
    on_arch,
    refusals,
)
from m3probe.fastpaths._m3 import absent, build_name, no, unknown, yes
from m3probe.fastpaths._tp_group import no_amd
from m3probe.schema.setup import Met, Setup, met

MXFP8_AITER, MXFP8_NATIVE = "AITER_MXFP8", ("TRITON_MXFP8", "NATIVE_MXFP8")
FLYDSL_CSV = "minimax_m3_mxfp8_tuned_fmoe.csv"


def mxfp8_asks(setup: Setup) -> tuple[Met, ...]:
    """What AITER's MXFP8 experts ask for on this build, each with its answer (``AiterMxfp8Experts``)."""
    rule = setup.build.rule("mxfp8_moe_aiter")
    if absent(setup, "mxfp8_moe_aiter"):
        return (no(f"{build_name(setup)} has no AITER MXFP8 experts"),)
    if not rule.known:
        return (unknown(f"rule mxfp8_moe_aiter is {rule.status} on this build"),)
    return tuple(check(setup) for check in MXFP8_CHECKS)


def mxfp8_arch(setup: Setup) -> Met:
    """A GPU with MX hardware."""
    return arch_met(setup, tuple(setup.build.rule("mxfp8_moe_aiter").value["archs"]), "AITER's MXFP8 experts need")


def mxfp8_wants_switch(setup: Setup) -> bool:
    """Whether this build asks for VLLM_ROCM_USE_AITER: 0.32 and 0.33 do, 0.25.1 takes AITER without it."""
    rule = setup.build.rule("mxfp8_moe_aiter")
    return bool(rule.known and rule.value and rule.value["aiter_env"])


def mxfp8_switch(setup: Setup) -> Met:
    """0.25.1 asks no variable: it looks for flydsl and for one file of the AITER package (PR 46184)."""
    if mxfp8_wants_switch(setup):
        return aiter_switch(setup)
    said = f"{build_name(setup)} asks no variable but flydsl and {FLYDSL_CSV} in the AITER package"
    names = [str(name).rpartition("/")[2] for name in setup.tuned_tables]
    if names and FLYDSL_CSV not in names:
        return no(f"{said}: it is not among the {len(names)} tables given")
    return yes(f"{said}, which it is given" if names else f"given both: {said}")


def mxfp8_gate_mode(setup: Setup) -> Met:
    """The installed AITER's signature; no setup tells it."""
    if setup.build.rule("mxfp8_moe_aiter").value["gate_mode"]:
        return yes("given an aiter.fused_moe that takes gate_mode (AITER 0.1.14 or newer)")
    return yes(f"{build_name(setup)} does not look at aiter.fused_moe's arguments")


def mxfp8_activation(setup: Setup) -> Met:
    """AITER's kernel holds alpha and beta as constants."""
    rule, has = setup.build.rule("mxfp8_moe_aiter").value, setup.model.activation
    if rule["alpha"] is None:
        return yes(f"{build_name(setup)} does not compare SwiGLU-OAI's alpha and beta")
    wants = f"alpha {rule['alpha']}, beta {rule['beta']}"
    if has is None:
        return unknown(f"SwiGLU-OAI's alpha and beta are not known, must be {wants}")
    fits = abs(has[0] - rule["alpha"]) < 1e-6 and abs(has[1] - rule["beta"]) < 1e-6
    return met(fits, f"SwiGLU-OAI with alpha {has[0]:g}, beta {has[1]:g}; AITER's kernel holds {wants}")


def mxfp8_invariance(setup: Setup) -> Met:
    """0.25.1's class inherits Triton's yes."""
    if not mxfp8_wants_switch(setup):
        return yes(f"{build_name(setup)} does not ask for batch invariance")
    return invariance(setup)


MXFP8_CHECKS = (mxfp8_arch, mxfp8_switch, mxfp8_gate_mode, mxfp8_activation, mxfp8_invariance)


def mxfp8_pick(setup: Setup) -> Pick:
    """Which backend an MXFP8 checkpoint gets."""
    lost = lost_rule(setup)
    if lost:
        return Pick(None, lost, None)
    word = backend_word(setup, "moe-backend")
    if no_amd(setup):
        return Pick(None, no_amd(setup), None)
    return _mxfp8_auto(setup) if word == "auto" else _mxfp8_named(setup, word)


def _mxfp8_named(setup: Setup, word: str) -> Pick:
    """An explicit name never falls back."""
    missing = no_such_name(setup, "mxfp8", word)
    if missing:
        return Pick(None, missing, starts=False)
    member = setup.build.rule("moe_backend_names").value["mxfp8"][word][0]
    said = f"--moe-backend {word}"
    if member == MXFP8_AITER:
        asks = mxfp8_asks(setup)
        fits = held_by_all(asks)
        if fits:
            return Pick(member, f"{said}: {member}")
        stop = "the engine does not start" if fits is False else "whether the engine starts is not known"
        return Pick(None, f"{said}: {refusals(asks)}; {stop}", starts=fits)
    if member in MXFP8_NATIVE:
        return _native_named(setup, said, member)
    return Pick(None, f"{said}: {member} does not run on ROCm, the engine does not start", starts=False)


def _native_named(setup: Setup, said: str, member: str) -> Pick:
    """Off MX hardware 0.25.1 emulates under the same name; 0.32 and 0.33 refuse."""
    fits = _native_arch(setup)
    if fits is not False:
        return Pick(member if fits else None, f"{said}: {member} on {setup.gfx or 'an unknown GPU'}", fits)
    rule = setup.build.rule("mxfp8_moe_aiter")
    if rule.known and rule.value and not mxfp8_wants_switch(setup):
        return Pick(EMULATION, f"{said} on {setup.gfx}: {build_name(setup)} emulates in BF16")
    return Pick(None, f"{said}: {setup.gfx} has no MX hardware, the engine does not start", starts=False)


def _native_arch(setup: Setup) -> bool | None:
    rule = setup.build.rule("mxfp8_linear")
    archs = tuple(rule.value["archs"]) if rule.known and rule.value else ("gfx95",)
    return on_arch(setup, archs)


def _mxfp8_auto(setup: Setup) -> Pick:
    """The first of the order that this GPU can run; the others of it are for CUDA and XPU."""
    order = setup.build.rule("moe_backend_order").value["mxfp8"]
    said = "--moe-backend auto"
    if MXFP8_AITER in order:
        asks = mxfp8_asks(setup)
        fits = held_by_all(asks)
        if fits is not False:
            return Pick(
                MXFP8_AITER if fits else None, f"{said}: {MXFP8_AITER}" if fits else f"{said}: {refusals(asks)}"
            )
        said += f" passes {MXFP8_AITER} over ({refusals(asks)})"
    native = _native_arch(setup)
    if native is None:
        return Pick(None, f"{said}; the GPU is not known")
    named = next((member for member in order if member in MXFP8_NATIVE), MXFP8_NATIVE[0])
    return Pick(named if native else EMULATION, f"{said}: {named if native else EMULATION} on {setup.gfx}")
