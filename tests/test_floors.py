"""Floors worked out by hand: operations, least bytes and least time of one operation and of one decode step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from m3probe.hardware import accelerators
from m3probe.model import floors
from m3probe.model.decode_floor import Batch, DecodeFloor, Formats, Rank, crossover_tokens, decode_floor
from m3probe.model.floors import Peaks, Work, floor
from m3probe.model.m3_shapes import kv_bytes_per_token
from m3probe.model.model_config import minimax_m3, model_config_of

MI355X = Peaks("MI355X", 8.0e12, {"bf16": 2516.6, "fp8": 5033.2, "fp6": 10066.3, "fp4": 10066.3}, 3 * 76.8e9)
H200 = Peaks("H200", 4.8e12, {"bf16": 989.4, "fp8": 1978.9})
MI300X = Peaks("MI300X", 5.325e12, {"bf16": 1307.4, "fp8": 2614.9})
MXFP8 = Formats("mxfp8", "mxfp8", "fp8", "bf16")

# --- one operation -----------------------------------------------------------------------------------


def test_a_gemm_reads_each_operand_once() -> None:
    work = floors.gemm(8, 2560, 6144, "bf16")
    assert work.flops == 2 * 8 * 2560 * 6144 == 251_658_240
    assert work.weight_bytes == 2560 * 6144 * 2 == 31_457_280
    assert work.activation_bytes == 8 * 6144 * 2 + 8 * 2560 * 2 == 139_264
    least = floor(work, H200)
    # 31,596,544 B at 4.8 TB/s against 0.25 GFLOP at 989.4 TFLOP/s
    assert least.time_ns == pytest.approx(6582.61, abs=0.01)
    assert least.compute_ns == pytest.approx(254.35, abs=0.01)
    assert least.bound_by == "memory"


def test_many_rows_compute() -> None:
    least = floor(floors.gemm(4000, 6144, 6144, "bf16"), H200)
    # 2 x 4,000 x 6,144 x 6,144 / 989.4e12 = 305.2 us; 173.8 MB take 36.2 us
    assert least.bound_by == "compute"
    assert least.time_ns == pytest.approx(305_228, rel=1e-4)


def test_a_block_of_32_has_one_scale_byte() -> None:
    assert floors.gemm(1, 128, 6144, "mxfp8").weight_bytes == 128 * 6144 + 128 * 6144 // 32
    assert floors.gemm(1, 128, 6144, "mxfp4").weight_bytes == 128 * 6144 // 2 + 128 * 6144 // 32


@pytest.mark.parametrize(
    ("peaks", "word", "tflops"),
    [(MI355X, "mxfp8", 5033.2), (MI355X, "mxfp4", 10066.3), (MI300X, "fp8", 2614.9), (H200, "fp16", None)],
)
def test_peaks_by_format(peaks: Peaks, word: str, tflops: float | None) -> None:
    assert peaks.flops_per_s(word) == (None if tflops is None else pytest.approx(tflops * 1e12))


@pytest.mark.parametrize(("peaks", "word"), [(MI300X, "mxfp8"), (H200, "mxfp4"), (H200, "mxfp8"), (MI355X, "fp32")])
def test_a_format_without_a_unit_has_no_compute_time_and_says_so(peaks: Peaks, word: str) -> None:
    """FP8 units that take no block scales are no units for MXFP8: nothing is guessed of what it is converted to."""
    least = floor(floors.gemm(4000, 128, 6144, word), peaks)
    assert least.compute_ns is None
    assert least.unknown == f"no {word} peak of {peaks.device}"
    assert least.bound_by == "memory"


def test_dtype_words_of_traces_and_unknown_ones() -> None:
    words = {"bfloat16": "bf16", "float8_e4m3fnuz": "fp8", "torch.float16": "fp16", "mxfp4": "mxfp4"}
    assert {word: floors.format_word(word) for word in words} == words
    assert [floors.format_word(word) for word in ("uint8", "?", "", "int8")] == [None] * 4


def test_experts_hit() -> None:
    assert floors.distinct_experts(2, 1, 2) == 1.5  # of four choices two hit one expert and two hit both
    assert floors.distinct_experts(128, 4, 1) == pytest.approx(4)
    assert floors.distinct_experts(128, 4, 1, always=1) == pytest.approx(5)
    assert floors.distinct_experts(128, 4, 2) == pytest.approx(7.875)  # 128 x (1 - (31/32)^2) = 128 x 63/1,024
    assert floors.distinct_experts(128, 4, 10_000) == pytest.approx(128)
    assert floors.distinct_experts(128, 4, 0, always=1) == 0


def test_recorded_routing_hits_fewer_than_even_routing() -> None:
    assert floors.distinct_by_share([0.5, 0.5], 2) == 1.5
    assert floors.distinct_by_share([1.0, 0.0], 2) == 1.0
    assert floors.distinct_by_share([0.9, 0.1], 2) == pytest.approx(1.18)  # 0.99 + 0.19


def test_a_grouped_gemm_reads_the_experts_that_were_hit() -> None:
    up = floors.grouped_gemm(8, 32, 1536, 6144, 28.0, "bf16", "moe_w13")
    assert up.flops == 2 * 32 * 1536 * 6144
    assert up.weight_bytes == 28 * 1536 * 6144 * 2
    assert up.activation_bytes == 8 * 6144 * 2 + 32 * 1536 * 2
    down = floors.grouped_gemm(8, 32, 6144, 768, 28.0, "bf16", "moe_w2")
    assert down.activation_bytes == 32 * 768 * 2 + 8 * 6144 * 2


def test_an_all_reduce_over_links_and_over_a_switch() -> None:
    links = floors.all_reduce(128, 6144, 4)
    assert links.activation_bytes == 2 * 1_572_864
    assert links.sent_bytes == 1.5 * 1_572_864
    assert floors.all_reduce(128, 6144, 4, mesh=False).sent_bytes == 1_572_864
    assert floors.all_reduce(128, 6144, 1).sent_bytes == 0
    # 2,359,296 B over three links of 76.8 GB/s
    assert floor(links, MI355X).bound_by == "link"
    assert floor(links, MI355X).time_ns == pytest.approx(10_240)
    assert floor(links, replace(MI355X, link_bytes_per_s=None)).unknown == "no link peak of MI355X"


def test_link_rates_of_a_mesh_grow_with_the_ranks_and_of_a_switch_do_not() -> None:
    mesh, switch = accelerators()["mi355x"], accelerators()["h200"]
    assert [mesh.link_rate(n) for n in (1, 2, 4, 8, 16)] == [None, 76.8e9, 3 * 76.8e9, 7 * 76.8e9, 7 * 76.8e9]
    assert [switch.link_rate(n) for n in (1, 2, 8)] == [None, 450e9, 450e9]
    assert accelerators()["mi250x"].link_rate(4) is None


# --- the control plane -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kv_heads", "kv", "index", "tokens"),
    [
        (1, "fp8", "bf16", 2048),  # 524,288 B / 256 B
        (1, "fp8", "fp8", 4096),  # 524,288 B / 128 B
        (1, "bf16", "bf16", 4096),
        (2, "fp8", "bf16", 4096),  # TP2: two KV heads, the index key is still one
    ],
)
def test_context_from_which_the_index_reads_more_than_the_attend(
    kv_heads: int, kv: str, index: str, tokens: int
) -> None:
    rank = Rank(4 // kv_heads)
    assert crossover_tokens(minimax_m3(), rank, Formats(kv=kv, index=index)) == tokens
    for context, more in ((tokens, False), (tokens + 1, True)):
        attend = floors.attend(1, min(context, 2048), 16, kv_heads, 128, kv).state_bytes
        score = floors.index_score(1, context, 1, 128, index).state_bytes
        assert (score > attend) is more
    assert floors.attend(1, 2048, 16, 1, 128, "fp8").state_bytes == 524_288


def test_an_index_key_larger_than_the_keys_and_values_reads_more_at_any_context() -> None:
    assert floors.index_crossover(2 * 64, 2 * 128, 2048) == 0


@pytest.mark.parametrize(
    ("rank", "index", "tokens"),
    [
        (Rank(4, index_layers=15), "bf16", 7782.4),  # 2,048 x 57/15
        (Rank(4, indexer_cp=True), "fp8", 16_384),  # 4,096 x 4: each rank reads a quarter of the keys
    ],
)
def test_fewer_layers_and_fewer_keys_of_a_rank_move_that_context(rank: Rank, index: str, tokens: float) -> None:
    formats = Formats("mxfp8", "mxfp8", "fp8", index)
    assert crossover_tokens(minimax_m3(), rank, formats) == pytest.approx(tokens)
    for context, more in ((int(tokens * 0.99), False), (int(tokens * 1.01), True)):
        found = m3(Batch(64, 64, context), rank, formats)
        assert (work_of(found, "index_score").state_bytes > work_of(found, "attend_sparse").state_bytes) is more


def test_where_no_layer_chooses_there_is_no_such_context() -> None:
    assert crossover_tokens(minimax_m3(), Rank(4, index_layers=0), Formats(kv="fp8", index="fp8")) is None
    assert crossover_tokens(minimax_m3(), Rank(4), Formats(kv="fp8")) is None


# --- a decode step -----------------------------------------------------------------------------------


def m3(batch: Batch, rank: Rank | None = None, formats: Formats = MXFP8) -> DecodeFloor:
    return decode_floor(minimax_m3(), rank or Rank(4), formats, batch, MI355X)


def work_of(found: DecodeFloor, name: str) -> Work:
    (row,) = found.of(name)
    return row[0]


def test_what_the_layers_of_minimax_m3_read_at_tp4() -> None:
    found = m3(Batch(128, 128, 8192))
    assert work_of(found, "attend_sparse").state_bytes == 57 * 128 * 2048 * 256
    assert work_of(found, "attend_dense").state_bytes == 3 * 128 * 8192 * 256
    assert work_of(found, "index_score").state_bytes == 57 * 128 * 8192 * 256
    assert work_of(found, "all_reduce").calls == 121
    assert work_of(found, "all_reduce").activation_bytes == 121 * 12_288 * 128 * 2
    # 125.8 experts of 3 x 6,144 x 768 x 33/32 B in each of 57 layers
    experts = work_of(found, "moe_w13").weight_bytes + work_of(found, "moe_w2").weight_bytes
    hit = 128 * (1 - (31 / 32) ** 128)
    assert experts == pytest.approx(57 * hit * 3 * 6144 * 768 * 33 / 32)
    assert found.left_out == ()
    assert not found.of("page_table")


def test_every_token_is_written_to_both_caches() -> None:
    found = m3(Batch(128, 128, 8192))
    written = work_of(found, "kv_write").state_bytes + work_of(found, "index_write").state_bytes
    assert written == 128 * kv_bytes_per_token(minimax_m3(), 4, 1, 2)


def test_a_short_context_is_read_whole() -> None:
    found = m3(Batch(1, 1, 1000))
    assert work_of(found, "attend_sparse").state_bytes == 57 * 1000 * 256


def test_reuse_scores_in_fewer_layers() -> None:
    found = m3(Batch(128, 128, 8192), Rank(4, index_layers=15))
    assert work_of(found, "index_score").state_bytes == 15 * 128 * 8192 * 256
    # the others are told to skip the index branch: nothing of it is written
    assert work_of(found, "index_write").state_bytes == 15 * 128 * 256


def test_index_context_parallelism_splits_the_keys() -> None:
    found = m3(Batch(128, 128, 8192), Rank(4, indexer_cp=True))
    assert work_of(found, "index_score").state_bytes == 57 * 128 * 2048 * 256
    # four heads' scores of this rank's 16 blocks written and read, and 16 chosen ids
    assert work_of(found, "index_topk").activation_bytes == 57 * 128 * 4 * (2 * 16 * 4 + 16 * 4)


def test_no_more_rows_enter_a_rank_s_experts_than_choose_them() -> None:
    """TP1, DP8, EP8: 8 ranks of 64 rows choose 512 x 4 experts, 256 of these choices are this rank's."""
    found = m3(Batch(64, 64, 1000), Rank(1, ep=8, dp=8))
    w13, w2 = work_of(found, "moe_w13"), work_of(found, "moe_w2")
    assert w13.activation_bytes == pytest.approx(57 * 256 * (6144 * 33 / 32 + 6144 * 2))
    assert w2.activation_bytes == pytest.approx(57 * 256 * (3072 * 33 / 32 + 6144 * 2))


def test_drafted_rows_share_what_their_request_reads() -> None:
    found = m3(Batch(512, 128, 8192))
    assert work_of(found, "attend_sparse").state_bytes == 57 * 128 * 2048 * 256
    assert work_of(found, "attend_sparse").flops == 57 * 4 * 512 * 16 * 2048 * 128


def test_a_fused_shared_expert_is_one_more_slot() -> None:
    found = m3(Batch(1, 1, 1000), Rank(4, fused_shared=True))
    assert not found.of("shared_gate_up")
    assert work_of(found, "moe_w2").weight_bytes == pytest.approx(57 * 5 * 6144 * 768 * 33 / 32)
    assert work_of(found, "moe_w2").flops == pytest.approx(57 * 2 * 5 * 6144 * 768)


def test_expert_parallel_ranks_hold_a_part_of_the_experts_that_are_hit() -> None:
    found = m3(Batch(16, 16, 1000), Rank(4, ep=4))
    hit = 128 * (1 - (31 / 32) ** 16) / 4
    assert work_of(found, "moe_w13").weight_bytes == pytest.approx(57 * hit * 6144 * 6144 * 33 / 32)
    assert work_of(found, "moe_w13").flops == pytest.approx(57 * 2 * 16 * 6144 * 6144)  # 16 x 4 / 4 rows


def test_recorded_routing_takes_the_place_of_even_routing() -> None:
    found = m3(Batch(16, 16, 1000, distinct=10.0))
    assert work_of(found, "moe_w2").weight_bytes == 57 * 10 * 6144 * 768 * 33 / 32
    assert work_of(found, "moe_w2").note == "experts by recorded routing"


def test_the_sum_is_that_of_the_parts_and_no_less_than_side_by_side() -> None:
    found = m3(Batch(128, 128, 8192))
    assert found.floor_ns == sum(least.time_ns for _, least in found.rows)
    assert found.overlapped_ns == pytest.approx(1e9 * found.bytes / 8e12)
    assert found.overlapped_ns < found.floor_ns
    # TPOT of 48.8 ms at 128 requests (vLLM blog, 2026-09-10) stands above it
    assert 15e6 < found.floor_ns < 48.8e6


def test_what_is_not_known_is_left_out_by_name() -> None:
    found = m3(Batch(8, 8, None), formats=Formats("bf16", None, "fp8", None))
    lost = dict(found.left_out)
    assert set(lost) == {"moe_w13", "moe_w2", "attend_dense", "attend_sparse", "index_write", "index_score"}
    assert lost["attend_dense"] == "the context is not known"
    assert lost["moe_w13"] == "the format of its weights is not known"
    assert not found.of("index_topk")


def test_a_dense_decoder_has_neither_experts_nor_index() -> None:
    sizes = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128_256,
    }  # fmt: skip
    found = decode_floor(
        model_config_of(sizes, ""), Rank(1), Formats("bf16", None, "bf16", None), Batch(4, 4, 100), H200
    )
    assert found.left_out == ()
    assert work_of(found, "qkv_dense").weight_bytes == 2 * (32 + 16) * 128 * 4096 * 2
    assert work_of(found, "attend_dense").state_bytes == 2 * 4 * 100 * 2 * 8 * 128 * 2
    assert not found.of("moe_w13", "attend_sparse", "index_score", "all_reduce")


def test_a_layout_that_vllm_would_not_build_has_no_floor() -> None:
    with pytest.raises(ValueError, match="64 query heads"):
        m3(Batch(1, 1, 10), Rank(3))


# --- AITER's tuned microseconds ----------------------------------------------------------------------

# (format, inter of a rank) -> rows -> us of both expert GEMMs on MI355X: 129 experts, top-k 5, hidden 6,144
# (aiter at e4048607, minimax_m3_{mxfp8,fp4}_tuned_fmoe.csv)
TUNED = {
    ("mxfp8", 768): {1: 25.6, 16: 182.6, 128: 299.3, 1024: 342.7, 32768: 3552.0},
    ("mxfp8", 384): {1: 22.3, 16: 99.6, 128: 163.6, 1024: 195.2, 32768: 2232.0},
    ("mxfp4", 768): {1: 24.0, 128: 173.2, 1024: 200.6, 32768: 2434.7},
    ("mxfp4", 384): {1: 20.7, 128: 90.9, 1024: 126.1, 32768: 1662.8},
}
CASES = [(word, inter, rows, us) for (word, inter), row in TUNED.items() for rows, us in row.items()]
WITHIN = 1.6
"""128 rows read nearly every expert, and 32 to 512 rows take nearly the same time: the weights' bandwidth."""


def experts_us(word: str, inter: int, rows: int) -> float:
    hit = floors.distinct_experts(128, 4, rows, always=1)
    up = floors.grouped_gemm(rows, 5 * rows, 2 * inter, 6144, hit, word, "moe_w13", word)
    down = floors.grouped_gemm(rows, 5 * rows, 6144, inter, hit, word, "moe_w2", word)
    return (floor(up, MI355X).time_ns + floor(down, MI355X).time_ns) / 1e3


@pytest.mark.parametrize(("word", "inter", "rows", "us"), CASES)
def test_no_tuned_time_is_below_its_floor(word: str, inter: int, rows: int, us: float) -> None:
    assert experts_us(word, inter, rows) < us


@pytest.mark.parametrize(("word", "inter", "us"), [(w, i, us) for w, i, rows, us in CASES if rows == 128])
def test_tuned_times_that_wait_for_weights_are_near_their_floor(word: str, inter: int, us: float) -> None:
    assert us < WITHIN * experts_us(word, inter, 128)


def test_one_of_these_floors_by_hand() -> None:
    # 5 experts x 3 x 6,144 x 768 weights x 33/32 B + rows of 5 x 1,536 and 6,144 (BF16), 6,144 and 5 x 768 (MXFP8)
    moved = 5 * 3 * 6144 * 768 * 33 / 32 + 2 * (5 * 1536 + 6144) + (6144 + 5 * 768) * 33 / 32
    assert experts_us("mxfp8", 768, 1) == pytest.approx(moved / 8e12 * 1e6)
