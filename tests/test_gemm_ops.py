"""What one operator's arguments and one kernel's name say about a GEMM, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from m3probe.analyzers._gemm_ops import is_gemm_op, shapes_of
from m3probe.analyzers._gemm_tiles import named_tile

BF16 = ["c10::BFloat16", "c10::BFloat16"]
GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"


@pytest.mark.parametrize(
    ("name", "dims", "types", "expected"),
    [
        ("aten::mm", [[8, 6144], [6144, 2560]], BF16, (8, 2560, 6144, "bf16")),
        ("aten::addmm", [[32], [32, 2880], [2880, 5120], [], []], ["float", *BF16], (32, 5120, 2880, "bf16")),
        ("aten::linear", [[2, 4, 6144], [2560, 6144], []], [*BF16, ""], (8, 2560, 6144, "bf16")),
        # square, so that only the rule for linear can tell the sides apart
        ("aten::linear", [[6144, 6144], [6144, 6144]], BF16, (6144, 6144, 6144, "bf16")),
        ("aten::_scaled_mm", [[8, 64], [64, 32]], ["c10::Float8_e4m3fn"] * 2, (8, 32, 64, "float8_e4m3fn")),
        # two FP4 elements in each byte
        ("aten::_scaled_mm", [[8, 64], [64, 32]], ["c10::Float4_e2m1fn_x2"] * 2, (8, 32, 128, "float4_e2m1fn_x2")),
        ("_C::fp32_router_gemm", [[8, 128], [8, 6144], [128, 6144]], ["float", "c10::BFloat16", "float"], (8, 128, 6144, "bf16 x fp32")),
        ("_rocm_C::wvSplitK", [[2560, 6144], [4, 6144], [], []], BF16, (4, 2560, 6144, "bf16")),
        ("vllm::rocm_unquantized_gemm", [[8, 6144], [2560, 6144], []], BF16, (8, 2560, 6144, "bf16")),
        ("aiter::gemm_a8w8_blockscale_ck", [[8, 6144], [6144, 6144], [8, 48], [48, 48], [8, 6144]], BF16, (8, 6144, 6144, "bf16")),
        ("lib::some_gemm", [[8, 64], [1], [32, 64]], ["a", "b", "a"], (8, 32, 64, "a")),
    ],
)  # fmt: skip
def test_shape_of_one_operator(name: str, dims: Any, types: Any, expected: tuple[int, int, int, str]) -> None:
    assert is_gemm_op(name)
    (shape,) = shapes_of(name, json.dumps(dims), json.dumps(types))
    assert (shape.M, shape.N, shape.K, shape.dtype) == expected


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("aten::mm", ""),
        ("aten::mm", "[[8, 64], [32, 64]]"),  # the inner sides differ
        ("aten::mm", "[[8, 64"),
        ("aten::mm", "[[[8, 64], [64, 32]]]"),  # a list of tensors is no tensor
        ("aten::mm", "[[0, 64], [64, 32]]"),
        # out [8, 64] x [64, 32] can be multiplied as well as [8, 32] x [64, 32]: either is a guess
        ("lib::some_gemm", "[[8, 64], [8, 32], [64, 32]]"),
        ("_C::marlin_gemm", "[[8, 64], [4, 128]]"),
        ("vllm::fused_moe", "[[8, 64], [4, 32, 16], [4, 99, 7]]"),
    ],
)
def test_arguments_that_prove_nothing_give_no_shape(name: str, dims: str) -> None:
    assert is_gemm_op(name)
    assert shapes_of(name, dims, "[]") == ()


@pytest.mark.parametrize(
    "name",
    [
        "symm_mem::multimem_all_reduce_",
        "record_param_comms",
        "vllm::moe_forward_shared",
        "aten::miopen_convolution",
        "_moe_C::moe_align_block_size",
        "vllm::linear_attention",
        "aten::comm",
    ],
)
def test_operators_that_are_no_gemm(name: str) -> None:
    assert not is_gemm_op(name)


def test_stages_of_an_expert_layer_count_their_own_weight_once() -> None:
    dims = json.dumps([[8, 6144], [129, 1536, 6144], [129, 6144, 768]])
    assert [s.part for s in shapes_of("aiter::ck_moe_stage1", dims, "[]")] == ["moe_w13"]
    assert [(s.part, s.N, s.K) for s in shapes_of("aiter::ck_moe_stage2", dims, "[]")] == [("moe_w2", 6144, 768)]


@pytest.mark.parametrize(
    ("name", "m", "n", "k"),
    [
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT448x32x64_MI16x16x1_SN", 32, 448, 64),
        (GEMM, 8, 64, 64),
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", 128, 144, 64),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3", 64, 128, 8),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(x)", 32, 128, 8),
        ("flydsl_gemm_afp8_wfp8_bf16_t128x256x64_w4", 128, 256, 64),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", 16, 128, 256),
    ],
)
def test_tile_that_a_kernel_name_states(name: str, m: int, n: int, k: int) -> None:
    tile = named_tile(name)
    assert tile is not None
    assert (tile.block_m, tile.block_n, tile.block_k) == (m, n, k)


def test_names_without_a_tile_state_none() -> None:
    assert named_tile("fused_moe_kernel") is None
    assert named_tile("_mxfp8_linear_kernel") is None
