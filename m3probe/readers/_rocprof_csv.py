"""rocprofv3's CSV files: which kind one is, by its header, and which others are of the same process."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

_KINDS = (
    "kernel_trace", "hip_api_trace", "hsa_api_trace", "marker_api_trace", "rccl_api_trace", "memory_copy_trace",
    "memory_allocation_trace", "scratch_memory_trace", "agent_info", "kernel_stats", "hip_api_stats", "hsa_api_stats",
    "marker_api_stats", "memory_copy_stats", "rccl_api_stats", "domain_stats",
)  # fmt: skip
_NAME = re.compile(rf"(?:(?P<prefix>.*)_)?(?P<kind>{'|'.join(_KINDS)})\.csv(?:\.gz)?")
_PID = re.compile(r"(?:.*_)?(\d{1,10})")
KERNELS, API, COPIES, ALLOCATIONS, AGENTS, STATS = "kernels", "api", "copies", "allocations", "agents", "stats"


def kind_of(header: Iterable[str]) -> str:
    """What the rows are; "" for a table of something else.

    rocprof v2's kernel trace counts too (``GPU_ID``, ``Correlation_ID``, no ``Kind``). A table of counters has rows for
    counters, and rocprofiler-compute's one column for each: both are none of these.
    """
    names = set(header)
    timed = names >= {"start_timestamp", "end_timestamp"} and not names & {"counter_name", "arch_vgpr", "wave_size"}
    dispatches = "kernel_name" in names and ("kind" in names or {"gpu_id", "correlation_id"} <= names)
    tests = {
        STATS: {"name", "calls", "totaldurationns"} <= names,
        AGENTS: {"agent_type", "node_id"} <= names,
        KERNELS: timed and dispatches,
        API: timed and {"domain", "function"} <= names,
        COPIES: timed and {"kind", "direction"} <= names,
        ALLOCATIONS: timed and {"kind", "operation"} <= names,
    }
    return next((kind for kind, holds in tests.items() if holds), "")


def header_of(head: bytes) -> list[str]:
    """Lower-case names of the first line; empty where it is no CSV header."""
    line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if len(line) > 8192 or b"," not in line:
        return []
    try:
        return [name.strip().lower() for name in next(csv.reader([line.decode().rstrip("\r")]), [])]
    except (csv.Error, UnicodeDecodeError):
        return []


def siblings(path: Path, offered: Iterable[Path]) -> list[Path]:
    """The files of the same process: one folder, one prefix (``501_``, ``run_501_``); the one itself among them."""
    said = _NAME.fullmatch(path.name)
    if said is None or "stats" in said["kind"]:
        return [path]
    found = {path}
    for other in offered:
        name = _NAME.fullmatch(other.name) if other.parent == path.parent else None
        if name and name["prefix"] == said["prefix"] and "stats" not in name["kind"]:
            found.add(other)
    return sorted(found)


def pid_of(path: Path) -> int | None:
    """The process that the name tells: ``501_kernel_trace.csv``."""
    said = _NAME.fullmatch(path.name)
    number = _PID.fullmatch(said["prefix"] or "") if said else None
    return int(number[1]) if number else None


def is_kernel_stats(path: Path, names: Iterable[str]) -> bool:
    """Whether a table of totals is of kernels: by its file name, else by what its rows are called."""
    said = _NAME.fullmatch(path.name)
    if said:
        return said["kind"] == "kernel_stats"
    return not all(name.startswith(("hip", "__hip", "hsa_", "nccl", "roctx", "MEMORY_COPY")) for name in names)
