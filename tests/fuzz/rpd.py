"""RPD databases: calls, operations and the links between them, in schema 2."""

from __future__ import annotations

import sqlite_kit as kit
from fuzz import _databases as databases
from fuzz.harness import Format, examine

STRINGS = {
    1: "KernelExecution",
    2: "CopyDeviceToHost",
    3: "",
    4: "gemm",
    5: "hipLaunchKernel",
    6: "UserMarker",
    7: kit.STEP,
}


def tables(spans: databases.Spans) -> kit.Tables:
    """A step in which each kernel has a call; a copy behind them."""
    first, last = spans[0][0], spans[-1][1]
    calls = [(1, 50, 51, first - 1, last, 6, 7), *((n, 50, 51, first, first, 5, 3) for n in range(2, len(spans) + 2))]
    ops = [(n, 0, 0, n, 0, start, end, 4, 1) for n, (start, end) in enumerate(spans, 2)]
    return {
        "rocpd_metadata": ("id INTEGER PRIMARY KEY, tag TEXT, value TEXT", [(1, "schema_version", "2")]),
        "rocpd_string": ("id INTEGER PRIMARY KEY, string TEXT", list(STRINGS.items())),
        "rocpd_api": ("id INTEGER PRIMARY KEY, pid, tid, start, end, apiName_id, args_id", calls),
        "rocpd_op": (
            "id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, completionSignal, start, end, description_id, opType_id",
            [*ops, (999, 0, 0, 9, 0, last, last + 5, 3, 2)],
        ),
        "rocpd_api_ops": ("id INTEGER PRIMARY KEY, api_id, op_id", [(n, n, n) for n in range(2, len(spans) + 2)]),
        "rocpd_kernelapi": (
            "api_ptr_id INTEGER PRIMARY KEY, stream TEXT, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ, kernelName_id",
            [(n, "0x0", 8, 1, 1, 64, 1, 1, 4) for n in range(2, len(spans) + 2)],
        ),
        "rocpd_monitor": (
            "id INTEGER PRIMARY KEY, deviceType, deviceId, monitorType, start, end, value",
            [(1, "gpu", 0, "sclk", first, last, "2100")],
        ),
    }


FORMAT = Format("rpd", databases.sample(tables, "trace.rpd", {"memcpys": 1, "memcpy_time_ns": 5}), examine)
