"""Question 5 with a trace alone: nothing is measured, each queue says what would answer, and what the trace shows."""

from __future__ import annotations

from pathlib import Path

from builders import recording, step, write_trace
from steps import MODEL, one_step, steps
from tree import shared_or_skip

from m3probe.analyzers import _figures as figures
from m3probe.analyzers import queues
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, QueuesSection
from m3probe.sources import open_recording

QUEUES = {
    "admission",
    "prefill",
    "decode",
    "kv_transfer",
    "kv_capacity",
    "prefix_cache",
    "front_end",
    "outside_vllm",
    "os_limits",
}


def judged(rec: Recording) -> tuple[dict[str, str], tuple[Finding, ...]]:
    answer = queues.ANALYZER.judge(rec, Answer())
    section = answer.section(QueuesSection)
    assert section is not None
    return dict(section.queues), answer.findings


def test_every_queue_says_that_it_is_not_measured_and_what_would_answer(tmp_path: Path) -> None:
    lines, findings = judged(recording(tmp_path, steps(3)))
    assert set(lines) == QUEUES
    for line in lines.values():
        assert line.startswith("not measured")
        assert "Would answer: " in line
    assert [(f.id, f.verdict, f.bound) for f in findings] == [("queues.unmeasured", "unproven", None)]


def test_waiting_between_steps_is_measured(tmp_path: Path) -> None:
    # each step works from its first kernel to 312 us later, the next begins after 1,000 us: two gaps of 688 us
    line = judged(recording(tmp_path, steps(3)))[0]["front_end"]
    assert "0.688 ms on average" in line
    assert "(68.8 % of step time)" in line


def test_what_steps_compute_is_shown_beside_the_queues_they_serve(tmp_path: Path) -> None:
    prefill = one_step(9000.0, 90_000, MODEL, said="execute_context_3(120)_generation_0(0)")
    keyed = "execute_5_context_0(sq0sk0sqsq0sqsk0)_generation_5(sq5sk700sqsq5sqsk700)"
    decode = one_step(10_000.0, 95_000, MODEL, said=keyed)
    lines, _ = judged(recording(tmp_path, [*steps(3), *prefill, *decode]))
    assert "120 prefill tokens in each of 1 step(s)" in lines["prefill"]
    assert "2 to 5 decode requests in each of 4 step(s)" in lines["decode"]
    assert "up to 700 cached tokens" in lines["kv_capacity"]


def test_nothing_is_shown_where_the_trace_has_nothing(tmp_path: Path) -> None:
    lines, findings = judged(recording(tmp_path, [{**step(0.0, 5.0, "aten::mm"), "cat": "cpu_op"}]))
    assert not any("the trace shows" in line for line in lines.values())
    assert findings == ()


def test_one_step_has_no_gap_after_it(tmp_path: Path) -> None:
    assert "the device waiting" not in judged(recording(tmp_path, steps(1)))[0]["front_end"]


def test_a_gap_before_lost_work_is_not_told(tmp_path: Path) -> None:
    # nobody knows when the second step began: its only work is a graph without kernels
    lost = one_step(3000.0, 9000, MODEL, graph=True, record=False)
    line = judged(recording(tmp_path, [*steps(1), *lost]))[0]["front_end"]
    assert "the device waiting" not in line


def test_ranks_of_one_engine_are_counted_once(tmp_path: Path) -> None:
    for rank in (0, 1):
        header = {"distributedInfo": {"rank": rank, "world_size": 2}}
        mixed = one_step(9000.0, 90_000, MODEL, said="execute_context_1(120)_generation_4(4)")
        write_trace(tmp_path / f"rank{rank}.pt.trace.json", [*steps(2), *mixed], **header)
    lines, findings = judged(open_recording([tmp_path]))
    assert "120 prefill tokens in each of 1 step(s)" in lines["prefill"]
    assert "2 to 4 decode requests in each of 3 step(s)" in lines["decode"]
    assert findings[0].evidence[0].observed == "3 steps on each of 2 ranks, no queue"


def test_the_h200_recording_waits_between_its_steps(tmp_path: Path) -> None:
    rec = open_recording([shared_or_skip("traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz")])
    _, start, end = figures.gpu_events(rec)
    step_of = [*rec.kernels["step"].tolist(), *rec.transfers["step"].tolist()]
    first = [min(s for s, owner in zip(start.tolist(), step_of, strict=True) if owner == i) for i in range(10)]
    last = [max(e for e, owner in zip(end.tolist(), step_of, strict=True) if owner == i) for i in range(10)]
    mean_ns = sum(first[i + 1] - last[i] for i in range(9)) / 9
    assert f"{mean_ns / 1e6:.3f} ms on average" in judged(rec)[0]["front_end"]
