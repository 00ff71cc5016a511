"""docs/record.md says of each tool what it answers: held against what the readers and questions make of a recording of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocprof_kit import STEP, api, dispatch, process, results, worker
from sqlite_kit import nsys, rocpd_a, write
from tree import ROOT

from m3probe import pipeline
from m3probe.model.path_report import PathsSection
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.report import BytesSection, QueuesSection, Report, ShapesSection

CASES = ROOT / "tests" / "data" / "cases"
SAMPLES = ROOT / "samples"
QUESTIONS = ("shapes", "repeats", "bytes", "paths", "queues")
UNMEASURED = "not measured"
MOST_QUEUES = 5
"""Of the nine queues: from so many on a tool answers the question, below it a part."""


def rpd(folder: Path) -> Path:
    """A range round a launch, its kernel, and a copy of 4,096 bytes."""
    words = [
        "",
        "UserMarker",
        "hipLaunchKernel",
        "Cijk_gemm",
        "KernelExecution",
        "hipMemcpyAsync",
        "CopyDeviceToHost",
        STEP,
    ]
    return write(
        folder / "trace.rpd",
        {
            "rocpd_metadata": ("id, tag, value", [(1, "schema_version", "2")]),
            "rocpd_string": ("id INTEGER PRIMARY KEY, string", list(enumerate(words, 1))),
            "rocpd_api": (
                'id INTEGER PRIMARY KEY, pid, tid, start, "end", apiName_id, args_id',
                [
                    (1, 9, 10, 1_000, 5_000, 2, 8),
                    (2, 9, 10, 1_200, 1_300, 3, 1),
                    (3, 9, 10, 1_400, 1_500, 6, 1),
                ],
            ),
            "rocpd_op": (
                'id INTEGER PRIMARY KEY, gpuId, queueId, start, "end", description_id, opType_id',
                [(1, 0, 0, 1_400, 2_400, 4, 5), (2, 0, 0, 2_500, 2_600, 1, 7)],
            ),
            "rocpd_api_ops": ("id, api_id, op_id", [(1, 2, 1), (2, 3, 2)]),
            "rocpd_kernelapi": ("api_ptr_id, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ", []),
            "rocpd_copyapi": ("api_ptr_id, size, kind, dst, src", [(3, 4_096, 2, "0x0", "0x1")]),
        },
    )


def rocprof_csv(folder: Path) -> Path:
    worker(folder / "node", 501)
    return folder


def rocprof_json(folder: Path) -> Path:
    copy: dict[str, Any] = {**api(4, 1, 6, 90, 95), "src_agent_id": {"handle": 99}, "dst_agent_id": {"handle": 100}}
    records = {
        "kernel_dispatch": [dispatch(7, 200, 260, 1), dispatch(8, 300, 340, 4)],
        "hip_api": [api(1, 1, 1, 110, 115), api(1, 1, 4, 121, 124)],
        "marker_api": [api(2, 1, 9, 100, 140)],
        "memory_copy": [{**copy, "bytes": 4_096}],
    }
    return results(folder / "501_results.json", process(markers={9: STEP}, **records))


def kernels_alone(folder: Path) -> Path:
    return results(folder / "501_results.json", process(kernel_dispatch=[dispatch(7, 200, 260), dispatch(8, 300, 340)]))


def nodes(folder: Path) -> Path:
    return write(folder / "run.sqlite", nsys())


def rocpd(folder: Path) -> Path:
    return rocpd_a(folder / "501_results.db")


def sample(path: Path) -> Callable[[Path], Path]:
    return lambda _: path


MADE: dict[str, tuple[Callable[[Path], Path], ...]] = {
    "m3probe attach --profile-steps": (sample(SAMPLES / "live-h200-m3-attach"),),
    "m3probe attach without a kernel window": (sample(SAMPLES / "live-cpu-moe-tp2"),),
    "torch's profiler, eager, record_shapes": (sample(SAMPLES / "h200-m3-tp4rank-eager.pt.trace.json.gz"),),
    "torch's profiler, graphs": (sample(SAMPLES / "h200-m3-tp4rank-graph.pt.trace.json.gz"),),
    "rocprofv3 --kernel-trace alone": (kernels_alone,),
    "rocprofv3 with ranges, calls and copies, as CSV": (rocprof_csv,),
    "rocprofv3 with ranges, calls and copies, as rocpd or JSON": (rocprof_json, rocpd),
    "RPD with ranges": (rpd,),
    "nsys --cuda-graph-trace=node with NVTX": (nodes,),
    "nsys, graphs as wholes (its default)": (sample(CASES / "n01_graph_level_only.sqlite"),),
    "/metrics pages": (sample(ROOT / "tests" / "data" / "metrics" / "metrics_under_load_tp2_moe.prom.gz"),),
    "benchmark result": (sample(CASES / "b01_serve_v033.json"),),
    "server's log": (sample(ROOT / "tests" / "data" / "logs" / "h200-m3-tiny.log"),),
}
"""Row of the table -> recordings that this tool made, or that were made by hand as it writes them."""


def rows() -> dict[str, list[str]]:
    """The table: what was recorded -> the first word of each question's cell."""
    text = (ROOT / "docs" / "record.md").read_text().partition("| recorded with |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    return {row[0].replace("`", ""): [re.split(r"[: ]", cell)[0] for cell in row[1:]] for row in cells}


def answered(report: Report) -> list[str]:
    """``yes``, ``partly`` or ``no`` for each question, by what its section holds."""
    tests = (_shapes, _repeats, _bytes, _paths, _queues)
    return [("no", "partly", "yes")[sum(test(report))] for test in tests]


def _shapes(report: Report) -> tuple[bool, bool]:
    section = report.section(ShapesSection)
    seen = bool(section and section.shapes)
    return seen, seen and not any(finding.id == "shapes.unproven" for finding in report.findings)


def _repeats(report: Report) -> tuple[bool, bool]:
    section, summary = report.section(RepeatsSection), report.summary
    each = section.repeats if section else ()
    return bool(each or (summary and summary.families)), any(row.ns_per_step is not None for row in each)


def _bytes(report: Report) -> tuple[bool, bool]:
    section = report.section(BytesSection)
    planes = section.bytes if section else None
    told = [row for row in (*planes.compute, *planes.state, *planes.comm) if row.bytes is not None] if planes else []
    return bool(told), any(row.evidence != "transfers" for row in told)


def _paths(report: Report) -> tuple[bool, bool]:
    section, summary = report.section(PathsSection), report.summary
    asked = any(row.configured != "unknown" for row in section.paths) if section else False
    ran = bool(summary and summary.kernel_count) or any(row.verdict == "executed" for row in section.paths if section)
    return asked or ran, asked and ran


def _queues(report: Report) -> tuple[bool, bool]:
    section = report.section(QueuesSection)
    told = [text for text in section.queues.values() if not text.startswith(UNMEASURED)] if section else []
    return bool(told), len(told) >= MOST_QUEUES


def test_the_table_has_a_recording_for_each_row() -> None:
    assert list(rows()) == list(MADE)


@pytest.mark.parametrize("tool", MADE)
def test_a_tool_answers_what_the_table_says(tool: str, tmp_path: Path) -> None:
    for number, make in enumerate(MADE[tool]):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = answered(pipeline.analyze([make(folder)]))
        assert dict(zip(QUESTIONS, found, strict=True)) == dict(zip(QUESTIONS, rows()[tool], strict=True)), make
