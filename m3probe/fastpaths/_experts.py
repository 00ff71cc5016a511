"""Facts of a setup that several of the paths around MiniMax M3's experts ask for, and the words for their backends.

Sources at 0.24, 0.25.1, 0.32, 0.33: ``fused_moe/oracle/mxfp8.py`` and ``mxfp4.py``, ``_aiter_ops.py``, ``config/kernel.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from m3probe.fastpaths._m3 import AITER, build_name, flag, no, option, unknown, yes
from m3probe.fastpaths._tp_group import BATCH_INVARIANT as INVARIANT
from m3probe.fastpaths._tp_group import batch_invariant, no_amd
from m3probe.schema.paths import Check
from m3probe.schema.setup import Held, Met, Point, Setup, met

AITER_MOE = "VLLM_ROCM_USE_AITER_MOE"
EMULATION = "EMULATION"


@dataclass(frozen=True, slots=True)
class Pick:
    """The experts' backend. ``member``: vLLM's enum member; None: no start, or not known. ``starts``: False: no start."""

    member: str | None
    text: str
    starts: bool | None = True

    @property
    def aiter(self) -> bool | None:
        """Whether AITER multiplies the experts."""
        return None if self.member is None else self.member.startswith("AITER_")


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


def asks_monokernel(setup: Setup) -> bool:
    """``--monokernel``, or the same key of --kernel-config."""
    return switched_on(setup, "monokernel") or option(setup, "kernel-config", "monokernel") is True


def aiter_off(setup: Setup) -> str:
    """Which of AITER's two settings for experts are off; empty when it is on (the second is on by default)."""
    off = []
    if not setup.on(AITER, default=False):
        off.append(f"{AITER} is {'off' if AITER in setup.env else 'not set (default off)'}")
    if not setup.on(AITER_MOE, default=True):
        off.append(f"{AITER_MOE} is off")
    return ", ".join(off)


def aiter_lacks(setup: Setup) -> str:
    """Why a running server surely has no AITER experts: it runs on another vendor's device; empty elsewhere."""
    return f"{setup.gfx} is no ROCm GPU: AITER's experts are ROCm's alone" if setup.resolved and no_amd(setup) else ""


def on_arch(setup: Setup, archs: tuple[str, ...]) -> bool | None:
    """Whether the GPU is one of these families; None where it is not known, or another vendor's."""
    return setup.gfx.startswith(archs) if setup.gfx and not no_amd(setup) else None


def arch_met(setup: Setup, archs: tuple[str, ...], what: str) -> Met:
    """The same as a sentence."""
    said = f"GPU {setup.gfx or 'not known'}: {what} {' or '.join(archs)}"
    return met(on_arch(setup, archs), no_amd(setup) or said)


def aiter_switch(setup: Setup) -> Met:
    """AITER and its MoE switch as a need."""
    off = aiter_off(setup)
    return no(off) if off else yes(f"{AITER}=1, {AITER_MOE} is on")


def expert_layers(setup: Setup, _point: Point) -> Met:
    """The model has experts at all."""
    layers = setup.model.moe_layers
    if layers is None and setup.model.experts:
        return yes(f"the model has {setup.model.experts} experts")
    if layers is None:
        return unknown("whether the model has expert layers is not known")
    return met(layers > 0, f"{layers} of {setup.model.layers} layers have experts")


def invariance(setup: Setup) -> Met:
    """``AiterExperts`` and its kin do not promise it."""
    on, said = batch_invariant(setup), f"{INVARIANT}={setup.env.get(INVARIANT)}"
    if on is None:
        return unknown(f"{said} is no number")
    return no(f"{said}: AITER's experts are not batch-invariant") if on else yes(f"{INVARIANT} is off")


def held_by_all(asks: tuple[Met, ...]) -> bool | None:
    """False where one refuses, None where one is not known."""
    states = {ask.held for ask in asks}
    return False if Held.NO in states else None if Held.UNKNOWN in states else True


def refusals(asks: tuple[Met, ...]) -> str:
    """All refusals, then all that is not known."""
    texts = [a.text for held in (Held.NO, Held.UNKNOWN) for a in asks if a.held is held]
    return "; ".join(texts)


def lost_rule(setup: Setup) -> str:
    """The sentence for a rule of --moe-backend that this build does not tell; empty when all are known."""
    rules = {n: setup.build.rule(n) for n in ("moe_backend_names", "moe_backend_order")}
    names = [n for n, rule in rules.items() if not rule.known or not rule.value]
    return f"rule {names[0]} is {setup.build.rule(names[0]).status} on this build" if names else ""


def no_such_word(setup: Setup) -> str:
    """The sentence for a --moe-backend that the command line refuses, whatever the checkpoint; empty when it does not."""
    word, rule = backend_word(setup, "moe-backend"), setup.build.rule("moe_backend_words")
    if not rule.known or word in rule.value:
        return ""
    return (
        f"--moe-backend {word} is none of {build_name(setup)}'s words: vllm serve refuses it, the engine does not start"
    )


def no_such_name(setup: Setup, quant: str, word: str) -> str:
    """The sentence for a --moe-backend that a checkpoint's quantisation does not know; empty when it does."""
    if no_such_word(setup):
        return no_such_word(setup)
    names = setup.build.rule("moe_backend_names").value[quant]
    if word == "auto" or word in names:
        return ""
    return f"--moe-backend {word} is none of {quant.upper()}'s {', '.join(sorted(names))}: the engine does not start"


def when_auto(check: Callable[[Setup], Met]) -> Check:
    """One of AITER's own conditions; where a name was given all of them have decided at start."""

    def judge(setup: Setup, _point: Point) -> Met:
        if no_amd(setup):
            return unknown(no_amd(setup))
        if backend_word(setup, "moe-backend") != "auto":
            return yes("--moe-backend was named: judged at start")
        return check(setup)

    return judge
