"""Predicted shapes against values worked out by hand, and the layouts that observed shapes prove."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from m3probe.errors import UnreadableInput
from m3probe.model.m3_shapes import (
    TP_SIZES,
    LocalGemm,
    illegal_reason,
    kv_bytes_per_token,
    local_shapes,
    match_shapes,
)
from m3probe.model.model_config import ModelConfig, load_model_config, minimax_m3

M3 = minimax_m3()

# TP: qkv dense N, qkv sparse N, the same with indexer CP, o_proj K, dense gate_up N, dense down K,
# shared gate_up N, MoE inter = shared down K, lm_head N
TABLE = {
    1: (9216, 9856, 9856, 8192, 24576, 12288, 6144, 3072, 200064),
    2: (4608, 4992, 5248, 4096, 12288, 6144, 3072, 1536, 100032),
    4: (2304, 2560, 2944, 2048, 6144, 3072, 1536, 768, 50016),
    8: (1280, 1536, 1920, 1024, 3072, 1536, 768, 384, 25008),
    16: (768, 1024, 1408, 512, 1536, 768, 384, 192, 12504),
}
# What a TP4 rank of the real model showed, its vocabulary not divided.
TP4_OBSERVED = {
    (2560, 6144),
    (2304, 6144),
    (6144, 2048),
    (6144, 6144),
    (6144, 3072),
    (1536, 6144),
    (6144, 768),
    (200064, 6144),
    (128, 6144),
}


def by_module(shapes: tuple[LocalGemm, ...]) -> dict[str, LocalGemm]:
    return {gemm.module: gemm for gemm in shapes}


@pytest.mark.parametrize("tp", TABLE)
def test_every_linear_of_the_published_model(tp: int) -> None:
    dense, sparse, sparse_cp, o_k, gate_up, down, shared, inter, head = TABLE[tp]
    got = {gemm.module: (gemm.layers, gemm.N, gemm.K) for gemm in local_shapes(M3, tp)}
    assert got == {
        "qkv_dense": (3, dense, 6144),
        "qkv_sparse": (57, sparse, 6144),
        "o_proj": (60, 6144, o_k),
        "dense_gate_up": (3, gate_up, 6144),
        "dense_down": (3, 6144, down),
        "shared_gate_up": (57, shared, 6144),
        "shared_down": (57, 6144, inter),
        "router": (57, 128, 6144),
        "moe_w13": (57, 2 * inter, 6144),
        "moe_w2": (57, 6144, inter),
        "lm_head": (1, head, 6144),
    }
    assert sparse_cp == by_module(local_shapes(M3, tp, indexer_cp=True))["qkv_sparse"].N


def test_tp8_qkv_replicates_heads_instead_of_dividing_them() -> None:
    """8 query heads, one K, one V, one index query, one index key of 128; a plain division gives 1232."""
    assert by_module(local_shapes(M3, 8))["qkv_sparse"].N == 8 * 128 + 4 * 128


def test_fused_shared_expert_is_one_more_slot() -> None:
    got = by_module(local_shapes(M3, 4, fuse_shared_experts=True))
    assert (got["moe_w13"].experts, got["moe_w13"].top_k) == (129, 5)
    assert not {"shared_gate_up", "shared_down"} & set(got)
    plain = by_module(local_shapes(M3, 4))
    assert (plain["moe_w2"].experts, plain["moe_w2"].top_k, plain["o_proj"].experts) == (128, 4, None)


@pytest.mark.parametrize(("tp", "ep", "dp", "experts"), [(4, 4, 1, 32), (8, 8, 1, 16), (2, 2, 1, 64), (1, 8, 8, 16)])
def test_expert_parallel_keeps_experts_whole(tp: int, ep: int, dp: int, experts: int) -> None:
    got = by_module(local_shapes(M3, tp, ep, dp=dp, fuse_shared_experts=True))
    assert (got["moe_w13"].experts, *got["moe_w13"].pair) == (experts, 6144, 6144)
    assert (got["moe_w2"].experts, *got["moe_w2"].pair) == (experts, 6144, 3072)
    assert got["moe_w2"].top_k == 4  # the shared expert stays unfused
    assert TABLE[tp][1] == got["qkv_sparse"].N
    assert TABLE[tp][7] == got["shared_down"].K


def test_data_parallel_without_expert_parallel_splits_experts_further() -> None:
    got = by_module(local_shapes(M3, 2, dp=2))
    assert (got["moe_w13"].N, got["moe_w2"].K, got["shared_down"].K) == (1536, 768, 1536)


def test_first_ranks_hold_the_remainder_of_the_experts() -> None:
    assert by_module(local_shapes(replace(M3, num_experts=130), 4, 4))["moe_w13"].experts == 33


@pytest.mark.parametrize(
    ("tp", "ep", "dp", "words"),
    [
        (3, 1, 1, "64 query heads cannot be split over 3 ranks"),
        (128, 1, 1, "64 query heads"),
        (0, 1, 1, "at least 1"),
        (4, 6, 1, "expert parallel size 6 is not tp x dp (tp=4, dp=1)"),
        (4, 4, 2, "expert parallel size 4 is not tp x dp (tp=4, dp=2)"),
        (4, 256, 1, "leaves ranks without any of the 128 experts"),
        (2, 1, 5, "3072 expert MLP columns cannot be split over 10 ranks"),
    ],
)
def test_illegal_layouts_say_which_number_fails(tp: int, ep: int, dp: int, words: str) -> None:
    reason = illegal_reason(M3, tp, ep, dp=dp)
    assert reason is not None and words in reason
    with pytest.raises(ValueError, match=str(reason.split(",")[0].split("(")[0])):
        local_shapes(M3, tp, ep, dp=dp)


def test_head_counts_that_do_not_line_up() -> None:
    assert "4 KV heads cannot be replicated evenly over 6" in str(illegal_reason(replace(M3, q_heads=96), 6))
    assert "6 KV heads cannot be split over 4" in str(illegal_reason(replace(M3, kv_heads=6, index_heads=6), 4))
    assert "got 2 and 4" in str(illegal_reason(replace(M3, index_heads=2), 1))
    assert "exceeds the number of experts 8" in str(illegal_reason(replace(M3, num_experts=8), 16))
    assert all(illegal_reason(M3, tp) is None for tp in TP_SIZES)


def test_vocabulary_is_padded_to_64_before_it_is_divided() -> None:
    assert by_module(local_shapes(replace(M3, vocab_size=200065), 4))["lm_head"].N == 50032  # 200128 / 4


@pytest.mark.parametrize(
    ("tp", "kv", "index", "expected"),
    [(4, 1, 2, 29952), (4, 1, 1, 22656), (8, 1, 2, 29952), (4, 2, 2, 45312), (1, 1, 2, 76032)],
)
def test_kv_bytes_per_token(tp: int, kv: int, index: int, expected: int) -> None:
    """TP4: 60 x 2 x 128 = 15,360 for FP8 keys and values, 57 x 128 x 2 = 14,592 for BF16 index keys."""
    assert kv_bytes_per_token(M3, tp, kv, index) == expected


def test_the_observed_rank_is_tp4_with_a_whole_vocabulary() -> None:
    match = match_shapes(TP4_OBSERVED, M3)
    assert match is not None and match.fits and not match.ambiguous
    best = match.best
    assert (best.tp, best.indexer_cp, best.fuse_shared_experts, best.ep) == (4, False, False, None)
    assert (best.lm_head, best.router_seen, best.unexplained) == ("whole", True, ())
    assert best.modules_of((1536, 6144)) == ("shared_gate_up",)
    assert best.modules_of((200064, 6144)) == ("lm_head",)
    assert best.modules_of((1, 1)) == ()


@pytest.mark.parametrize("tp", TP_SIZES)
@pytest.mark.parametrize("cp", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_every_layout_is_found_again(tp: int, cp: bool, fused: bool) -> None:
    shapes = local_shapes(M3, tp, indexer_cp=cp, fuse_shared_experts=fused)
    match = match_shapes({gemm.pair for gemm in shapes if gemm.kind == "linear"}, M3)
    assert match is not None and match.fits and not match.ambiguous
    found = match.best
    assert (found.tp, found.indexer_cp, found.fuse_shared_experts) == (tp, None if tp == 1 else cp, fused)
    assert found.lm_head == ("whole" if tp == 1 else "divided")


def test_router_and_vocabulary_are_not_asked_for() -> None:
    match = match_shapes(TP4_OBSERVED - {(200064, 6144), (128, 6144)}, M3)
    assert match is not None and match.fits and match.best.tp == 4
    assert (match.best.lm_head, match.best.router_seen) == ("absent", False)


def test_one_pair_decides_nothing() -> None:
    assert match_shapes({(2560, 6144), (4096, 4096), (128, 6144)}, M3) is None
    assert match_shapes(set(), M3) is None


def test_a_set_that_fits_none_says_what_is_missing() -> None:
    match = match_shapes(TP4_OBSERVED - {(6144, 3072)} | {(999, 6144)}, M3)
    assert match is not None and not match.fits and not match.ambiguous
    assert match.best.tp == 4 and not match.best.fuse_shared_experts
    assert [gemm.module for gemm in match.best.missing] == ["dense_down"]
    assert match.best.unexplained == ((999, 6144),)
    assert [len(c.missing) for c in match.candidates] == sorted(len(c.missing) for c in match.candidates)


def test_two_servers_in_one_folder_are_both_named() -> None:
    tp8 = {gemm.pair for gemm in local_shapes(M3, 8) if gemm.kind == "linear"}
    match = match_shapes(TP4_OBSERVED | tp8, M3)
    assert match is not None and match.ambiguous
    assert {candidate.tp for candidate in match.candidates} == {4, 8}


@pytest.mark.parametrize(("ep", "fused"), [(1, False), (4, False), (16, False), (1, True)])
def test_grouped_weights_settle_expert_parallelism(ep: int, fused: bool) -> None:
    shapes = local_shapes(M3, 4, ep, fuse_shared_experts=fused)
    linear = {gemm.pair for gemm in shapes if gemm.kind == "linear"}
    grouped = {(gemm.experts or 0, gemm.N, gemm.K) for gemm in shapes if gemm.kind != "linear"}
    match = match_shapes(linear, M3, moe=grouped)
    assert match is not None and (match.best.ep, match.best.fuse_shared_experts) == (ep, fused)


# -- config.json ------------------------------------------------------------------------------------------------


def write(folder: Path, config: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def m3_file(**text: object) -> dict[str, object]:
    return {"model_type": "minimax_m3_vl", "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
            "text_config": {"model_type": "minimax_m3_text", **text}}  # fmt: skip


def test_published_values() -> None:
    assert (M3.hidden_size, M3.num_layers, M3.dense_layers, M3.sparse_layers) == (6144, 60, 3, 57)
    assert (M3.q_heads, M3.kv_heads, M3.head_dim, M3.index_heads, M3.index_dim) == (64, 4, 128, 4, 128)
    assert (M3.num_experts, M3.top_k, M3.shared_experts, M3.moe_intermediate) == (128, 4, 1, 3072)
    assert (M3.shared_intermediate, M3.dense_intermediate, M3.vocab_size) == (3072, 12288, 200064)
    assert (M3.sparse_attention_layers, M3.sparse_block_tokens, M3.sparse_topk_blocks) == (57, 128, 16)


def test_absent_keys_take_the_published_values(tmp_path: Path) -> None:
    nested = load_model_config(write(tmp_path, m3_file()))
    assert replace(nested, architecture=M3.architecture) == M3
    flat = load_model_config(write(tmp_path, {"architectures": ["MiniMaxM3SparseForCausalLM"]}) / "config.json")
    assert flat == M3 and flat.is_minimax_m3


def test_a_shortened_model_counts_its_own_layers(tmp_path: Path) -> None:
    sparse = {"sparse_num_index_heads": 1, "sparse_attention_freq": [0] * 3 + [1] * 57}
    config = load_model_config(
        write(tmp_path, m3_file(num_hidden_layers=9, num_attention_heads=16, num_key_value_heads=1,
                                moe_layer_freq=[0] * 3 + [1] * 6, sparse_attention_config=sparse))
    )  # fmt: skip
    assert (config.dense_layers, config.sparse_layers, config.sparse_attention_layers) == (3, 6, 6)
    assert by_module(local_shapes(config, 1))["qkv_sparse"].pair == (2560, 6144)


def test_attention_and_experts_are_sparse_by_separate_keys(tmp_path: Path) -> None:
    config = load_model_config(
        write(tmp_path, m3_file(num_hidden_layers=4, moe_layer_freq=[0, 1, 1, 1], intermediate_size=256,
                                n_shared_experts=2, sparse_attention_config={"sparse_attention_freq": [0] * 4}))
    )  # fmt: skip
    assert (config.dense_layers, config.sparse_layers, config.sparse_attention_layers) == (1, 3, 0)
    assert config.shared_intermediate == 512
    shapes = by_module(local_shapes(config, 4))
    assert shapes["qkv_dense"].layers == 4 and "qkv_sparse" not in shapes
    assert (config.index_heads, match_shapes({g.pair for g in shapes.values()}, config).best.indexer_cp) == (0, None)  # type: ignore[union-attr]


def test_no_shared_expert_and_no_index_section(tmp_path: Path) -> None:
    config = load_model_config(write(tmp_path, m3_file(n_shared_experts=0, sparse_attention_config={})))
    assert (config.shared_experts, config.shared_intermediate, config.sparse_attention_layers) == (0, 0, 0)
    match = match_shapes({gemm.pair for gemm in local_shapes(config, 2)}, config)
    assert match is not None and match.best.fuse_shared_experts is None


def test_dense_decoders_follow_the_same_formulas(tmp_path: Path) -> None:
    config = load_model_config(write(tmp_path, LLAMA))
    assert not config.is_minimax_m3 and config.sparse_layers == 0
    assert {gemm.module: gemm.pair for gemm in local_shapes(config, 2)} == {
        "qkv_dense": (3072, 4096),  # 16 x 128 + 2 x 4 x 128
        "o_proj": (4096, 2048),
        "dense_gate_up": (14336, 4096),
        "dense_down": (4096, 7168),
        "lm_head": (64128, 4096),
    }
    assert illegal_reason(config, 2, 2) == "expert parallel size 2, but the model has no experts"


LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a JSON document"),
        ("[1]", "a JSON object was expected, found list"),
        ('{"model_type": "deepseek_v3"}', "'deepseek_v3', and predicted shapes are known only for MiniMax M3"),
        ("{}", "names no model_type"),
        ('{"model_type": "minimax_m3_text", "hidden_size": "6144"}', "hidden_size must be an integer of at least 1"),
        ('{"model_type": "minimax_m3_text", "num_local_experts": true}', "num_local_experts"),
        ('{"model_type": "minimax_m3_text", "moe_layer_freq": [0, 1]}', "moe_layer_freq has 2 entries for 60 layers"),
        ('{"model_type": "minimax_m3_text", "moe_layer_freq": 2}', "one flag per layer, found 2"),
        ('{"model_type": "minimax_m3_text", "sparse_attention_config": 1}', "must be an object, found 1"),
        ('{"model_type": "llama", "hidden_size": 64}', "num_hidden_layers must be an integer"),
    ],
)
def test_unusable_files_say_what_and_where(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UnreadableInput) as caught:
        load_model_config(file)
    assert words in caught.value.what
    assert caught.value.where == str(file) and caught.value.next_move


def test_missing_and_undecodable_files(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no such file"):
        load_model_config(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UnreadableInput, match="not a JSON document"):
        load_model_config(tmp_path)


def test_config_is_a_plain_value() -> None:
    assert isinstance(hash(M3), int) and isinstance(M3, ModelConfig)
