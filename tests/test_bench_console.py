"""The box that clients print: its labels, what stands above it, and where it is cut."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from bench_kit import told
from tree import shared_or_skip

from m3probe.model.recording import Recording
from m3probe.readers.bench import sniff
from m3probe.schema.verdicts import Outcome
from m3probe.sources import open_recording

BOX = """\
Traffic request rate: inf
Maximum request concurrency: 64
============ Serving Benchmark Result ============
Successful requests:                     90
Failed requests:                         10
Maximum request concurrency:             64
Benchmark duration (s):                  10.00
Total input tokens:                      9000
Total generated tokens:                  4500
Request throughput (req/s):              9.00
Output token throughput (tok/s):         450.00
Total token throughput (tok/s):          1350.00
---------------Time to First Token----------------
Mean TTFT (ms):                          20.50
Median TTFT (ms):                        19.00
P99 TTFT (ms):                           60.00
P99.9 TTFT (ms):                         80.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           0.00
---------------Speculative Decoding---------------
Acceptance rate (%):                     50.00
Acceptance length:                       2.00
Drafts:                                  100
Draft tokens:                            200
Accepted tokens:                         100
Per-position acceptance (%):
  Position 0:                            70.00
  Position 1:                            30.00
==================================================
"""


def of(tmp_path: Path, text: str, name: str = "client.txt") -> Recording:
    path = tmp_path / name
    path.write_text(text)
    return open_recording([path])


def test_a_box_is_a_run(tmp_path: Path) -> None:
    rec = of(tmp_path, BOX)
    (run,) = rec.meta.bench
    assert (run.completed, run.failed, run.max_concurrency) == (90, 10, 64)
    assert run.request_rate == math.inf
    assert (run.request_throughput, run.output_throughput, run.total_token_throughput) == (9.0, 450.0, 1350.0)
    assert run.mean_output_tokens == 50.0
    assert (run.ttft.mean_ms, run.ttft.median_ms) == (20.5, 19.0)
    assert run.ttft.percentiles == {99.0: 60.0, 99.9: 80.0}
    assert run.itl.mean_ms is None
    assert run.drafts is not None
    assert run.drafts.acceptance_rate == 0.5
    assert run.drafts.by_position == pytest.approx((0.7, 0.3))
    assert "10 of 100 requests failed" in told(rec)
    assert run.comparable is False


def test_prefixes_and_colours_are_taken_off(tmp_path: Path) -> None:
    lines = BOX.splitlines()
    text = "\n".join(f"\x1b[36m(Client pid=7)\x1b[0;0m INFO 11-29 20:21:15 [serve.py:99] {line}" for line in lines)
    (run,) = of(tmp_path, text, "client.log").meta.bench
    assert (run.completed, run.ttft.mean_ms) == (90, 20.5)


def test_a_box_without_its_last_line_is_told(tmp_path: Path) -> None:
    rec = of(tmp_path, BOX[: BOX.index("P99.9")])
    (run,) = rec.meta.bench
    assert run.ttft.percentiles == {99.0: 60.0}
    assert rec.outcome is Outcome.PARTIAL


def test_figures_outside_a_box_are_no_run(tmp_path: Path) -> None:
    (run,) = of(tmp_path, "Mean TTFT (ms):      7.00\nSuccessful requests:     3\n" + BOX).meta.bench
    assert (run.completed, run.ttft.mean_ms) == (90, 20.5)


def test_each_box_has_its_own_figures(tmp_path: Path) -> None:
    second = BOX.replace("Failed requests:                         10\n", "").replace("20.50", "31.00")
    first, other = of(tmp_path, BOX + "words\n" + second).meta.bench
    assert (first.failed, other.failed) == (10, None)
    assert (first.ttft.mean_ms, other.ttft.mean_ms) == (20.5, 31.0)
    assert (first.index, other.index) == (0, 1)


def test_a_servers_log_with_a_box_in_it_is_a_log_first() -> None:
    server = b"(EngineCore_DP0 pid=12) INFO 11-29 20:21:15 [core.py:1] ready\n"
    assert sniff(Path("a.log"), BOX.encode())
    assert not sniff(Path("a.log"), server + BOX.encode())


def test_the_real_console_of_a_cpu_client() -> None:
    """The same run as its JSON: 60 requests at rate 10, at most 8 at a time."""
    (run,) = open_recording([shared_or_skip("traces/cpu/bench_serve.log")]).meta.bench
    assert (run.completed, run.failed, run.max_concurrency, run.request_rate) == (60, 0, 8, 10.0)
    assert (run.ttft.mean_ms, run.ttft.p99_ms, run.tpot.mean_ms, run.itl.p99_ms) == (23.79, 66.71, 6.8, 26.89)
    assert (run.backend, run.model, run.num_prompts) == ("vllm", "m", 60)
