"""Values that stop an engine, judged by hand-read rules of four releases and over the whole of ``m3probe recipe``.

Which variables go through ``int`` was read in ``envs.py``; each claim here names the line of 0.33 that it rests on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from m3_setups import OLD, VERSIONS, setup
from recipes import at, judged

from m3probe.hardware import accelerators
from m3probe.recipe.env_values import refused
from m3probe.recipe.points import limits
from m3probe.schema.setup import Setup

Q = "VLLM_ROCM_QUICK_REDUCE_"
END = "the engine does not start (ValueError; vLLM reads every variable at start)"


def told(made: Setup) -> tuple[str, ...]:
    return refused(made, {})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", ["true", "yes", "", "1.5", "0x1", "1 0"])
@pytest.mark.parametrize(
    "name",
    [
        "VLLM_BATCH_INVARIANT",
        "VLLM_USE_V2_MODEL_RUNNER",
        f"{Q}MIN_SIZE_BYTES_MB",
        "VLLM_ROCM_MOE_PADDING",
        "LOCAL_RANK",
    ],
)
def test_a_text_that_int_does_not_take_stops_the_engine(version: str, name: str, value: str) -> None:
    """envs.py:638 bool(int(...)), :2149 maybe_convert_bool, maybe_convert_int; enable_envs_cache at :2310."""
    assert told(setup(version, env={name: value})) == (f"{name}={value!r} is read by int(): {END}",)


@pytest.mark.parametrize("value", ["0", "1", "2", "-1", " 1 ", "+1", "1_0"])
def test_what_python_reads_as_a_number_is_one(value: str) -> None:
    assert told(setup(env={"VLLM_BATCH_INVARIANT": value, "VLLM_PORT": value})) == ()


def test_on_and_off_words_of_other_readers_stop_nothing() -> None:
    """VLLM_ROCM_USE_AITER is .lower() in ("true", "1"): any text is read."""
    assert told(setup(env={"VLLM_ROCM_USE_AITER": "yes", "VLLM_USE_BREAKABLE_CUDAGRAPH": ""})) == ()


@pytest.mark.parametrize(("value", "stops"), [("ten", True), ("", True), ("10", False), ("1e1", False), ("nan", False)])
def test_float_takes_what_python_takes(value: str, stops: bool) -> None:
    found = told(setup(env={"VLLM_LOG_STATS_INTERVAL": value}))
    assert found == ((f"VLLM_LOG_STATS_INTERVAL={value!r} is read by float(): {END}",) if stops else ())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", ["int4", "INT4 ", "", "Q4"])
def test_a_closed_list_is_compared_word_for_word(version: str, value: str) -> None:
    """env_with_choices: case_sensitive is the default, nothing is stripped, and an empty text is no default."""
    names = "FP, INT8, INT6, INT4, NONE" if version == "0.24.0" else "FP, INT8, INT6, INT4, INT3, NONE"
    said = f"{Q}QUANTIZATION={value!r} is none of {names} (the case counts): {END}"
    assert told(setup(version, tp=1, env={f"{Q}QUANTIZATION": value})) == (said,)


def test_int3_is_a_word_since_0_25_1() -> None:
    assert [len(told(setup(v, env={f"{Q}QUANTIZATION": "INT3"}))) for v in VERSIONS] == [1, 0, 0, 0]


def test_lists_and_words_without_case() -> None:
    labels, precision = "VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS", "VLLM_FLOAT32_MATMUL_PRECISION"
    assert told(setup(env={labels: " container , ,code_interpreter", precision: "HIGH"})) == ()
    assert told(setup(env={labels: ""})) == (), "an empty list is the default"
    assert told(setup(env={labels: "container,shell"})) == (
        f"{labels}='container,shell' is none of container, code_interpreter, web_search_preview (the case counts): {END}",
    )
    assert told(setup(env={precision: "low"})) == (f"{precision}='low' is none of highest, high, medium: {END}",)


def test_what_is_not_known_or_not_settled_is_not_claimed() -> None:
    bad = {"VLLM_BATCH_INVARIANT": "true"}
    assert told(setup(None, env=bad)) == (), "a nightly's variables are not known"
    assert told(replace(setup(env=bad), uncertain=("VLLM_BATCH_INVARIANT",))) == ()
    assert told(setup(env={"VLLM_NO_SUCH_THING": "x", "AITER_KSPLIT": "x"})) == ()


def test_where_it_was_set_and_what_another_sentence_said() -> None:
    made = setup(env={"VLLM_BATCH_INVARIANT": "true"})
    assert refused(made, {"VLLM_BATCH_INVARIANT": "run.sh:3"})[0].endswith("; set in run.sh:3")
    assert refused(made, {}, ["VLLM_BATCH_INVARIANT='true' is no number"]) == ()
    assert len(refused(made, {}, ["VLLM_BATCH_INVARIANT='yes' is no number"])) == 1


# --- the whole report -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_number_of_quick_reduce_stops_the_engine_without_a_codec(version: str) -> None:
    report = judged(version, env=f"{Q}MIN_SIZE_BYTES_MB=1.5")
    assert [f"{Q}MIN_SIZE_BYTES_MB='1.5' is read by int()" in stop for stop in report.stops] == [True]
    line = report.path("quick_reduce")
    assert line.asked == (
        f"{Q}QUANTIZATION is not set (default NONE); {Q}MIN_SIZE_BYTES_MB stop the engine all the same: "
        "no whole number, and each is read"
    )


def test_a_fault_is_said_once() -> None:
    """With a codec the path's own need has the sentence already."""
    report = judged("0.33.0", env=f"{Q}QUANTIZATION=INT4 {Q}MIN_SIZE_BYTES_MB=1.5")
    assert [f"{Q}MIN_SIZE_BYTES_MB='1.5' is no whole number" in stop for stop in report.stops] == [True]


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_invariance_is_one_number_for_every_path(version: str) -> None:
    """bool(int("2")) is on: for the experts, the router of 0.33 and the all-reduce alike."""
    report = judged(version, env="VLLM_ROCM_USE_AITER=1 VLLM_BATCH_INVARIANT=2")
    assert not [stop for stop in report.stops if "BATCH_INVARIANT" in stop]
    texts = " ".join(n.text for p in report.paths for a in p.at for n in a.needs if n.held == "no")
    if version not in OLD:
        assert "VLLM_BATCH_INVARIANT=2: AITER's experts are not batch-invariant" in texts
    assert ("VLLM_BATCH_INVARIANT=2 turns the router's kernels off" in texts) is (version == "0.33.0")
    reduced = at(report.path("custom_all_reduce"), "decode")
    assert (reduced.state == "refused") is (version in OLD)


def test_a_word_for_batch_invariance_leaves_its_paths_open_beside_the_stop() -> None:
    report = judged("0.33.0", env="VLLM_ROCM_USE_AITER=1 VLLM_BATCH_INVARIANT=true")
    assert [stop for stop in report.stops if "VLLM_BATCH_INVARIANT='true' is read by int()" in stop]
    for name in ("mxfp8_moe", "router_gemm", "custom_all_reduce"):
        assert at(report.path(name), "decode", 16).state == "unproven", name


def test_blanks_around_a_word_are_not_taken_off() -> None:
    """envs.py:1267: .lower() in ("true", "1")."""
    line = judged("0.33.0", env="'VLLM_ROCM_USE_AITER= 1 '").path("mxfp8_moe")
    assert (line.state, "VLLM_ROCM_USE_AITER is off" in line.asked) == ("off", True)


# --- the prefill budget -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "rows"),
    [
        ("mi355x", (8192, 8192, 16384, 16384)),
        ("b200", (8192, 8192, 16384, 16384)),
        ("mi300x", (8192, 8192, 16384, 16384)),
        ("h200", (8192, 8192, 8192, 8192)),
        ("h100", (8192, 8192, 8192, 8192)),
        ("a100", (2048, 2048, 2048, 2048)),
        ("mi250x", (2048, 2048, 2048, 2048)),
    ],
)
def test_the_default_budget_by_device_memory(gpu: str, rows: tuple[int, ...]) -> None:
    """get_batch_defaults: 160 GiB asked at 0.32 and 0.33 alone; H200 has 141 GiB, MI250X 64 a device."""
    found = [limits(setup(version), accelerators()[gpu]) for version in VERSIONS]
    assert tuple(most.rows for most in found) == rows
    assert {most.requests for most in found} == {256 if rows[0] == 2048 else 1024}
    told = limits(setup(flags={"--max-num-batched-tokens": 4096, "--max-num-seqs": 7}), accelerators()[gpu])
    assert (told.rows, told.requests, told.assumed) == (4096, 7, ())
