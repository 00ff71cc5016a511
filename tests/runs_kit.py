"""Runs for comparisons, written by hand: a benchmark's result and a server's command each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from m3probe.comparing import AskedRun, compare
from m3probe.model.compare_report import CompareReport, Credit, Pair, Topic
from m3probe.recipe.asking import Server
from m3probe.workload import Workload

MXFP4 = "amd/MiniMax-M3-MXFP4"
VLLM = "0.32.0"


def bench(**more: Any) -> dict[str, Any]:
    """A result of vLLM's benchmark client: 8k1k at 128 in flight on four GPUs, 640 requests of 7,354 + 917 tokens."""
    known: dict[str, Any] = {
        "date": "20261120-101500", "endpoint_type": "vllm", "backend": "vllm", "model_id": MXFP4, "num_prompts": 640,
        "request_rate": "inf", "max_concurrency": 128, "completed": 640, "failed": 0, "num_gpus": 4,
        "total_input_tokens": 640 * 7354, "total_output_tokens": 640 * 917,
    }  # fmt: skip
    return known | more


def rate(per_gpu: float, *, gpus: int = 4, **more: Any) -> dict[str, Any]:
    """A result with so many output tokens a second and GPU: the duration is what 640 x 917 tokens take at that rate."""
    output = per_gpu * gpus
    return bench(num_gpus=gpus, output_throughput=output, duration=640 * 917 / output, **more)


def serve(words: str = "", env: str = "", *, tp: int = 4, model: str = MXFP4) -> str:
    """A script that starts a server."""
    said = f"export {env}\n" if env else ""
    return f"#!/bin/bash\n{said}vllm serve {model} --tensor-parallel-size {tp} --kv-cache-dtype fp8 --block-size 128 {words}\n"


def run(
    tmp_path: Path, name: str, results: Sequence[dict[str, Any]] = (), script: str | None = None, *, vllm: str = VLLM
) -> AskedRun:
    """One run: its results in one file, its server's script as the recipe."""
    folder = tmp_path / name
    folder.mkdir()
    file = folder / "bench.json"
    file.write_text("\n".join(json.dumps(one) for one in results))
    if script is None:
        return AskedRun((file,), name)
    command = folder / "serve.sh"
    command.write_text(script)
    return AskedRun((file,), name, Workload(server=Server(file=command, vllm=vllm, gpu="mi355x")))


def two(before: AskedRun, after: AskedRun, *require: str) -> tuple[CompareReport, Pair]:
    """The report, and its one pair."""
    report = compare((before, after), require)
    return report, report.pairs[0]


def topic(pair: Pair, name: str) -> Topic:
    return next(t for t in pair.contract.topics if t.topic == name)


def credit(pair: Pair, verdict: str) -> Credit:
    """The one credit of a verdict."""
    (found,) = (c for c in pair.credits if c.verdict == verdict)
    return found
