"""What a log is worth: a choice is shown beside a path and never makes it executed; what ran contradicts it by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace
from log_kit import READY, START, args_line, config_line, record, written
from recording_kit import call, count, path, steps, write
from served_kit import config, server

from m3probe.analyzers._log_choices import SPEAKS
from m3probe.fastpaths import fast_paths
from m3probe.model.findings import Finding
from m3probe.model.judgement import RuleResult
from m3probe.model.report import Report
from m3probe.pipeline import analyze, inspect, read, report
from m3probe.present.json import report_json
from m3probe.present.text import report_text
from m3probe.rules import judge, load_rules

AITER_MOE = record("Using 'AITER_MXFP8' MxFp8 MoE backend.", source="mxfp8.py:139")
TRITON_MOE = record("Using 'TRITON_MXFP8' MxFp8 MoE backend.", source="mxfp8.py:139")
NOT_RUN = "a log says what was chosen, not what ran"
DECODE = "execute_context_0(0)_generation_8(8)"


def traces(folder: Path, kernels: dict[int, str], world: int = 4) -> Path:
    """One decode step for each rank, with two launches of its kernel."""
    folder.mkdir()
    for rank, name in kernels.items():
        events = [step(0.0, 900.0, DECODE)]
        for i in (1, 2):
            events += [launch(10.0 * i, i), kernel(10.0 * i + 5, 4.0, i, name)]
        info = {"rank": rank, "world_size": world}
        write_trace(folder / f"r{rank}.json", events, distributedInfo=info, vllm_version="0.33.0")
    return folder


def found(tmp_path: Path, kernels: dict[int, str], *lines: str) -> Report:
    log = written(tmp_path / "server.log", *lines)
    return analyze([traces(tmp_path / "t", kernels), log])


def differs(answer: Report, name: str) -> Finding | None:
    return next((f for f in answer.answer.findings if f.id == f"paths.log_differs.{name}"), None)


# --- evidence ---------------------------------------------------------------------------------------------------------


def test_every_path_that_a_log_speaks_of_is_one(tmp_path: Path) -> None:
    assert set(SPEAKS) <= set(fast_paths())


def test_a_choice_is_told_with_who_said_it_and_where(tmp_path: Path) -> None:
    row = path(found(tmp_path, {0: "fused_moe_kernel"}, *START, TRITON_MOE), "moe_backend")
    assert "log: selected moe TRITON_MXFP8 (weights MxFp8) (said by Worker_TP0, server.log:4)" in row.evidence
    assert row.verdict == "executed"


def test_a_log_alone_leaves_a_path_unproven_whatever_it_chose(tmp_path: Path) -> None:
    log = written(tmp_path / "server.log", *START, AITER_MOE)
    answer = analyze([log])
    for row in (path(answer, name) for name in SPEAKS):
        assert row.verdict == "unproven", row.id
    assert f"the log says AITER_MXFP8: {NOT_RUN}" in path(answer, "mxfp8_moe").reasons
    assert path(answer, "kv_transfer").configured == "no"
    assert path(answer, "aiter_sparse_pa").configured == "unknown"  # hangs on a variable


def test_a_refusal_of_the_server_is_a_reason(tmp_path: Path) -> None:
    why = "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS is enabled but cannot be enabled: EP is on."
    log = written(tmp_path / "server.log", *START, *[record(why)] * 57)
    row = path(analyze([log]), "shared_expert_fusion")
    assert "the log says that it refused EP is on" in row.reasons
    assert "log: refused: EP is on (said by Worker_TP0, server.log:4, 57 lines)" in row.evidence


def test_silence_of_other_ranks_is_told_as_nothing(tmp_path: Path) -> None:
    """Rank 0 said it; ranks 1 to 3 wrote other lines only."""
    others = [record("demo loaded", f"Worker_TP{n} pid={n}") for n in (1, 2, 3)]
    log = written(tmp_path / "l08.log", record("Using 'AITER' MxFp8 MoE backend."), *others)
    facts = inspect(read([log])).facts
    assert facts["moe_backend"] == {"Worker_TP0": "AITER"}
    assert (facts["ranks_seen"], facts["ranks_without_line"]) == ([0, 1, 2, 3], [1, 2, 3])
    told = json.dumps([f.claim for f in report(read([log])).answer.findings])
    assert "Worker_TP1" not in told


# --- contradictions -------------------------------------------------------------------------------------------------


def test_the_log_says_aiter_and_the_kernels_say_triton(tmp_path: Path) -> None:
    told = differs(found(tmp_path, {0: "fused_moe_kernel"}, *START, AITER_MOE), "moe_backend")
    assert told is not None
    assert told.question == "paths"
    assert told.claim == (
        "MoE backend: the log says selected moe AITER_MXFP8 (weights MxFp8) by Worker_TP0 (rank 0), and what ran is "
        "Triton fused_moe"
    )
    assert told.where.endswith("server.log:4")


@pytest.mark.parametrize(
    ("kernel_name", "line"),
    [
        ("fused_moe_kernel", TRITON_MOE),
        ("fused_moe_kernel", record("Using 'EMULATION' MxFp8 MoE backend.")),
        ("_gqa_sparse_decode_kernel", record("MiniMax M3 sparse attention selected MSA (kv_cache_dtype=auto, topk_blocks=16)")),
        ("_gqa_sparse_decode_kernel", record("MiniMax M3 sparse attention selected Triton (kv_cache_dtype=auto, topk_blocks=16)")),
    ],
)  # fmt: skip
def test_what_a_choice_leaves_possible_contradicts_nothing(tmp_path: Path, kernel_name: str, line: str) -> None:
    """MSA prefills only, and what an emulation launches is Triton's."""
    answer = found(tmp_path, {0: kernel_name}, *START, line)
    assert [f.id for f in answer.answer.findings if f.id.startswith("paths.log")] == []


def test_a_line_holds_for_the_rank_that_wrote_it_alone(tmp_path: Path) -> None:
    """Rank 1 ran Triton and said nothing; what rank 0 chose is no word about it."""
    of_rank_0 = found(tmp_path, {1: "fused_moe_kernel"}, *START, AITER_MOE)
    assert differs(of_rank_0, "moe_backend") is None


def test_a_server_that_built_no_quick_reduce_cannot_have_run_it(tmp_path: Path) -> None:
    text = "Using ['AITER_CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0' out of potential backends: ['QUICK_REDUCE']."
    row_ran = "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half, CodecQ4<__half, 4>, false>, __half>()"
    answer = found(tmp_path, {0: row_ran}, *START, record(text))
    ran = path(answer, "quick_reduce")
    assert ran.variant.startswith("HIP")  # the premise
    told = differs(answer, "quick_reduce")
    assert told is not None
    assert "AITER_CUSTOM, PYNCCL" in told.claim


def test_graphs_that_the_log_turned_off_and_a_trace_replays(tmp_path: Path) -> None:
    off = record("Cudagraph mode FULL requires piecewise capture, but inductor is off. Overriding to NONE.")
    events = [
        step(0.0, 900.0, DECODE),
        launch(1.0, 1, "hipGraphLaunch"),
        kernel(9.0, 4.0, 1, "a"),
        kernel(14.0, 4.0, 1, "b"),
    ]
    info = {"rank": 0, "world_size": 4}
    trace = write_trace(tmp_path / "r.json", events, distributedInfo=info)
    answer = analyze([trace, written(tmp_path / "server.log", *START, off)])
    told = differs(answer, "graph_replay")
    assert told is not None
    assert told.claim.endswith("what ran is FULL")


def test_a_log_of_another_server_contradicts_no_path(tmp_path: Path) -> None:
    lines = (args_line(), config_line("0.25.1"), READY, AITER_MOE)
    answer = found(tmp_path, {0: "fused_moe_kernel"}, *lines)
    assert [f.id for f in answer.answer.findings if f.id.startswith("paths.log")] == ["paths.log_of_another_server"]
    assert not any("log:" in text for text in path(answer, "moe_backend").evidence)


def test_a_live_recording_is_held_against_its_log(tmp_path: Path) -> None:
    ran = call("moe_backend", "Triton fused_moe", count=12)
    live = write(tmp_path / "w.m3p", (server(vllm="0.33.0"), config(), ran, steps(count(steps=2, rows=4))))
    lines = (args_line(tensor_parallel_size=1), config_line(tensor_parallel_size="1"), READY)
    said = record("Using 'AITER_MXFP8' MxFp8 MoE backend.", "EngineCore pid=5")
    answer = analyze([live, written(tmp_path / "server.log", *lines, said)])
    told = differs(answer, "moe_backend")
    assert told is not None
    assert told.claim.endswith("by EngineCore (rank 0), and what ran is Triton fused_moe")


# --- rules and the page ----------------------------------------------------------------------------------------------


def ruled(tmp_path: Path, rules: str, *paths: Path) -> list[RuleResult]:
    file = tmp_path / "rules.toml"
    file.write_text(rules)
    rec = read(paths)
    return list(judge(load_rules(file), rec, report(rec).answer).results)


EXECUTED = '[[rule]]\npath = "mxfp8_moe"\nverdict = "executed"\n'


def test_a_rule_on_an_execution_is_inconclusive_with_a_log_alone_and_says_why(tmp_path: Path) -> None:
    (result,) = ruled(tmp_path, EXECUTED, written(tmp_path / "server.log", *START, AITER_MOE))
    assert str(result.outcome) == "inconclusive"
    assert f"the log says AITER_MXFP8: {NOT_RUN}" in result.why
    assert any("AITER_MXFP8" in row.observed for row in result.evidence)


def test_a_log_beside_a_trace_makes_off_of_unproven_where_nothing_was_asked_for(tmp_path: Path) -> None:
    rule = '[[rule]]\npath = "kv_transfer"\nverdict = "off"\n'
    trace = traces(tmp_path / "t", dict.fromkeys(range(4), "k"))
    alone, with_log = (
        ruled(tmp_path, rule, *paths)[0] for paths in ((trace,), (trace, written(tmp_path / "server.log", *START)))
    )
    assert (str(alone.outcome), str(with_log.outcome)) == ("inconclusive", "holds")


def test_hostile_text_of_a_log_is_escaped_on_the_page(tmp_path: Path) -> None:
    evil = "\u202eUsing '\x07AITER_<b>' MxFp8 MoE backend."
    lines = [json.dumps({"levelname": "INFO", "name": "a.mxfp8", "processName": "W\x1b[2J", "message": evil[1:]})]
    lines.append(json.dumps({"levelname": "INFO", "name": "a.b", "processName": "W", "message":
                             "MiniMax M3 sparse attention selected Triton (kv_cache_dtype=\u202e\x1b[31m, topk_blocks=1)"}))  # fmt: skip
    log = written(tmp_path / "s\x1b[2J.log", record("x"), *lines)
    answer = analyze([log])
    text = report_text(answer, 200, color=False) + report_json(answer)
    assert "AITER_" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
