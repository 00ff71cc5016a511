"""The bundled traces counted again by plain json and integers; nothing of m3probe is in the count."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from m3probe import pipeline
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.report import SummarySection, TrustSection
from m3probe.sources import open_recording

SAMPLES = Path(__file__).parents[1] / "samples"
GRAPH = SAMPLES / "h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = SAMPLES / "h200-m3-tp4rank-eager.pt.trace.json.gz"

TRUTH = {
    GRAPH: {"kernels": 2059, "time": 43_119_258, "union": 40_882_574, "launches": 9, "steps": [196, *[207] * 9, 0]},
    EAGER: {"kernels": 1995, "time": 41_457_689, "union": 41_457_689, "launches": 0, "steps": [195, *[200] * 9, 0]},
}


def ns(text: str) -> int:
    return int(Decimal(text) * 1000)


def events_of(path: Path) -> list[dict[str, Any]]:
    """Events with times as the exact decimal text of the file."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def union(spans: list[tuple[int, int]]) -> int:
    total, reach = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def steps_of(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """(name, start) of the host annotations in order."""
    found = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("execute_")]
    return sorted(((e["name"], ns(str(e["ts"]))) for e in found), key=lambda step: step[1])


def kernels_per_step(events: list[dict[str, Any]]) -> list[int]:
    starts = [start for _, start in steps_of(events)]
    calls = {
        e["args"]["correlation"]: ns(str(e["ts"]))
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "Launch" in e["name"]
    }
    counts = [0] * len(starts)
    for e in events:
        if e.get("cat") == "kernel":
            launch = calls[e["args"]["correlation"]]
            counts[max(i for i, start in enumerate(starts) if start <= launch)] += 1
    return counts


@pytest.mark.parametrize("path", [GRAPH, EAGER], ids=["graph", "eager"])
def test_totals_equal_a_count_by_plain_json(path: Path) -> None:
    events = events_of(path)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    spans = [(ns(str(e["ts"])), ns(str(e["ts"])) + ns(str(e["dur"]))) for e in kernels]
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    starts = [ns(str(e["ts"])) for e in device]
    ends = [ns(str(e["ts"])) + ns(str(e["dur"])) for e in device]
    summary = pipeline.analyze([path]).answer.section(SummarySection)
    assert summary is not None
    total = summary.summary
    assert total.kernel_count == len(kernels) == TRUTH[path]["kernels"]
    assert total.kernel_time_ns == sum(end - start for start, end in spans) == TRUTH[path]["time"]
    assert total.busy_union_ns == union(spans) == TRUTH[path]["union"]
    assert total.gpu_span_ns == max(ends) - min(starts)
    assert total.graph_launches == sum("GraphLaunch" in e["name"] for e in events if e.get("cat") == "cuda_runtime")
    assert total.graph_launches == TRUTH[path]["launches"]
    assert sum(row.count for row in total.families) == len(kernels)
    assert sum(row.time_ns or 0 for row in total.families) == total.kernel_time_ns
    assert [row.kernel_count for row in summary.steps] == kernels_per_step(events) == TRUTH[path]["steps"]
    assert [row.name for row in summary.steps] == [name for name, _ in steps_of(events)]


@pytest.mark.parametrize("path", [GRAPH, EAGER], ids=["graph", "eager"])
def test_every_kernel_time_and_name_equals_the_files(path: Path) -> None:
    kernels = [e for e in events_of(path) if e.get("cat") == "kernel"]
    rec = open_recording([path])
    assert rec.names("kernels") == [e["name"] for e in kernels]
    assert rec.kernels["start_ns"].tolist() == [ns(str(e["ts"])) for e in kernels]
    assert rec.kernels["dur_ns"].tolist() == [ns(str(e["dur"])) for e in kernels]
    assert rec.kernels["correlation"].tolist() == [e["args"]["correlation"] for e in kernels]
    assert (rec.kernels["launch"] >= 0).all()


def test_nine_replays_of_189_kernels_in_three_orders_are_trusted() -> None:
    rec = open_recording([GRAPH])
    found = pipeline.inspect(rec)
    assert found.facts["kernels_per_graph_launch"] == [189] * 9
    assert found.facts["same_stream_overlaps"] == 276
    trust = pipeline.report(rec).answer.section(TrustSection)
    assert trust is not None
    assert trust.trust.verdict == "complete"


def test_sparse_decode_and_moe_gemm_launches_follow_the_layers() -> None:
    # 6 sparse layers x 9 decode steps; two grouped GEMMs in each sparse layer
    events = events_of(GRAPH)
    assert sum(e["name"] == "_gqa_sparse_decode_kernel" for e in events if e.get("cat") == "kernel") == 54
    repeats = pipeline.analyze([GRAPH]).answer.section(RepeatsSection)
    assert repeats is not None
    per_step = {(row.phase, row.family): row.per_step for row in repeats.repeats}
    assert per_step["decode", "moe_gemm"] == 12
    assert per_step["decode", "indexer"] == 18  # score, partial top-k, merge in each of 6 layers
