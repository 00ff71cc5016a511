"""Laws over concurrency, shares by Amdahl, and where two sweeps cross: figures worked out by hand."""

from __future__ import annotations

import pytest
from m3_setups import GATED, setup
from sweep_kit import plain, rates, tpots

from m3probe.analyzers._compare.gate import WorkloadGate
from m3probe.analyzers._compare.known_gates import workload_gates
from m3probe.analyzers._compare.metrics import metrics
from m3probe.analyzers._compare.share import Reading, rate_gain, share_interval, share_of_times
from m3probe.model.bench import BenchRun, Latency
from m3probe.model.compare_bench import Law, Scaling
from m3probe.present._compare_bench import bench_block
from m3probe.present._page import Page


def law(before: dict[int, float], after: dict[int, float], moe_layers: int | None = None) -> Scaling | None:
    found = metrics(tpots(before), tpots(after), moe_layers=moe_layers).scaling
    return found[0] if found else None


# --- laws ------------------------------------------------------------------------------------------------


def test_the_same_saving_in_every_step_is_a_fixed_cost() -> None:
    found = law({1: 20.0, 16: 30.0, 64: 40.0}, {1: 16.0, 16: 26.0, 64: 36.0}, moe_layers=4)
    assert found is not None
    assert (found.law, found.fixed_ms, found.fixed_residual_ms) == (Law.AMORTISATION, 4.0, 0.0)
    assert [point.saved_us_per_layer for point in found.points] == [1000.0] * 3
    assert "+25.0% -> +11.1%" in found.claim
    assert "weights" in found.claim  # bytes read once a step look alike, which is said


def test_a_saving_for_each_row_is_bandwidth() -> None:
    # 50 us a row: 0.05, 0.8, 3.2 ms
    found = law({1: 20.0, 16: 30.0, 64: 40.0}, {1: 19.95, 16: 29.2, 64: 36.8})
    assert found is not None
    assert found.law is Law.BANDWIDTH
    assert found.per_row_us == pytest.approx(50.0)
    assert found.per_row_residual_ms == pytest.approx(0.0, abs=1e-9)
    # 4.05 / 3 = 1.35: residuals 1.3, 0.55, 1.85
    assert found.fixed_residual_ms == pytest.approx(((1.3**2 + 0.55**2 + 1.85**2) / 3) ** 0.5)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({1: 19.0, 16: 20.0, 64: 37.0}, "neither law fits clearly better"),  # 1, 10, 3 ms
        ({1: 16.0, 16: 28.0, 64: 38.5}, "neither law fits clearly better"),  # 4, 2, 1.5 ms: off by 1.08 of 2.72
        ({1: 19.0, 16: 31.0, 64: 38.0}, "some concurrencies save and others lose"),  # 1, -1, 2 ms
        ({1: 20.0, 16: 30.0, 64: 40.0}, "or nothing changes"),
    ],
)
def test_no_law_is_named_where_none_fits(after: dict[int, float], why: str) -> None:
    found = law({1: 20.0, 16: 30.0, 64: 40.0}, after)
    assert found is not None
    assert found.law is Law.UNPROVEN
    assert why in found.claim
    assert "is off by" in found.claim  # both residuals are there


def test_rows_that_explain_a_law_badly_are_none() -> None:
    # off by 1.27 of 3.58 ms: better than half of a constant's 2.64, and more than a third of the savings
    saved = {1: 0.1, 2: 0.1, 3: 0.1, 60: 6.0, 62: 2.2, 64: 6.0}
    found = law(dict.fromkeys(saved, 40.0), {at: 40.0 - ms for at, ms in saved.items()})
    assert found is not None
    assert found.law is Law.UNPROVEN
    assert found.per_row_residual_ms == pytest.approx(1.27, abs=0.005)
    assert found.fixed_residual_ms == pytest.approx(2.64, abs=0.005)


def test_a_constant_saving_of_constant_steps_is_no_law() -> None:
    found = law({1: 20.0, 16: 20.0, 64: 20.0}, {1: 16.0, 16: 16.0, 64: 16.0})
    assert found is not None
    assert found.law is Law.UNPROVEN
    assert "a fixed share fits as well" in found.claim


def test_a_loss_has_a_law_too() -> None:
    found = law({1: 16.0, 16: 26.0, 64: 36.0}, {1: 20.0, 16: 30.0, 64: 40.0})
    assert found is not None
    assert found.law is Law.AMORTISATION
    assert "costs 4.00 / 4.00 / 4.00 ms" in found.claim


def test_savings_within_the_noise_have_no_law() -> None:
    def twice(by_concurrency: dict[int, float]) -> list[BenchRun]:
        """Two runs of each, 10 % apart."""
        return [
            one
            for factor in (0.95, 1.05)
            for one in tpots({at: ms * factor for at, ms in by_concurrency.items()}, duration_s=factor)
        ]

    (found,) = metrics(twice({1: 20.0, 16: 30.0, 64: 40.0}), twice({1: 19.0, 16: 29.0, 64: 39.0})).scaling
    assert found.law is Law.UNPROVEN
    assert "all of it is within the noise" in found.claim
    assert law({1: 20.0, 16: 30.0, 64: 40.0}, {1: 19.0, 16: 29.0, 64: 39.0}).law is Law.AMORTISATION  # type: ignore[union-attr]


def test_two_concurrencies_have_no_law() -> None:
    assert law({1: 20.0, 16: 30.0}, {1: 16.0, 16: 26.0}) is None


def test_concurrencies_of_other_lengths_are_another_sweep() -> None:
    short, long = {"mean_input_tokens": 1000.0}, {"mean_input_tokens": 8000.0}
    a = [*tpots({1: 20.0, 16: 30.0, 64: 40.0}, **short), *tpots({1: 30.0, 16: 40.0}, **long)]
    b = [*tpots({1: 16.0, 16: 26.0, 64: 36.0}, **short), *tpots({1: 30.0, 16: 40.0}, **long)]
    (found,) = metrics(a, b).scaling
    assert [point.concurrency for point in found.points] == [1, 16, 64]
    assert found.isl == "1,000"


def test_a_median_stands_in_where_no_means_were_kept() -> None:
    a, b = (
        [
            plain(max_concurrency=c, latencies={"tpot": Latency(median_ms=ms)})
            for c, ms in ((1, x), (8, x + 5), (64, x + 20))
        ]
        for x in (20.0, 17.0)
    )
    (found,) = metrics(a, b).scaling
    assert (found.of, found.law) == ("median", Law.AMORTISATION)


# --- shares ----------------------------------------------------------------------------------------------


def test_a_kernel_of_half_the_time_gives_a_share_of_twice_the_whole() -> None:
    # the whole saves 1 - 1/1.25 = 20 %; a kernel that saves half of its time had 40 %, one twice as fast likewise
    assert share_interval(0.5, 0.25, Reading.TIME).low == pytest.approx(0.4)
    assert share_interval(1.0, 0.25, Reading.RATE).low == pytest.approx(0.4)
    found = share_interval(0.5, 0.25)
    # read as a rate of 1.5: 0.2 / (1 - 1/1.5) = 0.6
    assert (found.low, found.high) == (pytest.approx(0.4), pytest.approx(0.6))


def test_the_arithmetic_can_be_worked_out_again() -> None:
    found = share_interval(0.489, 0.033)
    assert [eval(text) for text in found.arithmetic] == [pytest.approx(found.low), pytest.approx(found.high)]


def test_times_of_two_traces_leave_one_reading() -> None:
    found = share_of_times(1000, 250, 0.25)
    assert found.low == found.high == pytest.approx(0.2 / 0.75)
    assert len(found.arithmetic) == 1


@pytest.mark.parametrize(
    ("measured", "verdict", "word"),
    [(0.5, "inside", "agrees"), (0.2, "below", "something else gained"), (0.8, "above", "should have given more")],
)
def test_a_measured_share_agrees_or_contradicts(measured: float, verdict: str, word: str) -> None:
    found = share_interval(0.5, 0.25, measured=measured)
    assert (found.verdict, found.measured) == (verdict, measured)
    assert word in found.claim


def test_a_share_above_all_is_a_contradiction() -> None:
    found = share_interval(0.1, 0.5)  # a third of the time cannot come from a tenth of a part
    assert not found.possible
    assert "which none has" in found.claim


@pytest.mark.parametrize(("kernel", "whole"), [(0.0, 0.1), (-0.2, 0.1), (0.5, -0.1)])
def test_losses_have_no_share(kernel: float, whole: float) -> None:
    with pytest.raises(ValueError, match="gain"):
        share_interval(kernel, whole)


def test_no_kernel_saves_more_than_its_time() -> None:
    with pytest.raises(ValueError, match="a gain of rate"):
        share_interval(1.5, 0.1, Reading.TIME)
    assert share_interval(1.5, 0.1).low == share_interval(1.5, 0.1, Reading.RATE).low
    with pytest.raises(ValueError, match="no gain of a kernel"):
        share_of_times(100, 100, 0.1)
    with pytest.raises(ValueError, match="is none"):
        rate_gain(-1.0)


# --- sweeps that cross -------------------------------------------------------------------------------------


def sweep(values: dict[int, float], **more: object) -> list[object]:
    return [one for at, value in values.items() for one in rates(value, max_concurrency=at, **more)]


def test_two_sweeps_cross_between_two_concurrencies() -> None:
    # times 1.25 at 4 and 0.8 at 64: the middle of both on a log scale is 16
    found = metrics(sweep({4: 100.0, 64: 800.0}), sweep({4: 80.0, 64: 1000.0})).crossings  # type: ignore[arg-type]
    (one,) = found
    (at,) = one.crossovers
    assert (at.low, at.high, at.b_faster_above) == (4.0, 64.0, True)
    assert at.at == pytest.approx(16.0)
    assert one.b_better_at == (64,)
    assert "better one from between 4 and 64 (about 16)" in one.claim
    assert "noise is not known" in one.claim


def test_sweeps_of_one_side_do_not_cross() -> None:
    assert metrics(sweep({4: 100.0, 64: 800.0}), sweep({4: 110.0, 64: 1000.0})).crossings == ()  # type: ignore[arg-type]


def test_what_is_within_the_noise_crosses_nothing() -> None:
    a = [*rates(99, 101, max_concurrency=4), *rates(800, 801, max_concurrency=64)]
    b = [*rates(97, 99, max_concurrency=4), *rates(1000, 1001, max_concurrency=64)]
    assert metrics(a, b).crossings == ()


GATE = WorkloadGate("ISL >= 8192 and concurrency >= 64", concurrency=64, least_isl=8192)


@pytest.mark.parametrize(
    ("b", "verdict", "words"),
    [
        ({4: 90.0, 16: 190.0, 64: 500.0, 128: 900.0}, "at", "sits at the crossing"),
        ({4: 90.0, 16: 230.0, 64: 500.0, 128: 900.0}, "too_high", "keeps B out at concurrency 16"),
        ({4: 90.0, 16: 190.0, 64: 350.0, 128: 900.0}, "too_low", "lets B in at concurrency 64"),
        ({4: 110.0, 16: 190.0, 64: 350.0, 128: 900.0}, "wrong_side", "faster where not (concurrency 4)"),
        ({4: 100.0, 16: 200.0, 64: 500.0, 128: 900.0}, "unproven", "both take the same time"),
    ],
)
def test_a_workload_gate_beside_the_sweeps(b: dict[int, float], verdict: str, words: str) -> None:
    a = {4: 100.0, 16: 200.0, 64: 400.0, 128: 800.0}
    long = {"mean_input_tokens": 8192.0}
    found = metrics(sweep(a, **long), sweep(b, **long), gates=[GATE])  # type: ignore[arg-type]
    (one,) = found.crossings
    (gate,) = one.gates
    assert gate.verdict == verdict
    assert words in gate.claim
    page = Page(100)
    bench_block(page, found, explain=False)
    assert "Gate ISL >= 8192 and concurrency >= 64" in page.text()


def test_a_gate_for_long_prompts_says_nothing_of_short_ones() -> None:
    short = {"mean_input_tokens": 1024.0}
    assert metrics(sweep({4: 1.0, 64: 2.0}, **short), sweep({4: 2.0, 64: 4.0}, **short), gates=[GATE]).crossings == ()  # type: ignore[arg-type]
    unknown = metrics(sweep({4: 1.0, 64: 2.0}), sweep({4: 2.0, 64: 4.0}), gates=[GATE])  # type: ignore[arg-type]
    assert unknown.crossings == ()


def test_the_published_gate_of_sparse_attention_goes_with_a_setup_that_asks_for_it() -> None:
    plain_, asks = setup("0.33.0"), setup("0.33.0", env=GATED)
    (gate,) = workload_gates(plain_, asks)
    assert (gate.concurrency, gate.least_isl) == (64, 8192)
    assert workload_gates(asks, asks) == workload_gates(plain_, plain_) == workload_gates(None, asks) == ()


def test_a_law_is_told_with_what_would_decide_it() -> None:
    page = Page(200)
    bench_block(
        page, metrics(tpots({1: 20.0, 16: 30.0, 64: 40.0}), tpots({1: 16.0, 16: 26.0, 64: 36.0})), explain=False
    )
    text = page.text()
    assert "amortisation: A token saves 4.00 / 4.00 / 4.00 ms at concurrency 1 / 16 / 64" in text
    assert "what would decide: Trace a few decode steps" in text
