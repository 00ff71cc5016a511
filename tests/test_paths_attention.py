"""Attention paths on paper: settings, numbers and builds, worked out by hand from the source of four releases: fused QK-norm; graphs; draft."""

from __future__ import annotations

import json

import pytest
from attention_kit import eagle
from m3_setups import GATED, NEW, OLD, VERSIONS, at, decode, refusal, setup

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._capture import BREAKABLE, largest, modes
from m3probe.fastpaths._capture_sizes import general
from m3probe.fastpaths._m3 import v2_runner
from m3probe.schema.setup import Point, State
from m3probe.schema.verdicts import Phase

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
