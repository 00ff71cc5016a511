"""Which graph modes and sizes a setup of MiniMax M3 ends up with.

Sources: ``config/vllm.py`` (``_set_cudagraph_sizes``, ``_normalize_piecewise_cudagraph_mode``, breakable architectures)
and ``config/compilation.py`` (``resolve_cudagraph_mode_and_sizes``) at 0.24, 0.25.1, 0.32, 0.33. M3's sparse backend
captures uniform batches alone, and the ROCm model is not compiled in any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.fastpaths._m3 import as_object, build_name, flag, number, option, v2_runner
from m3probe.schema.setup import Setup

ARCHITECTURES = ("MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration")
BREAKABLE = "VLLM_USE_BREAKABLE_CUDAGRAPH"
CEILING = 512
"""Largest default size in tokens; 1,024 on SM100 (0.32, 0.33)."""
FULL, PIECEWISE, EAGER = "FULL", "PIECEWISE", "eager"
_MODES = {
    "NONE": (EAGER, EAGER),
    "PIECEWISE": (PIECEWISE, PIECEWISE),
    "FULL": (FULL, FULL),
    "FULL_DECODE_ONLY": (FULL, EAGER),
    "FULL_AND_PIECEWISE": (FULL, PIECEWISE),
}


@dataclass(frozen=True, slots=True)
class Modes:
    """What uniform decode and everything else ends up with (None: not known), and the steps that led there."""

    decode: str | None
    other: str | None
    text: str


def breakable(setup: Setup) -> bool | None:
    """Whether breakable graphs are on: the variable (exactly 1 counts), else the build's list for ROCm."""
    if BREAKABLE in setup.env:
        return setup.env[BREAKABLE].strip() == "1"
    rule = setup.build.rule("breakable_rocm")
    return any(name in rule.value for name in ARCHITECTURES) if rule.known else None


def asked_mode(setup: Setup) -> str:
    """cudagraph_mode as asked for; vLLM's default is FULL_AND_PIECEWISE."""
    return str(option(setup, "compilation-config", "cudagraph_mode") or "FULL_AND_PIECEWISE").upper()


def turned_off(setup: Setup) -> str:
    """The words that turn graphs off; empty when nobody did."""
    if flag(setup, "enforce-eager"):
        return "--enforce-eager"
    return "cudagraph_mode NONE" if asked_mode(setup) == "NONE" else ""


def modes(setup: Setup) -> Modes:
    """The modes after every downgrade that the setup lets one see."""
    off = turned_off(setup)
    if off:
        return Modes(EAGER, EAGER, off)
    asked = asked_mode(setup)
    why = [f"cudagraph_mode {asked}"]
    transfer = as_object(flag(setup, "kv-transfer-config"))
    extra = as_object(transfer.get("kv_connector_extra_config"))
    if "LMCacheConnectorV1" in str(transfer.get("kv_connector")) and extra.get("use_layerwise"):
        asked = "PIECEWISE"
        why.append("LMCache layer-wise asks for PIECEWISE")
    if asked not in _MODES:
        return Modes(None, None, f"cudagraph_mode {asked} is not known")
    breaks = breakable(setup)
    if asked == "FULL":  # the sparse backend supports uniform batches, not any batch
        asked = "FULL_DECODE_ONLY" if breaks else "FULL_AND_PIECEWISE"
        why.append("M3's sparse backend captures uniform batches alone")
    decode, other = _MODES[asked]
    if PIECEWISE in (decode, other):
        return _piecewise(setup, decode, other, why, breaks)
    return Modes(decode, other, "; ".join(why))


def _piecewise(setup: Setup, decode: str, other: str, why: list[str], breaks: bool | None) -> Modes:
    """PIECEWISE needs breakable graphs, as the ROCm model holds nothing compiled."""
    if breaks:
        return Modes(decode, other, "; ".join([*why, "breakable graphs are on"]))
    if breaks is None:  # in all four builds read, decode stays FULL; another build may drop graphs altogether
        return Modes(None, None, "; ".join([*why, f"{BREAKABLE} is not set and the build's default is not known"]))
    refused, v2 = setup.build.rule("piecewise_refused"), v2_runner(setup)
    mode = str(option(setup, "compilation-config", "mode") or "").upper()
    uncompiled = mode in ("0", "NONE") and refused.known
    why.append("M3 is not compiled and breakable graphs are off, so nothing can be captured piecewise")
    if uncompiled and not refused.value:
        return Modes(EAGER, EAGER, "; ".join([*why, f"mode {mode}: {build_name(setup)} drops graphs altogether"]))
    kept = FULL if decode == FULL else EAGER
    if not refused.known:
        return Modes(None, EAGER, "; ".join([*why, "what this build makes of it is not known"]))
    if refused.value and v2:
        obtained = "FULL_DECODE_ONLY" if kept == FULL else "NONE"
        why.append(f"{build_name(setup)} overrides to {obtained}")
    return Modes(kept, EAGER, "; ".join(why))


def largest(setup: Setup) -> tuple[int, str]:
    """(tokens of the largest captured size, where it is from): rows above it run eager."""
    sizes = option(setup, "compilation-config", "cudagraph_capture_sizes") or flag(setup, "cudagraph-capture-sizes")
    if isinstance(sizes, list | tuple) and sizes:
        return max(int(size) for size in sizes), "cudagraph_capture_sizes"
    most = option(setup, "compilation-config", "max_cudagraph_capture_size") or flag(
        setup, "max-cudagraph-capture-size"
    )
    if number(most) is not None:
        limit, why = number(most) or 0, "max_cudagraph_capture_size"
    else:
        limit, why = _default_limit(setup)
    budget = number(flag(setup, "max-num-batched-tokens"))
    if budget is not None and budget < limit:
        return budget, f"--max-num-batched-tokens {budget}"
    return _on_grid(limit), why


def _default_limit(setup: Setup) -> tuple[int, str]:
    """min(max_num_seqs x tokens per request x 2, 512); without --max-num-seqs vLLM's own is 256 or more."""
    seqs, queries = number(flag(setup, "max-num-seqs")), 1 + setup.spec_tokens
    if seqs is None:
        return CEILING, f"default {CEILING}"
    return min(seqs * queries * 2, CEILING), f"min({seqs} x {queries} x 2, {CEILING})"


def _on_grid(limit: int) -> int:
    """Largest of 1, 2, 4, then every 8 below 256, then every 16."""
    if limit < 8:
        return max(size for size in (1, 2, 4) if size <= max(limit, 1))
    return limit // 16 * 16 if limit >= 256 else limit // 8 * 8
