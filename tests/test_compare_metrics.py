"""Ratios with noise: every error worked out beside it by ``statistics``, or by hand."""

from __future__ import annotations

import math
from statistics import mean, stdev

import pytest
from bench_kit import run
from sweep_kit import latencies, pair, plain, rates, requests

from m3probe.analyzers._compare.evals import GSM8K, eval_band, evaluation, share_error
from m3probe.analyzers._compare.metrics import metrics
from m3probe.analyzers._compare.noise import factor
from m3probe.model.bench import Latency
from m3probe.model.compare_bench import MetricVerdict
from m3probe.present._compare_bench import bench_block
from m3probe.present._page import Page
from m3probe.schema.gates import EvalRun, Score

# --- repeats ---------------------------------------------------------------------------------------------


def test_repeats_are_a_mean_with_its_standard_error() -> None:
    found = pair(metrics(rates(98, 100, 102), rates(109, 110, 111)), "output")
    assert (found.a.value, found.a.repeats, found.b.value) == (100.0, 3, 110.0)
    assert found.a.error == pytest.approx(2 / math.sqrt(3))
    assert found.b.error == pytest.approx(1 / math.sqrt(3))
    assert found.ratio == pytest.approx(1.1)
    # relative errors 0.011547 and 0.0052486, their squares 1.33333e-4 and 2.75482e-5
    assert found.ratio_error == pytest.approx(1.1 * math.sqrt(1.33333e-4 + 2.75482e-5), rel=1e-5)
    # Welch: (1.608815e-4)^2 / ((1.33333e-4^2 + 2.75482e-5^2) / 2) = 2.79 degrees: 4.303 as for 2
    assert found.band == pytest.approx(4.303 * 1.1 * math.sqrt(1.33333e-4 + 2.75482e-5), rel=1e-5)
    assert found.verdict is MetricVerdict.BETTER
    assert found.a.error_of == "3 runs"


def test_what_repeats_differ_by_is_no_gain() -> None:
    found = pair(metrics(rates(98, 100, 102), rates(102, 103, 104)), "output")
    assert found.ratio == pytest.approx(1.03)
    assert found.band is not None
    assert found.band > 0.03
    assert (found.verdict, found.direction) == (MetricVerdict.SAME, MetricVerdict.BETTER)


def test_a_latency_is_better_low() -> None:
    a, b = (
        [plain(latencies=latencies(tpot=ms)) for ms in values] for values in ((50.0, 50.1, 49.9), (40.0, 40.1, 39.9))
    )
    found = pair(metrics(a, b), "tpot", "mean")
    assert (found.unit, found.verdict) == ("ms", MetricVerdict.BETTER)
    assert found.gain == pytest.approx(0.25)
    assert pair(metrics(b, a), "tpot", "mean").verdict is MetricVerdict.WORSE


def test_repeats_without_any_spread_still_leave_a_thousandth() -> None:
    found = pair(metrics(rates(1000, 1000), rates(1000.9, 1000.9)), "output")
    assert (found.a.error, found.band) == (0.0, 0.001)
    assert found.verdict is MetricVerdict.SAME


@pytest.mark.parametrize(("freedom", "t"), [(1.0, 12.706), (2.9, 4.303), (9.0, 2.306), (30.0, 2.042), (60.0, 2.0)])
def test_few_runs_want_more_standard_errors(freedom: float, t: float) -> None:
    assert factor(freedom) == t


def test_without_any_freedom_nothing_is_beyond_the_noise() -> None:
    assert factor(0.5) == math.inf


# --- one run ---------------------------------------------------------------------------------------------


def test_one_run_without_its_requests_proves_no_difference() -> None:
    found = metrics([plain(output_throughput=100.0)], [plain(output_throughput=300.0)])
    one = pair(found, "output")
    assert (one.verdict, one.direction, one.band) == (MetricVerdict.UNPROVEN, MetricVerdict.BETTER, None)
    assert any("run each point three times" in note for note in found.notes)


def test_one_run_that_shows_no_effect_is_the_same() -> None:
    one = pair(metrics([plain(output_throughput=708.0)], [plain(output_throughput=707.7)]), "output")
    assert one.verdict is MetricVerdict.SAME


def test_noise_of_one_run_is_that_of_the_mean_of_its_requests() -> None:
    ttft = [100, 120, 90, 110, 95, 105, 130, 80, 100, 115, 99, 101]
    a = plain(latencies=latencies(ttft=mean(ttft)), requests=requests(ttft))
    b = plain(latencies=latencies(ttft=2 * mean(ttft)), requests=requests([2 * ms for ms in ttft]))
    found = metrics([a], [b])
    one = pair(found, "ttft", "mean")
    assert one.a.error == pytest.approx(stdev(ttft) / math.sqrt(12))
    assert one.a.error_of == "12 requests of one run"
    assert one.verdict is MetricVerdict.WORSE
    assert any("from one start of a server to the next" in note for note in found.notes)


def test_fewer_requests_than_ten_say_nothing_of_noise() -> None:
    a = plain(latencies=latencies(ttft=100.0), requests=requests([90, 110] * 4))
    assert pair(metrics([a], [a]), "ttft", "mean").a.error is None


def test_requests_that_wait_together_count_by_batches() -> None:
    # the first half of the run waits 100 ms, the second 300: a hundred requests are no hundred observations
    ttft = [100.0] * 50 + [300.0] * 50
    a = plain(latencies=latencies(ttft=200.0), requests=requests(ttft, every_s=1.0))
    b = plain(latencies=latencies(ttft=100.0), requests=requests([100.0, 100.2] * 50, every_s=1.0))
    one = pair(metrics([a], [b]), "ttft", "mean")
    by_batch = stdev([100.0] * 5 + [300.0] * 5) / math.sqrt(10)
    assert by_batch > 3 * stdev(ttft) / math.sqrt(100)
    assert one.a.error == pytest.approx(by_batch)
    assert one.a.error_of == "10 batches of 100 requests of one run"
    assert one.b.error_of == "100 requests of one run"  # alike in every batch: the plain error is the larger one


def test_time_per_token_is_taken_from_each_request() -> None:
    # (e2e - 100 ms) / 9 tokens
    e2e = [100.0 + 9 * ms for ms in (10, 12, 8, 11, 9, 10, 13, 7, 10, 10, 12, 8)]
    a = plain(latencies=latencies(tpot=10.0), requests=requests([100.0] * 12, e2e_ms=e2e))
    one = pair(metrics([a], [a]), "tpot", "mean")
    assert one.a.error == pytest.approx(stdev([10, 12, 8, 11, 9, 10, 13, 7, 10, 10, 12, 8]) / math.sqrt(12))


def test_a_spread_in_the_summary_does_where_requests_were_not_kept() -> None:
    a = plain(completed=400, latencies={"ttft": Latency(mean_ms=100.0, std_ms=40.0)})
    assert pair(metrics([a], [a]), "ttft", "mean").a.error == pytest.approx(40 / 20)


def test_a_spread_of_token_times_says_nothing_of_their_mean() -> None:
    a = plain(completed=400, latencies={"itl": Latency(mean_ms=100.0, std_ms=40.0)})
    assert pair(metrics([a], [a]), "itl", "mean").a.error is None


def test_medians_and_tails_have_no_error_of_one_run() -> None:
    a = plain(
        latencies={"ttft": Latency(mean_ms=100.0, median_ms=95.0, percentiles={99.0: 200.0})},
        requests=requests([90, 110] * 10),
    )
    found = metrics([a], [a])
    assert [pair(found, "ttft", of).a.error is None for of in ("mean", "median", "p99")] == [False, True, True]


def test_throughput_of_one_run_has_the_spread_of_its_parts() -> None:
    # one request a second for 120 s, whole at once: spans of 10 s with 100 and 200 tokens by turns, and 900 in the first
    # and the last, which are the run's beginning and its end
    tokens = [90, *([10, 20] * 5), 90]
    tokens = [each for each in tokens for _ in range(10)]
    kept = requests([0.0] * 120, every_s=1.0, e2e_ms=[1000.0] * 120, tokens=tokens)
    a = plain(output_throughput=15.0, request_throughput=1.0, requests=kept)
    found = metrics([a], [a])
    one = pair(found, "output")
    assert one.a.error == pytest.approx(15.0 * stdev([100, 200] * 5) / math.sqrt(10) / 150)
    assert one.a.error_of == "10 spans of one run"
    assert pair(found, "requests").a.error == pytest.approx(0.0, abs=1e-12)  # ten in each


# --- which runs are held against which ---------------------------------------------------------------------


def test_points_are_concurrency_rate_and_lengths() -> None:
    a = [*rates(100, max_concurrency=4), *rates(200, max_concurrency=8), *rates(50, request_rate=2.0)]
    b = [*rates(220, max_concurrency=8), *rates(60, request_rate=2.0), *rates(400, max_concurrency=16)]
    found = metrics(a, b)
    assert [(p.point.concurrency, p.point.request_rate, p.ratio) for p in found.pairs if p.metric == "output"] == [
        (8, None, pytest.approx(1.1)),
        (32, 2.0, pytest.approx(1.2)),
    ]
    assert [(x.side, x.why) for x in found.left_out] == [
        ("a", "B has no run at this point"),
        ("b", "A has no run at this point"),
    ]


def test_other_lengths_are_another_point() -> None:
    found = metrics(rates(100, mean_input_tokens=8000.0), rates(200, mean_input_tokens=1000.0))
    assert found.pairs == ()
    assert len(found.left_out) == 2


def test_runs_that_failed_or_contradict_themselves_are_not_credited() -> None:
    failed = plain(output_throughput=900.0, completed=90, failed=10, label="failed")
    lawless = run(label="lawless", latencies=latencies(ttft=100.0, tpot=1.0))  # 0.2 + 0.2 in flight of 32
    good = rates(100)
    found = metrics(good, [failed, lawless])
    assert found.pairs == ()
    assert {x.name: x.why for x in found.left_out if x.side == "b"} == {
        "failed": "its figures stand for less than 99 % of the requests",
        "lawless": "0.2 requests waiting for their first token + 0.2 decoding = 0.4 in flight, 98.8 % fewer than the 32 that "
        "the client kept",
    }


def test_a_copy_of_a_run_is_no_repeat() -> None:
    one = plain(output_throughput=100.0, duration_s=50.0, date="20261120-101500")
    found = metrics([one, one], rates(100))
    assert pair(found, "output").a.repeats == 1
    assert "a copy is no repeat" in found.left_out[0].why


def test_a_figure_per_gpu_wants_the_gpus() -> None:
    a, b = rates(400, num_gpus=4), rates(300, num_gpus=2)
    assert pair(metrics(a, b), "output_per_gpu").ratio == pytest.approx(150 / 100)
    assert pair(metrics(a, b), "output").ratio == pytest.approx(0.75)
    none = metrics(rates(400, num_gpus=None), b)
    assert [p.metric for p in none.pairs] == ["output"]


def test_runs_of_several_contracts_at_one_point_are_paired_with_their_like() -> None:
    a = [*rates(100, num_gpus=4), *rates(50, num_gpus=2)]
    b = [*rates(60, num_gpus=2), *rates(110, num_gpus=4)]
    assert sorted(p.ratio for p in metrics(a, b).pairs if p.metric == "output") == [
        pytest.approx(1.1),
        pytest.approx(1.2),
    ]
    found = metrics(a, rates(70, num_gpus=8))
    assert found.pairs == ()
    assert {x.why for x in found.left_out} == {"several runs of unlike contracts are at this point"}


def test_a_rate_of_nothing_has_no_ratio() -> None:
    found = metrics([plain(goodput=0.0)], [plain(goodput=1.0)])
    assert found.pairs == ()


# --- where the gain sits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "phase"),
    [
        ({"ttft": 100.0, "tpot": 10.0}, {"ttft": 80.0, "tpot": 10.0}, "prefill"),
        ({"ttft": 100.0, "tpot": 10.0}, {"ttft": 100.0, "tpot": 8.0}, "decode"),
        ({"ttft": 100.0, "tpot": 10.0}, {"ttft": 80.0, "tpot": 8.0}, "both"),
        ({"ttft": 100.0, "tpot": 10.0}, {"ttft": 100.0, "tpot": 10.0}, "none"),
        ({"ttft": 100.0, "tpot": 10.0}, {"ttft": 120.0, "tpot": 8.0}, "decode"),
        ({"tpot": 10.0}, {"tpot": 8.0}, "unproven"),
        ({"ttft": 100.0}, {"ttft": 80.0}, "unproven"),
    ],
)
def test_the_phase_of_a_gain(before: dict[str, float], after: dict[str, float], phase: str) -> None:
    found = metrics([plain(latencies=latencies(**before))], [plain(latencies=latencies(**after))])
    assert found.place is not None
    assert found.place.phase == phase


def test_without_latencies_no_phase_is_named() -> None:
    assert metrics(rates(100), rates(200)).place is None


def test_time_per_token_that_gains_under_load_alone_is_no_gain_of_decode() -> None:
    a = [plain(max_concurrency=c, latencies=latencies(ttft=100.0, tpot=t)) for c, t in ((1, 10.0), (64, 30.0))]
    b = [plain(max_concurrency=c, latencies=latencies(ttft=80.0, tpot=t)) for c, t in ((1, 10.0), (64, 27.0))]
    place = metrics(a, b).place
    assert place is not None
    assert place.phase == "prefill"
    assert "which a trace would show" in place.claim


# --- evaluations -------------------------------------------------------------------------------------------


def test_the_band_of_gsm8k() -> None:
    assert 0.0059 < share_error(0.9515, GSM8K) < share_error(0.94, GSM8K) < 0.0066
    # 2 x sqrt(2) x sqrt(0.945 x 0.055 / 1319)
    assert eval_band(0.945, 0.945, GSM8K) == pytest.approx(2 * math.sqrt(2 * 0.945 * 0.055 / 1319))
    assert eval_band(0.945, 0.945, GSM8K) == pytest.approx(0.017755, abs=1e-6)
    with pytest.raises(ValueError, match="a share of 0 to 1"):
        share_error(94.5, GSM8K)


@pytest.mark.parametrize(
    ("b", "verdict"),
    [(0.932, MetricVerdict.SAME), (0.92, MetricVerdict.WORSE), (0.965, MetricVerdict.BETTER)],
)
def test_scores_within_the_band_are_one(b: float, verdict: MetricVerdict) -> None:
    def of(value: float) -> EvalRun:
        return EvalRun(score=Score("gsm8k", "exact_match", value, n=GSM8K))

    found = metrics(rates(100), rates(100), evals=(of(0.945), of(b))).evaluation
    assert found is not None
    assert found.verdict is verdict
    assert ("within" if verdict is MetricVerdict.SAME else "beyond") in found.claim


def test_scores_of_unknown_size_or_of_two_tasks_prove_nothing() -> None:
    a, b = (EvalRun(score=Score("gsm8k", "exact_match", value)) for value in (0.945, 0.90))
    found = evaluation(a, b)
    assert found is not None
    assert (found.verdict, found.band) == (MetricVerdict.UNPROVEN, None)
    assert evaluation(a, EvalRun(score=Score("mmlu", "acc", 0.9))) is None
    assert evaluation(a, None) is None


# --- the page ----------------------------------------------------------------------------------------------


def shown(found: object, width: int = 100, *, explain: bool = True) -> str:
    page = Page(width, ascii_only=False)
    bench_block(page, found, explain=explain)  # type: ignore[arg-type]
    return page.text()


def test_the_block_has_a_table_for_each_metric_and_the_reasons() -> None:
    a = [*rates(98, 100, 102, num_gpus=1), *rates(7, max_concurrency=4, num_gpus=1)]
    text = shown(metrics(a, rates(109, 110, 111, num_gpus=1)))
    assert "output tokens/s per GPU" in text
    assert "output tokens/s " not in text.replace("output tokens/s per GPU", "")  # told once: the ratios are one
    row = next(line for line in text.splitlines() if line.strip().startswith("c32"))
    assert row.split()[:7] == ["c32", "100.0", "1.2", "110.0", "0.6", "1.100", "0.060"]
    assert "better" in row
    assert "left out of A: bench.json: B has no run at this point" in text


def test_what_is_unproven_says_which_way_it_points() -> None:
    text = shown(metrics(rates(100), rates(90)))
    assert "unproven (worse)" in text


def test_nothing_measured_is_no_block() -> None:
    assert shown(metrics([], [])) == ""
    assert "No point was measured by both." in shown(metrics(rates(100), []))
