"""Inputs of one run, each written as its own tool writes it, at times that are worked out beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builders import step, write_trace
from recording_kit import SECOND, count, steps, write

from m3probe.schema import records
from m3probe.schema.roles import Role

MIDNIGHT_NS = 1_759_276_800 * SECOND
"""2025-10-01T00:00:00Z."""
BOOTED_NS = MIDNIGHT_NS - 5_000 * SECOND
"""Wall time at which the monotonic clock stood at zero."""
DECODE = "execute_context_0(0)_generation_{n}({n})"


def at(second: float) -> int:
    """Wall time so many seconds after midnight."""
    return MIDNIGHT_NS + round(second * SECOND)


def mono(second: float) -> int:
    """The monotonic clock at that moment."""
    return at(second) - BOOTED_NS


def trace(path: Path, begins: list[float], base: int | None = MIDNIGHT_NS, events: Any = (), **header: Any) -> Path:
    """Decode steps of 2 requests, 1 ms each, at these seconds of the trace's own clock."""
    said = [step(second * 1e6, 1_000.0, DECODE.format(n=2)) for second in begins]
    if base is not None:
        header["baseTimeNanoseconds"] = base
    return write_trace(path, [*said, *events], **header)


def clock() -> records.Clock:
    return records.Clock(mono_ns=mono(0), wall_ns=at(0))


def guest(path: Path, counted: dict[int, int], **process: Any) -> Path:
    """A worker that counted so many decode steps in each of these seconds."""
    held = [steps(count(steps=number), second=0) for number in counted.values()]
    for record, second in zip(held, counted, strict=True):
        record.mono_ns = mono(second)
    return write(path, [clock(), *held], **process)


def scrapes(path: Path, counted: dict[int, dict[str, float]], labels: dict[str, str] | None = None) -> Path:
    """What ``attach`` scraped: {second: {metric: value}}."""
    held = [
        records.Sample(mono_ns=mono(second), values=values, source="metrics", labels=labels or {"engine": "0"})
        for second, values in counted.items()
    ]
    return write(path, [clock(), *held], role=Role.HOST)


def page(path: Path, **values: float) -> Path:
    """One page of /metrics: requests that ended in ``stop`` and in ``error``, and steps."""
    lines = ["# TYPE vllm:request_success_total counter"]
    for reason in ("stop", "error"):
        if reason in values:
            labels = f'engine="0",finished_reason="{reason}",model_name="m"'
            lines.append(f"vllm:request_success_total{{{labels}}} {values[reason]}")
    lines += ["# TYPE vllm:num_requests_running gauge", 'vllm:num_requests_running{engine="0",model_name="m"} 0.0']
    path.write_text("\n".join(lines) + "\n")
    return path


def bench(path: Path, date: str, duration: float, completed: int, **more: Any) -> Path:
    """A result of ``vllm bench serve``."""
    known = {
        "date": date,
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": "m",
        "num_prompts": completed,
        "request_rate": "inf",
        "max_concurrency": 2,
        "duration": duration,
        "completed": completed,
        "failed": 0,
        "total_input_tokens": 10 * completed,
        "total_output_tokens": 10 * completed,
        "request_throughput": completed / duration,
        "output_throughput": 10 * completed / duration,
        "total_token_throughput": 20 * completed / duration,
        "mean_ttft_ms": 10.0,
        "mean_tpot_ms": 10.0,
    }
    path.write_text(json.dumps({**known, **more}))
    return path


def log(path: Path, *times: str, lines: tuple[str, ...] = ()) -> Path:
    """A server's log with one record at each of these local times, and further lines between them."""
    said = [f"(EngineCore pid=7) INFO {time} [core.py:114] something" for time in times]
    path.write_text("\n".join([*said[:1], *lines, *said[1:]]) + "\n")
    return path
