"""rocprofv3's files, written by hand in a few lines: tables of one process, and JSON documents."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from m3probe.model.recording import Recording
from m3probe.sources import open_recording

SIZES = [f"{what}_Size_{axis}" for what in ("Workgroup", "Grid") for axis in "XYZ"]
KERNELS = ["Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name",
           "Correlation_Id", "Start_Timestamp", "End_Timestamp", *SIZES]  # fmt: skip
CALLS = ["Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp"]
COPIES = ["Kind", "Direction", "Stream_Id", "Source_Agent_Id", "Destination_Agent_Id", "Correlation_Id",
          "Start_Timestamp", "End_Timestamp"]  # fmt: skip
AGENTS = ["Node_Id", "Logical_Node_Id", "Agent_Type", "Cu_Count", "Name"]
TWO_CPUS = [[0, 0, "CPU", 0, "cpu"], [1, 1, "CPU", 0, "cpu"], *([n, n, "GPU", 256, "gfx950"] for n in range(2, 10))]
STEP = "execute_context_0(0)_generation_8(8)"
RCCL = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"


def table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerows([header, *rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue())
    return path


def kernel(name: str, start: int, end: int, link: int = 0, agent: str = "Agent 4", stream: int = 0) -> list[Any]:
    """256 work-items in groups of 64."""
    sizes = [64, 1, 1, 256, 1, 1]
    return ["KERNEL_DISPATCH", agent, 1, stream, 70, 1, 1, name, link, start, end, *sizes]


def call(domain: str, function: str, link: int, start: int, end: int, pid: int = 501) -> list[Any]:
    return [domain, function, pid, 70, link, start, end]


def worker(folder: Path, pid: int, agent: str = "Agent 4") -> None:
    """One step of a worker: a GEMM and an all-reduce, each by a launch; a copy back; agents."""
    hip = "HIP_RUNTIME_API_EXT"
    table(
        folder / f"{pid}_kernel_trace.csv",
        KERNELS,
        [kernel("Cijk_gemm", 2_000, 2_700, 1, agent), kernel(RCCL, 2_800, 2_900, 4, agent, 3)],
    )
    table(
        folder / f"{pid}_hip_api_trace.csv",
        CALLS,
        [
            call(hip, "hipLaunchKernel", 1, 1_100, 1_150, pid),
            call(hip, "hipExtLaunchKernel", 4, 1_210, 1_240, pid),
            call(hip, "hipMemcpyAsync", 6, 1_300, 1_310, pid),
        ],
    )
    table(folder / f"{pid}_rccl_api_trace.csv", CALLS, [call("RCCL_API", "ncclAllReduce", 3, 1_200, 1_250, pid)])
    table(folder / f"{pid}_marker_api_trace.csv", CALLS, [call("MARKER_CORE_API", STEP, 9, 1_000, 1_400, pid)])
    table(
        folder / f"{pid}_memory_copy_trace.csv",
        COPIES,
        [["MEMORY_COPY", "MEMORY_COPY_DEVICE_TO_HOST", 3, agent, "Agent 0", 6, 2_950, 2_990]],
    )
    table(folder / f"{pid}_agent_info.csv", AGENTS, TWO_CPUS)


def of(*paths: Path) -> Recording:
    return open_recording(list(paths))


def told(rec: Recording) -> str:
    return " | ".join(note.text for note in rec.notes)


# --- JSON --------------------------------------------------------------------------------------------

_KINDS = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API_EXT", "operations": ["hipFree", "hipLaunchKernel", "hipGraphLaunch"]},
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]},
    {"kind": "RCCL_API", "operations": ["ncclGroupStart", "ncclAllGather"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE", "COMPLETE"]},
]
_SYMBOLS = [
    {"kernel_id": 0, "formatted_kernel_name": "0"},
    {"kernel_id": 7, "formatted_kernel_name": "Cijk_gemm", "kernel_name": "Cijk_gemm.kd"},
    {"kernel_id": 8, "demangled_kernel_name": f"{RCCL} [clone .kd]"},
]


def dispatch(
    kernel_id: int, start: Any, end: int, link: int = 0, agent: int = 100, stream: int | None = 0
) -> dict[str, Any]:
    sizes = {"workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 256, "y": 1, "z": 1}}
    info = {"agent_id": {"handle": agent}, "queue_id": {"handle": 2**64 - 16}, "kernel_id": kernel_id, **sizes}
    record = {"kind": 5, "operation": 2, "thread_id": 70, "correlation_id": {"internal": link, "external": 0},
              "start_timestamp": start, "end_timestamp": end, "dispatch_info": info}  # fmt: skip
    return record if stream is None else {**record, "stream_id": {"handle": stream}}


def api(kind: int, operation: int, link: int, start: int, end: int) -> dict[str, Any]:
    return {"kind": kind, "operation": operation, "thread_id": 70, "correlation_id": {"internal": link},
            "start_timestamp": start, "end_timestamp": end}  # fmt: skip


def process(pid: int = 501, markers: Mapping[int, str] | None = None, **records: Any) -> dict[str, Any]:
    """One element; GPUs have handles 100 and 101 and follow a CPU."""
    agents = [
        {"id": {"handle": 99}, "type": 1, "name": "cpu", "node_id": 0, "logical_node_id": 0, "gpu_index": -1},
        *(
            {"id": {"handle": 100 + n}, "type": 2, "name": "gfx950", "product_name": "AMD Instinct MI350X",
             "cu_count": 256, "gfx_target_version": 90500, "node_id": 2 + n, "logical_node_id": 1 + n,
             "logical_node_type_id": n, "gpu_index": n, "hive_id": 17332996360099338395}
            for n in range(2)
        ),
    ]  # fmt: skip
    said = [{"key": key, "value": text} for key, text in (markers or {}).items()]
    return {
        "metadata": {"pid": pid},
        "agents": agents,
        "strings": {"buffer_records": _KINDS, "marker_api": said},
        "kernel_symbols": _SYMBOLS,
        "buffer_records": records,
    }


def results(path: Path, *processes: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}))
    return path
