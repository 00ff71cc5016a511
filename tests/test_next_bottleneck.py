"""The ranking: bounds worked out by hand, the choice, and when none may be made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import kernel, recording
from steps import EXPERTS, FLASH, GEMM, MODEL, PERIOD_US, one_step, steps
from tree import shared_or_skip

from m3probe.analyzers import next_bottleneck, repeats, trust
from m3probe.model.findings import Bound, Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BottleneckSection, NextBottleneck, Reason, TrustRow, TrustSection
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


def test_shares_and_idle_share_make_one_when_streams_overlap(tmp_path: Path) -> None:
    events = [*one_step(0.0, 10, [GEMM, FLASH], dur_us=8.0), kernel(2.0, 8.0, 11, EXPERTS, stream=9)]
    _, findings = judged(recording(tmp_path, events))
    assert sum(high(f) for f in findings.values()) == pytest.approx(1.0)
    assert "overlap" in findings["next_bottleneck.family.gemm"].bound.formula  # type: ignore[union-attr]


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
    assert "0.0 % between kernels of a step" in findings["next_bottleneck.idle"].claim


def test_flat_leaves_without_waiting_ask_a_level_up(tmp_path: Path) -> None:
    kinds = [GEMM, FLASH, EXPERTS, "_swiglu_oai_kernel", "_gemma_rmsnorm_kernel", "_decode_index_score_kernel"]
    more = ["_gqa_sparse_decode_kernel", "nccl_x", "rotary_embedding", "reshape_and_cache"]
    chosen, findings = judged(recording(tmp_path, steps(3, [*kinds, *more], every_us=100.0, dur_us=100.0)))
    assert high(findings["next_bottleneck.family.gemm"]) == pytest.approx(0.1)
    assert chosen is not None
    assert "leaves are flat (largest family 10.0 %" in chosen.why
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
