"""Runs, sweeps and traces for the comparison's tests, in a few lines each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import run
from builders import kernel, launch, op, recording

from m3probe.model.bench import BenchRequests, BenchRun, Latency
from m3probe.model.compare_bench import BenchComparison, MetricPair
from m3probe.model.recording import Recording

SECOND = 1_000_000_000


def plain(**more: Any) -> BenchRun:
    """A run that says nothing but what it is given: no latencies, so that Little's law has nothing to hold against it."""
    bare: dict[str, Any] = {
        "latencies": {}, "output_throughput": None, "total_token_throughput": None, "request_throughput": None,
        "mean_output_tokens": None, "mean_input_tokens": None,
    }  # fmt: skip
    kept = more.get("requests")
    return run(**bare | ({} if kept is None else {"completed": len(kept)}) | more)


def rates(*values: float, **more: Any) -> list[BenchRun]:
    """Repeats that differ in output tokens a second."""
    return [plain(output_throughput=value, duration_s=10.0 + i, **more) for i, value in enumerate(values)]


def tpots(by_concurrency: dict[int, float], **more: Any) -> list[BenchRun]:
    """A sweep of mean TPOT in ms."""
    return [
        plain(max_concurrency=at, latencies={"tpot": Latency(mean_ms=ms)}, **more) for at, ms in by_concurrency.items()
    ]


def latencies(**means: float) -> dict[str, Latency]:
    return {name: Latency(mean_ms=ms) for name, ms in means.items()}


def requests(
    ttft_ms: Sequence[float], *, every_s: float | None = None, e2e_ms: Sequence[float] | None = None, tokens: Any = 10
) -> BenchRequests:
    """Requests of 100 prompt tokens, sent one each ``every_s``; without it nobody kept when."""
    size = len(ttft_ms)
    start = None if every_s is None else np.arange(size) * int(every_s * SECOND)
    e2e = None if e2e_ms is None else np.array(e2e_ms) * 1_000_000
    return BenchRequests(
        success=np.ones(size, dtype=bool),
        start_ns=start,
        ttft_ns=(np.array(ttft_ms) * 1_000_000).astype(np.int64),
        e2e_ns=None if e2e is None else e2e.astype(np.int64),
        input_tokens=np.full(size, 100),
        output_tokens=np.broadcast_to(np.array(tokens), size).copy(),
    )


def pair(found: BenchComparison, metric: str, of: str = "", concurrency: int | None = None) -> MetricPair:
    """The one pair of this metric (at this concurrency)."""
    (one,) = [p for p in found.pairs if (p.metric, p.of) == (metric, of) and concurrency in (None, p.point.concurrency)]
    return one


CIJK = "Cijk_A_MT32x16x64_SK0_WG64_4_1"


def gemm_trace(tmp_path: Path, times_us: dict[int, Sequence[float]], N: int = 2560, K: int = 6144) -> Recording:
    """A mm of M rows for each time: operator, launch, kernel."""
    events: list[dict[str, Any]] = []
    for number, (M, us) in enumerate((M, us) for M, several in times_us.items() for us in several):
        at = 10_000.0 * (number + 1)
        events += [
            op(at, 20.0, "aten::mm", [[M, K], [K, N]], ["c10::BFloat16", "c10::BFloat16"]),
            launch(at + 1, number + 1),
            kernel(at + 30, us, number + 1, CIJK),
        ]
    tmp_path.mkdir(exist_ok=True)
    return recording(tmp_path, events)
