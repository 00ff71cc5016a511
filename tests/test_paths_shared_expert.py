"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases: shared-expert fusion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import recording
from gemm_kit import ACT, BOTH, FSE, MXFP4, MXFP8, NORM, expected, m3
from m3_setups import M3, NEW, at, refusal
from test_paths import ROCM, eager, rows_of

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._shared_expert import experts_and_slots
from m3probe.fastpaths.shared_expert_fusion import append
from m3probe.schema.paths import Role
from m3probe.schema.setup import Held, State

# --- shared-expert fusion -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "model", "state"),
    [
        ("0.24.0", MXFP8, State.OFF),
        ("0.24.0", MXFP4, State.OFF),
        ("0.25.1", MXFP8, State.ELIGIBLE),
        ("0.25.1", MXFP4, State.ELIGIBLE),
        ("0.32.0", MXFP8, State.REFUSED),
        ("0.32.0", MXFP4, State.ELIGIBLE),
        ("0.33.0", MXFP8, State.ELIGIBLE),
        ("0.33.0", MXFP4, State.ELIGIBLE),
    ],
)
def test_fusion_by_release_and_checkpoint(version: str, model: Any, state: State) -> None:
    assert at("shared_expert_fusion", m3(version, model, env=FSE)).state is state


def test_0_25_1_does_not_compare_the_quantisation() -> None:
    found = at("shared_expert_fusion", m3("0.25.1", env=FSE))
    assert "vLLM 0.25.1 does not compare the quantisation of routed and shared experts" in found.of(Held.YES)


@pytest.mark.parametrize("version", ["0.25.1", *NEW])
def test_expert_parallelism_refuses_the_fusion(version: str) -> None:
    found = at("shared_expert_fusion", m3(version, MXFP4, env=FSE, expert_parallel=True))
    assert found.state is State.REFUSED
    assert refusal(found) == "--enable-expert-parallel (EP4): the shared slot is not in the expert map"


def test_a_bf16_checkpoint_is_fused_and_an_untold_one_is_unknown() -> None:
    bf16 = replace(MXFP8, linear_quant="bf16", moe_quant="bf16", quant_config_class=None)
    assert at("shared_expert_fusion", m3(model=bf16, env=FSE)).state is State.ELIGIBLE
    assert at("shared_expert_fusion", m3(model=M3, env=FSE)).state is State.UNPROVEN


@pytest.mark.parametrize(
    ("env", "gfx", "held", "says"),
    [
        (BOTH, "gfx950", Held.YES, "gfx950 with AITER's MoE on: AITER's grouped top-k appends the slot"),
        (FSE, "gfx950", Held.NO, "VLLM_ROCM_USE_AITER is not set (default off): vLLM's top-k router appends the slot"),
        (BOTH, "gfx942", Held.NO, "gfx942, not gfx950: vLLM's top-k router appends the slot"),
        (BOTH | {"VLLM_ROCM_USE_AITER_MOE": "0"}, "gfx950", Held.NO, "VLLM_ROCM_USE_AITER_MOE is off: vLLM's"),
    ],
)
def test_the_fusion_works_without_aiter_and_says_who_appends(
    env: dict[str, str], gfx: str, held: Held, says: str
) -> None:
    made = m3(env=env, gfx=gfx)
    assert append(made).held is held
    assert append(made).text.startswith(says)
    found = at("shared_expert_fusion", made)
    assert found.state is State.ELIGIBLE, "either way is a fusion"
    assert append(made).text in found.of(Held.YES)


@pytest.mark.parametrize(
    ("version", "env", "ep", "sizes"),
    [
        ("0.33.0", FSE, False, (129, 5)),
        ("0.33.0", {}, False, (128, 4)),
        ("0.32.0", FSE, False, (128, 4)),
        ("0.25.1", FSE, False, (129, 5)),
        ("0.24.0", FSE, False, (128, 4)),
        ("0.33.0", FSE, True, (32, 4)),
    ],
)
def test_experts_and_slots_of_the_key(version: str, env: dict[str, str], ep: bool, sizes: tuple[int, int]) -> None:
    assert experts_and_slots(m3(version, env=env, expert_parallel=ep)) == sizes


def test_activation_kernels_stay_in_the_dense_layers_alone() -> None:
    assert expected("shared_expert_fusion", "separate MLP", m3()) == 60
    assert expected("shared_expert_fusion", "separate MLP", m3(env=FSE)) == 0
    assert expected("shared_expert_fusion", "fused", m3(env=FSE)) == 57
    assert expected("shared_expert_fusion", "fused", m3()) == 0


QUANT_ACT = "_swiglu_oai_quant_kernel"


def test_a_trace_with_activations_in_three_of_nine_layers_is_fused(tmp_path: Path) -> None:
    """The experts' own activation (_swiglu_oai_quant_kernel) is another kernel and counts for nothing."""
    names = [NORM, ACT] * 3 + [NORM, QUANT_ACT] * 6
    row = rows_of(recording(tmp_path, eager(100, 10, names), **ROCM))["shared_expert_fusion"]
    assert (row.verdict, row.variant, row.counts["calls"]) == ("executed", "fused", 6)


def test_a_trace_with_an_activation_in_every_layer_is_not(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [NORM, ACT] * 9), **ROCM))["shared_expert_fusion"]
    assert (row.verdict, row.variant, row.counts["fallback_calls"]) == ("unproven", "separate MLP", 9)


@pytest.mark.parametrize(
    ("kernel_name", "path", "variant"),
    [
        ("flydsl_moe1_afp8_wfp8_bf16_t32x64x256_w4_gui_kw2_fp8", "mxfp8_moe", "AITER FlyDSL MXFP8"),
        ("flydsl_moe2_mxfp8_8w_t256x256_xcd3", "mxfp8_moe", "AITER FlyDSL MXFP8"),
        ("flydsl_moe2_layout_afp4_wfp4_bf16_t16x128x256_atomic_sbm16", "mxfp4_moe", "AITER FlyDSL W4A4"),
        ("flydsl_mxmoe_g1_a4w4_16x128x256_f16in_hpf_nt_swiglu_xcd2", "mxfp4_moe", "AITER FlyDSL W4A4"),
        ("flydsl_mxmoe_g1_a4w4_16x128x256_f16in_hpf_nt_swiglu_xcd2", "moe_backend", "AITER FlyDSL"),
        ("ck::kernel_moe_mxgemm_2lds<int>", "mxfp4_moe", "AITER CK"),
        ("minimax_m3_mono_ffn_s16_tp4", "monokernel", "monokernel"),
        ("_rocm_fp32_router_gemm_kernel", "router_gemm", "FP32 kernel"),
    ],
)
def test_names_of_aiter_s_tables_and_of_vllm_belong_to_one_variant(kernel_name: str, path: str, variant: str) -> None:
    assert [v.name for v in fast_paths()[path].variants if v.counts(kernel_name)] == [variant]


@pytest.mark.parametrize("name", ["flydsl_moe1_afp8_wfp8_bf16_t32", "ck::kernel_moe_gemm<fp8>", "_matmul_ogs_bf16"])
def test_kernels_of_other_precisions_are_no_mxfp4_of_aiter(name: str) -> None:
    path = fast_paths()["mxfp4_moe"]
    assert not [v for v in path.variants if v.counts(name) and v.role is Role.FAST]


def test_the_stock_experts_are_no_execution_of_the_monokernel() -> None:
    roles = {v.name: v.role for v in fast_paths()["monokernel"].variants}
    assert roles == {"monokernel": Role.FAST, "AITER FlyDSL W4A4": Role.FALLBACK}
