"""Graph modes and captured sizes on paper, worked out by hand from the source of four releases."""

from __future__ import annotations

import pytest
from m3_setups import GATED, NEW, OLD, VERSIONS, at, decode, refusal, setup
from test_paths_kv import expected

from m3probe.fastpaths._capture import BREAKABLE, launched, modes, replay
from m3probe.fastpaths._capture_sizes import general, uniform
from m3probe.schema.setup import Held, Point, Setup, State
from m3probe.schema.verdicts import Phase

V2 = "VLLM_USE_V2_MODEL_RUNNER"
MIXED = Point(Phase.MIXED, 300, 3)


def drafting(version: str, tokens: int, **more: object) -> Setup:
    return setup(version, draft={"method": "eagle3", "num_speculative_tokens": tokens}, **more)


def config(**keys: object) -> dict[str, object]:
    return {"--compilation-config": keys}


def requests(each: int, count: int) -> Point:
    return decode(each * count, count)


# --- optimization levels and compilation modes -----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("word", ["0", 0, "O0"])
def test_level_0_has_no_graphs(version: str, word: object) -> None:
    """OPTIMIZATION_LEVEL_00: cudagraph_mode NONE."""
    found = at("graph_replay", setup(version, flags={"--optimization-level": word}))
    assert (found.state, found.asked) == (State.OFF, "-O0: cudagraph_mode NONE")


@pytest.mark.parametrize(
    ("version", "mode"), [("0.24.0", "PIECEWISE"), ("0.25.1", "PIECEWISE"), *((v, "eager") for v in NEW)]
)
def test_level_1_asks_for_piecewise_which_0_32_drops_on_rocm(version: str, mode: str) -> None:
    """OPTIMIZATION_LEVEL_01; breakable graphs are M3's default at 0.24 and 0.25.1 alone."""
    assert modes(setup(version, flags={"--optimization-level": "1"})).decode == mode


@pytest.mark.parametrize("level", ["2", "3", None])
def test_levels_2_and_3_are_full_and_piecewise(level: str | None) -> None:
    assert modes(setup("0.25.1", flags={"--optimization-level": level})).decode == "FULL"


def test_a_stated_graph_mode_stands_over_the_level() -> None:
    flags = {"--optimization-level": "0"} | config(cudagraph_mode="FULL_DECODE_ONLY")
    assert modes(setup("0.33.0", flags=flags)).decode == "FULL"


def test_graph_mode_0_as_a_number_is_none_and_not_unset() -> None:
    assert at("graph_replay", setup(flags=config(cudagraph_mode=0))).state is State.OFF


@pytest.mark.parametrize("mode", [0, 1, 2, "none", "DYNAMO_TRACE_ONCE"])
@pytest.mark.parametrize("version", OLD)
def test_other_compilation_modes_drop_all_graphs_before_0_32(version: str, mode: object) -> None:
    """config/vllm.py:1172-1183 at 0.24: any mode but VLLM_COMPILE, where breakable graphs are off."""
    assert modes(setup(version, env={BREAKABLE: "0"}, flags=config(mode=mode))).decode == "eager"
    assert modes(setup(version, env={BREAKABLE: "1"}, flags=config(mode=mode))).decode == "FULL", "breakable: mode NONE"
    only = config(mode=mode, cudagraph_mode="FULL_DECODE_ONLY")
    stays = modes(setup(version, env={BREAKABLE: "0"}, flags=only)).decode
    assert stays == ("eager" if mode == 1 else "FULL"), "V1 wraps no graph around stock torch.compile"


@pytest.mark.parametrize(("mode", "obtained"), [(0, "FULL"), (1, "eager"), (2, "FULL"), (3, "FULL")])
@pytest.mark.parametrize("runner", ["0", "1"])
@pytest.mark.parametrize("version", NEW)
def test_since_0_32_stock_torch_compile_alone_drops_them(version: str, runner: str, mode: int, obtained: str) -> None:
    """_disable_cudagraphs_for_v2_stock_torch_compile (V2); V1 never wraps a stock-compiled model."""
    assert modes(setup(version, env={V2: runner}, flags=config(mode=mode))).decode == obtained


@pytest.mark.parametrize(("version", "obtained"), [("0.24.0", "eager"), ("0.25.1", "eager"), ("0.33.0", "FULL")])
def test_torch_compile_disable_is_compilation_mode_none(version: str, obtained: str) -> None:
    assert modes(setup(version, env={BREAKABLE: "0", "TORCH_COMPILE_DISABLE": "1"})).decode == obtained


@pytest.mark.parametrize("keys", [{"mode": 4}, {"mode": "0"}, {"mode": "fast"}, {"cudagraph_mode": "DECODE"}])
def test_a_mode_that_does_not_exist_stops_the_engine(keys: dict[str, object]) -> None:
    assert at("graph_replay", setup(flags=config(**keys))).state is State.REFUSED_AT_START


@pytest.mark.parametrize("text", [" 1", "1 ", "true", ""])
def test_breakable_graphs_are_on_by_exactly_1(text: str) -> None:
    """envs.py: os.environ.get(...) == "1"."""
    assert modes(setup("0.25.1", env={BREAKABLE: text})).other == "eager"


# --- demotions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flag", "old", "new"), [("prefill", "PIECEWISE", "eager"), ("decode", "PIECEWISE", "FULL")])
def test_context_parallelism_demotes_full_graphs(flag: str, old: str, new: str) -> None:
    """platforms/rocm.py:802 at 0.24: both; :1107 at 0.32 and :1176 at 0.33: prefill context parallelism alone."""
    flags = {f"--{flag}-context-parallel-size": "2"}
    assert [modes(setup(version, flags=flags)).decode for version in VERSIONS] == [old, old, new, new]


def test_a_draft_length_that_follows_the_batch_demotes_v1_alone() -> None:
    draft = {"method": "eagle3", "num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1, 8, 3]]}
    assert modes(setup("0.25.1", draft=draft)).decode == "PIECEWISE"
    assert modes(setup("0.33.0", draft=draft)).decode == "FULL"


def test_nvidias_breakable_default_is_not_judged_by_the_list_for_rocm() -> None:
    assert at("graph_replay", setup(gfx="sm90")).state is State.UNPROVEN


# --- captured sizes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "tokens", "most"),
    [
        ("0.24.0", 2, 498),  # 496 -> 498; 512 -> 513 > 512
        ("0.25.1", 2, 498),
        ("0.32.0", 2, 504),  # 168 requests x 3, put beside the grid
        ("0.33.0", 2, 504),
        ("0.25.1", 4, 500),
        ("0.33.0", 4, 500),  # 496 -> 500; 96 and 104 requests x 5 are 480 and 520
        ("0.25.1", 3, 512),
        ("0.33.0", 3, 512),
    ],
)
def test_the_largest_decode_graph_with_drafts(version: str, tokens: int, most: int) -> None:
    made, each = drafting(version, tokens), 1 + tokens
    assert uniform(made, full=True).largest == most
    assert at("graph_replay", made, requests(each, most // each)).state is State.ELIGIBLE
    found = at("graph_replay", made, requests(each, most // each + 1))
    assert found.state is State.REFUSED
    assert f"> {most}, the largest captured size" in refusal(found)


@pytest.mark.parametrize(
    ("version", "tokens", "pairs"),
    [
        # 1, 2, 4, 8, 16, 24, 32 of the grid and 1, 2, 4, 8 requests, rounded: 3 6 9 12 18 24 33
        ("0.33.0", 2, {3: 3, 6: 6, 9: 9, 12: 12, 15: 18, 21: 24, 27: 33, 30: 33}),
        ("0.25.1", 2, {3: 3, 6: 6, 9: 9, 12: 18, 15: 18, 21: 24, 27: 33, 30: 33}),
        # grid: 5 10 20 25 35; requests: 5 10 20 40
        ("0.33.0", 4, {5: 5, 10: 10, 15: 20, 25: 25, 30: 35, 40: 40}),
    ],
)
def test_drafting_requests_are_padded_to_whole_requests(version: str, tokens: int, pairs: dict[int, int]) -> None:
    made, each = drafting(version, tokens), 1 + tokens
    assert {rows: launched(made, requests(each, rows // each)) for rows in pairs} == {
        rows: (padded, padded) for rows, padded in pairs.items()
    }


def test_a_users_own_sizes_are_what_rows_are_padded_to() -> None:
    made = setup(flags=config(cudagraph_capture_sizes=[1, 2, 4, 8, 64]))
    assert launched(made, decode(9)) == (64, 64)
    assert launched(made, decode(65)) == (65, 65), "above the largest: eager"
    assert launched(setup(flags={"--cudagraph-capture-sizes": "1 2 4 8 64"}), decode(9)) == (64, 64)


def test_interactivity_captures_every_size_up_to_32() -> None:
    made = setup(flags={"--performance-mode": "interactivity"})
    assert launched(made, decode(9)) == (9, 9)
    assert launched(made, decode(33)) == (40, 40)


def test_requests_beyond_max_num_seqs_have_no_full_graph_before_0_32() -> None:
    """9 requests: 8 is too small and 16 more than 9 requests; 0.32 and 0.33 capture 9 itself."""
    old, new = (setup(version, flags={"--max-num-seqs": 9}) for version in ("0.25.1", "0.33.0"))
    assert (replay(old, decode(9)).mode, launched(old, decode(9))) == ("PIECEWISE", (16, 16))
    assert (replay(new, decode(9)).mode, launched(new, decode(9))) == ("FULL", (9, 9))
    bare = setup("0.25.1", flags={"--max-num-seqs": 9}, env={BREAKABLE: "0"})
    assert (
        refusal(at("graph_replay", bare, decode(9))) == "9 rows > 8, the largest captured size (at most 9 requests x 1)"
    )


def test_a_decode_batch_of_unequal_requests_is_no_full_graph() -> None:
    made = drafting("0.33.0", 3)
    assert at("graph_replay", made, decode(31, 8)).state is State.REFUSED
    assert launched(made, decode(31, 8)) == (31, 31)
    assert replay(drafting("0.25.1", 3), decode(31, 8)).mode == "PIECEWISE"


def test_where_the_builds_treatment_of_drafts_is_not_known_rows_are_a_range() -> None:
    made = setup(None, env={BREAKABLE: "1"}, draft={"method": "eagle3", "num_speculative_tokens": 2})
    fewest, most = launched(made, requests(3, 5))
    assert (fewest, most) == (15, 18)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("sizes", "most", "state"),
    [
        ([1, 2, 4, 8, 100], 64, State.REFUSED_AT_START),
        ([1, 2, 4, 8, 64], 64, State.ELIGIBLE),
        ([1, 2, 4, 8, 64], None, State.ELIGIBLE),
        (None, 100, State.ELIGIBLE),  # truncated to 96 with a warning
    ],
)
def test_sizes_and_their_maximum_must_agree(version: str, sizes: object, most: object, state: State) -> None:
    """_set_cudagraph_sizes raises ValueError where both are given and differ."""
    keys = {"cudagraph_capture_sizes": sizes, "max_cudagraph_capture_size": most}
    given = config(**{key: value for key, value in keys.items() if value is not None})
    found = at("graph_replay", setup(version, flags=given), decode(8))
    assert found.state is state
    if state is State.REFUSED_AT_START:
        assert "max_cudagraph_capture_size 64 != 100" in refusal(found)
    if sizes is None:
        assert general(setup(version, flags=given)).largest == 96


@pytest.mark.parametrize("keys", [{"cudagraph_capture_sizes": []}, {"max_cudagraph_capture_size": 0}])
def test_no_size_at_all_stops_the_engine(keys: dict[str, object]) -> None:
    assert at("graph_replay", setup(flags=config(**keys))).state is State.REFUSED_AT_START


@pytest.mark.parametrize(("sizes", "old"), [([1, 2], State.REFUSED_AT_START), ([4], State.ELIGIBLE)])
def test_v1_wants_a_size_that_holds_a_drafting_request(sizes: list[int], old: State) -> None:
    """adjust_cudagraph_sizes_for_spec_decode raises ValueError; V2 of 0.33 captures nothing for decode and starts."""
    given = config(cudagraph_capture_sizes=sizes)
    assert at("graph_replay", drafting("0.25.1", 3, flags=given), requests(4, 1)).state is old
    assert at("graph_replay", drafting("0.33.0", 3, flags=given), requests(4, 1)).state is not State.REFUSED_AT_START


def test_eager_servers_do_not_compare_sizes() -> None:
    keys = config(cudagraph_capture_sizes=[1, 100], max_cudagraph_capture_size=64) | {"--enforce-eager": True}
    assert at("graph_replay", setup(flags=keys)).state is State.OFF


# --- calls of what is selected ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_step_replays_one_kind_of_graph(version: str) -> None:
    piecewise = 61 if version in OLD else None  # 60 layers break the graph; 0.32 and 0.33 capture decode alone
    made = setup(version)
    assert expected("graph_replay", made) == {"FULL": 1, "PIECEWISE": None}
    assert expected("graph_replay", made, MIXED) == {"FULL": None, "PIECEWISE": piecewise}
    assert expected("graph_replay", made, decode(513)) == {"FULL": None, "PIECEWISE": None}
    assert expected("graph_replay", setup(version, pp=2), MIXED)["PIECEWISE"] is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", ["aiter_sparse_pa", "sparse_attention"])
def test_the_default_command_attends_by_triton(version: str, path: str) -> None:
    found = expected(path, setup(version))
    assert (found["AITER page-16"], found["Triton"], found.get("MSA")) == (None, 57, None)
    assert expected(path, setup(version, pp=2))["Triton"] is None


def test_aiters_attend_is_expected_only_where_it_is_selected() -> None:
    assert expected("aiter_sparse_pa", setup(env=GATED)) == {"AITER page-16": 57, "Triton": None}
    assert expected("aiter_sparse_pa", setup(env=GATED), MIXED)["AITER page-16"] == 114
    assert expected("aiter_sparse_pa", setup("0.25.1", env=GATED)) == {"AITER page-16": None, "Triton": 57}
    assert expected("aiter_sparse_pa", setup(env=GATED, gfx=None))["AITER page-16"] is None
    assert expected("aiter_sparse_pa", setup(env=GATED, pp=2))["AITER page-16"] is None
    assert expected("spec_sparse_pa", setup(env=GATED))["AITER page-16"] is None, "nothing is drafted"
    assert expected("spec_sparse_pa", drafting("0.33.0", 3, env=GATED), requests(4, 2))["AITER page-16"] == 57


def test_msa_is_sm100s_and_prefills_alone() -> None:
    prefill = Point(Phase.PREFILL, 512, 1)
    assert expected("sparse_attention", setup(gfx="sm90"), prefill)["MSA"] is None
    assert expected("sparse_attention", setup(gfx="sm100"), prefill)["MSA"] == 57
    assert expected("sparse_attention", setup(gfx="sm100"), MIXED)["MSA"] == 57
    assert expected("sparse_attention", setup(gfx="sm100"))["MSA"] is None
    e5m2 = setup(gfx="sm100", flags={"--kv-cache-dtype": "fp8_e5m2"})
    assert expected("sparse_attention", e5m2, prefill)["MSA"] is None


def test_one_indexer_is_expected() -> None:
    cp, fp8 = {"minimax_m3_indexer_cp": True}, {"indexer_kv_dtype": "fp8"}
    assert expected("indexer", setup()) == {"FP8 (AITER, MSA)": None, "Triton CP": None, "Triton": 57}
    gated = setup(env=GATED, flags={"--attention-config": fp8})
    assert expected("indexer", gated) == {"FP8 (AITER, MSA)": 57, "Triton CP": None, "Triton": None}
    split = setup(flags={"--attention-config": cp})
    assert expected("indexer", split) == {"FP8 (AITER, MSA)": None, "Triton CP": 57, "Triton": None}
    assert expected("indexer", setup("0.25.1", flags={"--attention-config": fp8}))["Triton"] == 57
    assert set(expected("indexer", setup(pp=2)).values()) == {None}


@pytest.mark.parametrize(
    ("dtype", "calls"), [("auto", (57, 3)), ("fp8", (57, 3)), ("fp8_e5m2", (None, 60)), ("bfloat16", (None, 60))]
)
def test_aiters_norm_and_vllms_share_the_layers(dtype: str, calls: tuple[int | None, int]) -> None:
    found = expected("fused_qknorm_rope_kv", setup(env=GATED, flags={"--kv-cache-dtype": dtype}))
    assert (found["AITER"], found["vLLM op"]) == calls
    assert expected("fused_qknorm_rope_kv", setup()) == {"AITER": None, "vLLM op": 60}
    assert set(expected("fused_qknorm_rope_kv", setup(env=GATED, pp=2)).values()) == {None}


@pytest.mark.parametrize("name", ["VLLM_ROCM_USE_AITER", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT"])
def test_blanks_around_an_on_word_turn_it_off(name: str) -> None:
    """envs.py: os.getenv(...).lower() in ("true", "1"), nothing taken off."""
    assert at("aiter_sparse_pa", setup(env=GATED | {name: " 1 "})).state is State.OFF
    assert at("aiter_sparse_pa", setup(env=GATED | {name: "TRUE"})).of(Held.NO) == ()
