"""One ranked answer: places, reasons and overlaps worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from arithmetic import worth
from builders import recording
from steps import EXPERTS, FLASH, GEMM, steps
from tree import ROOT

from m3probe import pipeline
from m3probe.analyzers import next_bottleneck
from m3probe.model.findings import Bound, Evidence, Finding
from m3probe.model.recording import Recording
from m3probe.model.report import (
    Answer,
    BottleneckSection,
    QueueRow,
    QueuesSection,
    RankedRow,
    Reason,
    TrustRow,
    TrustSection,
)
from m3probe.sources import open_recording

CASES = ROOT / "tests" / "data" / "cases"
STEP = "decode step time"
FLAT = [
    GEMM, FLASH, EXPERTS, "_swiglu_oai_kernel", "_gemma_rmsnorm_kernel", "_decode_index_score_kernel",
    "_gqa_sparse_decode_kernel", "nccl_x", "rotary_embedding", "reshape_and_cache",
]  # fmt: skip
"""Ten kernels of ten families: each a tenth of the step."""


def found(id_: str, high: float, basis: str = STEP, rows: tuple[int, ...] = (), confidence: str = "high") -> Finding:
    shown = (Evidence("kernels", rows, len(rows), ""),) if rows else ()
    bound = Bound(0.0, high, "made up", basis, (f"{high} / 1",)) if high else None
    return Finding(id_, id_.partition(".")[0], "seen", "", "decode", shown, "", bound, confidence)


def section(rec: Recording, *so_far: Finding, queues: QueuesSection | None = None) -> BottleneckSection:
    answer = Answer((queues,) if queues else (), so_far)
    told = next_bottleneck.ANALYZER.judge(rec, answer).section(BottleneckSection)
    assert told is not None
    return told


def rows(told: BottleneckSection) -> dict[str, RankedRow]:
    assert [row.place for row in told.ranking] == list(range(1, len(told.ranking) + 1))
    return {row.finding: row for row in told.ranking}


def three_families(tmp_path: Path) -> Recording:
    """GEMMs 600, attention 300 and experts 100 of each 1,000 us."""
    return recording(tmp_path, steps(3, [GEMM] * 6 + [FLASH] * 3 + [EXPERTS], every_us=100.0, dur_us=100.0))


def test_a_cause_of_half_its_family_stands_before_it_and_is_chosen(tmp_path: Path) -> None:
    rec = three_families(tmp_path)
    told = section(rec, found("shapes.starved.decode", 0.31, rows=(0, 1, 2)))
    assert [row.finding for row in told.ranking] == [
        "shapes.starved.decode",
        "next_bottleneck.family.gemm",
        "next_bottleneck.family.attention",
        "next_bottleneck.family.moe_gemm",
    ]
    assert told.next_bottleneck is not None
    assert told.next_bottleneck.finding == "shapes.starved.decode"
    assert "the cause of most of next_bottleneck.family.gemm (up to 60.0 %)" in told.next_bottleneck.why
    by_id = rows(told)
    assert by_id["shapes.starved.decode"].inside == "next_bottleneck.family.gemm"
    assert "holds shapes.starved.decode" in by_id["next_bottleneck.family.gemm"].why


@pytest.mark.parametrize(("high", "confidence"), [(0.29, "high"), (0.31, "low")])
def test_a_small_or_doubtful_cause_stands_by_its_size_and_is_not_added_to_its_family(
    tmp_path: Path, high: float, confidence: str
) -> None:
    told = section(three_families(tmp_path), found("shapes.starved.decode", high, rows=(0, 1), confidence=confidence))
    assert told.ranking[0].finding == "next_bottleneck.family.gemm"
    row = rows(told)["shapes.starved.decode"]
    assert row.inside == "next_bottleneck.family.gemm"
    assert "not added up" in row.why


def test_a_cause_whose_kernels_are_of_several_families_lies_in_none(tmp_path: Path) -> None:
    told = section(three_families(tmp_path), found("paths.x", 0.4, rows=(0, 6)))  # a GEMM and an attention kernel
    row = rows(told)["paths.x"]
    assert row.inside == ""
    assert row.place == 2


def test_bounds_on_other_times_stand_behind_with_their_reason(tmp_path: Path) -> None:
    others = (
        found("queues.prefill.0", 0.9, "request latency"),
        found("queues.os_limit", 0.0),
        found("bytes.x", 0.99, "prefill step time"),
        replace(found("live.between_steps.full", 0.5), trusted=False),
    )
    told = section(three_families(tmp_path), *others)
    assert [row.finding for row in told.ranking][:1] == ["next_bottleneck.family.gemm"]
    assert [row.finding for row in told.ranking][-4:] == [
        "queues.os_limit",
        "queues.prefill.0",
        "bytes.x",
        "live.between_steps.full",
    ]
    why = {name: row.why for name, row in rows(told).items()}
    assert why["queues.os_limit"].startswith("no share was measured: ranked by its level")
    assert why["queues.prefill.0"].startswith("not comparable: share of request latency")
    assert why["bytes.x"] == "not comparable: share of prefill step time"
    assert why["live.between_steps.full"].startswith("not trusted")


def test_every_row_says_what_would_prove_it_wrong(tmp_path: Path) -> None:
    told = section(three_families(tmp_path), found("shapes.starved.decode", 0.3, rows=(0,)), found("x.y", 0.2))
    assert all(len(row.counter_evidence) > 20 for row in told.ranking)
    by_id = rows(told)
    assert "memory counters" in by_id["shapes.starved.decode"].counter_evidence.lower()


# --- leaves flat: the level above -----------------------------------------------------------------------


def flat(tmp_path: Path) -> Recording:
    return recording(tmp_path, steps(3, FLAT, every_us=100.0, dur_us=100.0))


def queue(most: float | None, samples: int = 30) -> QueuesSection:
    row = QueueRow("admission", "", samples, 0.0, 1.0, most, 0.0, None, None, None, None, "", "sampled")
    return QueuesSection({}, (row,))


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        (None, "whether requests wait was not measured"),
        (queue(None), "whether requests wait was not measured"),
        (queue(0.0), "nobody waits (0 requests in 30 sample(s))"),
        (queue(12.0), "up to 12 requests wait in 30 sample(s)"),
    ],
)
def test_flat_leaves_say_whether_anybody_waits(tmp_path: Path, queues: QueuesSection | None, words: str) -> None:
    told = section(flat(tmp_path), queues=queues)
    assert told.next_bottleneck is not None
    assert "leaves are flat (the largest of them frees 10.0 %" in told.next_bottleneck.why
    assert words in told.next_bottleneck.why


def test_flat_leaves_and_a_short_queue_name_the_level_above_and_rank_the_leaves_behind(tmp_path: Path) -> None:
    told = section(flat(tmp_path), found("queues.prefill.0", 0.88, "request latency"))
    assert told.next_bottleneck is not None
    assert told.next_bottleneck.finding == told.ranking[0].finding == "queues.prefill.0"
    assert "a queue is short" in told.ranking[0].why
    assert told.ranking[1].finding.startswith("next_bottleneck.family.")


def test_that_no_queue_holds_the_requests_is_no_queue_that_is_short(tmp_path: Path) -> None:
    # the client says that the decode step decides; its parts are known here, so that they answer
    told = section(flat(tmp_path), found("queues.decode.0", 0.98, "request latency"))
    assert told.next_bottleneck is not None
    assert told.next_bottleneck.finding.startswith("next_bottleneck.family.")
    assert "a queue is short" not in told.next_bottleneck.why
    assert rows(told)["queues.decode.0"].why.startswith("not comparable: share of request latency")


def test_an_eager_server_under_load_waits_for_launches_whatever_its_client_says() -> None:
    told = pipeline.analyze([ROOT / "samples" / "compare-h200" / "eager"]).answer.section(BottleneckSection)
    assert told is not None
    assert told.ranking[0].finding == "repeats.decode_eager"
    assert any(row.finding.startswith("queues.decode.") for row in told.ranking[1:])


def test_two_recordings_of_one_rank_leave_no_share_of_step_time_to_trust(tmp_path: Path) -> None:
    rec, shown = three_families(tmp_path), found("shapes.starved.decode", 0.31, rows=(0,))
    reason = Reason("same_rank", "more than one trace of rank 0")
    trust = TrustSection(TrustRow("degraded", (reason,)), {})
    told = next_bottleneck.ANALYZER.judge(rec, Answer((trust,), (shown,))).section(BottleneckSection)
    assert told is not None
    assert told.next_bottleneck is None
    assert rows(told)["shapes.starved.decode"].why.startswith("not trusted")


# --- what failed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "finding", "words"),
    [
        ("l11_crash_multi_worker.log", "startup.first_cause", "what a process failed by"),
        ("b04_mostly_failed.json", "bench.failed.0", "requests that fail come before"),
        ("b09_all_failed_means_zero.json", "bench.failed.0", "requests that fail come before"),
    ],
)
def test_what_failed_is_named_where_nothing_else_answers(case: str, finding: str, words: str) -> None:
    row = first(case)
    assert (row.finding, row.bound) == (finding, None)
    assert words in row.why


def test_a_queue_that_is_short_comes_before_a_fault_of_the_log() -> None:
    fault = Finding("startup.first_cause", "startup", "fault", "", "", (), "")
    full = Finding("queues.os_limit.nofile.server", "queues", "os_limit", "", "", (), "")
    rec = open_recording([CASES / "l01_v0_style.log"])
    assert section(rec, fault, full).ranking[0].finding == full.id
    assert section(rec, fault).ranking[0].finding == fault.id


@pytest.mark.parametrize("case", ["p01_two_engines_v033.prom", "l01_v0_style.log", "a01_metric_gpu_data.json"])
def test_inputs_without_kernels_say_what_to_add_and_not_that_kernels_were_lost(case: str) -> None:
    answer = pipeline.analyze([CASES / case]).answer
    none = next(f for f in answer.findings if f.id == "next_bottleneck.none")
    assert "no kernel was recorded, and no queue, cache or limit was found short" in none.claim
    assert "a trace of a short window" in none.advice


# --- the published queues -------------------------------------------------------------------------------


def first(case: str) -> RankedRow:
    told = pipeline.analyze([CASES / case]).answer.section(BottleneckSection)
    assert told is not None
    return told.ranking[0]


def test_the_published_disaggregated_runs_rank_prefill_and_then_decode() -> None:
    # X = 4.033 requests/s; 223.2 s to the first token: 900 wait of the 1,015.5 that the law finds in flight
    before = first("b20_pd_1024.json")
    assert before.finding == "queues.prefill.0"
    assert before.bound is not None
    assert before.bound.high == pytest.approx(900 / 1015.5, rel=1e-3)
    assert "the queue that holds the requests" in before.why
    after = first("b21_pd_512.json")
    assert after.finding == "queues.decode.0"
    assert after.bound is not None
    assert after.bound.high == pytest.approx(462 / 474.5, rel=2e-3)


def test_the_published_cache_gap_ranks_eviction_before_any_gemm() -> None:
    row = first("b22_agentx")
    assert row.finding == "queues.prefix_cache"
    assert row.bound is not None
    assert row.bound.high == pytest.approx(1 - 1 / 2.39, abs=2e-3)  # 2.39 x the uncached prompt tokens
    assert row.bound.arithmetic == ("1 - (1 - 0.967) / (1 - 0.921)",)
    assert worth(row.bound.arithmetic[0]) == pytest.approx(0.046 / 0.079)
    assert "before doing it faster" in row.why
