"""The ranking: bounds worked out by hand, the choice, and when none may be made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording, step
from steps import DECODE, EXPERTS, FLASH, GEMM, MODEL, PERIOD_US, one_step, steps
from tree import shared_or_skip

from m3probe.analyzers import next_bottleneck, repeats, trust
from m3probe.model.findings import Bound, Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BottleneckSection, NextBottleneck, Reason, Report, TrustRow, TrustSection
from m3probe.present._findings import ranked
from m3probe.present.text import report_text
from m3probe.sources import open_recording

BUSY: dict[str, Any] = {"every_us": 31.0, "dur_us": 31.0}
"""32 kernels of 31 us fill 992 of each 1,000 us."""


def judged(rec: Recording, so_far: Answer | None = None) -> tuple[NextBottleneck | None, dict[str, Finding]]:
    answer = next_bottleneck.ANALYZER.judge(rec, so_far or Answer())
    section = answer.section(BottleneckSection)
    assert section is not None
    return section.next_bottleneck, {finding.id: finding for finding in answer.findings}


def high(finding: Finding) -> float:
    assert finding.bound is not None
    return finding.bound.high


def found(id_: str, bound: float, *, trusted: bool = True) -> Finding:
    return Finding(id_, "shapes", "starved", "", "decode", (), "", Bound(0.0, bound, ""), trusted=trusted)


def test_families_are_bounded_by_their_share_of_step_time(tmp_path: Path) -> None:
    chosen, findings = judged(recording(tmp_path, steps(3, **BUSY)))
    window = 2 * PERIOD_US + 992
    busy = 3 * 992 / window
    # GEMMs 14, moe_gemm 4, activation 5 (3 SwiGLU and 2 of the experts) of 32 equal kernels
    shares = {"gemm": 14, "activation": 5, "moe_gemm": 4}
    for family, kernels in shares.items():
        assert high(findings[f"next_bottleneck.family.{family}"]) == pytest.approx(kernels / 32 * busy)
    assert high(findings["next_bottleneck.idle"]) == pytest.approx(1 - busy)
    assert sum(".family." in id_ for id_ in findings) == 5
    assert chosen is not None
    assert chosen.finding == "next_bottleneck.family.gemm"
    assert chosen.bound == findings["next_bottleneck.family.gemm"].bound


def test_what_runs_beside_other_work_frees_only_the_time_that_it_has_alone(tmp_path: Path) -> None:
    # GEMM 1 to 9 us, experts 2 to 10 us on another stream, attention 11 to 19 us: 18 us from first to last
    events = [*one_step(0.0, 10, [GEMM, FLASH], dur_us=8.0), kernel(2.0, 8.0, 11, EXPERTS, stream=9)]
    _, findings = judged(recording(tmp_path, events))
    alone = {"gemm": 1, "moe_gemm": 1, "attention": 8}
    for family, us in alone.items():
        assert high(findings[f"next_bottleneck.family.{family}"]) == pytest.approx(us / 18)
    claim = findings["next_bottleneck.family.gemm"].claim
    assert "gemm takes 44.4 % of decode step time (33.3 % of its kernel time" in claim  # 8 of 18 us, 8 of 24
    assert "taking it out wins 5.6 %" in claim
    assert "beside" not in findings["next_bottleneck.family.attention"].claim
    assert high(findings["next_bottleneck.idle"]) == pytest.approx(1 / 18)


def test_work_that_is_hidden_in_whole_frees_nothing(tmp_path: Path) -> None:
    # experts 10 us alone, then a GEMM and attention of 100 us at the same time
    events = [*one_step(0.0, 10, []), launch(1.0, 10), launch(2.0, 11), launch(3.0, 12)]
    events += [kernel(10.0, 10.0, 10, EXPERTS), kernel(20.0, 100.0, 11, GEMM), kernel(20.0, 100.0, 12, FLASH, stream=8)]
    _, findings = judged(recording(tmp_path, events))
    shares = {name: high(findings[f"next_bottleneck.family.{name}"]) for name in ("moe_gemm", "gemm", "attention")}
    assert shares == {"moe_gemm": pytest.approx(10 / 110), "gemm": 0.0, "attention": 0.0}


def copied(ts: float, dur: float, correlation: int) -> dict[str, Any]:
    args = {"device": 0, "stream": 0, "correlation": correlation, "bytes": 100_000}
    event = kernel(ts, dur, correlation, "Memcpy DtoH (Device -> Pinned)")
    return {**event, "cat": "gpu_memcpy", "args": args}


def test_copies_take_step_time_and_can_be_the_bottleneck(tmp_path: Path) -> None:
    events = [*one_step(0.0, 10, []), launch(1.0, 10), launch(2.0, 11, "hipMemcpyAsync")]
    chosen, findings = judged(recording(tmp_path, [*events, kernel(10.0, 10.0, 10, EXPERTS), copied(20.0, 90.0, 11)]))
    assert high(findings["next_bottleneck.family.moe_gemm"]) == pytest.approx(0.1)
    assert high(findings["next_bottleneck.copies"]) == pytest.approx(0.9)
    assert findings["next_bottleneck.copies"].evidence[0].table == "transfers"
    assert "next_bottleneck.idle" not in findings
    assert chosen is not None
    assert chosen.finding == "next_bottleneck.copies"


def test_without_copies_there_is_no_such_candidate(tmp_path: Path) -> None:
    assert "next_bottleneck.copies" not in judged(recording(tmp_path, steps(3, **BUSY)))[1]


def test_bounds_on_another_time_are_not_compared(tmp_path: Path) -> None:
    other = Finding("bytes.x", "bytes", "moved", "", "", (), "", Bound(0.0, 0.99, "", "prefill step time"))
    chosen, _ = judged(recording(tmp_path, steps(3, **BUSY)), Answer((), (other,)))
    assert chosen is not None
    assert chosen.finding == "next_bottleneck.family.gemm"
    assert chosen.bound is not None
    assert chosen.bound.basis == "decode step time"


def test_text_names_the_time_of_the_bounds_once_and_ranks_those_of_another_behind(tmp_path: Path) -> None:
    bounds = {"a": Bound(0.0, 0.2, "", "decode step time"), "b": Bound(0.0, 0.9, "", "prefill step time")}
    bounds["c"] = Bound(0.0, 0.1, "", "decode step time")
    several = tuple(Finding(f"bytes.{name}", "bytes", "moved", f"{name}.", "", (), "", b) for name, b in bounds.items())
    assert [f.id for f in ranked(several)] == ["bytes.a", "bytes.c", "bytes.b"]
    shown = report_text(Report("ok", (), Answer((), several)), 120, color=False)
    assert shown.count("decode step time") == 1  # in the heading
    assert "of prefill step time" in shown


# --- where the device waits --------------------------------------------------------------------------


def graph_step(at: float, first: int) -> list[dict[str, Any]]:
    """Two kernels launched at 0 and 40 us, a graph of two kernels from 101 to 131 us with a gap of 10, one after it."""
    events = [step(at, 900.0, DECODE), launch(at, first), launch(at + 40, first + 1)]
    events += [launch(at + 80, first + 2, "hipGraphLaunch"), launch(at + 90, first + 3)]
    events += [kernel(at + 1, 10.0, first, "a_copy_kernel"), kernel(at + 41, 10.0, first + 1, "a_copy_kernel")]
    events += [kernel(at + 101, 10.0, first + 2, GEMM), kernel(at + 121, 10.0, first + 2, FLASH)]
    return [*events, kernel(at + 136, 10.0, first + 3, "a_copy_kernel")]


def test_idle_time_of_graph_steps_is_split_and_the_largest_part_is_advised_on(tmp_path: Path) -> None:
    # before the graph 30 + 50, inside 10, after it 5, between the two steps 200 - 145; windows of 200 and 145 us
    rec = recording(tmp_path, [*graph_step(1000.0, 10), *graph_step(1200.0, 20)])
    chosen, findings = judged(rec)
    idle = findings["next_bottleneck.idle"]
    parts = {"before the graph starts": 160, "inside the graph": 20, "after the graph": 10, "between steps": 55}
    for words, us in parts.items():
        assert f"{100 * us / 345:.1f} % {words}" in idle.claim
    assert high(idle) == pytest.approx(sum(parts.values()) / 345)
    assert "0.055 ms after each of 1 of 2 steps" in idle.claim
    # two launches before each graph launch, 80 us for both
    assert "2 other launches per step, one each 40 us on average" in idle.advice
    assert "or fewer launches" not in idle.advice
    assert chosen is not None
    assert "what the host does before it launches the graph" in chosen.why
    assert f"{100 * 245 / 345:.1f} %" not in chosen.why  # the claim tells it


def test_what_follows_the_last_step_is_unknown_and_not_zero(tmp_path: Path) -> None:
    idle = judged(recording(tmp_path, steps(1)))[1]["next_bottleneck.idle"]
    assert "between steps" not in idle.claim
    assert "the wait for the next step is unknown" in idle.claim


def test_the_gap_is_bounded_less_what_its_cause_bounds(tmp_path: Path) -> None:
    rec = recording(tmp_path, steps(3))
    _, findings = judged(rec, repeats.ANALYZER.judge(rec, Answer()))
    idle = findings["next_bottleneck.idle"]
    # 744 us between kernels belong to repeats.decode_eager; 2 x 688 us between steps are left
    assert high(idle) == pytest.approx(1376 / 2312)
    assert "32.2 % between kernels of a step, 59.5 % between steps" in idle.claim
    assert "the wait inside steps is bounded by repeats.decode_eager" in idle.claim


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (DECODE, "decode GEMMs with few rows"),
        ("execute_context_1(500)_generation_0(0)", "with many rows GEMMs compute"),
        ("execute_context_1(500)_generation_2(2)", "rows of prefill and decode share"),
        ("ProfilerStep#3", "Look at its local shapes and tiles (question shapes)"),
    ],
)
def test_advice_on_gemms_fits_the_phase(tmp_path: Path, said: str, words: str) -> None:
    advice = judged(recording(tmp_path, steps(2, [GEMM], said=said)))[1]["next_bottleneck.family.gemm"].advice
    assert words in advice
    assert ("decode GEMMs" in advice) is (said == DECODE)


# --- kernels that are missing ------------------------------------------------------------------------


def test_lost_replays_leave_no_bound_and_no_other_phase_stands_in(tmp_path: Path) -> None:
    lost = one_step(4 * PERIOD_US, 9000, MODEL, graph=True, record=False)
    prefill = one_step(9000.0, 90_000, [FLASH] * 50, said="execute_context_1(500)_generation_0(0)", **BUSY)
    rec = recording(tmp_path, [*steps(3, graph=True), *lost, *prefill])
    chosen, findings = judged(rec, trust.ANALYZER.judge(rec, Answer()))
    assert chosen is None
    assert set(findings) == {"next_bottleneck.none"}
    assert "missing from the recording" in findings["next_bottleneck.none"].claim


def test_lost_replays_of_another_phase_leave_the_bounds_of_decode(tmp_path: Path) -> None:
    said = "execute_context_1(500)_generation_0(0)"
    lost = one_step(9000.0, 90_000, [FLASH], graph=True, record=False, said=said)
    _, findings = judged(recording(tmp_path, [*steps(3, **BUSY), *lost]))
    # every third window ends at its own last kernel: what came next is not recorded
    assert high(findings["next_bottleneck.family.moe_gemm"]) == pytest.approx(4 * 31 * 3 / (2 * PERIOD_US + 992))
    assert "of all kernel time" not in findings["next_bottleneck.family.gemm"].claim


def test_lost_replays_without_steps_leave_no_span_either(tmp_path: Path) -> None:
    events = [launch(0.0, 1, "hipGraphLaunch"), launch(5.0, 2), kernel(10.0, 5.0, 2, GEMM)]
    assert set(judged(recording(tmp_path, events))[1]) == {"next_bottleneck.none"}


def test_decode_is_ranked_where_there_is_decode(tmp_path: Path) -> None:
    prefill = one_step(9000.0, 90_000, [FLASH] * 50, said="execute_context_1(500)_generation_0(0)", **BUSY)
    _, findings = judged(recording(tmp_path, [*steps(3, [GEMM], **BUSY), *prefill]))
    assert [id_ for id_ in findings if ".family." in id_] == ["next_bottleneck.family.gemm"]
    # 3 of 53 equal kernels over all
    assert "100.0 % of its kernel time, 5.7 % of all kernel time" in findings["next_bottleneck.family.gemm"].claim


def test_the_largest_trusted_bound_of_any_question_is_chosen(tmp_path: Path) -> None:
    so_far = Answer((), (found("shapes.starved", 0.9), found("paths.doubtful", 0.99, trusted=False)))
    chosen, _ = judged(recording(tmp_path, steps(3, **BUSY)), so_far)
    assert chosen is not None
    assert chosen.finding == "shapes.starved"


def test_flat_leaves_and_a_waiting_device_name_the_level_above(tmp_path: Path) -> None:
    rec = recording(tmp_path, steps(3, every_us=31.0))
    so_far = repeats.ANALYZER.judge(rec, Answer())
    chosen, _ = judged(rec, so_far)
    assert chosen is not None
    # launches every 31 us fill the step: it waits inside, and the finding that says why wins over the plain gap
    assert chosen.finding == "repeats.decode_eager"
    assert "leaves are flat" in chosen.why
    assert "launch" in chosen.why


def test_waiting_between_steps_names_the_queue(tmp_path: Path) -> None:
    rec = recording(tmp_path, steps(3, graph=True, every_us=2.0))
    chosen, findings = judged(rec, repeats.ANALYZER.judge(rec, Answer()))
    assert chosen is not None
    assert chosen.finding == "next_bottleneck.idle"
    assert "queue" in chosen.why
    # 64 us of work in each of two periods of 1,000 us and in the last 64 us: no gap inside a step
    assert (
        "90.7 % of decode step time, between steps (0.936 ms after each of 2 of 3 steps)"
        in findings["next_bottleneck.idle"].claim
    )


def test_flat_leaves_without_waiting_ask_a_level_up(tmp_path: Path) -> None:
    kinds = [GEMM, FLASH, EXPERTS, "_swiglu_oai_kernel", "_gemma_rmsnorm_kernel", "_decode_index_score_kernel"]
    more = ["_gqa_sparse_decode_kernel", "nccl_x", "rotary_embedding", "reshape_and_cache"]
    chosen, findings = judged(recording(tmp_path, steps(3, [*kinds, *more], every_us=100.0, dur_us=100.0)))
    assert high(findings["next_bottleneck.family.gemm"]) == pytest.approx(0.1)
    assert chosen is not None
    assert "leaves are flat (the largest of them frees 10.0 %" in chosen.why
    assert "does not wait" in chosen.why


def test_evidence_that_hides_kernels_allows_no_choice(tmp_path: Path) -> None:
    reason = Reason("graph_launches_without_kernels", "9 of 9", hides_kernels=True)
    doubt = Answer((TrustSection(TrustRow("degraded", (reason,)), {}),))
    chosen, findings = judged(recording(tmp_path, steps(3)), doubt)
    assert chosen is None
    assert "9 of 9" in findings["next_bottleneck.none"].claim
    assert not any(f.trusted for f in findings.values())


def test_degraded_evidence_that_hides_nothing_still_bounds(tmp_path: Path) -> None:
    doubt = Answer((TrustSection(TrustRow("degraded", (Reason("no_time", "few"),)), {}),))
    assert judged(recording(tmp_path, steps(3)), doubt)[0] is not None


def test_without_times_nothing_is_chosen(tmp_path: Path) -> None:
    chosen, findings = judged(recording(tmp_path, steps(2, graph=True, record=False)))
    assert chosen is None
    assert set(findings) == {"next_bottleneck.none"}


def test_a_trace_without_steps_is_bounded_by_its_gpu_span(tmp_path: Path) -> None:
    events = [e for e in one_step(0.0, 10, [GEMM] * 4 + [FLASH] * 6) if e["cat"] == "kernel"]
    chosen, findings = judged(recording(tmp_path, events))
    # 10 kernels of 2 us begun every 10 us: 92 us from first to last
    assert high(findings["next_bottleneck.idle"]) == pytest.approx(1 - 20 / 92)
    assert high(findings["next_bottleneck.family.attention"]) == pytest.approx(12 / 92)
    assert chosen is not None
    assert "GPU span" in chosen.why


@pytest.mark.parametrize(
    ("trace", "chosen"),
    [
        ("traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz", "next_bottleneck.idle"),
        ("traces/h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz", "repeats.decode_eager"),
        ("traces/tracelens/inference/vllm_decode_full", "next_bottleneck.family.moe_gemm"),
        ("traces/tracelens/inference/vllm_prefilldecode_piecewise", "next_bottleneck.family.moe_gemm"),
        ("traces/tracelens/b200/eager_trace.json.gz", "next_bottleneck.idle"),
        ("traces/cpu/tp2_moe", None),
    ],
)
def test_real_recordings(trace: str, chosen: str | None) -> None:
    rec = open_recording([shared_or_skip(trace)])
    so_far = Answer()
    for module in (trust, repeats):
        so_far = so_far.plus(module.ANALYZER.judge(rec, so_far))
    section, findings = judged(rec, so_far)
    assert (section.finding if section else None) == chosen
    bounds = [high(f) for f in findings.values() if f.bound]
    assert sum(bounds) <= 1.0 + 1e-9


def test_the_hand_written_model_has_the_kernels_that_the_sums_above_assume() -> None:
    assert len(MODEL) == 32


def test_no_share_of_a_time_is_above_the_whole(tmp_path: Path) -> None:
    # two streams of one device, both busy for the whole 100 us: 200 us of kernel time
    events = [kernel(5.0, 100.0, 1, "left_k"), kernel(5.0, 100.0, 2, "right_k", stream=9)]
    _, findings = judged(recording(tmp_path, events))
    share = findings["next_bottleneck.family.unknown"]
    assert "takes 2.000 x the GPU span in sum, side by side" in share.claim
    assert "taking it out wins 100.0 %" in share.claim
    assert high(share) == 1.0


def test_kernels_without_a_family_are_told_by_the_one_that_takes_most(tmp_path: Path) -> None:
    # 12 us in two launches against 10 us in one
    events = [kernel(1.0, 6.0, 1, "often_k"), kernel(10.0, 10.0, 2, "once_k"), kernel(30.0, 6.0, 3, "often_k")]
    _, findings = judged(recording(tmp_path, events))
    assert findings["next_bottleneck.family.unknown"].claim.endswith("the longest of them is often_k")
