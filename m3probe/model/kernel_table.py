"""Totals per kernel as torch's profiler prints them (``key_averages().table()``): no time line, no order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelTableRow:
    """One printed row.

    Args:
        name: as printed; ``cut``: it ends in the table's ``...``, so that several kernels may share it.
        self_ns: own time on the device over all calls; ``self_slack_ns``: how far it may be off, as it is rounded.
        is_kernel: False for operators, runtime calls, copies, fills and step annotations.
        self_cpu_ns: own time on the host; None in a table without that column.
    """

    name: str
    calls: int
    self_ns: int
    self_slack_ns: int
    is_kernel: bool
    cut: bool = False
    self_cpu_ns: int | None = None


@dataclass(frozen=True, slots=True)
class KernelTable:
    """One table.

    Args:
        file: index into ``Recording.files``.
        index: its place in that file, from 0.
        rank: of the file's name or of the log's label; None where neither tells.
        device: the heading's word (``CUDA``; ROCm prints that too), empty in a table without device columns.
        device_total_ns: the line below it, over all kernels, copies and fills; None without that line.
        percent_sum: what its column of percentages adds up to; None without one (torch prints no sum of it).
    """

    file: int
    path: str
    index: int
    rank: int | None
    device: str
    rows: tuple[KernelTableRow, ...]
    device_total_ns: int | None = None
    host_total_ns: int | None = None
    percent_sum: float | None = None

    @property
    def kernels(self) -> tuple[KernelTableRow, ...]:
        """Rows of kernels alone."""
        return tuple(row for row in self.rows if row.is_kernel)

    @property
    def kernel_ns(self) -> int:
        """Sum of the kernels' own times."""
        return sum(row.self_ns for row in self.rows if row.is_kernel)
