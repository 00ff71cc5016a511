"""Databases of profilers for tests, written by hand with plain sqlite3: tables, columns and rows as given."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GUID = "0000bb02-0000-7000-8000-0000000000d4"
Tables = dict[str, tuple[str, Sequence[tuple[Any, ...]]]]
"""table -> (its columns as SQL, its rows)."""


def write(path: Path, tables: Tables, *after: str) -> Path:
    """A database of these tables, then further statements."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("PRAGMA synchronous=OFF")
        for name, (columns, rows) in tables.items():
            db.execute(f'CREATE TABLE "{name}" ({columns})')
            for row in rows:
                db.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', row)
        for statement in after:
            db.execute(statement)
    db.close()
    return path


_KEY = "id INTEGER PRIMARY KEY, guid TEXT"
AGENTS = [
    (0, GUID, 1, 50, "CPU", 0, 0, "cpu"),
    (4, GUID, 1, 50, "GPU", 4, 0, "gfx950"),
    (5, GUID, 1, 50, "GPU", 5, 1, "gfx950"),
]
SYMBOLS = [(7, GUID, "_Z4gemmv.kd", "gemm(void)"), (8, GUID, "norm.kd", "norm")]
STRINGS = {
    1: "HIP_RUNTIME_API_EXT",
    2: "MARKER_CORE_RANGE_API",
    3: "KERNEL_DISPATCH",
    4: "RCCL_API",
    5: "hipLaunchKernel",
    6: "roctxRangePushA",
    7: "ncclAllReduce",
    8: "MEMORY_COPY_DEVICE_TO_HOST",
    9: "hipGraphLaunch",
}
STEP = "execute_context_0(0)_generation_2(2)"
EVENTS = [
    # id, category, stack, extdata
    (1, 2, 900, f'{{"message": "{STEP}"}}'),
    (2, 1, 71, "{}"),
    (3, 3, 71, "{}"),
    (4, 1, 72, "{}"),
    (5, 3, 72, "{}"),
    (6, 3, 72, "{}"),
    (7, 4, 73, "{}"),
    (8, 1, 74, "{}"),
]
REGIONS = [
    # id, start, end, name, event: a step of 1,000 to 9,000 with a launch, a graph launch, a collective and a copy's call
    (900, 1_000, 9_000, 6, 1),
    (71, 1_100, 1_200, 5, 2),
    (72, 1_300, 1_400, 9, 4),
    (73, 1_250, 1_500, 7, 7),
    (74, 1_600, 1_700, 5, 8),
]
DISPATCHES = [
    # id, kernel, queue, start, end, event: 3,000 + 500 + 700 ns
    (1, 7, 3, 2_000, 5_000, 3),
    (2, 8, 3, 5_100, 5_600, 5),
    (3, 7, 3, 5_700, 6_400, 6),
]


def rocpd_a(path: Path, *after: str, suffix: str = "", **changed: Any) -> Path:
    """Layout A: places and times in the row; ``changed`` replaces a table by name."""
    return write(path, {name + suffix: table for name, table in (layout_a() | changed).items()}, *after)


def layout_a() -> Tables:
    """One process (pid 50, its row 50), two GPUs (agents 4 and 5) of which the first ran three kernels."""
    return {
        **_shared(),
        "rocpd_kernel_dispatch": (
            (
                f'{_KEY}, nid, pid, tid, agent_id, kernel_id, queue_id, stream_id, start, "end", workgroup_size_x, '
                "workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id"
            ),
            [(i, GUID, 1, 50, 51, 4, k, q, 0, s, e, 256, 1, 1, 1024, 2, 1, v) for i, k, q, s, e, v in DISPATCHES],
        ),
        "rocpd_region": (
            f'{_KEY}, nid, pid, tid, start, "end", name_id, event_id',
            [(i, GUID, 1, 50, 51, start, end, name, event) for i, start, end, name, event in REGIONS],
        ),
        "rocpd_memory_copy": (
            f'{_KEY}, nid, pid, tid, start, "end", name_id, dst_agent_id, src_agent_id, size, stream_id, event_id',
            [(1, GUID, 1, 50, 51, 6_500, 6_900, 8, 0, 4, 4_096, 0, 8)],
        ),
    }


def _shared() -> Tables:
    return {
        "rocpd_metadata": ("id INTEGER PRIMARY KEY, tag TEXT, value TEXT", [(1, "schema_version", "3")]),
        "rocpd_string": (f"{_KEY}, string TEXT", [(i, GUID, text) for i, text in STRINGS.items()]),
        "rocpd_info_process": (f"{_KEY}, nid, pid", [(50, GUID, 1, 4050)]),
        "rocpd_info_thread": (f"{_KEY}, nid, pid, tid", [(51, GUID, 1, 50, 4051)]),
        "rocpd_info_agent": (f"{_KEY}, nid, pid, type, absolute_index, type_index, name", AGENTS),
        "rocpd_info_kernel_symbol": (f"{_KEY}, kernel_name, display_name", SYMBOLS),
        "rocpd_event": (
            f"{_KEY}, category_id, stack_id, correlation_id, extdata",
            [(i, GUID, category, stack, 0, extra) for i, category, stack, extra in EVENTS],
        ),
    }


def layout_b() -> Tables:
    """The same run with times and places in tables of their own; ids of times are in no order."""
    times: dict[int, int] = {}

    def at(value: int) -> int:
        times[1_000 - len(times)] = value
        return 1_001 - len(times)

    kernels = [(i, GUID, 1, k, i, at(s), at(e), 256, 1, 1, 1024, 2, 1, v) for i, k, _, s, e, v in DISPATCHES]
    regions = [(i, GUID, 2, name, at(start), at(end), event) for i, start, end, name, event in REGIONS]
    return {
        **_shared(),
        "rocpd_timestamp": (f"{_KEY}, value, phase, track_id", [(i, GUID, v, 0, 1) for i, v in times.items()]),
        "rocpd_track": (
            f"{_KEY}, nid, pid, tid, agent_id, queue_id, stream_id, name_id",
            [(1, GUID, 1, 50, 51, 4, 3, 0, None), (2, GUID, 1, 50, 51, None, None, None, None)],
        ),
        "rocpd_kernel_dispatch": (
            (
                f"{_KEY}, track_id, kernel_id, dispatch_id, start_id, end_id, workgroup_size_x, workgroup_size_y, "
                "workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id"
            ),
            kernels,
        ),
        "rocpd_region": (f"{_KEY}, track_id, name_id, start_id, end_id, event_id", regions),
    }


NAMES = {
    1: "gemm",
    2: "void gemm<float>(float*)",
    3: "red",
    4: "red(int)",
    5: STEP,
    9: "cudaGraphLaunch_v10000",
    10: "cudaLaunchKernel_v7000",
}
PID = 0x1234


def global_id(pid: int, tid: int = 0) -> int:
    """As nsys writes a process and a thread of it, with the host's bits above."""
    return (1 << 48) | (pid << 24) | tid


def nsys() -> Tables:
    """One process on two devices, both with a stream 7: 1,000 + 2,000 ns on device 0, 500 on device 1."""
    owner = global_id(PID)
    thread = global_id(PID, 77)
    return {
        "StringIds": ("id INTEGER PRIMARY KEY, value TEXT", list(NAMES.items())),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            (
                "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, gridX, gridY, "
                "gridZ, blockX, blockY, blockZ, graphNodeId"
            ),
            [
                (10_100, 11_100, 0, 1, 7, 21, owner, 2, 1, 8, 1, 1, 128, 1, 1, None),
                (11_200, 13_200, 0, 1, 7, 22, owner, 4, 3, 4, 2, 1, 128, 1, 1, 5_000_000_001),
                (10_150, 10_650, 1, 2, 7, 23, owner, 2, 1, 8, 1, 1, 128, 1, 1, None),
            ],
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            "start, end, globalTid, correlationId, nameId",
            [(10_000, 10_010, thread, 21, 10), (10_020, 10_030, thread, 22, 9), (10_040, 10_050, thread, 23, 10)],
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            "start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind",
            [(13_300, 13_400, 0, 1, 7, 24, owner, 64, 2)],
        ),
        "NVTX_EVENTS": (
            "start, end, eventType, text, textId, globalTid",
            [
                (9_900, 14_000, 59, None, 5, thread),
                (9_950, -1, 60, "open", None, thread),
                (9_960, None, 34, "mark", None, thread),
            ],
        ),
        "TARGET_INFO_GPU": (
            "id, name, totalMemory, smCount, computeMajor, computeMinor",
            [(0, "NVIDIA H200", 150_754_820_096, 132, 9, 0), (1, "NVIDIA H200", 150_754_820_096, 132, 9, 0)],
        ),
        "DIAGNOSTIC_EVENT": ("timestamp, severity, text", [(1, 10, "fine"), (2, 50, "some events were lost\x1b[31m")]),
        "META_DATA_EXPORT": ("name, value", [("EXPORT_SCHEMA_VERSION", "3.11.0")]),
    }
