"""Attention paths on paper: settings, numbers and builds, worked out by hand from the source of four releases: index reuse; indexer."""

from __future__ import annotations

import pytest
from attention_kit import NESTED_ON, eagle
from m3_setups import FLAT, FP8_INDEX, GATED, NESTED, NEW, OLD, VERSIONS, at, decode, refusal, setup

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._m3 import index_dtype
from m3probe.fastpaths.index_reuse import computing, computing_layers, unfilled
from m3probe.fastpaths.indexer import one_workgroup_per_request, requests_of_grid
from m3probe.schema.setup import Held, State

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
