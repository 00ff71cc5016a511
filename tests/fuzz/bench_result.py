"""Results of a benchmark: JSON with and without requests, several in a file, and the box that a client prints."""

from __future__ import annotations

import json
from typing import Any

import bench_kit
from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn


@some.composite
def results(draw: DrawFn) -> list[dict[str, Any]]:
    """Runs whose counts are drawn."""
    found = []
    for _ in range(draw(some.integers(1, 3))):
        completed = draw(some.integers(1, 10**6))
        more: dict[str, Any] = {"completed": completed, "num_prompts": completed, "failed": 0}
        if draw(some.booleans()):
            more["ttfts"] = [draw(some.integers(0, 999)) / 1000 for _ in range(3)]
            more["itls"] = [[0.01, 0.02], [], [0.5]]
            more["output_lens"], more["errors"] = [3, 1, 2], ["", "", ""]
        found.append(bench_kit.result(**more))
    return found


def box(completed: int, failed: int, tokens: int) -> str:
    """As ``vllm bench serve`` prints it."""
    fields = {
        "Successful requests": completed,
        "Failed requests": failed,
        "Benchmark duration (s)": "20.00",
        "Total generated tokens": tokens,
        "Output token throughput (tok/s)": f"{tokens / 20:.2f}",
        "Mean TTFT (ms)": "1999.25",
    }
    lines = [f"{f'{name}:':<40} {value:<10}" for name, value in fields.items()]
    return "\n".join(["=" * 12 + " Serving Benchmark Result " + "=" * 12, *lines, "=" * 50, ""])


@some.composite
def console(draw: DrawFn) -> Sample:
    """Boxes, whole or damaged."""
    completed = draw(some.integers(1, 10**6))
    text = box(completed, 0, draw(some.integers(1, 10**6)) * 10)
    if draw(some.booleans()):
        return Sample({"client.txt": text.encode()}, {"runs": 1, "completed": completed, "failed": 0})
    return Sample({"client.txt": draw(damage.spoilt_bytes(text.encode() * draw(some.integers(1, 3))))})


@some.composite
def document(draw: DrawFn) -> Sample:
    """JSON, one run a line, whole or damaged."""
    found: Any = draw(results())
    if draw(some.booleans()):
        counts = [run["completed"] for run in found]
        said: dict[str, Any] = {"runs": len(found)}
        said |= {"completed": counts[0]} if len(counts) == 1 else {}

        def also(rec: Any) -> None:
            assert [run.completed for run in rec.meta.bench] == counts

        return Sample({"bench.json": "\n".join(map(json.dumps, found)).encode()}, said, also=also)
    found = draw(damage.spoilt_tree(found, 5))
    data = b"\n".join(draw(damage.as_json(run)) for run in (found if isinstance(found, list) else [found]))
    return Sample({"bench.json": draw(damage.spoilt_bytes(data)) if not draw(some.integers(0, 2)) else data})


FORMAT = Format("bench_result", console() | document(), examine)
