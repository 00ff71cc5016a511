"""What is said of runs: where their requests were, contradictions, cold starts, sweeps and their knee."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_kit import CASES, read, result, run
from tree import shared_or_skip

from m3probe import pipeline
from m3probe.analyzers._bench_checks import contradictions
from m3probe.analyzers._bench_sweep import steps, sweeps
from m3probe.analyzers._bench_warmup import first_wave
from m3probe.analyzers.bench import ANALYZER
from m3probe.model.bench import BenchRequests, BenchRun, Latency, little
from m3probe.model.bench_report import BenchSection
from m3probe.model.findings import Finding
from m3probe.model.recording import Meta, Recording, RecordingBuilder
from m3probe.model.report import Answer
from m3probe.present.inspect_text import inspect_text
from m3probe.present.text import report_text
from m3probe.sources import open_recording


def of(*runs: BenchRun) -> Recording:
    return replace(RecordingBuilder().build(), meta=Meta(bench=runs))


def found(*runs: BenchRun) -> dict[str, Finding]:
    answer = ANALYZER.judge(of(*runs), Answer())
    return {one.id.split(".")[1]: one for one in answer.findings}


def ttft(mean: float) -> dict[str, Latency]:
    return {"ttft": Latency(mean_ms=mean), "tpot": Latency(mean_ms=150.0)}


# --- Little's law ------------------------------------------------------------------------------------


def test_requests_by_state() -> None:
    """2/s x 1 s = 2 wait; 2/s x 0.15 s x 100 = 30 decode: the 32 that the client kept."""
    law = little(run())
    assert law.waiting == pytest.approx(2.0)
    assert law.decoding == pytest.approx(30.0)
    assert law.in_flight == pytest.approx(32.0)
    assert law.consistent is True
    assert "little" not in found(run())


def test_the_published_pair() -> None:
    """900 of 1,024 wait for their first token; at 512 with other GPUs 12 wait and 462 decode."""
    rec = open_recording([CASES / "b20_pd_1024.json", CASES / "b21_pd_512.json"])
    first, second = (little(one) for one in rec.meta.bench)
    assert (first.waiting, first.decoding) == (pytest.approx(900, abs=0.5), pytest.approx(115.5, abs=0.1))
    assert (second.waiting, second.decoding) == (pytest.approx(12.2, abs=0.05), pytest.approx(462.3, abs=0.1))
    assert (first.consistent, second.consistent) == (True, True)
    assert (first.ttft_of, first.tpot_of) == ("median", "mean")


def test_a_run_that_does_not_agree_with_itself_is_told_with_its_reasons() -> None:
    one = found(run(max_concurrency=64, num_prompts=100, completed=100))["little"]
    assert "32.0 in flight, 50.0 % fewer than the 64 that the client kept" in one.claim
    assert "100 requests for 64 places" in one.advice


def test_ten_per_cent_agree_and_more_do_not() -> None:
    assert little(run(max_concurrency=35)).consistent is True  # 32 / 35 = -8.6 %
    assert little(run(max_concurrency=36)).consistent is False  # 32 / 36 = -11.1 %


@pytest.mark.parametrize(
    "more",
    [{"request_rate": 10.0}, {"max_concurrency": None}, {"completed": 90, "failed": 10}, {"mean_output_tokens": None}],
)
def test_what_cannot_be_held_against_a_limit_is_not_told(more: dict[str, Any]) -> None:
    assert little(run(**more)).consistent is None
    assert "little" not in found(run(**more))


def test_the_requests_themselves_are_counted() -> None:
    """The real run: 60 latencies of 452.07 ms on average in 6.4328 s are 4.216 in flight, and so says the law."""
    (real,) = open_recording([shared_or_skip("traces/cpu/bench_serve_tp2_moe.json")]).meta.bench
    law = little(real)
    assert law.measured == pytest.approx(60 * 0.4520654 / 6.4328168, rel=1e-4)
    assert law.in_flight == pytest.approx(law.measured, rel=1e-3)
    assert law.expected is None  # a rate of 10 a second holds the client back, not its limit of 8


# --- contradictions ----------------------------------------------------------------------------------


def test_a_sound_run_contradicts_nothing() -> None:
    assert contradictions(run(duration_s=320.0, total_output_tokens=64_640, total_input_tokens=576_000)) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"latencies": {"ttft": Latency(median_ms=9.0, percentiles={90.0: 8.0, 99.0: 12.0})}},
            "p90 of 8.00 ms is below p50",
        ),
        ({"latencies": {"itl": Latency(percentiles={90.0: 9.0, 99.0: 7.5})}}, "p99 of 7.50 ms is below p90 of 9.00"),
        ({"duration_s": 640.0}, "2.00 requests a second is stated, 640 in 640.00 s are 1.00"),
        ({"duration_s": 320.0, "total_output_tokens": 6_464}, "202.00 output tokens a second is stated, 6,464"),
        ({"output_throughput": 3000.0}, "output of 3,000.00 tokens a second is above the total of 2,002.00"),
        ({"num_prompts": 600}, "640 requests ended, 600 were asked for"),
    ],
)
def test_contradictions(more: dict[str, Any], said: str) -> None:
    (text,) = contradictions(run(**more))
    assert said in text
    assert said in found(run(**more))["contradicts"].evidence[0].observed


def test_worked_out_figures_are_not_held_against_themselves() -> None:
    assert contradictions(run(duration_s=640.0, derived=("request_throughput",))) == []


def test_lists_that_count_otherwise(tmp_path: Path) -> None:
    lists = {"ttfts": [1.0] * 100, "errors": ["", *["x"] * 99], "output_lens": [101] * 100}
    (real,) = read(tmp_path, result(**lists)).meta.bench
    assert any("1 of the 100 requests listed succeeded, 100 are counted" in text for text in contradictions(real))


# --- failures ----------------------------------------------------------------------------------------


def test_a_run_that_mostly_failed_is_worth_nothing() -> None:
    one = found(run(completed=1, failed=99, errors={"reset": 90, "timeout": 9}))["failed"]
    assert one.verdict == "unproven"
    assert "99 of 100 requests did not complete" in one.claim
    assert "90 said 'reset'" in one.claim


def test_one_in_a_hundred_may_fail() -> None:
    assert "failed" not in found(run(completed=99, failed=1))
    assert "failed" in found(run(completed=98, failed=2))


def test_requests_that_never_ended_count_as_failures() -> None:
    """97 of 128 ended and nothing failed: the benchmark never came to its end."""
    one = run(num_prompts=128, completed=97, failed=0)
    assert one.comparable is False
    assert "31 of 128 requests did not complete" in found(one)["failed"].claim


# --- the first wave ----------------------------------------------------------------------------------


def kept(first_ms: float, count: int = 30) -> BenchRequests:
    """4 requests at once that take ``first_ms`` to their first token, then one every 100 ms that takes 10 ms."""
    start = np.array([0, 0, 0, 0, *(2_000_000_000 + 100_000_000 * i for i in range(count))], dtype=np.int64)
    times = np.array([int(first_ms * 1e6)] * 4 + [10_000_000] * count, dtype=np.int64)
    return BenchRequests(np.ones(len(start), dtype=bool), start_ns=start, ttft_ns=times, e2e_ns=times + 50_000_000)


def test_a_cold_start_is_told() -> None:
    wave = first_wave(run(requests=kept(500.0)))
    assert wave is not None
    assert (wave.count, wave.later, wave.first_ms, wave.later_ms) == (4, 30, 500.0, 10.0)
    assert wave.mean_without_ms == 10.0
    assert (
        "the 4 requests sent before any ended waited 500.0 ms" in found(run(requests=kept(500.0)))["first_wave"].claim
    )


def test_a_warm_start_and_too_few_requests_are_not() -> None:
    assert "first_wave" not in found(run(requests=kept(19.0)))
    assert first_wave(run(requests=kept(500.0, count=19))) is None
    assert first_wave(run()) is None


# --- sweeps ------------------------------------------------------------------------------------------


def sweep(*points: tuple[int, float, float], **more: Any) -> list[BenchRun]:
    return [
        run(label=f"c{at}", max_concurrency=at, total_token_throughput=total, latencies=ttft(first), **more)
        for at, total, first in points
    ]


def test_the_knee_is_where_a_doubling_gains_nothing() -> None:
    """32 -> 64: +60 %, 1.5x; 64 -> 128: +4 %, 3x: the knee; 128 -> 256: +1 %, 2.5x: beyond it."""
    runs = sweep((128, 1664.0, 450.0), (32, 1000.0, 100.0), (64, 1600.0, 150.0), (256, 1680.64, 1125.0))
    (group,) = sweeps(runs)
    walked = list(steps(group))
    assert [step.knee for step in walked] == [False, True, True]
    assert walked[1].gain == pytest.approx(0.04)
    assert walked[1].ttft_ratio == pytest.approx(3.0)
    one = found(*runs)["knee"]
    assert "The knee lies at concurrency 64: from there to 128 a doubling gains +4.0% tokens/s" in one.claim


def test_a_step_that_is_no_doubling_is_scaled_to_one() -> None:
    """64 -> 256 is two doublings: 1.21 = 1.1 x 1.1, 9 = 3 x 3."""
    (step,) = steps(sweep((64, 1000.0, 100.0), (256, 1210.0, 900.0)))
    assert step.gain == pytest.approx(0.1)
    assert step.ttft_ratio == pytest.approx(3.0)


@pytest.mark.parametrize(
    "points", [((64, 1000.0, 100.0), (128, 1049.0, 199.0)), ((64, 1000.0, 100.0), (128, 1051.0, 900.0))]
)
def test_one_of_the_two_alone_is_no_knee(points: tuple[tuple[int, float, float], ...]) -> None:
    assert "knee" not in found(*sweep(*points))


def test_without_ttft_there_is_no_knee() -> None:
    runs = [replace(one, latencies={}) for one in sweep((64, 1000.0, 1.0), (128, 1001.0, 1.0))]
    (step,) = steps(runs)
    assert step.ttft_ratio is None
    assert step.knee is False


def test_failed_runs_and_other_hardware_make_no_sweep() -> None:
    low, high = sweep((64, 1000.0, 100.0), (128, 1001.0, 900.0))
    assert sweeps([low, replace(high, completed=1, failed=99)]) == []
    assert sweeps([low, replace(high, num_gpus=8)]) == []
    assert sweeps([low, replace(high, mean_output_tokens=500.0)]) == []
    assert len(sweeps([low, replace(high, mean_output_tokens=105.0)])) == 1


def test_no_speed_up_is_claimed_between_unlike_runs() -> None:
    rec = open_recording([CASES / "b20_pd_1024.json", CASES / "b21_pd_512.json"])
    answer = ANALYZER.judge(rec, Answer())
    (one,) = answer.findings
    assert one.id == "bench.unlike"
    assert "GPUs 16 against 12" in one.claim
    assert "no speed-up is claimed" in one.claim
    section = answer.section(BenchSection)
    assert section is not None
    assert section.steps == ()
    assert [row.total_per_gpu for row in section.runs] == [pytest.approx(2084.6), pytest.approx(6370.5)]


def test_no_result_no_section() -> None:
    assert ANALYZER.judge(of(), Answer()) == Answer()


# --- the page ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_block_fits_and_says_where_the_requests_are(width: int) -> None:
    text = report_text(pipeline.analyze([CASES / "b20_pd_1024.json"]), width, color=False)
    assert max(map(len, text.splitlines())) <= width
    whole = " ".join(text.split())
    assert "900.1 requests waiting for their first token, 115.5 decoding" in whole
    assert "agrees within 10 %" in whole


def test_foreign_text_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    read(tmp_path, result(label="a\x1b[31mb\u202e", errors=["\x1b]0;x\x07"], completed=0, failed=1))
    text = report_text(pipeline.analyze([path]), 100, color=False)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\x07" not in text


def test_a_result_beside_a_trace_costs_it_no_trust(tmp_path: Path) -> None:
    trace = shared_or_skip("traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz")
    (tmp_path / "cut.json").write_text('{"request_throughput": 1.0, "completed": 3}\n{"request_throughput": 1.0, "comp')
    rec = open_recording([trace, tmp_path / "cut.json"])
    facts = pipeline.inspect(rec).facts
    assert facts["trust"] == "complete"
    assert facts["kernels"] == 2059
    assert facts["completed"] == 3


def test_inspect_shows_a_run_a_line_and_leaves_out_what_is_not_known() -> None:
    found = pipeline.inspect(open_recording([CASES / "b06_append_result.json"]))
    text = inspect_text(found.kind, found.outcome, found.facts, [], width=200)
    lines = [line.strip() for line in text.splitlines() if "output_throughput" in line]
    assert [line.removeprefix("by_run").strip()[:2] for line in lines] == ["1.", "2."]
    assert "max_concurrency 4" in lines[1]
    assert "not known" not in text
