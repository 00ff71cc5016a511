"""What the device did, read from a profiler's trace with plain ``json``: nothing of m3probe takes part."""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ANNOTATION = re.compile(r"execute_context_(\d+)\((\d+)\)_generation_(\d+)\((\d+)\)$")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemset")
"""Calls of the runtime in which the host waits for the device (``...Async`` ones do not)."""
RUNTIMES = ("cuda_runtime", "cuda_driver", "hip_runtime")


@dataclass
class Step:
    """One step of the trace: its label's numbers, and what was launched within it."""

    start: float
    ctx: int
    ctx_rows: int
    gen: int
    gen_rows: int
    graphs: int = 0
    in_graph: Counter = field(default_factory=Counter)
    eager: Counter = field(default_factory=Counter)
    grids: dict[str, set] = field(default_factory=dict)
    calls: Counter = field(default_factory=Counter)
    gemms: Counter = field(default_factory=Counter)
    us: Counter = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        return self.ctx_rows + self.gen_rows

    @property
    def phase(self) -> str:
        return "mixed" if self.ctx and self.gen else "prefill" if self.ctx else "decode"

    @property
    def kernels(self) -> Counter:
        return self.in_graph + self.eager


def steps(path: Path) -> list[Step]:
    """Each runs from its label to the next one's, and owns the kernels whose launch lies in it."""
    events, found = complete(path), []
    for event in sorted((e for e in events if e.get("cat") == "user_annotation"), key=lambda e: e["ts"]):
        numbers = ANNOTATION.match(event["name"])
        if numbers:
            found.append(Step(event["ts"], *map(int, numbers.groups())))
    starts = [step.start for step in found]

    def of(at: float) -> Step | None:
        number = bisect_right(starts, at) - 1
        return found[number] if number >= 0 else None

    calls = {}
    for event in events:
        step = of(event["ts"])
        if event.get("cat") in RUNTIMES:
            calls[event["args"].get("correlation")] = event
            if step:
                step.calls[event["name"]] += 1
                step.graphs += "GraphLaunch" in event["name"]
        elif event.get("cat") == "cpu_op" and event["name"] == "aten::mm" and step:
            (rows, k), (_k, n) = event["args"]["Input Dims"][:2]
            step.gemms[rows, n, k] += 1
    for event in events:
        launch = calls.get(event.get("args", {}).get("correlation"))
        step = of(launch["ts"]) if launch and event.get("cat") == "kernel" else None
        if step:
            (step.in_graph if "GraphLaunch" in launch["name"] else step.eager)[event["name"]] += 1
            step.grids.setdefault(event["name"], set()).add(tuple(event["args"].get("grid", ())))
            step.us[event["name"]] += event.get("dur", 0)
    return found


def waits(path: Path) -> dict[str, int]:
    """Calls in which the host waits for the device, over the whole trace."""
    called = Counter(e["name"] for e in complete(path) if e.get("cat") in RUNTIMES)
    return {name: called[name] for name in WAITS if called[name]}


def complete(path: Path) -> list[dict]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        return [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
