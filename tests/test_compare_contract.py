"""The contract: what must be alike before a ratio is a speed-up, topic by topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, step, write_trace
from runs_kit import bench, rate, run, serve, topic, two
from steps import ATTEND, GEMM

from m3probe.analyzers._compare import facts as of
from m3probe.analyzers._compare.contract import contract
from m3probe.analyzers._compare.facts import _sizes
from m3probe.analyzers._compare.hosts import host_changes, host_steps
from m3probe.analyzers._compare.moved import level
from m3probe.comparing import AskedRun, compare
from m3probe.errors import UsageError
from m3probe.model.compare_report import Contract, HostChange
from m3probe.model.compare_run import RunKept
from m3probe.model.live_report import StepTimeRow
from m3probe.present.compare_text import compare_text
from m3probe.recipe.differs import changes
from m3probe.schema.setup import Build, Setup

WHOLE: Mapping[str, Mapping[str, str]] = {
    of.MODEL: {of.CONFIGURATION: "MiniMax-M3", of.CLIENT: "m3"},
    of.WEIGHTS: {of.CONFIGURATION: "linear mxfp8, experts mxfp8"},
    of.BUILD: {of.CONFIGURATION: "0.32.0"},
    of.HARDWARE: {of.CONFIGURATION: "gfx950"},
    of.GPUS: {of.CONFIGURATION: "4"},
    of.TOPOLOGY: {of.CONFIGURATION: "TP4 PP1 DP1 EP1"},
    of.WORKLOAD: {of.INPUT: "7354", of.OUTPUT: "917"},
    of.CONCURRENCY: {of.CLIENT: "64, 128"},
    of.WORK: {of.CONFIGURATION: "as the checkpoint has it"},
    of.ACCEPTANCE: {of.LENGTH: "2.50"},
    of.PREFIX: {of.RATE: "0.92"},
}


def kept(facts: Mapping[str, Mapping[str, str]]) -> RunKept:
    return RunKept("a", ("a",), "ok", (), None, (), facts, None, "", (), (), (), (), {}, (), None, ())


def held(**changed: Mapping[str, str]) -> Contract:
    """All topics alike but for these; a topic without a value is one that the other run does not tell."""
    names = {name.replace(" ", "_").replace("'", ""): name for name in of.TOPICS}
    return contract(kept(WHOLE), kept(dict(WHOLE) | {names[k]: v for k, v in changed.items()}), ())


def states(found: Contract, word: str) -> list[str]:
    return [t.topic for t in found.topics if t.state == word]


def test_alike_in_every_topic_is_the_same_contract() -> None:
    found = held()
    assert (found.verdict, found.kind, found.claim) == ("same", "controlled", "same contract")
    assert found.comparable


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("model", {of.CONFIGURATION: "MiniMax-M3-MXFP4"}, "evolution"),
        ("weights", {of.CONFIGURATION: "linear bf16, experts mxfp4"}, "evolution"),
        ("build", {of.CONFIGURATION: "0.33.0"}, "evolution"),
        ("hardware", {of.CONFIGURATION: "gfx942"}, "other hardware"),
        ("GPUs", {of.CONFIGURATION: "2"}, "density"),
        ("topology", {of.CONFIGURATION: "TP4 PP1 DP1 EP4"}, "density"),
        ("workload", {of.INPUT: "7354", of.OUTPUT: "128"}, "evolution"),
        ("workload", {of.INPUT: "6600", of.OUTPUT: "917"}, "evolution"),  # 10.3 % less
        ("concurrency", {of.CLIENT: "256"}, "evolution"),
        ("models_work", {of.CONFIGURATION: "index top-k every 4 sparse layers (15 choose)"}, "evolution"),
        ("acceptance", {of.LENGTH: "2.40"}, "evolution"),  # 4 % less
        ("prefix_cache", {of.RATE: "0.88"}, "evolution"),
    ],
)
def test_one_topic_that_differs_takes_the_claim_away(name: str, value: dict[str, str], kind: str) -> None:
    found = held(**{name: value})
    assert (found.verdict, found.kind, len(states(found, "differs"))) == ("differs", kind, 1)
    assert not found.comparable
    assert found.claim.startswith("not the same contract: ")
    assert "no speed-up is claimed" in found.claim or "density, not speed-up" in found.claim


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", {of.CONFIGURATION: "/models/minimax-m3"}),  # one folder name, in other letters
        ("workload", {of.INPUT: "6700", of.OUTPUT: "900"}),  # 8.9 and 1.9 %: random lengths drawn anew
        ("concurrency", {of.CLIENT: "128, 256"}),  # the point that both measured
        ("acceptance", {of.LENGTH: "2.44"}),  # 2.4 %
        ("prefix_cache", {of.RATE: "0.905"}),  # 1.6 %
    ],
)
def test_what_noise_can_move_is_equal(name: str, value: dict[str, str]) -> None:
    assert held(**{name: value}).verdict == "same"


def test_what_is_not_told_is_unknown_and_says_what_would_tell() -> None:
    found = held(weights={}, acceptance={})
    assert (found.verdict, states(found, "unknown")) == ("same as far as known", ["weights", "acceptance"])
    assert found.claim == "same as far as known (weights, acceptance not known)"
    assert "--recipe" in next(t.tell for t in found.topics if t.topic == "weights")
    assert found.comparable


def test_a_core_topic_that_is_not_known_is_no_basis_for_a_speed_up() -> None:
    for name in ("model", "GPUs", "workload", "concurrency"):
        found = held(**{name: {}})
        assert found.missing_core == (name,)
        assert not found.comparable
    assert held(workload={of.INPUT: "7354"}).missing_core == ("workload",)  # half of it


def test_like_is_held_against_like() -> None:
    """A client's label for the model is no name of a checkpoint."""
    found = held(model={"something else": "MiniMax-M3"})
    assert states(found, "unknown") == ["model"]


# --- settings ----------------------------------------------------------------------------------------------


def setup(flags: dict[str, Any] | None = None, env: dict[str, str] | None = None, **more: Any) -> Setup:
    return Setup(build=Build("0.32.0"), flags=flags or {}, env=env or {}, **more)


def names(before: Setup, after: Setup) -> list[tuple[str, str, str]]:
    return [(c.flag, c.asked, c.resolved) for c in changes(before, after)]


def test_settings_of_one_side_alone_are_changes_both_ways() -> None:
    plain, set_ = (
        setup(),
        setup(
            {"--max-num-seqs": 64}, {"VLLM_ROCM_USE_AITER": "1", "HOME": "/x", "M3PROBE_X": "1", "VLLM_DIST_IDENT": "7"}
        ),
    )
    assert names(plain, set_) == [("--max-num-seqs", "not set", "64"), ("VLLM_ROCM_USE_AITER", "not set", "1")]
    assert names(set_, plain) == [("--max-num-seqs", "64", "not set"), ("VLLM_ROCM_USE_AITER", "1", "not set")]
    assert names(set_, set_) == []


def test_what_asks_for_nothing_is_no_change() -> None:
    assert names(setup(), setup({"--enforce-eager": False, "--linear-backend": "auto"})) == []
    assert names(setup({"--max-model-len": "8192"}), setup({"--max-model-len": 8192})) == []


def test_overrides_and_drafts_are_one_setting_each() -> None:
    nested = {"text_config": {"use_index_cache": True, "index_topk_freq": 4}}
    assert [c[0] for c in names(setup(), setup({"--hf-overrides": nested}))] == ["--hf-overrides"]
    draft = {"method": "eagle3", "num_speculative_tokens": 3}
    assert [c[0] for c in names(setup(), setup(draft=draft))] == ["--speculative-config"]


def test_consequences_name_their_cause() -> None:
    before = setup({"--compilation-config": {"cudagraph_mode": "FULL"}}, resolved=True)
    after = setup({"--compilation-config": {"cudagraph_mode": "NONE"}, "--enforce-eager": True}, resolved=True)
    told = {c.flag: c.follows for c in changes(before, after)}
    assert told == {"--compilation-config.cudagraph_mode": "--enforce-eager", "--enforce-eager": ""}
    codec = {
        f"VLLM_ROCM_QUICK_REDUCE_{key}": value for key, value in (("QUANTIZATION", "INT4"), ("CAST_BF16_TO_FP16", "0"))
    }
    told = {c.flag: c.follows for c in changes(setup(), setup(env=codec))}
    assert told["VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16"] == "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION"
    # alone it is a change of its own
    alone = {c.flag: c.follows for c in changes(setup(env=codec), setup(env=codec | {"VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16": "1"}))}  # fmt: skip
    assert alone == {"VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16": ""}


# --- a worker's clock --------------------------------------------------------------------------------------


def timed(mode: str, steps: float, rows: float, parts: tuple[float | None, ...], phase: str = "decode") -> StepTimeRow:
    prepare, launch_, wait, idle = parts
    return StepTimeRow(phase, mode, steps, rows, rows, 1.0, prepare, launch_, wait, 1.0, idle)


def hosts(before: list[StepTimeRow], after: list[StepTimeRow]) -> tuple[HostChange, ...]:
    return host_changes(*(replace(kept(WHOLE), hosts=host_steps(rows)) for rows in (before, after)))


def test_parts_of_a_workers_step_are_weighted_by_steps_and_add_up() -> None:
    """Eager 100 + 600 + 100 + 200; then 3 of 4 steps in graphs of 100 + 100 + 100 + 100 and one eager."""
    eager = (100.0, 600.0, 100.0, 200.0)
    (found,) = hosts([timed("NONE", 4, 8, eager)], [timed("FULL", 3, 8, (100.0,) * 4), timed("NONE", 1, 8, eager)])
    assert (found.modes_before, found.modes_after) == (("NONE",), ("FULL", "NONE"))
    # 800 of work, then (3 x 300 + 800) / 4; the wait for the next step is no part of it
    assert (found.before_ns, found.after_ns, found.ratio) == (800, 425, 425 / 800)
    assert {p.name: p.delta_ns for p in found.parts} == {"prepare": 0, "launch": -375, "wait": 0, "idle": -75}
    assert [p.share for p in found.parts] == [0, 1, 0, None]


def test_other_rows_or_a_part_that_no_hook_took_give_no_ratio() -> None:
    whole = timed("FULL", 3, 8, (100.0,) * 4)
    (rows,) = hosts([whole], [timed("FULL", 3, 9, (100.0,) * 4)])  # 11 % of 9
    assert (rows.after_ns, rows.ratio) == (300, None)
    (part,) = hosts([whole], [timed("FULL", 3, 8, (100.0, None, 100.0, 100.0))])
    assert (part.after_ns, part.ratio, part.parts[1].after_ns) == (None, None, None)
    assert hosts([whole], [timed("FULL", 3, 8, (100.0,) * 4, "prefill")]) == ()


# --- runs that were read -----------------------------------------------------------------------------------


def test_a_benchmark_alone_says_model_workload_concurrency_and_gpus(tmp_path: Path) -> None:
    _, pair = two(run(tmp_path, "a", [rate(700.0)]), run(tmp_path, "b", [rate(700.0)]))
    equal = {t.topic for t in pair.contract.topics if t.state == "equal"}
    assert equal == {"model", "GPUs", "workload", "concurrency"}
    assert pair.contract.settings is None
    assert pair.contract.comparable


def test_several_workloads_in_one_run_meet_where_both_measured(tmp_path: Path) -> None:
    """1k1k and 8k1k against 8k1k: the one that both have is compared, the other is left out."""
    short = rate(900.0) | {"total_input_tokens": 640 * 1024}
    _, pair = two(run(tmp_path, "a", [short, rate(700.0)]), run(tmp_path, "b", [rate(700.0)]))
    assert (topic(pair, "workload").state, topic(pair, "workload").before) == ("equal", "1024, 7354 (input tokens)")
    assert pair.metrics is not None
    assert {p.ratio for p in pair.metrics.pairs} == {1.0}
    _, pair = two(run(tmp_path, "c", [short]), run(tmp_path, "d", [rate(700.0)]))
    assert topic(pair, "workload").state == "differs"


def test_without_the_number_of_gpus_no_speed_up(tmp_path: Path) -> None:
    lone = rate(700.0) | {"num_gpus": None}
    _, pair = two(run(tmp_path, "a", [lone]), run(tmp_path, "b", [lone]))
    assert topic(pair, "GPUs").state == "unknown"
    assert "num_gpus" in topic(pair, "GPUs").tell
    assert not pair.contract.comparable


def test_a_recipe_tells_the_rest_and_a_guessed_gpu_tells_nothing(tmp_path: Path) -> None:
    _, pair = two(run(tmp_path, "a", [rate(700.0)], serve()), run(tmp_path, "b", [rate(700.0)], serve()))
    assert pair.contract.verdict == "same"
    assert topic(pair, "weights").before == "linear bf16, experts mxfp4"
    assert topic(pair, "acceptance").before == "no drafts"


def ranks(tmp_path: Path, name: str, ran: tuple[str, ...]) -> AskedRun:
    """A folder with one trace a rank; each runs one kernel in equal steps."""
    folder = tmp_path / name
    folder.mkdir()
    for rank, kind in enumerate(ran):
        made = [step(0, 90, "execute_context_0(0)_generation_8(8)"), launch(1, 1), kernel(2, 20, 1, kind)]
        write_trace(folder / f"rank{rank}.pt.trace.json", made, distributedInfo={"rank": rank, "world_size": len(ran)})
    return AskedRun((folder,), name)


def test_a_run_whose_ranks_differ_is_not_one_server_and_is_said_first(tmp_path: Path) -> None:
    report, pair = two(ranks(tmp_path, "mixed", (GEMM, ATTEND)), ranks(tmp_path, "even", (GEMM, GEMM)), "faster")
    assert ["The ranks differ in census" in text for text in report.runs[0].ranks] == [True]
    assert report.runs[1].ranks == ()
    assert pair.answer.startswith("no claim: mixed is not one server: The ranks differ in census")
    assert report.required[0].outcome == "inconclusive"
    page = compare_text(report, 100, color=False, explain=False)
    assert page.index("not one server") < page.index("Answer") < page.index("Contract")


def test_fewer_than_two_runs_and_words_that_are_not_known_are_refused(tmp_path: Path) -> None:
    one = run(tmp_path, "a", [rate(700.0)])
    with pytest.raises(UsageError, match="compare needs two runs or more, got 1"):
        compare([one])
    with pytest.raises(UsageError, match="not a word of compare"):
        compare([one, one], ("quicker",))
    with pytest.raises(UsageError, match="no such fast path"):
        compare([one, one], ("executed:graph_reply",))


def test_runs_are_named_as_short_as_tells_them_apart(tmp_path: Path) -> None:
    files = []
    for folder, name in (("x", "bench.json"), ("y", "bench.json"), ("y", "other.json")):
        (tmp_path / folder).mkdir(exist_ok=True)
        files.append(tmp_path / folder / name)
        files[-1].write_text(json.dumps(bench(duration=10.0, output_throughput=100.0)))
    report = compare([AskedRun((f,)) for f in (*files, files[2], files[0])])
    assert [row.name for row in report.runs] == ["bench", "bench #2", "other", "other #2", "bench #3"]
    assert [row.name for row in compare([AskedRun((f,)) for f in files[:2]]).runs] == ["x", "y"]


@pytest.mark.parametrize(
    ("finding", "word"),
    [
        ("shapes.starved.decode", "tile"),
        ("next_bottleneck.family.gemm", "tile"),
        ("next_bottleneck.family.comm", "distributed state"),
        ("repeats.decode_eager", "repeated path"),
        ("next_bottleneck.idle", "repeated path"),
        ("bytes.cache_writes.decode", "metadata and bytes"),
        ("queues.kv_transfer.stranded.a", "distributed state"),
        ("queues.prefix_cache", "distributed state"),
        ("queues.prefill.0", "queue"),
        ("queues.decode.0", "repeated path"),
        ("queues.os_limit.nofile.server", "OS"),
        ("straggler.rank.3", "distributed state"),
        ("expert_skew.experts", "distributed state"),
        ("draft.loop", "repeated path"),
        ("roofline.control_plane", "metadata and bytes"),
        ("roofline.headroom.gemm", "tile"),
        ("something.new", ""),
    ],
)
def test_every_finding_stands_on_a_level(finding: str, word: str) -> None:
    assert level(finding) == word


def test_a_device_without_a_name_and_without_a_size_is_told_by_its_units() -> None:
    assert (_sizes(256, -1), _sizes(304, 192 * 2**30)) == ("256 units", "304 units, 192 GiB")
