"""Attention paths on paper: settings, numbers and builds, worked out by hand from the source of four releases: the shelf; AITER sparse paged attention; multi-token verification."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attention_kit import MINE, eagle
from m3_setups import FP8_INDEX, GATED, M3, NESTED, NEW, OLD, VERSIONS, at, decode, refusal, setup

from m3probe.fastpaths import fast_paths
from m3probe.gates import gates
from m3probe.schema.setup import Held, State

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
