"""Which lines of a server's log speak of which fast path, and which implementations a choice leaves possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from m3probe.model.server_log import LogKind, LogLine

Allows = Callable[[LogLine, str], bool | None]
"""(a choice, a variant that ran) -> may it have run under that choice; None: the line does not tell."""
_MAKERS = {
    "aiter": re.compile(r"aiter"),
    "triton": re.compile(r"triton"),
    "msa": re.compile(r"\bmsa\b"),
    "trtllm": re.compile(r"trt-?_?llm"),
    "monokernel": re.compile(r"monokernel"),
}
_REDUCERS = {"AITER": "AITER_CUSTOM", "vLLM": "CUSTOM", "FlyDSL INT4": "QUICK_REDUCE"}


@dataclass(frozen=True, slots=True)
class Speaks:
    """Lines of these kinds are of a path; ``allows`` holds a choice against what ran."""

    kinds: tuple[LogKind, ...]
    allows: Allows


def makers(text: str) -> frozenset[str]:
    """Whose kernels a name is of, as far as it says."""
    low = text.lower()
    return frozenset(word for word, pattern in _MAKERS.items() if pattern.search(low))


def _by_maker(line: LogLine, variant: str) -> bool | None:
    """Of AITER's and Triton's kernels one name tells from the other; MSA serves prefill alone, Triton decodes then."""
    chosen, ran = makers(line.value), makers(variant)
    if "msa" in chosen:
        chosen |= {"triton"}
    if not chosen or not ran or "monokernel" in ran:
        return None
    return bool(chosen & ran)


def _linear(line: LogLine, variant: str) -> bool | None:
    if variant not in ("native", "emulation") or line.details.get("weights") != "MXFP8" or not line.value:
        return None
    emulated = "emulation" in line.value.lower()
    return emulated == (variant == "emulation") if emulated or "DotScaled" in line.value else None


def _reducer(line: LogLine, variant: str) -> bool | None:
    """A backend that was not built cannot run; RCCL is always there."""
    if line.kind is not LogKind.ALL_REDUCE or not line.details.get("group", "").startswith("tp"):
        return None
    wanted = "QUICK_REDUCE" if variant.startswith("HIP ") else _REDUCERS.get(variant)
    return wanted in line.value.split(", ") if wanted else None


def _graphs(line: LogLine, variant: str) -> bool | None:
    if line.kind is not LogKind.GRAPHS or variant not in ("FULL", "PIECEWISE"):
        return None
    return {"NONE": False, "PIECEWISE": variant == "PIECEWISE"}.get(line.value)


def _cache(line: LogLine, variant: str) -> bool | None:
    said = line.details.get("kv_cache_dtype", "")
    return said.startswith("fp8") == (variant == "FP8") if said not in ("", "auto") else None


def _fused(line: LogLine, variant: str) -> bool | None:
    return False if line.refused and variant == "fused" else None


def _silent(_line: LogLine, _variant: str) -> bool | None:
    return None


_EXPERTS = Speaks((LogKind.MOE,), _by_maker)
_SPARSE = Speaks((LogKind.SPARSE_ATTENTION,), _by_maker)
SPEAKS: Mapping[str, Speaks] = {
    "graph_replay": Speaks((LogKind.GRAPHS, LogKind.CAPTURED), _graphs),
    "sparse_attention": _SPARSE,
    "aiter_sparse_pa": _SPARSE,
    "spec_sparse_pa": _SPARSE,
    "indexer": Speaks((LogKind.INDEXER, LogKind.INDEXER_CP), _by_maker),
    "fp8_kv_cache": Speaks((LogKind.SPARSE_ATTENTION,), _cache),
    "moe_backend": _EXPERTS,
    "mxfp8_moe": _EXPERTS,
    "mxfp4_moe": _EXPERTS,
    "mxfp8_linear": Speaks((LogKind.LINEAR,), _linear),
    "custom_all_reduce": Speaks((LogKind.ALL_REDUCE,), _reducer),
    "fused_allreduce_norm": Speaks((LogKind.ALL_REDUCE,), _silent),
    "quick_reduce": Speaks((LogKind.ALL_REDUCE, LogKind.QUICK_REDUCE), _reducer),
    "shared_expert_fusion": Speaks((LogKind.SHARED_EXPERT,), _fused),
    "router_gemm": Speaks((LogKind.ROUTER,), _silent),
    "monokernel": Speaks((LogKind.MONOKERNEL,), _silent),
    "kv_transfer": Speaks((LogKind.KV_TRANSFER,), _silent),
    "tuned_table": Speaks((LogKind.UNTUNED,), _silent),
}
