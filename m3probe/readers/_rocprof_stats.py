"""rocprofv3's tables of totals (``*_stats.csv``): calls and time by name, no dispatch and no time line."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from m3probe.model.kernel_table import KernelTable, KernelTableRow
from m3probe.model.recording import RecordingBuilder
from m3probe.readers._beside import beside
from m3probe.readers._csv_columns import Block, CsvTable
from m3probe.readers._rocprof_csv import is_kernel_stats

KIND, ROLE = "rocprofv3-csv", "summary"


def add_stats(path: Path, block: Block, table: CsvTable, builder: RecordingBuilder, *, in_folder: bool) -> None:
    """The table, of which a block holds all rows that matter: 32,768 names, the largest first."""
    titles = block.texts("name")
    calls, total = (block.ints(name).tolist() for name in ("calls", "totaldurationns"))
    of_kernels = is_kernel_stats(path, titles)
    rows = tuple(
        KernelTableRow(title, max(count, 0), max(ns, 0), 0, of_kernels)
        for title, count, ns in zip(titles, calls, total, strict=True)
    )
    file = len(builder.files)
    builder.files.append(beside(path, KIND, ROLE, table.size_bytes, cut=table.cut, in_folder=in_folder))
    percent = sum(_number(text) for text in block.texts("percentage")) if "percentage" in block else None
    found = KernelTable(file, str(path), 0, None, "", rows, percent_sum=percent)
    builder.note(table.notes())
    builder.meta = replace(builder.meta, kernel_tables=(*builder.meta.kernel_tables, found))


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0
