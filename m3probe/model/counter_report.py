"""Rows of counters: what a kernel fetched and wrote beyond the L2, beside the least that its operation must read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CounterRow:
    """One kernel at one grid; figures are means of one dispatch in the counter run, None where not known.

    Where the counters leave open how large a request was, bytes lie between ``_low`` and ``_high``; else both are equal.

    Args:
        groups: workgroups of the grid.
        dispatches: whose counters were read.
        how: where the bytes read come from, with the counters' numbers.
        local_share: of the read requests, those to the device's own memory (0 to 1).
        time_ns: in the run that counted the reads: kernels ran one at a time.
        bytes_per_s_low: read and written over that time; ``peak_share_low``: of the memory's peak.
        shape: of the GEMM that a trace beside shows at this grid; ``least_read_bytes``: of its operands, each read once.
        refetch_low: bytes read over the least.
        note: why a figure is not known.
    """

    kernel: str
    groups: int | None
    dispatches: int
    read_bytes_low: float | None
    read_bytes_high: float | None
    written_bytes_low: float | None
    written_bytes_high: float | None
    how: str
    local_share: float | None
    time_ns: float | None
    bytes_per_s_low: float | None
    bytes_per_s_high: float | None
    peak_share_low: float | None
    peak_share_high: float | None
    shape: str
    least_read_bytes: float | None
    refetch_low: float | None
    refetch_high: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Counters:
    """``device`` is None where it is not one whose peaks are known; ``unknown`` says what could not be told, and why."""

    device: str | None
    gfx: str
    rows: tuple[CounterRow, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountersSection:
    """What hardware counters say of bytes; no time of it is one of serving."""

    counters: Counters
