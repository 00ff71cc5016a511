"""What a log tells of its start, its statistics and its troubles; cases l* and a log of an H200, shortened."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from log_kit import START, log_of, record, written
from tree import ROOT

from m3probe import pipeline
from m3probe.model.findings import Finding
from m3probe.model.log_events import Start, StartStep, Trouble
from m3probe.sources import open_recording

CASES = ROOT / "tests/data/cases"
H200 = ROOT / "tests/data/logs/h200-m3-tiny.log"
UP = "(APIServer pid=1) INFO:     Application startup complete."
FAULT = "Memory access fault by GPU node-2 (Agent handle: 0x1) on address 0x2. Reason: Unknown."


def findings(*paths: Path) -> dict[str, Finding]:
    answer = pipeline.report(pipeline.read(paths)).answer
    return {one.id: one for one in answer.findings if one.question == "startup"}


def at(time: str, text: str, label: str = "EngineCore_DP0 pid=5", source: str = "loggers.py:1") -> str:
    return f"({label}) INFO 11-30 {time} [{source}] {text}"


def stats(time: str, tps: float, running: int = 8) -> str:
    text = f"Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: {tps} tokens/s, "
    return at(
        time, f"{text}Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 5.0%, Prefix cache hit rate: 1.5%"
    )


@pytest.mark.parametrize(
    "path", sorted(p for p in CASES.glob("l*.expected.json") if "l14" not in p.name), ids=lambda p: p.name[:3]
)
def test_the_facts_of_each_case(path: Path) -> None:
    wanted: dict[str, Any] = json.loads(path.read_text())
    found = pipeline.inspect(pipeline.read([CASES / wanted["case"]]))
    assert {key: found.facts.get(key) for key in wanted["facts"]} == wanted["facts"]
    assert found.outcome == wanted["outcome"]


def test_every_figure_of_a_statistics_line(tmp_path: Path) -> None:
    text = (
        "3 Engines Aggregated: Avg prompt throughput: 1.5 tokens/s, Avg generation throughput: 2.5 tokens/s, Running: 3 reqs, "
        "Waiting: 9 reqs, Deferred: 4 reqs, KV fetch: 1 waiting to start, 2 in progress, 5 completed waiting, Preemptions: 6, "
        "GPU KV cache usage: 88.5%, Prefix cache hit rate: 7.0%, External prefix cache hit rate: 12.0%"
    )
    drafts = "SpecDecoding metrics: Mean acceptance length: 2.75, Accepted: 7 tokens, Avg Draft acceptance rate: 58.3%"
    rec = open_recording([written(tmp_path / "a", *START, record(text), record(drafts))])
    table = rec.tables["log_stats"]
    row = {name: table[name][0].item() for name in table.columns}
    assert (row["engine"], row["engines"], row["line"]) == (-2, 3, 4)
    assert [row[k] for k in ("running", "waiting", "deferred", "preemptions")] == [3, 9, 4, 6]
    assert [row[k] for k in ("fetch_waiting", "fetch_running", "fetch_done")] == [1, 2, 5]
    assert [row[k] for k in ("kv_cache_pct", "prefix_hit_pct", "external_hit_pct")] == [88.5, 7.0, 12.0]
    assert [row[k] for k in ("acceptance_length", "draft_acceptance_pct")] == [2.75, 58.3]
    assert math.isnan(row["swapped"])
    assert math.isnan(row["cpu_kv_cache_pct"])


def test_a_server_on_cpus_names_its_one_cache_so(tmp_path: Path) -> None:
    text = "Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs, CPU KV cache usage: 12.5%"
    table = open_recording([written(tmp_path / "a", record(text))]).tables["log_stats"]
    assert table["kv_cache_pct"].tolist() == [12.5]
    assert math.isnan(table["cpu_kv_cache_pct"][0])


def test_a_request_that_quotes_statistics_or_faults_states_nothing(tmp_path: Path) -> None:
    quoted = "Received request a: prompt: 'Engine 000: Avg prompt throughput: 1.0 tokens/s SQ full Too many open files'"
    log = log_of(tmp_path, *START, record(quoted, source="logger.py:49"), record(quoted, source="request_logger.py:9"))
    assert (log.run.stats, log.run.troubles) == (0, ())
    assert log.counts.records == 5


def test_the_start_of_the_h200_log() -> None:
    (log,) = open_recording([H200]).meta.logs
    told: list[StartStep] = [step for step in log.run.steps if not step.late]
    assert [(str(step.stage), step.at_s, step.took_s) for step in told] == [
        ("asked", 0, None),
        ("engine", 21, None),
        ("model", 25, 0.381058),
        ("kv_cache", 29, None),
        ("autotune", 29, 0.017),
        ("capture", 31, 2.0),
        ("engine_ready", 31, 6.5),
        ("ready", 32, None),
    ]
    late = [step.what.rpartition(" ")[2] for step in log.run.steps if step.late]
    assert late == ["_index_block_score_kernel", "_topk_index_kernel", "_gqa_sparse_fwd_kernel", "fused_moe_kernel"]


def test_what_the_h200_log_is_told_of() -> None:
    """Its limit on files is a warning of the start, and its exception an echo of an orderly end: neither is a fault."""
    found = findings(H200)
    assert sorted(found) == ["startup.builds_after_ready", "startup.steady.0", "startup.timeline"]
    assert "longest stretch is 21 s, from asked to engine" in found["startup.timeline"].claim
    assert found["startup.steady.0"].verdict == "unproven"


def test_a_build_counts_as_late_only_behind_the_ready_line_of_its_own_start(tmp_path: Path) -> None:
    capture = at("09:00:10", "Graph capturing finished in 3 secs, took 0.08 GiB")
    log = log_of(tmp_path, *START, capture, UP, *START, capture, UP, capture.replace("in 3", "in 4"))
    captures = [step for step in log.run.steps if step.stage is Start.CAPTURE]
    assert [(step.took_s, step.late) for step in captures] == [(3.0, False), (3.0, False), (4.0, True)]


def test_an_aiter_module_that_is_built_after_ready(tmp_path: Path) -> None:
    built = "(Worker_TP0 pid=7) [aiter] finish build [module_moe], cost 41.5s"
    log = log_of(tmp_path, *START, UP, built, "[aiter] import [module_moe] under /x/module_moe.so")
    (late,) = [step for step in log.run.steps if step.late]
    assert (late.stage, late.what, late.took_s, late.process) == (Start.JIT, "module_moe", 41.5, "Worker_TP0")
    assert log.run.modules == ("module_moe",)


def test_faults_of_fixed_words_are_counted_and_the_first_is_told(tmp_path: Path) -> None:
    lines = [record("post failed: SQ full"), record("x SQ full"), record("OSError: [Errno 24] Too many open files")]
    warned = record(
        "Found ulimit of 1024 and failed: `OSError: [Errno 24] Too many open files`. Consider", level="WARNING"
    )
    path = written(tmp_path / "a", *START, warned, *lines, FAULT)
    (log,) = open_recording([path]).meta.logs
    numbers = {line.trouble: (line.number, line.count) for line in log.run.troubles}
    assert numbers[Trouble.SQ_FULL] == (5, 2)
    assert numbers[Trouble.NO_FILES] == (7, 1)
    assert numbers[Trouble.FILE_LIMIT] == (4, 1)
    assert findings(path)["startup.first_cause"].where.endswith(":8")


def test_interleaved_tracebacks_end_in_their_own_exceptions(tmp_path: Path) -> None:
    def lines(label: str, error: str) -> list[str]:
        texts = ("Traceback (most recent call last):", '  File "a.py", line 1, in f', f"{error}: of {label}")
        return [record(text, f"{label} pid=7", "ERROR") for text in texts]

    a, b = lines("Worker_TP0", "ValueError"), lines("Worker_TP1", "torch.OutOfMemoryError")
    log = log_of(tmp_path, *(line for pair in zip(a, b, strict=True) for line in pair))
    assert [(one.process, one.pid, one.type, one.text) for one in log.run.raised] == [
        ("Worker_TP0", 7, "ValueError", "of Worker_TP0"),
        ("Worker_TP1", 7, "torch.OutOfMemoryError", "of Worker_TP1"),
    ]
    assert log.run.first_cause == log.run.raised[0]


def test_an_echo_is_never_the_first_cause(tmp_path: Path) -> None:
    echo = "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
    lines = [record(text, level="ERROR") for text in ("Traceback (most recent call last):", "  x", echo)]
    found = findings(written(tmp_path / "a", *START, *lines))["startup.first_cause"]
    assert found.verdict == "unproven"


def test_the_first_steady_minute_and_what_is_left_out(tmp_path: Path) -> None:
    """Ready at 0 s; 10 tokens/s at 10 s is a ramp, 100 from 20 s on is steady: its minute begins at the line of 20 s."""
    lines = [at("09:00:00", "non-default args: {}"), UP, stats("09:00:10", 10.0)]
    lines += [stats(f"09:{s // 60:02d}:{s % 60:02d}", 100.0) for s in range(20, 101, 10)]
    found = findings(written(tmp_path / "a", *lines))["startup.steady.0"]
    assert (found.verdict, found.evidence[0].count) == ("measured", 9)
    assert found.claim.startswith("From 20 s on, engine 0 in 9 windows: 100.0 tokens/s generated, 8.0 running")
    assert found.claim.endswith("1 window(s) before are left out")


def test_a_build_among_them_moves_the_steady_minute_behind_it(tmp_path: Path) -> None:
    lines = [at("09:00:00", "non-default args: {}"), UP]
    lines += [stats(f"09:{s // 60:02d}:{s % 60:02d}", 100.0) for s in range(10, 51, 10)]
    lines += [at("09:00:55", "Triton kernel JIT compilation during inference: k. This", source="jit_monitor.py:129")]
    lines += [stats(f"09:{s // 60:02d}:{s % 60:02d}", 100.0) for s in range(60, 141, 10)]
    found = findings(written(tmp_path / "a", *lines))
    assert found["startup.steady.0"].claim.startswith("From 70 s on, engine 0 in 8 windows")
    assert found["startup.builds_after_ready"].verdict == "late"


def test_a_turn_of_the_year_is_no_step_back(tmp_path: Path) -> None:
    lines = (
        "INFO 12-31 23:59:50 [a.py:1] x",
        "INFO 01-01 00:00:10 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s",
    )
    table = open_recording([written(tmp_path / "a", *lines)]).tables["log_stats"]
    assert table["at_ns"].tolist() == [20 * 10**9]
