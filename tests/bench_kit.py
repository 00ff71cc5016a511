"""Benchmark results written in a few lines, and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from m3probe.model.bench import BenchRun, Latency
from m3probe.model.recording import Recording
from m3probe.sources import open_recording

CASES = Path(__file__).parent / "data" / "cases"


def result(**more: Any) -> dict[str, Any]:
    """100 requests of 900 + 101 tokens in 50 s, 32 at a time: 2 a second, 202 output and 2,002 tokens a second."""
    known: dict[str, Any] = {
        "date": "20261120-101500", "endpoint_type": "vllm", "backend": "vllm", "label": None, "model_id": "m3",
        "num_prompts": 100, "request_rate": "inf", "max_concurrency": 32, "duration": 50.0, "completed": 100, "failed": 0,
        "total_input_tokens": 90_000, "total_output_tokens": 10_100, "request_throughput": 2.0, "output_throughput": 202.0,
        "total_token_throughput": 2002.0, "mean_ttft_ms": 1000.0, "median_ttft_ms": 900.0, "p99_ttft_ms": 3000.0,
        "mean_tpot_ms": 150.0, "median_tpot_ms": 149.0, "p99_tpot_ms": 200.0,
    }  # fmt: skip
    return known | more


def written(tmp_path: Path, *results: dict[str, Any], name: str = "bench.json") -> Path:
    """One file that holds the results, one a line, as ``--append-result`` writes them."""
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(one) for one in results))
    return path


def read(tmp_path: Path, *results: dict[str, Any], name: str = "bench.json") -> Recording:
    return open_recording([written(tmp_path, *results, name=name)])


def only(rec: Recording) -> BenchRun:
    """The recording's one run."""
    (run,) = rec.meta.bench
    return run


def told(rec: Recording) -> str:
    """All notes as one text."""
    return " | ".join(note.text for note in rec.notes)


def run(**more: Any) -> BenchRun:
    """A run without a file: 32 in flight, 2 requests a second of 900 + 101 tokens, 1 s TTFT, 150 ms TPOT, 4 GPUs."""
    known: dict[str, Any] = {
        "file": 0, "path": "bench.json", "model": "m3", "completed": 640, "failed": 0, "max_concurrency": 32,
        "request_rate": float("inf"), "num_gpus": 4, "mean_input_tokens": 900.0, "mean_output_tokens": 101.0,
        "request_throughput": 2.0, "output_throughput": 202.0, "total_token_throughput": 2002.0,
        "latencies": {"ttft": Latency(mean_ms=1000.0), "tpot": Latency(mean_ms=150.0)},
    }  # fmt: skip
    return BenchRun(**known | more)
