"""Metrics that a tester broke the queues with: every figure is worked out beside them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import metrics_kit as kit
import pytest

from m3probe.analyzers._checks import checks
from m3probe.analyzers._queues_cache import prefix_hits
from m3probe.analyzers._queues_facts import metric_facts
from m3probe.analyzers._queues_series import metrics_of

RUNNING0, RUNNING1 = 'num_requests_running{engine="0"}', 'num_requests_running{engine="1"}'
HITS, QUERIES = "prefix_cache_hits_total", "prefix_cache_queries_total"


def told(*paths: Path) -> dict[str, str]:
    return {check.word: check.text for check in checks(kit.read(*paths))}


def pages(folder: Path, values: Sequence[Mapping[str, float | str]]) -> Path:
    return kit.series(folder / "m", values, 10.0)


def test_engines_are_summed_in_the_text_as_in_the_rows(tmp_path: Path) -> None:
    found = kit.judged(pages(tmp_path, [{RUNNING0: 4, RUNNING1: 6}] * 6))
    assert kit.lines(found)["decode"] == "running 10 to 10 requests over 2 engines in 6 sample(s), 0.00 a second"
    assert kit.rows(found)["decode"].length_last == 10


def test_an_engine_that_left_is_not_known_on_later_pages(tmp_path: Path) -> None:
    folder = pages(tmp_path, [{RUNNING0: 10, RUNNING1: 10}] * 3 + [{RUNNING0: 4}] * 2)
    row = kit.rows(kit.judged(folder))["decode"]
    assert (row.samples, row.length_last) == (3, 20)  # the sum is known on three pages
    assert metric_facts(kit.read(folder))["running"] == 4
    assert "engine 1 is missing from the last 2 page(s)" in told(folder)["engine_gone"]


def test_engines_that_share_no_page_are_the_newest(tmp_path: Path) -> None:
    row = kit.rows(kit.judged(pages(tmp_path, [{RUNNING0: 9}] * 2 + [{RUNNING1: 3}] * 3)))["decode"]
    assert (row.samples, row.length_most) == (3, 3)


def test_models_of_one_engine_are_summed(tmp_path: Path) -> None:
    def model(name: str, step: int, hits: int, running: int) -> dict[str, float | str]:
        of = f'{{engine="0",model_name="{name}"}}'
        return {QUERIES + of: 1000 * step, HITS + of: hits * step, f"num_requests_running{of}": running}

    folder = pages(tmp_path, [model("a", n, 900, 3) | model("b", n, 100, 4) for n in range(1, 7)])
    found = kit.lines(kit.judged(folder))
    assert found["prefix_cache"] == "hit 50.0% of 10,000 prompt tokens"  # 5 x (900 + 100) of 5 x 2,000
    assert found["decode"].startswith("running 7 to 7 requests in")
    assert metric_facts(kit.read(folder))["running"] == 7


def test_what_is_no_number_is_left_out_and_is_no_restart(tmp_path: Path) -> None:
    values = [(1000, 900), ("NaN", 950), ("+Inf", 1000), (1300, 1000)]
    folder = pages(tmp_path, [{QUERIES: q, HITS: h, "generation_tokens_total": q} for q, h in values])
    assert kit.lines(kit.judged(folder))["prefix_cache"] == "hit 33.3% of 300 prompt tokens"
    grown = metrics_of(kit.read(folder)).named("generation_tokens")[0]
    assert (grown.increase, grown.resets) == (300, 0)
    said = told(folder)
    assert "2 value(s)" in said["no_number"]
    assert "counter_reset" not in said


def test_counts_that_overflow_are_not_known(tmp_path: Path) -> None:
    folder = pages(tmp_path, [{QUERIES: v, HITS: v, RUNNING0: v} for v in (10, 1e308, 5, 1e308, 1, 1e308)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kit.lines(kit.judged(folder))
    assert found["prefix_cache"].startswith("not measured")
    assert found["decode"].startswith("not measured")
    assert "cannot be" in told(folder)["metric_contradicts"]


@pytest.mark.parametrize(
    ("name", "values", "line"),
    [
        ("kv_cache_usage_perc", (0.3, 55, 0.2), "kv_capacity"),
        ("kv_cache_usage_perc", (0.3, -2, 0.2), "kv_capacity"),
        ("num_requests_running", (-5, -5, 3), "decode"),
        ("num_requests_waiting", (-5, -5, 3), "admission"),
    ],
)
def test_impossible_figures_are_not_known(tmp_path: Path, name: str, values: tuple[float, ...], line: str) -> None:
    folder = pages(tmp_path, [{name: value} for value in values])
    assert kit.lines(kit.judged(folder))[line].startswith("not measured")
    assert told(folder)["metric_contradicts"].startswith(name)


def test_a_full_cache_is_possible(tmp_path: Path) -> None:
    found = kit.judged(pages(tmp_path, [{"kv_cache_usage_perc": 1.0}] * 2))
    assert kit.lines(found)["kv_capacity"] == "at most 100.0% of the cache in use"


def test_more_hits_than_lookups_give_no_rate(tmp_path: Path) -> None:
    folder = pages(tmp_path, [{QUERIES: 0, HITS: 0}, {QUERIES: 100, HITS: 120}])
    hits = prefix_hits(metrics_of(kit.read(folder)))
    assert hits is not None
    assert hits.rate is None
    assert kit.lines(kit.judged(folder))["prefix_cache"].startswith("not known: 120 hits of 100 lookups")
    assert "120 of 100" in told(folder)["metric_contradicts"]


def test_rounding_noise_has_no_sign_and_is_no_growth(tmp_path: Path) -> None:
    found = kit.judged(pages(tmp_path, [{RUNNING0: 10 + n * 1e-9} for n in range(6)]))
    row = kit.rows(found)["decode"]
    assert (row.growth_per_s, row.trend) == (0.0, "steady")
    assert kit.lines(found)["decode"].endswith(", 0.00 a second")
