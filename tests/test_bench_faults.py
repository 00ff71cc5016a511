"""What a tester found: prefill against admission, runs that must not be joined or believed, impossible rates, negative figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_kit import only, read, result, told
from bench_kit import written as bench_file
from metrics_kit import START, findings, histogram, judged, lines, series

from m3probe.model.report import BottleneckSection, Report
from m3probe.schema.verdicts import Outcome

CASES = Path(__file__).parent / "data" / "cases"
MEANWHILE = "20251124-160030"
"""30 s after the first page: START is 2025-11-24 16:00:00 UTC."""


def waiting_run(**more: Any) -> dict[str, Any]:
    """40 in flight: 2 requests/s x (15.1 s to the first token + 100 x 50 ms) = 30.2 + 10."""
    known = {"max_concurrency": 40, "mean_ttft_ms": 15_100.0, "mean_tpot_ms": 50.0, "p99_ttft_ms": 16_000.0, "date": ""}
    return result(**known | more)


def pages(
    queue_s: float, prefill_s: float, usage: float, preempted: float = 0.0, waiting: int = 30
) -> list[dict[str, float]]:
    made = []
    for n in range(30):
        done = 2.0 * n
        made.append(
            {
                "num_requests_waiting": waiting,
                "num_requests_running": 10,
                "kv_cache_usage_perc": usage,
                "num_preemptions_total": preempted * n,
                **histogram("request_queue_time_seconds", {"+Inf": done}, done * queue_s),
                **histogram("request_prefill_time_seconds", {"+Inf": done}, done * prefill_s),
            }
        )
    return made


def next_of(found: Report) -> str:
    held = found.answer.section(BottleneckSection)
    return held.next_bottleneck.finding if held is not None and held.next_bottleneck is not None else ""


# --- prefill or admission ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "preempted", "verdict"), [(0.99, 0, "kv_capacity"), (0.5, 1, "kv_capacity"), (0.5, 0, "admission")]
)
def test_requests_in_the_servers_queue_wait_for_admission(
    tmp_path: Path, usage: float, preempted: float, verdict: str
) -> None:
    bench_file(tmp_path, waiting_run())
    series(tmp_path / "pages", pages(15.0, 0.1, usage, preempted))
    found = findings(judged(tmp_path))
    assert "queues.prefill.0" not in found
    finding = found["queues.admission.run.0"]
    assert (finding.verdict, finding.confidence) == (verdict, "high")
    assert "15,000.0 ms in the server's queue and 100.0 ms in prefill" in finding.claim
    # 15 s of 15.1 + 100 x 0.05 = 20.1 s
    assert finding.bound is not None and finding.bound.high == pytest.approx(15 / 20.1)
    assert "change nothing" not in finding.advice


def test_kv_capacity_is_the_next_bottleneck(tmp_path: Path) -> None:
    bench_file(tmp_path, waiting_run())
    series(tmp_path / "pages", pages(15.0, 0.1, 0.99))
    assert next_of(judged(tmp_path)) == "queues.admission.run.0"


def test_the_servers_prefill_time_names_prefill(tmp_path: Path) -> None:
    bench_file(tmp_path, waiting_run())
    series(tmp_path / "pages", pages(0.1, 15.0, 0.5, waiting=1))
    found = findings(judged(tmp_path))
    assert found["queues.prefill.0"].confidence == "high"
    assert "queues.admission.run.0" not in found


def test_a_wait_that_the_server_never_saw_is_neither(tmp_path: Path) -> None:
    # the server accounts for 0.2 s of 15.1 s
    bench_file(tmp_path, waiting_run())
    series(tmp_path / "pages", pages(0.1, 0.1, 0.99, waiting=1))
    found = findings(judged(tmp_path))
    assert [id_ for id_ in found if id_.startswith(("queues.prefill", "queues.admission"))] == []
    # 40 - 11 of 40
    assert "72.5 % of the requests in flight are outside vLLM" in found["queues.outside_vllm"].claim


def test_a_full_cache_without_times_is_kv_capacity_without_a_bound(tmp_path: Path) -> None:
    bench_file(tmp_path, waiting_run())
    held = [{"num_requests_waiting": 30, "num_requests_running": 10, "kv_cache_usage_perc": 0.9}] * 30
    series(tmp_path / "pages", held)
    finding = findings(judged(tmp_path))["queues.admission.run.0"]
    assert (finding.verdict, finding.bound, finding.confidence) == ("kv_capacity", None, "medium")


def test_without_metrics_prefill_stands_and_says_what_would_tell() -> None:
    finding = findings(judged(CASES / "b20_pd_1024.json"))["queues.prefill.0"]
    assert finding.confidence == "medium"
    assert "would tell prefill from admission" in finding.advice


# --- runs that are not of the same time -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("date", "joined"), [(MEANWHILE, True), ("20251120-161700", False)])
def test_a_run_of_another_time_is_not_joined(tmp_path: Path, date: str, joined: bool) -> None:
    assert START == 1_764_000_000
    bench_file(tmp_path, waiting_run(date=date, theoretical_prefix_hit_rate=0.9))
    held = pages(15.0, 0.1, 0.99)
    for n, one in enumerate(held):
        one |= {"prefix_cache_hits_total": 500.0 * n, "prefix_cache_queries_total": 1000.0 * n}
    series(tmp_path / "pages", held)
    found = judged(tmp_path)
    assert ("queues.admission.run.0" in findings(found)) is joined
    # (1 - 0.5) / (1 - 0.9) = 5
    assert ("5.00 x the uncached prompt work" in lines(found)["prefix_cache"]) is joined
    assert ("the client keeps 40" in lines(found)["outside_vllm"]) is joined
    if not joined:
        assert any("was not made while the others were" in f.claim for f in found.answer.findings)
        alone = findings(found)["queues.prefill.0"]
        assert (alone.confidence, "its server" in alone.claim) == ("medium", False)


def test_a_run_of_another_time_hides_no_requests(tmp_path: Path) -> None:
    bench_file(tmp_path, waiting_run(date="20251120-161700"))
    series(tmp_path / "pages", pages(15.0, 0.1, 0.5, waiting=2))  # 12 of 40 inside
    assert "queues.outside_vllm" not in findings(judged(tmp_path))


# --- runs that cannot be believed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        # 2/s x (10 s + 100 x 50 ms) = 30 of 20
        {"max_concurrency": 20, "mean_ttft_ms": 10_000.0, "mean_tpot_ms": 50.0, "p99_ttft_ms": 20_000.0},
        # 3/s stated, 100 in 50 s are 2/s
        {"request_throughput": 3.0, "max_concurrency": 45, "mean_ttft_ms": 10_000.0, "mean_tpot_ms": 50.0},
    ],
)
def test_a_run_that_cannot_be_names_no_queue(tmp_path: Path, more: dict[str, Any]) -> None:
    found = judged(bench_file(tmp_path, result(**more)))
    assert findings(found) == {}
    assert next_of(found) == ""


def test_fewer_requests_than_kept_are_no_contradiction(tmp_path: Path) -> None:
    # 2/s x (9 s + 100 x 20 ms) = 22 of 30: 26.7 % fewer
    made = result(max_concurrency=30, mean_ttft_ms=9000.0, mean_tpot_ms=20.0, p99_ttft_ms=20_000.0)
    assert "queues.prefill.0" in findings(judged(bench_file(tmp_path, made)))


# --- more than an endless cache ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("achieved", "told_so"), [(0.99, True), (0.9, False)])
def test_no_cache_hits_more_than_an_endless_one(tmp_path: Path, achieved: float, told_so: bool) -> None:
    bench_file(tmp_path, result(date="", theoretical_prefix_hit_rate=0.9))
    held = [
        {"prefix_cache_hits_total": achieved * 1000 * n, "prefix_cache_queries_total": 1000.0 * n} for n in range(6)
    ]
    series(tmp_path / "pages", held)
    found = judged(tmp_path)
    assert ("queues.endless_cache" in findings(found)) is told_so
    line = lines(found)["prefix_cache"]
    assert ("uncached prompt work" in line) is not told_so
    assert "0.10 x" not in line


# --- negative figures ---------------------------------------------------------------------------------------------------------


def test_figures_below_zero_are_not_known(tmp_path: Path) -> None:
    rec = read(tmp_path, result(request_throughput=-1, mean_ttft_ms=-5.0))
    run = only(rec)
    # 100 in 50 s
    assert (run.request_throughput, "request_throughput" in run.derived) == (2.0, True)
    assert (run.ttft.mean_ms, run.ttft.median_ms) == (None, 900.0)
    assert "below 0" in told(rec) and "mean_ttft_ms" in told(rec) and "request_throughput" in told(rec)
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


def test_inferencex_figures_below_zero_are_not_known(tmp_path: Path) -> None:
    known = {
        "hw": "mi355x",
        "conc": 8,
        "tp": 4,
        "tput_per_gpu": 100.0,
        "output_tput_per_gpu": -120.0,
        "mean_ttft": -1.0,
    }
    rec = read(tmp_path, known | {"median_ttft": 0.5})
    run = only(rec)
    assert (run.total_token_throughput, run.output_throughput, run.ttft.mean_ms) == (400.0, None, None)
    assert "output_tput_per_gpu" in told(rec) and rec.outcome is Outcome.OK_WITH_WARNINGS


def test_a_run_without_negative_figures_has_no_such_note(tmp_path: Path) -> None:
    assert "below 0" not in told(read(tmp_path, result()))
