"""Figures of recordings: steps and queues by hand, and every sample against plotly and a recount of the trace's JSON."""

import bisect
import gzip
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, step, write_trace
from figures_kit import column, drawn, every, labels, trace
from page_kit import GRAPH, LIVE, SAMPLES, of_report, sample, view
from two_ranks import two_ranks

from m3probe import pipeline
from m3probe.model.recording import Recording
from m3probe.model.report import QueueRow, QueuesSection, StepRow, Summary, SummarySection
from m3probe.model.view import Gauge, Scope, View

METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="m"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="m"}} 0
"""


def judged(rec: Recording) -> View:
    return of_report(pipeline.report(rec), recording=rec)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> View:
    return judged(two_ranks(tmp_path_factory.mktemp("ranks")))


def test_steps_are_bars_from_the_first_step_of_their_rank(ranks: View) -> None:
    figure = drawn("steps", ranks)["steps"]
    assert labels(figure) == ["rank 0", "rank 1"]
    prefill, decode = trace(figure, "prefill"), trace(figure, "decode")
    assert prefill["y"] == decode["y"] == [0, 1]
    # prefill's work is 130 to 170 us on rank 0, longer on rank 1; decode's 320 to 345, 190 after the first start
    assert prefill["base"] == [0.0, 0.0]
    assert prefill["x"][0] == 0.04
    assert prefill["x"][1] > 0.04
    assert (decode["base"][0], decode["x"][0]) == (0.19, 0.025)
    assert prefill["customdata"][0] == "step/0"
    assert "4 steps on 2 ranks: 2 prefill, 2 decode" in figure.says


def test_step_times_are_points_that_open_their_step(ranks: View) -> None:
    figure = drawn("steps", ranks)["step-times"]
    decode = trace(figure, "decode")
    assert decode["y"][0] == 0.025
    assert decode["customdata"][0] == "step/1"
    assert "8 rows" in decode["hovertext"][0]
    assert column(figure, "steps") == [2, 2]


def test_kernel_time_of_each_step_stands_by_family(ranks: View) -> None:
    figure = drawn("repeats", ranks)["step-families"]
    # rank 0: prefill 20 us of GEMM and 10 of collective, decode 10 of GEMM and 5 of a kernel that nothing names
    assert trace(figure, "gemm")["y"] == [0.02, 0.01, 0.02, 0.01]
    assert trace(figure, "unknown")["y"] == [0.0, 0.005, 0.0, 0.005]
    assert trace(figure, "comm")["y"][:2] == [0.01, 0.0]
    assert trace(figure, "gemm")["customdata"] == [f"step/{at}" for at in range(4)]


def summary(count: int, took_ns: Any) -> SummarySection:
    """Steps of one rank, 100 us apart."""
    rows = tuple(
        StepRow(0, "", "decode", 8, 8, 1, 1, "NONE", at * 100_000, at * 100_000 + 60_000, took_ns(at), 40_000)
        for at in range(count)
    )
    return SummarySection({}, Summary(0, None, None, None, 0, (), (), ()), rows)


def test_many_steps_share_bars_and_the_longest_keeps_its_point() -> None:
    figures = drawn("steps", view(summary(4500, lambda at: 900_000 if at == 4321 else 100_000)))
    bars = trace(figures["steps"], "decode")
    assert len(bars["x"]) == 1500
    assert "3 steps share a bar" in figures["steps"].says
    # three steps, begun 100 us apart, the last 60 us long
    assert bars["x"][0] == 0.26
    points = trace(figures["step-times"], "decode")
    assert len(points["y"]) == 1500
    assert (max(points["y"]), points["x"][points["y"].index(0.9)]) == (0.9, 4321)
    assert "the longest of each 3 steps" in figures["step-times"].says


def test_steps_without_times_are_no_figure() -> None:
    rows = (StepRow(0, "", "decode", 8, 8, 1, None, "FULL"),)
    assert drawn("steps", view(SummarySection({}, Summary(0, None, None, None, 0, (), (), ()), rows))) == {}


def test_a_queues_curve_breaks_where_nobody_looked(tmp_path: Path) -> None:
    # one page a second from 10:00:00, and nothing between :04 and :30
    for second, running in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (30, 6), (31, 7)):
        (tmp_path / f"server-20260101T1000{second:02}.prom").write_text(METRICS.format(running=running))
    figure = drawn("queues", judged(pipeline.read([tmp_path])))["queues"]
    running = next(one for one in figure.data if "running" in one["name"])
    assert running["y"] == [1, 2, 3, 4, 5, None, 6, 7]
    assert running["x"][5:] == [17.0, 30.0, 31.0]
    assert running["connectgaps"] is False
    assert "gaps in which nothing was read" in figure.says


def test_a_restart_is_a_gap_and_a_missing_value_stays_one() -> None:
    recent = ((3.0, 1.0), (2.0, None), (1.0, 4.0), (0.0, 2.0))
    gauge = Gauge("waiting", "waiting", 2.0, "requests", Scope.LIVE, recent=recent, resets=(0.5,))
    figure = drawn("queues", view(gauges={"waiting": gauge}))["queues"]
    assert figure.data[0]["x"] == [-3.0, -2.0, -1.0, -0.5, 0.0]
    assert figure.data[0]["y"] == [1.0, None, 4.0, None, 2.0]
    assert figure.layout["xaxis"]["title"]["text"] == "s before now"
    assert "counters began anew 1 x" in figure.says


def test_a_logs_statistics_lines_are_curves(tmp_path: Path) -> None:
    line = (
        "(APIServer pid=1) INFO 11-29 20:21:{second} [loggers.py:271] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg "
        "generation throughput: 1.0 tokens/s, Running: {running} reqs, Waiting: 2 reqs, GPU KV cache usage: 1.0%, Prefix "
        "cache hit rate: 0.0%\n"
    )
    log = tmp_path / "vllm.log"
    log.write_text("".join(line.format(second=second, running=second - 10) for second in (12, 22, 32)))
    figure = drawn("queues", judged(pipeline.read([log])))["queues"]
    running = next(one for one in figure.data if "running" in one["name"])
    assert (running["x"], running["y"]) == ([0.0, 10.0, 20.0], [2.0, 12.0, 22.0])


def test_queues_are_told_on_average_where_no_sample_is() -> None:
    row = QueueRow("decode", "", 0, None, 30.5, None, None, None, 1.0, 1.0, 2_000_000, "", "little")
    unknown = QueueRow("prefill", "", 0, None, None, None, None, None, None, None, None, "", "little")
    figures = drawn("queues", view(QueuesSection({}, (row, unknown))))
    assert figures.keys() == {"queue-lengths"}
    assert labels(figures["queue-lengths"]) == ["decode"]
    assert figures["queue-lengths"].data[0]["x"] == [30.5]


def recount(path: Path) -> dict[int, float]:
    """ms of kernel time launched between the begin of each step and that of the next, from the trace's JSON alone."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    begins = sorted(
        event["ts"]
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith("execute_context_")
    )
    launched = {
        event["args"]["correlation"]: event["ts"]
        for event in events
        if event.get("cat") in {"cuda_runtime", "cuda_driver"} and event.get("args", {}).get("correlation")
    }
    found: dict[int, float] = defaultdict(float)
    for event in events:
        at = launched.get(event.get("args", {}).get("correlation")) if event.get("cat") == "kernel" else None
        if at is not None and (place := bisect.bisect_right(begins, at) - 1) >= 0:
            found[place] += event["dur"] / 1e3
    return found


def test_kernel_time_of_a_real_trace_is_the_jsons() -> None:
    figure = drawn("repeats", sample(GRAPH)[0])["step-families"]
    told: dict[int, float] = defaultdict(float)
    for one in figure.data:
        for place, ms in zip(one["x"], one["y"], strict=True):
            told[place] += ms
    counted = {place: ms for place, ms in recount(GRAPH).items() if ms}
    assert told.keys() == counted.keys()
    # each of some nine parts is rounded to four digits
    assert all(told[place] == pytest.approx(ms, rel=2e-3) for place, ms in counted.items())


@pytest.mark.parametrize("path", [GRAPH, LIVE, SAMPLES / "live-cpu-moe-tp2"], ids=lambda path: path.name[:24])
def test_plotly_knows_every_word_of_every_figure(path: Path) -> None:
    go = pytest.importorskip("plotly.graph_objects")
    figures = every(sample(path)[0])
    assert len(figures) >= 7
    for figure in figures.values():
        go.Figure(list(figure.data), dict(figure.layout))
    assert sum(len(json.dumps([figure.data, figure.layout])) for figure in figures.values()) < 200_000


def test_figures_agree_with_the_report_as_json() -> None:
    shown, report = sample(LIVE)
    shapes = drawn("shapes", shown)["shapes"]
    calls = sum(row["count"] for row in report["shapes"] if row["evidence"] in {"kernels", "census"})
    assert sum(column(shapes, "calls")) == calls
    parts = drawn("repeats", shown)["idle"]
    assert sum(parts.data[0]["x"]) == pytest.approx(
        100 * sum(part["share"] for part in report["idle"]["parts"]), rel=1e-3
    )
    summary = next(row for row in report["summary"]["phases"] if row["phase"] == "decode")
    assert sum(part["share"] for part in report["idle"]["parts"]) == pytest.approx(summary["gpu_idle_share"], abs=1e-9)


def test_every_step_that_a_worker_took_is_on_the_hosts_time_line() -> None:
    shown, report = sample(LIVE)
    figure = drawn("steps", shown)["host-timeline"]
    timed = sum(len(one["x"]) for one in figure.data)
    assert timed == sum(row["steps"] for row in report["live"]["step_times"])
    assert f"{timed:,} steps of 1 worker" in figure.says
    assert "without these times" not in figure.says
    spans = sorted((base, base + x) for one in figure.data for base, x in zip(one["base"], one["x"], strict=True))
    assert spans[0][0] == 0.0
    assert all(after[0] >= before[1] - 0.001 for before, after in itertools.pairwise(spans))


def test_idle_places_are_those_of_the_trace(tmp_path: Path) -> None:
    # two decode steps without a graph: 10 us between two kernels of each, 60 from the last end to the next first start
    name = "execute_context_0(0)_generation_8(8)"
    events = []
    for at, begin in enumerate((100.0, 200.0)):
        events += [step(begin, 50.0, name), launch(begin + 5, 2 * at + 1), launch(begin + 8, 2 * at + 2)]
        events += [kernel(begin + 10, 20.0, 2 * at + 1, "Cijk_gemm"), kernel(begin + 40, 10.0, 2 * at + 2, "Cijk_gemm")]
    shown = judged(pipeline.read([write_trace(tmp_path / "t.json", events)]))
    figure = drawn("repeats", shown)["idle"]
    # windows: 100 us to the next step's start, and 40 to the last end = 140; idle 10 + 10 inside, 60 between
    told = dict(zip(labels(figure), figure.data[0]["x"], strict=True))
    assert told == {"between steps": pytest.approx(42.86), "between kernels of a<br>step": pytest.approx(14.29)}
    assert column(figure, "µs a step") == [60.0, 10.0]
