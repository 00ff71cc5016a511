"""One way to a metric's values: servers, order, engines, renamed metrics, restarts, histograms, our own samples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from metrics_kit import histogram, page, read, series
from recording_kit import SECOND, write

from m3probe.analyzers._queues_histogram import Range, during, latest
from m3probe.analyzers._queues_order import servers
from m3probe.analyzers._queues_series import Series, metrics_of
from m3probe.pipeline import reading
from m3probe.schema import records
from m3probe.schema.metric_names import METRICS, exposed, told
from m3probe.schema.roles import Role

CASES = Path(__file__).parent / "data" / "cases"
PAGES = Path(__file__).parent / "data" / "metrics"


def only(folder: Path, word: str, part: str = "", **labels: str) -> Series:
    (found,) = metrics_of(read(folder)).named(word, part, **labels)
    return found


# --- servers and order -----------------------------------------------------------------------------------------------


def test_pages_are_in_the_order_of_the_times_in_their_names_not_of_their_files(tmp_path: Path) -> None:
    for at, value in ((1_764_000_010, 2), (1_764_000_000, 1), (1_764_000_020, 3)):
        (tmp_path / f"m_{at}.prom").write_text(page({"num_requests_running": value}))
    found = only(tmp_path, "num_requests_running")
    assert found.values.tolist() == [1, 2, 3]
    assert (found.timed, found.at_s.tolist()) == (True, [0, 10, 20])


def test_numbered_pages_are_ordered_as_numbers_and_timed_by_their_files(tmp_path: Path) -> None:
    for number in (2, 10, 9):
        path = tmp_path / f"scrape{number}.prom"
        path.write_text(page({"num_requests_running": number}))
        os.utime(path, ns=(number * SECOND, number * SECOND))
    found = only(tmp_path, "num_requests_running")
    assert (found.values.tolist(), found.at_s.tolist()) == ([2, 9, 10], [0, 7, 8])


def test_files_that_were_written_at_once_have_an_order_and_no_times(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        path = tmp_path / f"scrape{number}.prom"
        path.write_text(page({"num_requests_running": number}))
        os.utime(path, ns=(SECOND + number, SECOND + number))  # a copy, a checkout
    found = only(tmp_path, "num_requests_running")
    assert (found.values.tolist(), found.timed, found.seconds) == ([1, 2, 3], False, 0.0)
    assert [n.word for n in reading(read(tmp_path))[1]] == ["pages_without_times"]


def test_before_comes_before_after(tmp_path: Path) -> None:
    for name, value in (("after", 5), ("before", 2)):
        (tmp_path / f"{name}.prom").write_text(page({"prompt_tokens_total": value}))
    assert only(tmp_path, "prompt_tokens").values.tolist() == [2, 5]


def test_prefill_and_decode_are_two_servers(tmp_path: Path) -> None:
    for server, value in (("prefill", 7), ("decode", 1)):
        series(tmp_path, [{"num_requests_running": value}] * 2, server=server)
    found = metrics_of(read(tmp_path))
    assert found.servers == ["decode", "prefill"]
    assert [s.last for s in found.of("prefill").named("num_requests_running")] == [7]


def started(at: float, **values: float) -> str:
    return page({**values, "process_start_time_seconds": at})


def test_numbered_files_with_a_start_of_their_own_are_servers_and_not_scrapes(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"replica{number}.prom").write_text(started(1000.0 + number, num_requests_running=number))
    assert len(metrics_of(read(tmp_path)).servers) == 3


def test_numbered_files_of_one_start_are_scrapes(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"scrape{number}.prom").write_text(started(1000.0, num_requests_running=number))
    assert only(tmp_path, "num_requests_running").values.tolist() == [0, 1, 2]


def test_pages_under_different_names_are_one_servers_where_its_counters_were_made_at_one_time(tmp_path: Path) -> None:
    for number, name in enumerate(("idle", "loaded")):
        text = page({"num_requests_running": number}) + 'vllm:prompt_tokens_created{engine="0"} 1764000000.123456\n'
        (tmp_path / f"{name}.prom").write_text(text)
        os.utime(tmp_path / f"{name}.prom", ns=(number * SECOND, number * SECOND))
    assert only(tmp_path, "num_requests_running").values.tolist() == [0, 1]


def test_two_real_servers_that_started_within_a_clock_tick_stay_two() -> None:
    rec = read(PAGES)
    table = rec.tables["scrapes"]
    assert len(set(table["started_s"].tolist())) < len(table)  # the trap: prefill and decode say the same start
    assert len(servers(rec)) == 3


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exposed_as", "word"),
    [
        ("vllm:kv_cache_usage_perc", "kv_cache_usage_perc"),
        ("vllm:gpu_cache_usage_perc", "kv_cache_usage_perc"),
        ("sglang:token_usage", "kv_cache_usage_perc"),
        ("sglang:num_running_reqs", "num_requests_running"),
        ("sglang:num_queue_reqs", "num_requests_waiting"),
    ],
)
def test_a_renamed_metric_is_one_word(tmp_path: Path, exposed_as: str, word: str) -> None:
    (tmp_path / "m.prom").write_text(f'{exposed_as}{{model_name="m"}} 0.25\n')
    assert only(tmp_path, word).last == 0.25


def test_where_a_page_has_both_names_the_new_one_wins(tmp_path: Path) -> None:
    (tmp_path / "m.prom").write_text(page({"vllm:gpu_cache_usage_perc": 0.1, "kv_cache_usage_perc": 0.9}))
    assert only(tmp_path, "kv_cache_usage_perc").last == 0.9


def test_stages_that_sglang_names_apart_are_labels_of_one_queue(tmp_path: Path) -> None:
    text = "sglang:num_decode_prealloc_queue_reqs 3\nsglang:num_decode_transfer_queue_reqs 4\n"
    (tmp_path / "m.prom").write_text(text)
    found = metrics_of(read(tmp_path))
    stages = {s.labels["stage"]: s.last for s in found.named("num_requests_kv_fetch_by_stage")}
    assert stages == {"waiting_to_start": 3, "in_progress": 4}


def test_every_name_means_one_thing() -> None:
    names = [name for metric in METRICS for name in metric.names]
    assert len(names) == len(set(names))
    assert len({metric.word for metric in METRICS}) == len(METRICS)
    assert exposed()["vllm:iteration_tokens_total_sum"].part == "sum"
    assert "vllm:iteration_tokens_total" not in exposed()  # a histogram that is named like a counter


@pytest.mark.parametrize(
    "name", ["prefix_cache_queries:preempted", "stat_updates", "num_requests_running:max:max", "x:y"]
)
def test_a_sample_of_another_meaning_is_not_taken_for_the_metric(name: str) -> None:
    assert told(name) is None


# --- counters ----------------------------------------------------------------------------------------------------------


def test_after_a_reset_the_new_value_is_the_increase(tmp_path: Path) -> None:
    pages = [{"generation_tokens_total": value} for value in (100, 160, 40, 90)]
    found = only(series(tmp_path, pages), "generation_tokens")
    # 60, then at least 40 since the restart, then 50
    assert (found.increase, found.resets) == (150, 1)


def test_a_restart_is_told_and_the_engines_stay_apart() -> None:
    found = {s.engine: s for s in metrics_of(read(CASES / "p04_counter_reset")).named("generation_tokens")}
    assert {engine: s.increase for engine, s in found.items()} == {"0": 250, "1": 200}


# --- histograms ----------------------------------------------------------------------------------------------------------


def test_a_quantile_is_the_bucket_that_holds_it(tmp_path: Path) -> None:
    held = histogram("time_to_first_token_seconds", {"0.1": 50, "0.5": 90, "1.0": 99, "+Inf": 100}, 30.0)
    (tmp_path / "m.prom").write_text(page(held))
    found = latest(metrics_of(read(tmp_path)), "time_to_first_token_seconds")
    assert found is not None
    assert (found.count, found.mean) == (100, 0.3)
    assert found.quantile(0.5) == Range(None, 0.1)
    assert found.quantile(0.51) == Range(0.1, 0.5)
    assert found.quantile(0.99) == Range(0.5, 1.0)
    assert found.quantile(0.999) == Range(1.0, None)


def test_what_was_observed_meanwhile_is_the_difference_of_two_pages_over_all_engines(tmp_path: Path) -> None:
    name = "request_queue_time_seconds"
    first = histogram(name, {"1.0": 10, "+Inf": 10}, 5.0) | histogram(name, {"1.0": 0, "+Inf": 0}, 0.0, "1")
    last = histogram(name, {"1.0": 10, "+Inf": 30}, 85.0) | histogram(name, {"1.0": 20, "+Inf": 20}, 4.0, "1")
    found = during(metrics_of(read(series(tmp_path, [first, last]))), name)
    assert found is not None
    # engine 0: 20 above 1 s, 80 s; engine 1: 20 below, 4 s
    assert (found.count, found.sum, found.of_all) == (40, 84.0, False)
    assert found.buckets == ((1.0, 20.0), (float("inf"), 40.0))
    assert found.quantile(0.5) == Range(None, 1.0)
    assert found.quantile(0.6) == Range(1.0, None)


def test_of_one_page_a_histogram_counts_from_the_servers_start(tmp_path: Path) -> None:
    (tmp_path / "m.prom").write_text(page(histogram("request_queue_time_seconds", {"+Inf": 4}, 2.0)))
    found = during(metrics_of(read(tmp_path)), "request_queue_time_seconds")
    assert found is not None
    assert (found.mean, found.of_all) == (0.5, True)


# --- our own recordings ----------------------------------------------------------------------------------------------------


def test_a_guests_sums_of_a_second_and_a_scrapes_totals_are_the_same_series(tmp_path: Path) -> None:
    told_by_guest = [
        records.Sample(
            mono_ns=n * SECOND, source="iteration", labels={"engine": "0"}, values={"generation_tokens": 10.0}
        )
        for n in (1, 2, 3)
    ]
    write(tmp_path / "a.m3p", told_by_guest, role=Role.API)
    found = only(tmp_path / "a.m3p", "generation_tokens")
    assert (found.values.tolist(), found.increase, found.engine) == ([10, 20, 30], 30, "0")
    scraped = [
        records.Sample(
            mono_ns=n * SECOND,
            source="metrics",
            labels={"engine": "0", "model_name": "m"},
            values={"vllm:generation_tokens_total": 500.0 + 10 * n},
        )
        for n in (1, 2, 3)
    ]
    write(tmp_path / "h.m3p", scraped, role=Role.HOST)
    found = only(tmp_path / "h.m3p", "generation_tokens")
    assert (found.increase, found.engine, dict(found.labels)) == (20, "0", {})


def test_where_both_were_recorded_the_engines_own_samples_speak(tmp_path: Path) -> None:
    labels = {"engine": "0"}
    own = records.Sample(mono_ns=SECOND, source="scheduler", labels=labels, values={"num_requests_waiting": 3.0})
    seen = records.Sample(mono_ns=SECOND, source="metrics", labels=labels, values={"vllm:num_requests_waiting": 9.0})
    write(tmp_path / "a.m3p", [own], role=Role.API)
    write(tmp_path / "h.m3p", [seen], role=Role.HOST)
    assert only(tmp_path, "num_requests_waiting").last == 3


def test_a_label_in_a_recordings_name_may_hold_anything(tmp_path: Path) -> None:
    labels = {"engine": "0", "finished_reason": "a}b{c=d"}
    sample = records.Sample(mono_ns=SECOND, source="metrics", labels=labels, values={"vllm:request_success_total": 1.0})
    write(tmp_path / "h.m3p", [sample], role=Role.HOST)
    (found,) = metrics_of(read(tmp_path)).named("request_success")
    assert found.engine == "0"
