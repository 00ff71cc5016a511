"""Recordings of devices alone, as rocprofv3 writes them, from rows of a few figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from m3probe.model.recording import EventCounts, Recording, RecordingBuilder, SourceFile
from m3probe.readers._process import PARTS, Process, add_process

GEMM = "Cijk_gemm"
RCCL = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
Row = tuple[str, int, int]
"""(name, start, end) in ns."""


@dataclass(frozen=True)
class Ran:
    """One process: rows by device; ``calls`` are (name, start, end, correlation), ``ranges`` rows."""

    kernels: Mapping[int, Sequence[Row]]
    copies: Mapping[int, Sequence[Row]] = field(default_factory=dict)
    calls: Sequence[tuple[str, int, int, int]] = ()
    ranges: Sequence[Row] = ()
    pid: int = 501
    path: str = "501_results.json"


def recorded(*processes: Ran, kind: str = "rocprofv3-json", ranked: bool = True) -> Recording:
    """Their devices as ranks by number (``ranked``), each process one input."""
    builder = RecordingBuilder()
    for ran in processes:
        add_process(
            _process(ran, builder), builder, lambda device, ran=ran: _file(ran, kind, device if ranked else None)
        )  # type: ignore[misc]
    return builder.build()


def _process(ran: Ran, builder: RecordingBuilder) -> Process:
    process = Process()
    for part, by_device in (("kernels", ran.kernels), ("memcpy", ran.copies)):
        rows = [(name, start, end, device) for device, some in by_device.items() for name, start, end in some]
        if rows:
            columns = _timed([row[:3] for row in rows], builder)
            columns["device"] = np.array([row[3] for row in rows])
            _put(process, part, columns)
    if ran.calls:
        links = {"correlation": np.array([call[3] for call in ran.calls])}
        _put(process, "launches", _timed([call[:3] for call in ran.calls], builder) | links)
    if ran.ranges:
        _put(process, "annotations", _timed(ran.ranges, builder))
    return process


def _put(process: Process, part: str, columns: dict[str, np.ndarray]) -> None:
    """Columns that are not given: 0, and -1 for what was not written."""
    count = len(columns["name"])
    untold = {"grid": -1, "payload_bytes": -1}
    rest = {name: np.full(count, untold.get(name, 0)) for name in PARTS[part] if name not in columns}
    process.put(part, **columns, **rest)


def _timed(rows: Sequence[Row], builder: RecordingBuilder) -> dict[str, np.ndarray]:
    start = np.array([row[1] for row in rows])
    return {
        "name": np.array([builder.strings.intern(row[0]) for row in rows]),
        "start_ns": start,
        "dur_ns": np.array([row[2] for row in rows]) - start,
    }


def _file(ran: Ran, kind: str, rank: int | None) -> SourceFile:
    return SourceFile(
        path=ran.path,
        kind=kind,
        role="rank",
        rank=rank,
        world_size=None,
        base_time_ns=None,
        size_bytes=0,
        counts=EventCounts(),
        in_folder=False,
        pid=ran.pid,
    )
