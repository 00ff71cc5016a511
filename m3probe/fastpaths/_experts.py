"""Which implementation multiplies MiniMax M3's experts on ROCm: asked for by several paths.

Sources at 0.24, 0.25.1, 0.32, 0.33: ``fused_moe/oracle/mxfp8.py`` and ``mxfp4.py``, ``experts/aiter_mxfp8_moe.py``,
``experts/rocm_aiter_moe.py``, ``experts/mxfp8_native_moe.py``, ``quantization/utils/config_utils.py``
(``is_shared_expert_quant_fse_compatible``), ``models/minimax_m3/amd/model.py`` (``MiniMaxM3MoE``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from m3probe.fastpaths._m3 import AITER, absent, build_name, flag, no, option, unknown, yes
from m3probe.schema.paths import Check
from m3probe.schema.setup import Held, Met, Point, Setup, met

AITER_MOE, FSE_ENV = "VLLM_ROCM_USE_AITER_MOE", "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS"
INVARIANT = "VLLM_BATCH_INVARIANT"
MXFP8_AITER, MXFP8_NATIVE, EMULATION = "AITER_MXFP8", ("TRITON_MXFP8", "NATIVE_MXFP8"), "EMULATION"
MXFP4_AITER, MXFP4_UNFUSED = "AITER_MXFP4_MXFP4", "TRITON_UNFUSED"
FLYDSL_CSV = "minimax_m3_mxfp8_tuned_fmoe.csv"


@dataclass(frozen=True, slots=True)
class Pick:
    """The experts' backend. ``member``: vLLM's enum member; None: no start, or not known. ``starts``: False: no start."""

    member: str | None
    text: str
    starts: bool | None = True

    @property
    def aiter(self) -> bool | None:
        """Whether AITER multiplies the experts."""
        return None if self.member is None else self.member in (MXFP8_AITER, MXFP4_AITER)


def backend_word(setup: Setup, name: str) -> str:
    """``--moe-backend`` or ``--linear-backend`` as vLLM reads it; ``auto`` on the flag leaves --kernel-config's word."""
    said = flag(setup, name)
    if said is None or str(said).lower() == "auto":
        said = option(setup, "kernel-config", name.replace("-", "_")) or "auto"
    return str(said).lower().replace("-", "_")


def switched_on(setup: Setup, name: str) -> bool:
    """A flag that takes no value, or a boolean one."""
    value = flag(setup, name)
    return value is True or str(value).lower() in ("true", "1")


def aiter_off(setup: Setup) -> str:
    """Which of AITER's two settings for experts are off; empty when it is on (the second is on by default)."""
    off = []
    if not setup.on(AITER, default=False):
        off.append(f"{AITER} is {'off' if AITER in setup.env else 'not set (default off)'}")
    if not setup.on(AITER_MOE, default=True):
        off.append(f"{AITER_MOE} is off")
    return ", ".join(off)


def on_arch(setup: Setup, archs: tuple[str, ...]) -> bool | None:
    """Whether the GPU is one of these families; None where it is not known."""
    return setup.gfx.startswith(archs) if setup.gfx else None


def arch_met(setup: Setup, archs: tuple[str, ...], what: str) -> Met:
    """The same as a sentence."""
    return met(on_arch(setup, archs), f"GPU {setup.gfx or 'not known'}: {what} needs {' or '.join(archs)}")


def aiter_switch(setup: Setup) -> Met:
    """AITER and its MoE switch as a need."""
    off = aiter_off(setup)
    return no(off) if off else yes(f"{AITER}=1, {AITER_MOE} is on")


def expert_layers(setup: Setup, _point: Point) -> Met:
    """The model has experts at all."""
    layers = setup.model.moe_layers
    return met(None if layers is None else layers > 0, f"{layers} of {setup.model.layers} layers have experts")


# --- MXFP8 ----------------------------------------------------------------------------------------------------


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
    return arch_met(setup, tuple(setup.build.rule("mxfp8_moe_aiter").value["archs"]), "AITER's MXFP8 experts")


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


def invariance(setup: Setup) -> Met:
    """``AiterExperts`` and its kin do not promise it."""
    if setup.on(INVARIANT, default=False):
        return no(f"{INVARIANT}=1: AITER's experts are not batch-invariant")
    return yes(f"{INVARIANT} is off")


MXFP8_CHECKS = (mxfp8_arch, mxfp8_switch, mxfp8_gate_mode, mxfp8_activation, mxfp8_invariance)


def held_by_all(asks: tuple[Met, ...]) -> bool | None:
    """False where one refuses, None where one is not known."""
    states = {ask.held for ask in asks}
    return False if Held.NO in states else None if Held.UNKNOWN in states else True


def refusals(asks: tuple[Met, ...]) -> str:
    """All refusals, then all that is not known."""
    texts = [a.text for held in (Held.NO, Held.UNKNOWN) for a in asks if a.held is held]
    return "; ".join(texts)


def mxfp8_pick(setup: Setup) -> Pick:
    """Which backend an MXFP8 checkpoint gets."""
    lost = _lost(setup)
    if lost:
        return Pick(None, lost, None)
    word = backend_word(setup, "moe-backend")
    return _mxfp8_auto(setup) if word == "auto" else _mxfp8_named(setup, word)


def _lost(setup: Setup) -> str:
    names = [n for n in ("moe_backend_names", "moe_backend_order") if not setup.build.rule(n).known]
    return f"rule {names[0]} is {setup.build.rule(names[0]).status} on this build" if names else ""


def no_such_name(setup: Setup, quant: str, word: str) -> str:
    """The sentence for a --moe-backend that a checkpoint's quantisation does not know; empty when it does."""
    names = setup.build.rule("moe_backend_names").value[quant]
    if word == "auto" or word in names:
        return ""
    return f"--moe-backend {word} is none of {quant.upper()}'s {', '.join(sorted(names))}: the engine does not start"


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


# --- MXFP4 ----------------------------------------------------------------------------------------------------


def mxfp4_arch(setup: Setup) -> Met:
    """gfx950 alone: gfx1250 is excluded by name."""
    return arch_met(setup, ("gfx950",), "AITER's MXFP4 experts")


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
    lost = _lost(setup)
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


def pick(setup: Setup) -> Pick:
    """The backend by the checkpoint's quantisation."""
    if setup.gfx and not setup.gfx.startswith("gfx"):
        return Pick(None, f"{setup.gfx} is no ROCm GPU: not judged", None)
    by_quant = {"mxfp8": mxfp8_pick, "mxfp4": mxfp4_pick}
    quant = setup.model.moe_quant
    if quant in by_quant:
        return by_quant[quant](setup)
    return Pick(None, f"experts are {quant}: not judged" if quant else "the experts' quantisation is not known", None)


def when_auto(check: Callable[[Setup], Met]) -> Check:
    """One of AITER's own conditions; where a name was given all of them have decided at start."""

    def judge(setup: Setup, _point: Point) -> Met:
        if backend_word(setup, "moe-backend") != "auto":
            return yes("--moe-backend was named: judged at start")
        return check(setup)

    return judge


# --- the shared expert ------------------------------------------------------------------------------------------


def fused_shared(setup: Setup) -> bool | None:
    """Whether the shared expert rides along as one more routed expert."""
    if not setup.on(FSE_ENV, default=False) or absent(setup, "fse"):
        return False
    rule = setup.build.rule("fse")
    if not rule.known:
        return None
    return held_by_all(tuple(check(setup) for check in (shared_there, shared_without_ep, shared_quant)))


def shared_there(setup: Setup) -> Met:
    """The model has a shared expert."""
    count = setup.model.shared_experts
    return met(None if count is None else count > 0, f"{count} shared expert per layer")


def shared_without_ep(setup: Setup) -> Met:
    """The shared slot is appended to the routed ones, which the expert map of EP does not hold."""
    if setup.expert_parallel:
        return no(f"--enable-expert-parallel (EP{setup.ep}): the shared slot is not in the expert map")
    return yes("no expert parallelism")


def shared_quant(setup: Setup) -> Met:
    """Quantisation classes that this build lets through, or its refusal word for word."""
    rule, cls = setup.build.rule("fse").value, setup.model.quant_config_class
    if not rule["check"]:
        return yes(f"{build_name(setup)} does not compare the quantisation of routed and shared experts")
    if cls is None:
        if setup.model.moe_quant == "bf16":
            return yes("nothing is quantised")
        return unknown("the quantisation config's class is not known")
    if cls in rule["accepts"]:
        return yes(f"{cls} is accepted, given that its exclude list treats routed and shared experts alike")
    return no(f"{build_name(setup)}: {rule['refusal'].format(cls=cls)}")


def experts_and_slots(setup: Setup) -> tuple[int, int] | None:
    """(experts, slots per row) of the rank's weights: 128/4, 129/5 with the shared expert fused, 128 / EP under EP."""
    model, fused = setup.model, fused_shared(setup)
    if model.experts is None or model.top_k is None or fused is None:
        return None
    more = (model.shared_experts or 0) if fused else 0
    return model.experts // setup.ep + more, model.top_k + more
