"""Queues by metrics: lengths, growth, arrivals and service, Little's law; every figure worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from metrics_kit import findings, histogram, judged, lines, page, rows, series
from recording_kit import SECOND, write
from tree import ROOT

from m3probe.analyzers._queues_series import Series
from m3probe.analyzers._queues_shape import Line, line
from m3probe.model.report import BottleneckSection, TrustSection
from m3probe.present.json import report_json
from m3probe.schema import records
from m3probe.schema.roles import Role

UP_AND_DOWN = [0, 0, 4, 8, 12, 9, 5, 0, 0, 0]


def load(number: int, waiting: float, running: float = 8, **more: float) -> dict[str, float]:
    """A page: 2 requests finish a second."""
    return {
        "num_requests_waiting": waiting,
        "num_requests_running": running,
        'request_success_total{engine="0",finished_reason="stop"}': 2 * number,
        **more,
    }


# --- length, growth, arrivals, service --------------------------------------------------------------------------------


def test_a_load_that_rises_and_falls_is_found_with_its_counts(tmp_path: Path) -> None:
    found = judged(series(tmp_path, [load(n, waiting) for n, waiting in enumerate(UP_AND_DOWN)]))
    row = rows(found)["admission"]
    assert (row.trend, row.samples, row.length_most, row.length_last) == ("rose_and_fell", 10, 12, 0)
    # held until the next sample: (0+0+4+8+12+9+5+0+0) / 9
    assert row.length_mean == pytest.approx(38 / 9)
    assert "rose from 0 to 12 at 4.0 s and fell to 0 at 7.0 s" in lines(found)["admission"]
    assert "queues.admission" not in findings(found)


def test_a_growing_queue_has_its_slope_and_more_arrivals_than_service(tmp_path: Path) -> None:
    found = judged(series(tmp_path, [load(n, 3 * n) for n in range(10)]))
    row = rows(found)["admission"]
    # 18 finished in 9 s; running stands still; 27 more wait
    assert (row.trend, row.growth_per_s) == ("grows", pytest.approx(3.0))
    assert (row.served_per_s, row.arrivals_per_s) == (pytest.approx(2.0), pytest.approx(5.0))
    decode = rows(found)["decode"]
    assert (decode.arrivals_per_s, decode.served_per_s, decode.trend) == (
        pytest.approx(2.0),
        pytest.approx(2.0),
        "steady",
    )


def test_requests_that_begin_to_run_left_admission_though_none_finished(tmp_path: Path) -> None:
    pages = [load(0, 20 - 2 * n, running=2 * n) for n in range(6)]
    row = rows(judged(series(tmp_path, pages)))["admission"]
    # 10 of the 20 came out in 5 s, none came in
    assert (row.served_per_s, row.arrivals_per_s, row.trend) == (pytest.approx(2.0), pytest.approx(0.0), "drains")


@pytest.mark.parametrize(
    ("values", "trend"),
    [
        ([0] * 6, "empty"),
        ([7, 7, 8, 7, 7, 8], "steady"),
        ([0, 1, 0, 1, 0, 1], "steady"),  # one request is no movement
        ([0, 2, 4, 6, 8, 8], "grows"),
        ([8, 6, 4, 2, 0, 0], "drains"),
        ([0, 9, 0, 9, 2, 10], "grows"),
        ([0, 9, 9, 4, 1, 0], "rose_and_fell"),
        ([0, 9, 9, 9], ""),
    ],
)
def test_a_trend_is_told_by_where_it_came_from_and_where_it_went(values: list[float], trend: str) -> None:
    assert a_line(values).trend == trend


def a_line(values: list[float], every_s: float = 1.0) -> Line:
    import numpy as np

    at = (np.arange(len(values)) * every_s * 1e9).astype(np.int64)
    made = Series("", "0", {}, "x", at, np.array(values, dtype=float), "metrics", np.arange(len(values)))
    found = line([made])
    assert found is not None
    return found


def test_pages_without_times_give_lengths_and_no_rate(tmp_path: Path) -> None:
    for name, number in (("before", 0), ("after", 9)):
        (tmp_path / f"{name}.prom").write_text(page(load(number, number)))
    import os

    for name in ("before", "after"):
        os.utime(tmp_path / f"{name}.prom", ns=(SECOND, SECOND))
    row = rows(judged(tmp_path))["admission"]
    assert (row.length_low, row.length_last) == (0, 9)
    assert (row.growth_per_s, row.arrivals_per_s, row.served_per_s) == (None, None, None)


def test_the_same_analysis_serves_a_live_recording(tmp_path: Path) -> None:
    samples = [
        records.Sample(
            mono_ns=n * SECOND,
            source="scheduler",
            labels={"engine": "0"},
            values={"num_requests_waiting": float(w), "num_requests_running": 8.0, "num_requests_waiting:max": w + 1.0},
        )
        for n, w in enumerate(UP_AND_DOWN)
    ]
    done = [
        records.Sample(mono_ns=n * SECOND, source="iteration", labels={"engine": "0"}, values={"request_success": 2.0})
        for n in range(10)
    ]
    write(tmp_path / "a.m3p", [*samples, *done], role=Role.API)
    row = rows(judged(tmp_path / "a.m3p"))["admission"]
    # the largest value within a second was kept too; the first sample's two requests are of the second before it
    assert (row.trend, row.length_most, row.served_per_s) == ("rose_and_fell", 13, pytest.approx(2.0))


# --- times in the queues, and Little's law -----------------------------------------------------------------------------


def with_times(number: int, waiting: float, queue_s: float) -> dict[str, float]:
    """Each of the 2 requests a second waited ``queue_s``, prefilled 0.5 s, decoded 3 s, and took 0.25 s more."""
    done = 2.0 * number
    told = {"queue_time": queue_s, "prefill_time": 0.5, "decode_time": 3.0}
    held = load(number, waiting, running=7)
    for name, seconds in told.items():
        held |= histogram(f"request_{name}_seconds", {"+Inf": done}, done * seconds)
    held |= histogram("time_to_first_token_seconds", {"+Inf": done}, done * (queue_s + 0.5))
    return held | histogram("e2e_request_latency_seconds", {"+Inf": done}, done * (queue_s + 3.75))


def test_each_queue_on_the_way_has_its_length(tmp_path: Path) -> None:
    found = judged(series(tmp_path, [with_times(n, 4, 2.0) for n in range(60)]))
    held = rows(found)
    assert held["admission"].wait_ns == 2 * SECOND
    # 2 requests/s x 0.5 s, and x 0.25 s
    assert (held["prefill"].length_mean, held["prefill"].basis) == (pytest.approx(1.0), "little")
    assert (held["front_end"].length_mean, held["front_end"].wait_ns) == (pytest.approx(0.5), SECOND // 4)
    assert [id_ for id_ in findings(found) if "little" in id_] == []  # 4 = 2 x 2 s, 7 = 2 x 3.5 s


@pytest.mark.parametrize(("queue_s", "flagged"), [(2.0, False), (2.2, False), (2.3, True), (1.7, True)])
def test_a_length_that_times_do_not_explain_is_flagged_above_a_tenth(
    tmp_path: Path, queue_s: float, flagged: bool
) -> None:
    found = findings(judged(series(tmp_path, [with_times(n, 4, queue_s) for n in range(60)])))
    assert ("queues.little.admission" in found) is flagged
    if flagged:
        assert "4.0 requests were sampled in it on average" in found["queues.little.admission"].claim


def test_the_law_is_not_asked_of_a_queue_that_grows(tmp_path: Path) -> None:
    found = findings(judged(series(tmp_path, [with_times(n, 4 + n, 0.1) for n in range(60)])))
    assert "queues.little.admission" not in found


# --- the whole report ------------------------------------------------------------------------------------------------------


def test_metrics_alone_say_nothing_of_kernels_and_their_queue_is_the_next_bottleneck(tmp_path: Path) -> None:
    found = judged(series(tmp_path, [load(n, 3 * n) for n in range(10)]))
    trust, last = found.answer.section(TrustSection), found.answer.section(BottleneckSection)
    assert trust is not None and last is not None
    assert trust.trust.verdict == "unusable"
    assert last.next_bottleneck is not None
    assert last.next_bottleneck.finding == "queues.admission"


def test_the_report_fits_the_schema(tmp_path: Path) -> None:
    found = judged(series(tmp_path, [with_times(n, 4, 2.3) for n in range(60)]))
    document = json.loads(report_json(found))
    jsonschema.validate(document, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    assert [row["queue"] for row in document["queue_rows"]] == ["admission", "prefill", "decode", "front_end"]


def test_an_idle_server_has_empty_queues_and_no_finding(tmp_path: Path) -> None:
    found = judged(series(tmp_path, [load(0, 0, running=0) for _ in range(10)]))
    assert {row.trend for row in rows(found).values()} == {"empty"}
    assert findings(found) == {}


# --- a log alone -----------------------------------------------------------------------------------------------------------

LOGGED = (
    "(EngineCore_DP0 pid=9) INFO 11-24 16:00:{second:02d} [loggers.py:259] Engine 000: Avg prompt throughput: 10.0 tokens/s, "
    "Avg generation throughput: 20.0 tokens/s, Running: 8 reqs, Waiting: {waiting} reqs, GPU KV cache usage: {use:.1f}%, "
    "Prefix cache hit rate: 0.0%\n"
)


def test_a_servers_log_shows_the_queue_too(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(
        "".join(LOGGED.format(second=10 * n // 2, waiting=4 * n, use=98.0) for n in range(8))
    )
    found = judged(tmp_path)
    assert rows(found)["admission"].growth_per_s == pytest.approx(0.8)  # 4 more every 5 s
    assert "the KV cache is full (98.0 % at most)" in findings(found)["queues.admission"].claim
    assert findings(found)["queues.admission"].evidence[0].table == "log_stats"


def test_what_pages_tell_is_not_taken_from_the_log(tmp_path: Path) -> None:
    series(tmp_path / "pages", [load(n, 1) for n in range(8)])
    (tmp_path / "server.log").write_text("".join(LOGGED.format(second=n, waiting=50, use=40.0) for n in range(8)))
    held = lines(judged(tmp_path))
    assert held["admission"].startswith("waiting 1 to 1 requests in 8 sample(s)")
    assert "at most 40.0% of the cache in use" in held["kv_capacity"]
