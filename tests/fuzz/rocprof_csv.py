"""rocprofv3's CSV files: a process's tables in the columns of each era, rows of wrong width, cells of wrong kinds."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import Any

import rocprof_kit as kit
from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

NAMES = ("Cijk_gemm", kit.RCCL, "void f<int, 4>(a, b)", 'with "quotes", and commas', "große")
ERA_62 = [name for name in kit.KERNELS if name != "Stream_Id"]


@some.composite
def dispatches(draw: DrawFn, hostile: bool = False) -> list[list[Any]]:
    """Rows of a kernel trace, one after the other on two agents."""
    names = damage.texts if hostile else some.sampled_from(NAMES)
    rows, at = [], draw(some.integers(1, 2**60))
    for number in range(draw(some.integers(1, 6))):
        at += draw(some.integers(0, 5_000))
        end = at + draw(some.integers(0, 10**9))
        rows.append(kit.kernel(draw(names), at, end, number, draw(some.sampled_from(("Agent 4", "Agent 5")))))
        at = end
    return rows


def said(rows: list[list[Any]]) -> dict[str, Any]:
    """What ``inspect`` must say of the rows."""
    name, start, end = (kit.KERNELS.index(column) for column in ("Kernel_Name", "Start_Timestamp", "End_Timestamp"))
    return {
        "kernels": len(rows),
        "kernel_time_ns": sum(row[end] - row[start] for row in rows),
        "calls": dict(Counter(row[name] for row in rows)),
    }


def text(rows: list[list[Any]]) -> bytes:
    """As CSV, texts in quotes."""
    made = io.StringIO()
    csv.writer(made, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerows(rows)
    return made.getvalue().encode("utf-8", "surrogatepass")


def as_62(rows: list[list[Any]]) -> list[list[Any]]:
    """The columns of ROCm 6.2, whose agents are numbers."""
    place, agent = kit.KERNELS.index("Stream_Id"), kit.KERNELS.index("Agent_Id")
    plain = [[cell.removeprefix("Agent ") if at == agent else cell for at, cell in enumerate(row)] for row in rows]
    return [ERA_62, *(row[:place] + row[place + 1 :] for row in plain)]


@some.composite
def sound(draw: DrawFn) -> Sample:
    """A kernel trace alone, in either era."""
    rows = draw(dispatches())
    table = as_62(rows) if draw(some.booleans()) else [kit.KERNELS, *rows]
    return Sample({"501_kernel_trace.csv": text(table)}, said(rows))


@some.composite
def short(draw: DrawFn) -> Sample:
    """Some rows lack a cell or have one too many: each is lost and counted, and no other moves."""
    rows = draw(dispatches())
    odd = draw(some.sets(some.integers(0, len(rows)), max_size=3)) | {0}
    table: list[list[Any]] = []
    for number, row in enumerate([*rows, rows[0]]):
        table += [row[: draw(some.integers(1, len(row) - 1))] if draw(some.booleans()) else [*row, 5]] * (number in odd)
        table += [row] if number < len(rows) else []

    def also(rec: Any) -> None:
        assert len(rec.kernels) == len(rows)
        assert sum(file.counts.lost_events for file in rec.files) == len(odd)
        assert sum(note.count for note in rec.notes if note.word == "lost_rows") == len(odd)

    return Sample({"501_kernel_trace.csv": text([kit.KERNELS, *table])}, {"kernels": len(rows)}, also=also)


@some.composite
def damaged(draw: DrawFn) -> Sample:
    """A folder of a process's tables of which any may be damaged."""
    tables: dict[str, list[list[Any]]] = {
        "501_kernel_trace.csv": [kit.KERNELS, *draw(dispatches(hostile=True))],
        "501_hip_api_trace.csv": [kit.CALLS, kit.call("HIP_RUNTIME_API_EXT", "hipLaunchKernel", 1, 100, 150)],
        "501_marker_api_trace.csv": [kit.CALLS, kit.call("MARKER_CORE_API", kit.STEP, 9, 50, 1_000)],
        "501_rccl_api_trace.csv": [kit.CALLS, kit.call("RCCL_API", "ncclAllReduce", 3, 60, 90)],
        "501_memory_copy_trace.csv": [
            kit.COPIES,
            ["MEMORY_COPY", "MEMORY_COPY_DEVICE_TO_HOST", 3, "Agent 4", "Agent 0", 6, 2_950, 2_990],
        ],
        "501_agent_info.csv": [kit.AGENTS, *kit.TWO_CPUS],
        "501_kernel_stats.csv": [
            ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev"],
            ["Cijk_gemm", 2, 3_000, 1_500.0, 100.0, 1_000, 2_000, 5.5],
        ],
    }
    names = draw(some.sets(some.sampled_from(sorted(tables)), min_size=1))
    files = {}
    for name in sorted(names):
        rows = draw(damage.spoilt_rows(tables[name])) if draw(some.booleans()) else tables[name]
        content = text(rows)
        files[f"out/{name}"] = content if draw(some.integers(0, 2)) else draw(damage.spoilt_bytes(content))
    return Sample(files, folder=draw(some.booleans()))


FORMAT = Format("rocprof_csv", sound() | short() | damaged() | damaged(), examine)
