"""What a setup holds that does not do what it says: misspelt names, settings without effect, contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._m3 import as_object
from m3probe.fastpaths._quick_reduce import threshold_text
from m3probe.model.recipe_report import Warned
from m3probe.schema.setup import Rule, Setup

AITER = "VLLM_ROCM_USE_AITER"
MOST_TOLD = 20
"""Misspelt names that are told: a suggestion costs milliseconds, and an environment may hold any number of names."""
QR = "VLLM_ROCM_QUICK_REDUCE_"
AITER_NAMES = (
    "AITER_ASM_DIR",
    "AITER_BYPASS_TUNE_CONFIG",
    "AITER_CONFIG_FMOE",
    "AITER_CONFIG_GEMM_A4W4",
    "AITER_CONFIG_GEMM_A8W8",
    "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE",
    "AITER_CONFIG_GEMM_A8W8_BPRESHUFFLE",
    "AITER_CONFIG_GEMM_BF16",
    "AITER_CUSTOM_AR_MAX_SIZE",
    "AITER_CUSTOM_AR_MIN_SIZE",
    "AITER_ENABLE_VSKIP",
    "AITER_JIT_DIR",
    "AITER_KSPLIT",
    "AITER_LOG_LEVEL",
    "AITER_LOG_MORE",
    "AITER_LOG_TUNED_CONFIG",
    "AITER_ONLINE_TUNE",
    "AITER_QUICK_REDUCE_QUANTIZATION",
    "AITER_REBUILD",
    "AITER_USE_NT",
)
"""Read by AITER, not by vLLM; from its source and public recipes. Not a closed list."""
_WITHOUT_MASTER = frozenset({AITER, "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS"})
"""The shared-expert switch works without the master (a TODO in amd/model.py says so)."""


def warned(setup: Setup, origins: Mapping[str, str]) -> tuple[Warned, ...]:
    """Every warning, misspelt names first.

    Args:
        origins: where each variable or flag was set.
    """
    found = [
        *_unknown(setup, origins),
        *_idle(setup, origins),
        *_wasted(setup),
        *_contradictions(setup, origins),
        *_not_implied(setup),
    ]
    return tuple(dict.fromkeys(found))


def _unknown(setup: Setup, origins: Mapping[str, str]) -> Iterator[Warned]:
    registry = setup.build.rule("env_registry")
    told = islice(_misnamed(setup, origins, registry), MOST_TOLD + 1)
    for number, line in enumerate(told):
        if number == MOST_TOLD:
            yield Warned("unknown_variable", f"and more: only the first {MOST_TOLD} are told")
        else:
            yield line


def _misnamed(setup: Setup, origins: Mapping[str, str], registry: Rule) -> Iterator[Warned]:
    for name in setup.env:
        where = origins.get(name, "")
        if name.startswith("VLLM_") and registry.known and name not in registry.value:
            build = f"vLLM {setup.build.version}" if setup.build.version else "this build"
            yield Warned(
                "unknown_variable",
                f"{name} is no variable of {build}: nothing reads it{_near(name, registry.value)}",
                where,
            )
        elif name.startswith("AITER_") and name not in AITER_NAMES:
            yield Warned("unknown_variable", f"{name} is no AITER variable known here{_near(name, AITER_NAMES)}", where)


def _near(name: str, names: Iterable[str]) -> str:
    found = get_close_matches(name, list(names), n=1, cutoff=0.8)
    return f"; did you mean {found[0]}?" if found else ""


def _idle(setup: Setup, origins: Mapping[str, str]) -> Iterator[Warned]:
    """Sub-settings whose master is off."""
    if not setup.on(AITER, default=False):
        for name in setup.env:
            if name.startswith(f"{AITER}_") and name not in _WITHOUT_MASTER and setup.on(name, default=False):
                yield Warned("no_effect", f"{name} acts only with {AITER}=1, which is off", origins.get(name, ""))
    if setup.env.get(f"{QR}QUANTIZATION", "NONE") == "NONE":
        for name in setup.env:
            if name.startswith(QR) and name != f"{QR}QUANTIZATION":
                why = f"{name} acts only when {QR}QUANTIZATION names a codec (default NONE)"
                yield Warned("no_effect", why, origins.get(name, ""))
    elif "never matters" in (told := threshold_text(setup)):
        yield Warned("no_effect", told, origins.get(f"{QR}QUANTIZATION_MIN_SIZE_KB", ""))


def _wasted(setup: Setup) -> Iterator[Warned]:
    for name, path in fast_paths().items():
        asked = path.asked(setup) if path.asked and (setup.model.is_minimax_m3 or not path.only_m3) else None
        if asked and asked.wasted:
            yield Warned("no_effect", f"{name}: {asked.text}")


def _contradictions(setup: Setup, origins: Mapping[str, str]) -> Iterator[Warned]:
    flags = setup.flags
    if flags.get("--enforce-eager"):
        for name in _graph_settings(flags):
            yield Warned("conflict", f"--enforce-eager turns graphs off: {name} has no effect", origins.get(name, ""))
    if flags.get("--enable-expert-parallel") and setup.model.experts is None:
        yield Warned(
            "conflict",
            "--enable-expert-parallel on a model without known experts",
            origins.get("--enable-expert-parallel", ""),
        )


def _graph_settings(flags: Mapping[str, Any]) -> Iterator[str]:
    told = flags.get("--compilation-config")
    if isinstance(told, Mapping) and str(told.get("cudagraph_mode", "NONE")).upper() != "NONE":
        yield "--compilation-config cudagraph_mode"
    yield from (name for name in ("--cudagraph-capture-sizes", "--max-cudagraph-capture-size") if flags.get(name))


def _not_implied(setup: Setup) -> Iterator[Warned]:
    """What a setting is often taken to bring and does not."""
    named = setup.flags.get("--attention-backend") or "backend" in as_object(setup.flags.get("--attention-config"))
    connected = setup.flags.get("--kv-transfer-config")
    on_amd = bool(setup.gfx and setup.gfx.startswith("gfx9"))
    if on_amd and setup.on(AITER, default=False) and not named and not connected:
        why = "ROCM_ATTN stands before ROCM_AITER_FA in every release read (platforms/rocm.py, vLLM issue 46596)"
        yield Warned("not_implied", f"{AITER}=1 does not choose AITER's attention for dense layers: {why}")
