"""The decode floor of a recipe: its formats and paths decide it, and nobody's guess does."""

from __future__ import annotations

import pytest
from recipes import AITER, FSE, GATED, MXFP4, judged

from m3probe.model.decode_floor import Batch, Formats, Rank, decode_floor
from m3probe.model.floors import Peaks
from m3probe.model.model_config import minimax_m3
from m3probe.model.recipe_report import FloorLine, FloorsLine, RecipeReport

MI355X = Peaks(
    "MI355X",
    8.0e12,
    {"bf16": 2516.6, "fp16": 2516.6, "fp8": 5033.2, "fp6": 10066.3, "fp4": 10066.3},
    3 * 76.8e9,
)
REUSE = """--hf-overrides '{"text_config": {"use_index_cache": true, "index_topk_freq": 4}}'"""


def floors(found: RecipeReport) -> FloorsLine:
    assert found.floors is not None
    return found.floors


def only(found: RecipeReport) -> FloorLine:
    (line,) = floors(found).lines
    return line


def test_the_floor_is_that_of_the_asked_formats_and_sizes() -> None:
    found = judged("0.33.0", concurrency=128, isl=8192, osl=1024)
    assert (floors(found).context, floors(found).kv, floors(found).index) == (8704, "fp8", "bf16")
    formats = Formats("mxfp8", "mxfp8", "fp8", "bf16")
    least = decode_floor(minimax_m3(), Rank(4, index_layers=57), formats, Batch(128, 128, 8704), MI355X)
    line = only(found)
    assert line.floor_ns == round(least.floor_ns)
    assert line.overlapped_ns == round(least.overlapped_ns)
    assert line.attend_bytes == 57 * 128 * (2048 * 256 + 2 * 2 * 16 * 128)
    # index keys of 57 layers, the ids and scores of 68 blocks, and one key written
    assert line.choose_bytes == 57 * 128 * (8704 * 256 + 2 * 68 * 4 + 16 * 4 + 256)
    assert floors(found).crossover_tokens == 2048
    assert floors(found).unknown == ("router by its bytes alone (no fp32 peak of MI355X)",)


def test_one_line_for_each_concurrency() -> None:
    lines = floors(judged("0.33.0", concurrency=[1, 16, 128], isl=1000)).lines
    assert [line.rows for line in lines] == [1, 16, 128]
    assert lines[0].floor_ns < lines[1].floor_ns < lines[2].floor_ns
    assert lines[0].attend_bytes == 57 * (1000 * 256 + 2 * 2 * 16 * 128)  # below 2,048 tokens all are read


def test_without_the_length_of_a_prompt_there_is_none() -> None:
    assert judged("0.33.0", concurrency=128).floors is None


def test_layers_split_into_stages_have_none() -> None:
    assert judged("0.33.0", "--pipeline-parallel-size 2", concurrency=8, isl=100).floors is None


def test_a_model_of_unknown_sizes_has_none() -> None:
    assert judged("0.33.0", model="somebody/else", concurrency=8, isl=100).floors is None


def test_a_layout_that_is_not_built_has_none() -> None:
    assert judged("0.33.0", tp=3, concurrency=8, isl=100).floors is None


def test_reuse_reads_the_index_in_15_layers() -> None:
    every, reused = (only(judged("0.33.0", words, concurrency=1, isl=8192)) for words in ("", REUSE))
    less = every.choose_bytes - reused.choose_bytes
    assert less == 42 * (8192 * 256 + 2 * 64 * 4 + 16 * 4 + 256)
    assert floors(judged("0.33.0", REUSE, concurrency=1, isl=8192)).crossover_tokens == pytest.approx(2048 * 57 / 15)


def test_drafts_bring_rows_and_no_second_reading() -> None:
    plain, drafted = (only(judged("0.33.0", concurrency=32, isl=8192, drafts=drafts)) for drafts in (None, 3))
    assert (plain.rows, drafted.rows) == (32, 128)
    assert drafted.attend_bytes - plain.attend_bytes == 57 * 96 * 2 * 2 * 16 * 128  # queries and results alone


def test_a_fused_shared_expert_and_a_page_table_are_in_it() -> None:
    found = judged("0.33.0", "--moe-backend aiter", f"{AITER} {FSE}", concurrency=1, isl=100)
    assert found.path("shared_expert_fusion").state == "eligible"
    plain = judged("0.33.0", "--moe-backend aiter", AITER, concurrency=1, isl=100)
    # the same weights, read in another GEMM
    assert only(found).weight_bytes == only(plain).weight_bytes
    paged = judged("0.33.0", "", GATED, concurrency=1, isl=8192)
    assert paged.path("aiter_sparse_pa").state == "eligible"
    without = judged("0.33.0", "", AITER, concurrency=1, isl=8192)
    assert only(paged).choose_bytes - only(without).choose_bytes == 57 * 16 * 8 * 4 * 2


@pytest.mark.parametrize(("gpu", "told"), [("mi355x", False), ("h200", True), ("mi300x", True)])
def test_devices_without_a_unit_for_mxfp4_say_that_only_bytes_count(gpu: str, told: bool) -> None:
    found = judged("0.33.0", model=MXFP4, gpu=gpu, concurrency=8, isl=1000)
    said = [text for text in floors(found).unknown if "moe_w13" in text]
    assert bool(said) is told
    if told:
        assert "by its bytes alone (no mxfp4 peak of" in said[0]


def test_a_codec_sends_fewer_bits_from_the_rows_on_that_quick_reduce_takes() -> None:
    """INT4 with the cast to FP16 takes 2 MiB and more at TP4: 171 rows of 12,288 B. A quarter goes over the links then."""
    env = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT4 VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16=1"
    plain = floors(judged("0.33.0", concurrency=[170, 171], isl=100)).lines
    packed = floors(judged("0.33.0", "", env, concurrency=[170, 171], isl=100)).lines
    assert packed[0].floor_ns == plain[0].floor_ns
    sent = 121 * 2 * 3 / 4 * 171 * 12_288 / (3 * 76.8e9) * 1e9
    assert plain[1].floor_ns - packed[1].floor_ns == pytest.approx(sent * 3 / 4, abs=2)
    assert packed[1].bytes == plain[1].bytes
