"""A live feed's figures and states, worked out by hand on pages of known values and a clock that stands still."""

from __future__ import annotations

import pytest
from metrics_kit import histogram, page
from viewing_kit import Hands, gauge, pages

from m3probe.attach.fetch import Reply
from m3probe.model.report import QueuesSection
from m3probe.model.view import Absent, Scope, Word

COUNTED = {"generation_tokens_total": 100, "prompt_tokens_total": 1000, "request_success_total": 1}


def test_levels_are_those_of_the_last_page_summed_over_engines() -> None:
    view = pages(
        {
            'num_requests_running{engine="0"}': 3,
            'num_requests_running{engine="1"}': 4,
            'kv_cache_usage_perc{engine="0"}': 0.25,
            'kv_cache_usage_perc{engine="1"}': 0.75,
            'num_requests_waiting_by_reason{engine="0",reason="capacity"}': 5,
            'num_requests_waiting_by_reason{engine="0",reason="deferred"}': 2,
        }
    )
    assert gauge(view, "running").value == 7
    assert gauge(view, "running").scope is Scope.LIVE
    assert gauge(view, "kv_usage").value == 75.0  # the fullest engine; a sum would be 100 %
    assert gauge(view, "kv_usage").high == 100.0
    assert (gauge(view, "waiting_capacity").value, gauge(view, "waiting_deferred").value) == (5, 2)


def test_rates_are_of_the_window_and_counted_over_its_time() -> None:
    view = pages(
        {"generation_tokens_total": 100, "num_preemptions_total": 2},
        {"generation_tokens_total": 300, "num_preemptions_total": 2},
        {"generation_tokens_total": 700, "num_preemptions_total": 5},
        after_s=2.0,
    )
    assert gauge(view, "output_tokens_per_s").value == 150.0  # 600 tokens in 4 s
    assert gauge(view, "output_tokens_per_s").scope is Scope.WINDOWED
    assert [value for _, value in gauge(view, "output_tokens_per_s").recent] == [100.0, 200.0]
    assert gauge(view, "preemptions").value == 3.0  # of the window, not a second


def test_a_shorter_window_looks_at_its_own_pages_alone() -> None:
    values = [{"generation_tokens_total": total} for total in (0, 1000, 1010, 1020, 1030, *range(1040, 1150, 10))]
    view = pages(*values, window_s=10.0)
    assert gauge(view, "output_tokens_per_s").value == 10.0
    assert view.window_s == 10.0
    everything = pages(*values, window_s=None)
    assert gauge(everything, "output_tokens_per_s").value == pytest.approx(1140 / 15)


def test_a_quantile_is_the_bucket_that_holds_it_among_what_came_in_the_window() -> None:
    name = "time_to_first_token_seconds"
    before = histogram(name, {"0.1": 900, "0.5": 900, "2.5": 900, "+Inf": 900}, 50.0)
    after = histogram(name, {"0.1": 901, "0.5": 906, "2.5": 909, "+Inf": 910}, 60.0)
    view = pages(before, after)
    # of the 10 new ones: 1 at most 0.1 s, 5 in (0.1, 0.5], 3 in (0.5, 2.5], 1 above: the 5th and the 9th
    p50, p90 = gauge(view, "ttft_p50_ms"), gauge(view, "ttft_p90_ms")
    assert (p50.value, p50.between) == (500.0, (100.0, 500.0))
    assert (p90.value, p90.between) == (2500.0, (500.0, 2500.0))


def test_a_quantile_in_the_last_bucket_is_open_above() -> None:
    name = "time_to_first_token_seconds"
    view = pages(histogram(name, {"0.1": 0, "+Inf": 0}, 0.0), histogram(name, {"0.1": 0, "+Inf": 8}, 99.0))
    assert gauge(view, "ttft_p50_ms").between == (100.0, None)
    assert gauge(view, "ttft_p50_ms").value == 100.0


def test_few_observations_give_no_quantile() -> None:
    name = "inter_token_latency_seconds"
    view = pages(histogram(name, {"0.1": 0, "+Inf": 0}, 0.0), histogram(name, {"0.1": 4, "+Inf": 4}, 0.1))
    assert (gauge(view, "itl_p50_ms").value, gauge(view, "itl_p50_ms").absent) == (None, Absent.TOO_FEW)


def test_a_series_that_the_page_lacks_is_not_exposed_and_never_zero() -> None:
    view = pages(COUNTED, COUNTED)
    for name in ("running", "waiting", "kv_usage", "ttft_p50_ms", "spec_acceptance"):
        assert (gauge(view, name).value, gauge(view, name).absent) == (None, Absent.NOT_EXPOSED)
    assert gauge(view, "output_tokens_per_s").value == 0.0  # measured: it did not grow
    assert any("KV cache" in line for line in view.sources[0].missing)


def test_estimated_work_that_stays_zero_while_tokens_come_is_off_on_the_server() -> None:
    off = {"estimated_flops_per_gpu_total": 0.0, "generation_tokens_total": 500}
    assert gauge(pages(off, off), "estimated_tflops").absent is Absent.OFF_ON_SERVER
    idle = {"estimated_flops_per_gpu_total": 0.0, "generation_tokens_total": 0}
    assert gauge(pages(idle, idle), "estimated_tflops").absent is None  # nothing was made yet: 0 is right
    on = ({**off, "estimated_flops_per_gpu_total": 1e12}, {**off, "estimated_flops_per_gpu_total": 4e12})
    assert gauge(pages(*on), "estimated_tflops").value == 3.0


def test_prefix_hits_are_a_share_of_the_window_and_off_where_no_prompt_was_ever_looked_up() -> None:
    before = {"prefix_cache_queries_total": 1000, "prefix_cache_hits_total": 900, "prompt_tokens_total": 1000}
    after = {"prefix_cache_queries_total": 1400, "prefix_cache_hits_total": 1000, "prompt_tokens_total": 1400}
    assert gauge(pages(before, after), "prefix_hit_rate").value == 25.0  # 100 of 400; since the start it is 71 %
    assert gauge(pages(before, before), "prefix_hit_rate").absent is Absent.TOO_FEW
    off = {"prefix_cache_queries_total": 0, "prefix_cache_hits_total": 0, "prompt_tokens_total": 1000}
    assert gauge(pages(off, off), "prefix_hit_rate").absent is Absent.OFF_ON_SERVER


def test_accepted_drafts_are_a_share_and_a_length() -> None:
    def drafts(steps: float, drafted: float, accepted: float) -> dict[str, float]:
        return {
            "spec_decode_num_drafts_total": steps,
            "spec_decode_num_draft_tokens_total": drafted,
            "spec_decode_num_accepted_tokens_total": accepted,
        }

    view = pages(drafts(10, 30, 20), drafts(20, 60, 35))
    assert gauge(view, "spec_acceptance").value == 50.0  # 15 of 30
    assert gauge(view, "spec_length").value == 2.5  # 1 + 15 / 10


def test_a_value_that_is_no_number_is_not_measured() -> None:
    view = pages(
        {"num_requests_running": "NaN", "generation_tokens_total": 5},
        {"num_requests_running": "NaN", "generation_tokens_total": "NaN"},
    )
    assert gauge(view, "running").absent is Absent.NOT_MEASURED
    assert gauge(view, "output_tokens_per_s").absent is Absent.NOT_MEASURED


def test_names_of_sglang_mean_the_same() -> None:
    first = {"sglang:num_running_reqs": 2, "sglang:num_queue_reqs": 6, "sglang:token_usage": 0.5}
    view = pages(
        {**first, "sglang:generation_tokens_total": 10},
        {**first, "sglang:generation_tokens_total": 30},
    )
    assert (gauge(view, "running").value, gauge(view, "waiting").value) == (2, 6)
    assert gauge(view, "kv_usage").value == 50.0
    assert gauge(view, "output_tokens_per_s").value == 20.0


# --- restarts ----------------------------------------------------------------------------------------------------------


def test_a_counter_that_falls_is_a_reset_also_without_a_start_time() -> None:
    hands = Hands([page({"generation_tokens_total": value}).encode() for value in (1000, 1100, 7, 27, 47)])
    for _ in range(2):
        hands.poll(1.0)
    reset = hands.poll(1.0)
    assert reset.word is Word.RESET
    assert gauge(reset, "output_tokens_per_s").absent is Absent.RESET
    again = hands.poll(1.0)
    assert gauge(again, "output_tokens_per_s").value == 20.0
    assert [value for _, value in gauge(again, "output_tokens_per_s").recent] == [100.0, None, 20.0]
    assert gauge(again, "output_tokens_per_s").resets == (1.0,)
    hands.now += 10.0
    assert hands.poll().word is Word.LIVE


def test_an_engine_that_leaves_and_comes_back_makes_no_spike() -> None:
    both = {'generation_tokens_total{engine="0"}': 500, 'generation_tokens_total{engine="1"}': 1_000_000}
    one = {'generation_tokens_total{engine="0"}': 510}
    back = {'generation_tokens_total{engine="0"}': 520, 'generation_tokens_total{engine="1"}': 1_000_000}
    view = pages(both, one, back, back)
    assert [value for _, value in gauge(view, "output_tokens_per_s").recent] == [None, None, 0.0]
    assert view.word is Word.LIVE  # no counter fell


def test_two_servers_behind_one_name_are_told_and_have_no_rates() -> None:
    def of(start: float, tokens: float) -> bytes:
        return page({"generation_tokens_total": tokens, "process_start_time_seconds": start}).encode()

    hands = Hands([of(1000, 5), of(2000, 90_000), of(1000, 6), of(2000, 90_001)])
    for _ in range(4):
        view = hands.poll(1.0)
    assert view.word is Word.BAD_DATA
    assert "several servers" in view.detail
    assert gauge(view, "output_tokens_per_s").value is None
    for _ in range(70):  # one of them is gone: what is left can be believed again
        view = hands.poll(1.0)
    assert view.word is Word.LIVE
    assert gauge(view, "output_tokens_per_s").value == 0.0


# --- states ------------------------------------------------------------------------------------------------------------


def test_tries_come_later_and_later_while_a_server_is_down_and_at_once_when_asked() -> None:
    hands = Hands([Reply(error="ConnectionRefusedError: [Errno 111] Connection refused")])
    waits = []
    for _ in range(5):
        view = hands.poll()
        assert view.word is Word.DOWN
        assert "connection refused" in view.detail
        retry = view.sources[0].retry_in_s
        assert retry is not None
        waits.append(retry)
        hands.now += retry + 0.01
    assert waits == pytest.approx([1, 2, 5, 10, 10])
    hands.poll()
    hands.bodies = [page(COUNTED).encode()]
    assert hands.poll().word is Word.DOWN  # not yet
    hands.feed.retry()
    assert hands.poll().word is Word.COLLECTING


def test_a_page_that_is_cut_is_bad_data_and_moves_nothing() -> None:
    whole = page(COUNTED).encode()
    hands = Hands([whole, whole, whole[:-7], whole])
    hands.poll()
    hands.poll(1.0)
    cut = hands.poll(1.0)
    assert cut.word is Word.BAD_DATA and "cut" in cut.detail
    assert gauge(cut, "output_tokens_per_s").value == 0.0
    assert gauge(cut, "output_tokens_per_s").age_s == 1.0
    assert hands.poll(1.0).word is Word.LIVE


def test_the_queues_are_judged_on_the_kept_pages() -> None:
    values = [{"num_requests_running": 4, "num_requests_waiting": waiting} for waiting in (0, 2, 4, 6, 8)]
    view = pages(*values)
    assert view.report is not None
    held = view.report.answer.section(QueuesSection)
    assert held is not None
    admission = next(row for row in held.queue_rows if row.queue == "admission")
    assert admission.length_most is not None and admission.length_most >= 2


def test_the_model_and_the_place_are_the_title() -> None:
    view = pages({'num_requests_running{engine="0",model_name="m3"}': 1})
    assert view.title == "m3 at h:1"
    assert view.sources[0].name == "http://h:1/metrics"
