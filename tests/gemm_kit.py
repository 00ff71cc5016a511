"""Shared by the tests of paths gemm: GEMM, experts and tuned-table paths on paper: settings, numbers and bu."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from m3_setups import FP8_INDEX, M3, decode, setup
from tree import ROOT

from m3probe.fastpaths import fast_paths
from m3probe.schema.setup import Point, Setup
from m3probe.vllm_source import bundled

MXFP8 = replace(
    M3,
    linear_quant="mxfp8",
    moe_quant="mxfp8",
    quant_config_class="ModelOptMxFp8Config",
    moe_intermediate=3072,
    activation=(1.702, 1.0, 7.0),
)
MXFP4 = replace(MXFP8, linear_quant="bf16", moe_quant="mxfp4", quant_config_class="QuarkConfig")
AITER = {"VLLM_ROCM_USE_AITER": "1"}
FSE = {"VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS": "1"}
BOTH = AITER | FSE
DATA = ROOT / "tests" / "data" / "tuned"
MINE = (
    "moe_backend",
    "monokernel",
    "mxfp4_moe",
    "mxfp8_linear",
    "mxfp8_moe",
    "router_gemm",
    "shared_expert_fusion",
    "tuned_table",
)


def m3(version: str | None = "0.33.0", model: Any = MXFP8, tp: int = 4, **more: Any) -> Setup:
    return setup(version, tp, **({"model": model, "units": 256} | more))


def named(word: str) -> dict[str, str]:
    return {"--moe-backend": word}


def expected(path: str, variant: str, made: Setup, point: Point | None = None) -> int | None:
    found = next(v for v in fast_paths()[path].variants if v.name == variant)
    assert found.expected is not None
    return found.expected(made, point or decode(8))


def real(version: str, word: str, **more: Any) -> Setup:
    """With the whole table of names, which the hand-read one holds in part."""
    found = bundled(version)
    assert found is not None
    return replace(m3(version, MXFP4, flags=named(word), **more), build=found)


NORM, ACT = "vllm::minimax_m3_fused_ops::fusedMiniMaxM3QNormRopeKVInsertKernel", "_swiglu_oai_kernel"
# --- monokernel -----------------------------------------------------------------------------------------------

MONO_FLAGS = FP8_INDEX | named("aiter") | {"--monokernel": True, "--kv-cache-dtype": "fp8"}


def mono(**more: Any) -> Setup:
    flags = MONO_FLAGS | more.pop("flags", {})
    return m3("0.33.0", **({"model": MXFP4, "env": BOTH, "flags": flags} | more))
