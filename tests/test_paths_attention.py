"""Attention paths on paper: settings, numbers and builds, worked out by hand from the source of four releases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import kernel, launch, recording, step
from m3_setups import FLAT, FP8_INDEX, GATED, M3, NESTED, NEW, OLD, VERSIONS, at, decode, refusal, setup
from test_paths import DECODE, H200, ROCM, eager, rows_of
from tree import shared_or_skip

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._capture import BREAKABLE, largest, modes
from m3probe.fastpaths._capture_sizes import general
from m3probe.fastpaths._m3 import index_dtype, v2_runner
from m3probe.fastpaths.index_reuse import computing, computing_layers, unfilled
from m3probe.fastpaths.indexer import one_workgroup_per_request, requests_of_grid
from m3probe.gates import gates
from m3probe.model.executed import executed
from m3probe.schema.setup import Held, Point, State
from m3probe.schema.verdicts import Phase
from m3probe.sources import open_recording

NESTED_ON = {"use_index_cache": True}
PREFILL = Point(Phase.PREFILL, 32768, 4)
MINE = (
    "aiter_sparse_pa",
    "draft_attention",
    "fp8_kv_cache",
    "fused_qknorm_rope_kv",
    "graph_replay",
    "index_reuse",
    "indexer",
    "kv_transfer",
    "sparse_attention",
    "spec_sparse_pa",
)


def eagle(tokens: int = 3, **more: str) -> dict[str, object]:
    return {"method": "eagle3", "model": "Inferact/MiniMax-M3-EAGLE3", "num_speculative_tokens": tokens, **more}


# --- the shelf -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MINE)
def test_a_path_of_this_catalogue_is_whole_and_its_gates_exist(name: str) -> None:
    path = fast_paths()[name]
    assert path.gates
    assert set(path.gates) <= set(gates())
    assert path.instead
    assert path.functions
    assert path.sources
    assert all(effect.source for effect in path.effects)
    assert all(need.check for need in path.needs), "each need is judged on paper"


@pytest.mark.parametrize("name", MINE)
def test_an_unknown_build_never_makes_a_path_eligible_by_rules_it_reads(name: str) -> None:
    made = setup(None, env=GATED, draft=eagle(attention_backend="TRITON_ATTN"), flags=NESTED | FP8_INDEX)
    found = at(name, made, decode(512, 128))
    assert found.state in (State.UNPROVEN, State.OFF)


# --- AITER sparse paged attention -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_printed_mxfp8_command_leaves_sparse_pa_off(version: str) -> None:
    """The blog's command sets VLLM_ROCM_USE_AITER=1 and no shuffle layout."""
    found = at("aiter_sparse_pa", setup(version, env={"VLLM_ROCM_USE_AITER": "1"}))
    assert found.state is State.OFF
    assert found.asked == "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT is not set (default off)"


def test_the_official_image_leaves_aiter_off_and_both_words_are_told() -> None:
    found = at("aiter_sparse_pa", setup())
    assert found.state is State.OFF
    assert "VLLM_ROCM_USE_AITER is not set" in found.asked
    assert "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT is not set" in found.asked


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize("tp", [4, 8, 16])
def test_the_gated_recipe_is_eligible_with_one_kv_head_per_rank(version: str, tp: int) -> None:
    found = at("aiter_sparse_pa", setup(version, tp, env=GATED))
    assert found.state is State.ELIGIBLE
    assert f"4 KV heads over TP{tp} = 1 per rank" in found.of(Held.YES)


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize(("tp", "heads"), [(2, 2), (1, 4)])
def test_more_kv_heads_per_rank_stop_the_engine(version: str, tp: int, heads: int) -> None:
    found = at("aiter_sparse_pa", setup(version, tp, env=GATED))
    assert found.state is State.REFUSED_AT_START
    said = refusal(found)
    assert said.startswith(f"4 KV heads over TP{tp} = {heads} per rank, not 1, and the ")
    assert "the index cache is bf16, not fp8" in said
    assert "clear VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT for Triton" in said


@pytest.mark.parametrize("version", NEW)
def test_tp2_is_eligible_where_the_fp8_indexer_emits_the_page_table(version: str) -> None:
    found = at("aiter_sparse_pa", setup(version, 2, env=GATED, flags=FP8_INDEX))
    assert found.state is State.ELIGIBLE
    name = {"0.32.0": "AITER", "0.33.0": "MSA"}[version]
    assert any(f"the {name} indexer emits the page table" in text for text in found.of(Held.YES))


def test_dotted_flags_say_the_same_as_an_object() -> None:
    made = setup("0.33.0", 2, env=GATED, flags={"attention-config.indexer_kv_dtype": "fp8"})
    assert at("aiter_sparse_pa", made).state is State.ELIGIBLE


@pytest.mark.parametrize(
    ("version", "tokens", "state"),
    [("0.32.0", 7, State.ELIGIBLE), ("0.32.0", 8, State.REFUSED_AT_START), ("0.33.0", 8, State.ELIGIBLE)],
)
def test_0_32_counts_mfma_columns_and_0_33_does_not(version: str, tokens: int, state: State) -> None:
    """TP2: 2 index heads x (1 + 7) = 16 columns fit, 2 x 9 = 18 do not."""
    found = at("aiter_sparse_pa", setup(version, 2, env=GATED, flags=FP8_INDEX, draft=eagle(tokens)))
    assert found.state is state
    if state is State.REFUSED_AT_START:
        assert any("2 index heads x 9 tokens = 18 > 16 MFMA columns" in text for text in found.of(Held.NO))


@pytest.mark.parametrize(("tokens", "state"), [(1048576, State.ELIGIBLE), (1048577, State.REFUSED_AT_START)])
def test_the_fp8_indexer_holds_8192_blocks(tokens: int, state: State) -> None:
    made = setup("0.33.0", 2, env=GATED, flags=FP8_INDEX | {"--max-model-len": str(tokens)})
    found = at("aiter_sparse_pa", made)
    assert found.state is state
    if state is State.REFUSED_AT_START:
        assert any("1,048,577 tokens are 8,193 blocks > 8,192" in text for text in found.of(Held.NO))


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("tp", [2, 4])
def test_older_builds_have_no_such_path_and_say_so(version: str, tp: int) -> None:
    found = at("aiter_sparse_pa", setup(version, tp, env=GATED))
    assert found.state is State.OFF
    assert f"vLLM {version} has no AITER sparse paged attention" in found.asked


def test_a_model_whose_kv_heads_are_not_known_is_unknown() -> None:
    made = replace(setup(env=GATED), model=replace(M3, kv_heads=None))
    assert at("aiter_sparse_pa", made).state is State.UNPROVEN


@pytest.mark.parametrize(
    ("gfx", "state"), [("gfx942", State.ELIGIBLE), ("gfx90a", State.REFUSED), (None, State.UNPROVEN)]
)
def test_aiter_needs_its_gpu(gfx: str | None, state: State) -> None:
    assert at("aiter_sparse_pa", setup(env=GATED, gfx=gfx)).state is state


# --- multi-token verification ---------------------------------------------------------------------------------


def test_verification_needs_a_uniform_batch() -> None:
    made = setup(env=GATED, draft=eagle(3))
    assert at("spec_sparse_pa", made, decode(512, 128)).state is State.ELIGIBLE
    found = at("spec_sparse_pa", made, decode(511, 128))
    assert found.state is State.REFUSED
    assert refusal(found) == "511 rows of 128 requests, 4 each make 512"


def test_without_drafts_nothing_is_verified() -> None:
    assert at("spec_sparse_pa", setup(env=GATED)).state is State.OFF


def test_verification_is_eligible_only_where_the_single_token_path_is() -> None:
    assert at("spec_sparse_pa", setup(tp=2, env=GATED, draft=eagle()), decode(4, 1)).state is State.REFUSED_AT_START
    assert at("spec_sparse_pa", setup("0.25.1", env=GATED, draft=eagle()), decode(4, 1)).state is State.OFF


# --- index reuse ----------------------------------------------------------------------------------------------


def test_frequency_4_over_57_layers_computes_15() -> None:
    assert sum(1 for ordinal in range(57) if ordinal % 4 == 0) == 15
    assert computing(57, 4) == 15
    assert computing(57, 1) == 57
    assert computing(57, 4, offset=2) == 16, "ordinals 0, 1, 2 and then every fourth: 0 1 2 6 10 ... 54"


def test_offset_counts_from_the_first_reused_layer() -> None:
    assert [o for o in range(57) if max(o - 2, 0) % 4 == 0] == [0, 1, *range(2, 57, 4)]


@pytest.mark.parametrize("version", ["0.25.1", "0.32.0", "0.33.0"])
def test_nested_overrides_reuse(version: str) -> None:
    found = at("index_reuse", setup(version, flags=NESTED))
    assert found.state is State.ELIGIBLE
    assert "frequency 4: 15 of 57 sparse layers choose, 42 skip" in found.of(Held.YES)
    reuse, every = fast_paths()["index_reuse"].variants
    assert reuse.expected is not None
    assert every.expected is not None
    assert reuse.expected(setup(version, flags=NESTED), decode(8)) == 42
    assert every.expected(setup(version, flags=NESTED), decode(8)) == 15


def test_flat_overrides_stop_0_33_on_rocm() -> None:
    found = at("index_reuse", setup("0.33.0", flags=FLAT))
    assert found.state is State.REFUSED_AT_START
    assert any("top-level use_index_cache, index_topk_freq: the engine does not start" in t for t in found.of(Held.NO))


@pytest.mark.parametrize("version", ["0.25.1", "0.32.0"])
def test_flat_overrides_are_silently_off_before(version: str) -> None:
    found = at("index_reuse", setup(version, flags=FLAT))
    assert found.state is State.OFF
    assert "silently ignored: the text model reads text_config alone" in found.asked
    assert computing_layers(setup(version, flags=FLAT)) == 57


@pytest.mark.parametrize("flags", [NESTED, FLAT])
def test_0_24_has_no_reuse_at_all(flags: dict[str, str]) -> None:
    found = at("index_reuse", setup("0.24.0", flags=flags))
    assert found.state is State.OFF
    assert "vLLM 0.24.0 has no index reuse" in found.asked
    assert computing_layers(setup("0.24.0", flags=NESTED)) == 57


@pytest.mark.parametrize(
    ("frequency", "offset", "made"),
    [
        (4.0, None, 15),  # int(4.0)
        ("4", None, 15),
        (2.7, None, 29),  # int(2.7) = 2: ordinals 0, 2, ... 56
        (4, -1, 14),  # (ordinal + 1) % 4 == 0: 3, 7, ... 55
        (4, 2.0, 16),
        (0, None, 57),
        (-4, None, 57),
        (None, None, 57),
    ],
)
def test_reuse_settings_are_read_as_the_source_reads_them(frequency: object, offset: object, made: int) -> None:
    text = {"use_index_cache": True, "index_topk_freq": frequency, "index_skip_topk_offset": offset}
    assert computing_layers(setup(flags={"--hf-overrides": {"text_config": text}})) == made


def test_a_frequency_that_is_no_number_stops_the_engine() -> None:
    found = at(
        "index_reuse", setup(flags={"--hf-overrides": {"text_config": NESTED_ON | {"index_topk_freq": "often"}}})
    )
    assert found.state is State.REFUSED_AT_START


@pytest.mark.parametrize(
    ("pp", "offset", "first"),
    [(1, 0, None), (1, -1, 0), (2, 0, 27), (2, 3, None), (3, 0, 17), (4, 0, None)],
)
def test_a_stage_that_starts_with_a_layer_that_skips_reads_an_unfilled_buffer(pp: int, offset: int, first: int) -> None:
    """60 layers, the first 3 dense: stages of 2 start at layers 0 and 30 (ordinal 27, 27 % 4 = 3; 27 - 3 = 24).

    Of 3: 0, 20, 40 (ordinals 17, 37); of 4: 0, 15, 30, 45 (ordinals 12, 27, 42): 12 % 4 = 0, but 27 % 4 = 3.
    """
    expected = 27 if pp == 4 else first
    text = NESTED_ON | {"index_topk_freq": 4, "index_skip_topk_offset": offset}
    said = unfilled(setup(pp=pp, flags={"--hf-overrides": {"text_config": text}}))
    assert said == "" if expected is None else f"sparse layer {expected}, the first of its stage, skips" in said


def test_nvidias_model_file_reuses_nothing() -> None:
    assert computing_layers(setup(gfx="sm100", flags=NESTED)) == 57


def test_a_frequency_of_one_reuses_nothing() -> None:
    one = {"--hf-overrides": {"text_config": {"use_index_cache": True}}}
    assert at("index_reuse", setup(flags=one)).state is State.OFF


# --- indexer --------------------------------------------------------------------------------------------------


def index(word: object, **more: object) -> dict[str, object]:
    return {"--attention-config": {"indexer_kv_dtype": word, **more}}


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize("path", ["indexer", "sparse_attention", "fp8_kv_cache"])
def test_an_fp8_index_cache_without_its_indexer_stops_the_engine(version: str, path: str) -> None:
    """Not in the facts: select_indexer_impl_cls raises NotImplementedError on ROCm for anything but bf16."""
    found = at(path, setup(version, flags=FP8_INDEX))
    assert found.state is State.REFUSED_AT_START
    assert any("NotImplementedError" in text for text in found.of(Held.NO))


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("word", ["fp8", "mxfp4", "nvfp4"])
def test_before_0_32_the_index_dtype_reaches_nothing_on_rocm(version: str, word: str) -> None:
    """amd/model.py builds MiniMaxM3Indexer without indexer_kv_dtype, whose default is bf16: the engine starts."""
    made = setup(version, flags=index(word) | {"--kv-cache-dtype": "fp8"})
    assert index_dtype(made) == "bf16"
    assert at("sparse_attention", made).state is State.ELIGIBLE
    assert at("fp8_kv_cache", made).state is State.ELIGIBLE
    found = at("indexer", made)
    assert found.state is State.OFF
    asked = fast_paths()["indexer"].asked
    assert asked is not None
    assert asked(made).wasted is (word == "fp8")


@pytest.mark.parametrize(
    ("word", "stops"),  # by release: 0.24.0, 0.25.1, 0.32.0, 0.33.0; by hand from IndexerKVDType and the selectors
    [
        ("bf16", (False, False, False, False)),
        ("auto", (True, True, False, False)),
        ("mxfp4", (False, False, True, True)),
        ("nvfp4", (False, False, True, True)),
        ("fp8_e5m2", (True, True, True, True)),
        ("fp8_e4m3", (True, True, True, True)),
        ("int3", (True, True, True, True)),
    ],
)
def test_which_index_dtypes_stop_the_engine_without_sparse_pa(word: str, stops: tuple[bool, ...]) -> None:
    """sparse_attention is always asked for, so that a stop is always told."""
    states = [at("sparse_attention", setup(version, flags=index(word))).state for version in VERSIONS]
    assert states == [State.REFUSED_AT_START if stop else State.ELIGIBLE for stop in stops]


def test_0_32_validates_a_word_that_0_33_hands_to_the_selector() -> None:
    texts = [refusal(at("sparse_attention", setup(v, env=GATED, flags=index("fp8_e5m2")))) for v in NEW]
    assert "0.32.0 takes auto, bf16, fp8, mxfp4, nvfp4; the engine does not start (config validation)" in texts[0]
    assert "no indexer reads it, the engine does not start (NotImplementedError)" in texts[1]
    assert at("indexer", setup("0.33.0", env=GATED, flags=index("fp8_e4m3"))).state is State.ELIGIBLE
    assert at("indexer", setup("0.32.0", env=GATED, flags=index("fp8_e4m3"))).state is State.REFUSED_AT_START


def test_an_fp8_index_cache_on_nvidia_is_not_judged_by_rocms_rules() -> None:
    assert at("sparse_attention", setup(gfx="sm100", flags=FP8_INDEX)).state is State.UNPROVEN


@pytest.mark.parametrize("version", NEW)
def test_the_fp8_indexer_is_eligible_beside_sparse_pa_on_gfx950(version: str) -> None:
    assert at("indexer", setup(version, env=GATED, flags=FP8_INDEX)).state is State.ELIGIBLE
    other = at("indexer", setup(version, env=GATED, flags=FP8_INDEX, gfx="gfx942"))
    assert any("gfx942, not gfx950" in text for text in other.of(Held.NO))


def test_the_default_indexer_is_triton_and_the_fast_one_is_off() -> None:
    assert at("indexer", setup()).state is State.OFF


@pytest.mark.parametrize(
    ("version", "tp", "state"),
    [("0.33.0", 4, State.ELIGIBLE), ("0.33.0", 1, State.REFUSED_AT_START), ("0.32.0", 4, State.REFUSED_AT_START)],
)
def test_indexer_context_parallelism(version: str, tp: int, state: State) -> None:
    flags = {"--attention-config": {"minimax_m3_indexer_cp": True}}
    assert at("indexer", setup(version, tp, flags=flags)).state is state


@pytest.mark.parametrize(
    ("tp", "drafts", "said"),
    [
        (1, 0, "TP1 has nothing to shard over: MSA runs without context parallelism, with a log line"),
        (4, 3, "minimax_m3_indexer_cp at TP4"),
        (4, 4, "4 index heads x 5 tokens = 20 > 16 MFMA columns: MSA runs without context parallelism"),
        (8, 0, "4 index heads over TP8: MSA runs without context parallelism"),
    ],
)
def test_msas_context_parallelism_is_dropped_with_a_log_line_and_stops_nothing(tp: int, drafts: int, said: str) -> None:
    """The ValueError for one rank stands in the bf16 branch alone; 4 index heads x (1 + 3) = 16 columns fit."""
    made = setup(
        tp=tp, env=GATED, flags=index("fp8", minimax_m3_indexer_cp=True), draft=eagle(drafts) if drafts else None
    )
    found = at("indexer", made)
    assert found.state is State.ELIGIBLE
    assert any(text.startswith(said) for text in found.of(Held.YES))


def test_the_grid_of_the_scorer_counts_requests() -> None:
    assert requests_of_grid("_decode_index_score_kernel", (8, 64, 1)) == 8
    # gfx950 with BF16: 1,024 programs up to 8 requests, 768 up to 11; grid (programs + requests - 1,)
    assert requests_of_grid("_decode_index_score_balanced_kernel", (1024, 1, 1)) == 1
    assert requests_of_grid("_decode_index_score_balanced_kernel", (1031, 1, 1)) == 8
    assert requests_of_grid("_decode_index_score_balanced_kernel", (776, 1, 1)) == 9
    assert requests_of_grid("_decode_index_score_balanced_kernel", (778, 1, 1)) == 11
    assert requests_of_grid("_decode_index_score_balanced_kernel", (779, 1, 1)) is None
    assert requests_of_grid("_index_block_score_kernel", (63, 8, 1)) is None


def test_one_workgroup_per_request_is_told_by_rows_that_differ_from_requests() -> None:
    name = "_decode_index_score_kernel"
    assert one_workgroup_per_request(name, (128, 4, 1), rows=512, requests=128).held is Held.YES
    assert one_workgroup_per_request(name, (512, 1, 1), rows=512, requests=128).held is Held.NO
    assert one_workgroup_per_request(name, (8, 64, 1), rows=8, requests=8).held is Held.UNKNOWN


# --- fused QK-norm --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize(
    ("dtype", "state"),
    [
        (None, State.ELIGIBLE),
        ("auto", State.ELIGIBLE),
        ("fp8", State.ELIGIBLE),
        ("fp8_e4m3", State.ELIGIBLE),
        ("bfloat16", State.REFUSED),
        ("fp8_e5m2", State.REFUSED),
    ],
)
def test_aiter_qk_norm_compares_words(version: str, dtype: str | None, state: State) -> None:
    flags = {} if dtype is None else {"--kv-cache-dtype": dtype}
    found = at("fused_qknorm_rope_kv", setup(version, env=GATED, flags=flags))
    assert found.state is state
    if dtype == "bfloat16":
        assert "the check compares the word auto" in refusal(found)


@pytest.mark.parametrize("version", OLD)
def test_aiter_qk_norm_is_absent_before_0_32(version: str) -> None:
    assert at("fused_qknorm_rope_kv", setup(version, env=GATED)).state is State.OFF


# --- graphs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OLD)
def test_before_0_32_breakable_graphs_are_on_by_default(version: str) -> None:
    found = modes(setup(version))
    assert (found.decode, found.other) == ("FULL", "PIECEWISE")
    assert at("graph_replay", setup(version), Point(Phase.PREFILL, 512, 1)).state is State.ELIGIBLE


@pytest.mark.parametrize("version", NEW)
def test_since_0_32_rocm_captures_uniform_decode_alone(version: str) -> None:
    found = modes(setup(version))
    assert (found.decode, found.other) == ("FULL", "eager")
    assert f"vLLM {version} overrides to FULL_DECODE_ONLY" in found.text
    assert at("graph_replay", setup(version), decode(128)).state is State.ELIGIBLE
    prefill = at("graph_replay", setup(version), Point(Phase.PREFILL, 512, 1))
    assert prefill.state is State.REFUSED
    assert "M3 is not compiled and breakable graphs are off" in refusal(prefill)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_variable_decides_over_the_build(version: str) -> None:
    on = modes(setup(version, env={BREAKABLE: "1"}))
    off = modes(setup(version, env={BREAKABLE: "0"}))
    assert (on.other, off.other, off.decode) == ("PIECEWISE", "eager", "FULL")


@pytest.mark.parametrize(("version", "decode_mode"), [("0.24.0", "eager"), ("0.25.1", "eager"), ("0.33.0", "FULL")])
def test_mode_none_without_breakable_graphs_drops_all_graphs_in_older_builds(version: str, decode_mode: str) -> None:
    made = setup(
        version,
        env={BREAKABLE: "0"},
        flags={"--compilation-config": json.dumps({"mode": "NONE"})},
    )
    assert modes(made).decode == decode_mode


@pytest.mark.parametrize("version", NEW)
def test_piecewise_alone_becomes_eager(version: str) -> None:
    made = setup(version, flags={"--compilation-config": {"cudagraph_mode": "PIECEWISE"}})
    assert at("graph_replay", made).state is State.REFUSED


def test_full_means_uniform_decode_for_m3() -> None:
    made = setup(flags={"--compilation-config": {"cudagraph_mode": "FULL"}})
    assert (modes(made).decode, modes(made).other) == ("FULL", "eager")


def test_enforce_eager_is_off() -> None:
    found = at("graph_replay", setup(flags={"--enforce-eager": True}))
    assert (found.state, found.asked) == (State.OFF, "--enforce-eager")


def test_a_nightly_is_not_taken_for_a_release() -> None:
    assert at("graph_replay", setup(None), Point(Phase.PREFILL, 512, 1)).state is State.UNPROVEN
    assert at("graph_replay", setup(None), decode(128)).state is State.UNPROVEN
    breaks = setup(None, env={BREAKABLE: "1"})
    assert at("graph_replay", breaks, decode(128)).state is State.ELIGIBLE


@pytest.mark.parametrize(
    ("rows", "requests", "state"),
    [(512, 128, State.ELIGIBLE), (516, 129, State.REFUSED)],
)
def test_drafted_tokens_count_as_rows(rows: int, requests: int, state: State) -> None:
    found = at("graph_replay", setup(draft=eagle(3)), decode(rows, requests))
    assert found.state is state
    if state is State.REFUSED:
        said = "516 rows (129 requests x 4) > 512, the largest captured size (default 512, in whole requests of 4)"
        assert refusal(found) == said


def test_the_largest_size_follows_max_num_seqs_and_the_token_budget() -> None:
    assert largest(setup())[0] == 512
    assert largest(setup(flags={"--max-num-seqs": 64}))[0] == 64, "of 128 in the list: no decode step has more rows"
    assert largest(setup(flags={"--max-num-seqs": 64}, draft=eagle(3)))[0] == 256
    assert general(setup(flags={"--max-num-seqs": 64})).largest == 128
    assert general(setup(flags={"--max-num-seqs": 9})).tokens == (1, 2, 4, 8, 9, 16), "18 is off the grid of eights"
    assert general(setup("0.25.1", flags={"--max-num-seqs": 9})).tokens == (1, 2, 4, 8, 16)
    assert largest(setup(flags={"--max-num-batched-tokens": 300}))[0] == 300
    assert largest(setup(flags={"--compilation-config": {"cudagraph_capture_sizes": [1, 8, 64]}}))[0] == 64
    assert largest(setup(flags={"--max-cudagraph-capture-size": 1024}))[0] == 1024


def test_a_step_above_the_largest_size_runs_eager() -> None:
    found = at("graph_replay", setup(flags={"--max-num-seqs": 64}), decode(136))
    assert refusal(found) == "136 rows > 64, the largest captured size (at most 64 requests x 1)"
    other = at("graph_replay", setup("0.25.1", flags={"--max-num-seqs": 64}), Point(Phase.PREFILL, 136, 1))
    assert refusal(other) == "136 rows > 128, the largest captured size (min(64 x 1 x 2, 512))"


# --- draft ----------------------------------------------------------------------------------------------------

PINNED = eagle(attention_backend="TRITON_ATTN")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_default_runner_of_every_build_reads_a_draft_pin(version: str) -> None:
    assert at("draft_attention", setup(version, draft=PINNED)).state is State.ELIGIBLE


@pytest.mark.parametrize("version", OLD)
def test_v2_of_older_builds_ignores_the_pin(version: str) -> None:
    made = setup(
        version, draft=PINNED, env={"VLLM_USE_V2_MODEL_RUNNER": "1"}, flags={"--attention-backend": "ROCM_AITER_FA"}
    )
    found = at("draft_attention", made)
    assert found.state is State.REFUSED
    assert refusal(found).endswith("the drafter runs on the target's ROCM_AITER_FA")


def test_an_unset_draft_backend_says_what_runs() -> None:
    target = {"--attention-backend": "TRITON_ATTN"}
    old = at("draft_attention", setup("0.25.1", draft=eagle(), flags=target))
    new = at("draft_attention", setup("0.33.0", draft=eagle(), flags=target))
    assert (old.state, new.state) == (State.OFF, State.OFF)
    assert "the V1 runner never inherits --attention-backend and auto-selects (ROCM_ATTN first)" in old.asked
    assert "the V2 runner inherits TRITON_ATTN from the target" in new.asked
    forced = at("draft_attention", setup("0.33.0", draft=eagle(), flags=target, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}))
    assert "the V1 runner never inherits" in forced.asked


def test_aiter_does_not_move_rocm_attn_from_the_first_place() -> None:
    """vLLM issue 46596: AITER on, and ROCM_ATTN is chosen over ROCM_AITER_FA all the same."""
    found = at("draft_attention", setup("0.25.1", draft=eagle(), env={"VLLM_ROCM_USE_AITER": "1"}))
    assert "auto-selects (ROCM_ATTN first)" in found.asked


CONNECTED = {"--kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}


@pytest.mark.parametrize(
    ("version", "env", "first"),
    [
        ("0.24.0", {}, "(TRITON_ATTN)"),  # UNIFIED inherits ROCM_ATTN's supports_kv_connector: False
        ("0.25.1", {"VLLM_ROCM_USE_AITER": "1"}, "(ROCM_AITER_FA first, then TRITON_ATTN)"),
        ("0.32.0", {}, "(ROCM_AITER_UNIFIED_ATTN where AITER is installed, else TRITON_ATTN)"),
        (
            "0.33.0",
            {"VLLM_ROCM_USE_AITER": "1"},
            "(ROCM_AITER_FA first, then ROCM_AITER_UNIFIED_ATTN where AITER is installed, else TRITON_ATTN)",
        ),
        ("0.33.0", {"VLLM_BATCH_INVARIANT": "1"}, "(TRITON_ATTN, the only one under batch invariance)"),
    ],
)
def test_what_a_drafter_takes_beside_a_connector(version: str, env: dict[str, str], first: str) -> None:
    found = at("draft_attention", setup(version, draft=eagle(), flags=CONNECTED, env=env))
    assert found.state is State.OFF
    assert first in found.asked


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu", "suffix", "mtp"])
def test_a_drafter_without_a_choosable_attention_layer_is_off_and_the_pin_wasted(method: str) -> None:
    made = setup(draft={"method": method, "num_speculative_tokens": 1, "attention_backend": "TRITON_ATTN"})
    assert at("draft_attention", made).state is State.OFF
    asked = fast_paths()["draft_attention"].asked
    assert asked is not None
    assert asked(made).wasted


def test_batch_invariance_refuses_every_pin_but_triton() -> None:
    env = {"VLLM_BATCH_INVARIANT": "2"}
    assert at("draft_attention", setup(draft=PINNED, env=env)).state is State.ELIGIBLE
    found = at("draft_attention", setup(draft=eagle(attention_backend="ROCM_ATTN"), env=env))
    assert found.state is State.REFUSED_AT_START


@pytest.mark.parametrize(
    ("draft", "flags", "pp", "v2"),
    [
        (eagle(), {}, 1, True),
        ({"method": "suffix"}, {}, 1, False),
        ({**eagle(), "parallel_drafting": True}, {}, 1, False),
        ({"method": "dflash", "parallel_drafting": True}, {}, 1, True),
        (None, {"--enable-dbo": True}, 1, False),
        (None, {"--distributed-executor-backend": "external_launcher"}, 2, False),
        (None, {"--distributed-executor-backend": "external_launcher"}, 1, True),
    ],
)
@pytest.mark.parametrize("version", NEW)
def test_what_v2_cannot_do_runs_on_v1(
    version: str, draft: dict[str, object] | None, flags: dict[str, object], pp: int, *, v2: bool
) -> None:
    """config/vllm.py: _get_v2_model_runner_unsupported_features at 0.32 and 0.33."""
    assert v2_runner(setup(version, draft=draft, flags=flags, pp=pp)) is v2


@pytest.mark.parametrize(("text", "v2"), [("1", True), ("2", True), ("0", False), ("true", None), ("", None)])
def test_the_runner_variable_is_read_by_int(text: str, *, v2: bool | None) -> None:
    """maybe_convert_bool: bool(int(...)); "true" and "" raise, and which runner it would be is no question."""
    assert v2_runner(setup("0.25.1", env={"VLLM_USE_V2_MODEL_RUNNER": text})) is v2


def test_an_ignored_pin_of_an_unpinned_target_reads_as_a_sentence() -> None:
    made = setup("0.25.1", draft=PINNED, env={"VLLM_USE_V2_MODEL_RUNNER": "1"})
    assert refusal(at("draft_attention", made)).endswith("runs on what is auto-selected (ROCM_ATTN first)")


def test_flash_attn_asserts_on_rocm() -> None:
    found = at("draft_attention", setup(draft=eagle(attention_backend="FLASH_ATTN")))
    assert found.state is State.REFUSED_AT_START


# --- traces ---------------------------------------------------------------------------------------------------
# Names of AITER's kernels are taken from source: generated, no trace of MiniMax M3 on AMD was at hand.

SCORE, TOPK, MERGE = "_decode_index_score_kernel", "_topk_index_partial_kernel", "_topk_index_merge_kernel"
ATTEND, GLUON, TABLE = (
    "_gqa_sparse_decode_kernel",
    "paged_attention_decode_v2_gluon_dot_kernel",
    "_decode_topk_fused_kernel",
)
AITER_NORM = "void aiter::fusedQKNormIdxrQKNormKernel<__hip_bfloat16, 128>(int)"
M3_NORM = (
    "void vllm::minimax_m3_fused_ops::fusedMiniMaxM3QNormRopeKVInsertKernel"
    "<c10::BFloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(int)"
)


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_h200_runs_the_triton_indexer_six_times_a_step_and_reuses_nothing(mode: str) -> None:
    rows = rows_of(open_recording([shared_or_skip(H200.format(mode))]))
    indexer, reuse, norm = rows["indexer"], rows["index_reuse"], rows["fused_qknorm_rope_kv"]
    # nothing says that another indexer was asked for: a fallback's kernels are no execution, and no miss either
    assert (indexer.verdict, indexer.variant, indexer.counts["fallback_calls"]) == ("unproven", "Triton", 60)
    assert "the fallback ran (Triton) in 1 of 1 prefill and 9 of 9 decode steps" in indexer.reasons[0]
    assert any(
        "54 calls of Triton (_decode_index_score_kernel) in 9 of 9 steps, 6 per step" in t for t in indexer.evidence
    )
    assert (reuse.verdict, reuse.variant, reuse.counts["fallback_calls"]) == ("unproven", "every layer chooses", 60)
    assert (norm.verdict, norm.variant, norm.counts["fallback_calls"]) == ("unproven", "vLLM op", 90), "9 layers"
    assert (rows["fp8_kv_cache"].variant, rows["fp8_kv_cache"].counts["fallback_calls"]) == ("BF16", 90)
    assert (rows["sparse_attention"].verdict, rows["sparse_attention"].counts["decode.calls"]) == ("executed", 54)
    assert (rows["aiter_sparse_pa"].variant, rows["spec_sparse_pa"].verdict) == ("Triton", "unproven")
    for name in ("draft_attention", "kv_transfer"):
        assert rows[name].verdict == "unproven"
        assert rows[name].reasons[0].startswith("no kernel is this path's own")


def test_h200_grids_count_requests() -> None:
    rec = open_recording([shared_or_skip(H200.format("eager"))])
    ran = executed(rec)
    names = np.array([rec.strings[i] == SCORE for i in ran.name.tolist()])
    rows = np.flatnonzero(names)
    assert len(rows) == 54
    for row in rows.tolist():
        at_step = int(ran.step[row])
        real, requests = int(rec.steps["rows"][at_step]), int(rec.steps["requests"][at_step])
        told = one_workgroup_per_request(SCORE, rec.dims[int(ran.grid[row])], real, requests)
        assert (requests_of_grid(SCORE, rec.dims[int(ran.grid[row])]), real, told.held) == (8, 8, Held.UNKNOWN)


def test_reuse_is_counted_by_the_layers_that_chose_nothing(tmp_path: Path) -> None:
    """Four sparse layers at frequency 4: one chooses, three attend to its blocks."""
    names = [SCORE, TOPK, MERGE, ATTEND, ATTEND, ATTEND, ATTEND]
    row = rows_of(recording(tmp_path, eager(100, 10, names) + eager(200, 30, names)))["index_reuse"]
    assert (row.verdict, row.variant, row.counts["calls"]) == ("executed", "reuse", 6)


def test_one_step_that_reused_nothing_is_told_beside_the_others(tmp_path: Path) -> None:
    reused, whole = [SCORE, MERGE, ATTEND, ATTEND], [SCORE, MERGE, ATTEND, SCORE, MERGE, ATTEND]
    row = rows_of(recording(tmp_path, eager(100, 10, reused) + eager(200, 30, whole)))["index_reuse"]
    assert (row.verdict, row.variant) == ("unproven", "reuse"), "one of two steps reused"
    assert (row.counts["calls"], row.counts["fallback_calls"]) == (1, 2), "one skipped layer, two choosing ones"
    assert "the fallback ran (every layer chooses) in 1 of 2 decode steps" in row.reasons[0]


def test_attends_without_any_choice_prove_no_reuse(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [ATTEND, ATTEND])))["index_reuse"]
    assert row.verdict == "unproven"


def verify(tmp_path: Path, said: str, names: list[str]) -> dict[str, str]:
    rows = rows_of(recording(tmp_path, eager(100, 10, names, said), **ROCM))
    return {name: row.variant for name, row in rows.items()}


def test_generated_aiter_names_are_executed_and_rest_on_source(tmp_path: Path) -> None:
    rows = rows_of(recording(tmp_path, eager(100, 10, [AITER_NORM, SCORE, TABLE, GLUON]), **ROCM))
    for name, variant in (("aiter_sparse_pa", "AITER page-16"), ("fused_qknorm_rope_kv", "AITER")):
        assert (rows[name].verdict, rows[name].variant, rows[name].names_from_source) == ("executed", variant, True)
    assert rows["spec_sparse_pa"].verdict == "unproven", "one row per request: nothing was verified"


def test_generated_verification_counts_only_where_rows_exceed_requests(tmp_path: Path) -> None:
    told = verify(tmp_path, "execute_context_0(0)_generation_8(32)", [SCORE, TABLE, GLUON])
    assert told["spec_sparse_pa"] == told["aiter_sparse_pa"] == "AITER page-16"


def test_generated_fp8_writer_is_told_by_its_template_argument(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [M3_NORM]), **ROCM))["fp8_kv_cache"]
    assert (row.verdict, row.variant, row.names_from_source) == ("executed", "FP8", True)


def test_a_step_of_another_model_runs_none_of_these(tmp_path: Path) -> None:
    events = [step(100, 90, DECODE), launch(101, 1), kernel(104, 2, 1, "Cijk_Alik_Bljk")]
    rows = rows_of(recording(tmp_path, events))
    assert {rows[name].verdict for name in MINE} == {"unproven"}


def test_a_traces_grids_say_whether_one_workgroup_served_a_request(tmp_path: Path) -> None:
    """Three requests verify four rows each: a grid of 3 serves requests, a grid of 12 rows."""

    def scored(workgroups: int) -> str:
        said = "execute_context_0(0)_generation_3(12)"
        events = [
            step(100, 90.0, said),
            launch(101, 1),
            kernel(105, 2.0, 1, SCORE, grid=[workgroups, 4, 1], block=[64, 1, 1]),
        ]
        row = rows_of(recording(tmp_path, events))["indexer"]
        return next(line for line in row.evidence if line.startswith("one workgroup per request"))

    assert scored(3).startswith("one workgroup per request: yes in 1 launches (grid (3, 4, 1): 3 requests served")
    assert scored(12).startswith("one workgroup per request: no in 1 launches (grid (12, 4, 1): 12 requests served")
