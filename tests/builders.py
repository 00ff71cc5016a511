"""Small traces and recordings for tests, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from m3probe.model.recording import Recording
from m3probe.sources import open_recording


def launch(ts: float, correlation: int, name: str = "hipLaunchKernel", **args: Any) -> dict[str, Any]:
    """A runtime call of 2 us on thread 1."""
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "dur": 2.0,
        "args": {"correlation": correlation, **args},
    }


def kernel(ts: float, dur: float, correlation: int, name: str, stream: int = 0, **args: Any) -> dict[str, Any]:
    """A kernel on device 0."""
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": ts,
        "dur": dur,
        "args": {"device": 0, "stream": stream, "correlation": correlation, **args},
    }


def op(ts: float, dur: float, name: str, dims: Any = None, types: Any = None, **args: Any) -> dict[str, Any]:
    """A framework operator on thread 1."""
    said = {} if dims is None else {"Input Dims": dims}
    said |= {} if types is None else {"Input type": types}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": said | args}


def step(ts: float, dur: float, name: str) -> dict[str, Any]:
    """A host annotation."""
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}


def write_trace(path: Path, events: list[dict[str, Any]], **header: Any) -> Path:
    """A trace file in kineto's object form."""
    document = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, **header, "traceEvents": events}
    path.write_text(json.dumps(document))
    return path


def recording(tmp_path: Path, events: list[dict[str, Any]], **header: Any) -> Recording:
    """The recording of such a trace."""
    return open_recording([write_trace(tmp_path / "trace.pt.trace.json", events, **header)])
