"""torch's kernel tables, held against the trace of the same rank: the same calls and times, or which differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from m3probe.model.kernel_table import KernelTable
from m3probe.model.recording import Recording

_CUT_AT, _MARK = 52, "..."
"""torch cuts names to 55 characters, its mark among them (``max_name_column_width``)."""


@dataclass(frozen=True, slots=True)
class Total:
    """Calls and own time of what is printed under one name."""

    calls: int
    time_ns: int
    slack_ns: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One name that the table and the trace count differently; None: only the other one has it."""

    name: str
    table: Total | None
    trace: Total | None


@dataclass(frozen=True, slots=True)
class Beside:
    """A table and the trace that it was printed with.

    Args:
        file: of the trace, an index into ``Recording.files``.
        beyond: kernels of the trace under names that the table does not print, which it may have left out as too short.
    """

    table: KernelTable
    file: int
    differs: tuple[Difference, ...]
    names: int
    beyond: Total


def beside(rec: Recording) -> list[Beside]:
    """Each table with the one trace of its folder that is of its rank; tables without such a trace are left out."""
    pairs = [(table, _trace_of(rec, table)) for table in rec.meta.kernel_tables if table.kernels]
    return [_compared(rec, table, file) for table, file in pairs if file is not None]


def kernel_table_facts(rec: Recording) -> dict[str, Any]:
    """Facts of all tables together, as ``inspect`` prints them; {} where there is none."""
    tables = rec.meta.kernel_tables
    if not tables:
        return {}
    times: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for table in tables:
        for row in table.kernels:
            times[row.name] += row.self_ns
            calls[row.name] += row.calls
    facts: dict[str, Any] = {
        "self_ns": dict(times),
        "calls": dict(calls),
        "self_total_ns": sum(times.values()),
        "table_rows": sum(len(table.rows) for table in tables),
    }
    said = [table.device_total_ns for table in tables if table.device_total_ns is not None]
    facts |= {"device_total_ns": sum(said)} if len(said) == len(tables) else {}
    found = beside(rec)
    return facts | ({"table_differs_from_trace": sum(len(pair.differs) for pair in found)} if found else {})


def _trace_of(rec: Recording, table: KernelTable) -> int | None:
    """Only one trace of the rank may lie there: of two windows nobody can say which one the table is of."""
    folder = Path(table.path).parent
    found = [
        index
        for index, file in enumerate(rec.files)
        if file.role == "rank" and Path(file.path).parent == folder and table.rank in (None, file.rank)
    ]
    return found[0] if len(found) == 1 else None


def _compared(rec: Recording, table: KernelTable, file: int) -> Beside:
    printed, traced = _printed(table), _traced(rec, file)
    # The trace's names as the table cuts them; two that differ behind the cut are one on both sides.
    shown: Mapping[str, Total] = _summed((_as_printed(name, printed), total) for name, total in traced.items())
    differs = [
        Difference(name, total, shown.get(name)) for name, total in printed.items() if not _same(total, shown.get(name))
    ]
    beyond = [total for name, total in shown.items() if name not in printed]
    return Beside(
        table=table,
        file=file,
        differs=tuple(sorted(differs, key=lambda one: -(one.table.time_ns if one.table else 0))),
        names=len(printed),
        beyond=Total(sum(total.calls for total in beyond), sum(total.time_ns for total in beyond)),
    )


def _printed(table: KernelTable) -> dict[str, Total]:
    return _summed((row.name, Total(row.calls, row.self_ns, row.self_slack_ns)) for row in table.kernels)


def _traced(rec: Recording, file: int) -> dict[str, Total]:
    kernels = rec.kernels
    rows = np.flatnonzero((kernels["file"] == file) & kernels["timed"])
    names, inverse = np.unique(kernels["name"][rows], return_inverse=True)
    calls = np.bincount(inverse, minlength=len(names))
    times = np.zeros(len(names), dtype=np.int64)
    np.add.at(times, inverse, kernels["dur_ns"][rows])
    texts = rec.strings.of(names.tolist())
    return {text: Total(int(count), int(time)) for text, count, time in zip(texts, calls, times, strict=True)}


def _as_printed(name: str, printed: Mapping[str, Total]) -> str:
    if name in printed or len(name) <= _CUT_AT:
        return name
    short = name[:_CUT_AT] + _MARK
    return short if short in printed else name


def _summed(pairs: Any) -> dict[str, Total]:
    found: dict[str, Total] = {}
    for name, total in pairs:
        before = found.get(name, Total(0, 0))
        found[name] = Total(
            before.calls + total.calls, before.time_ns + total.time_ns, before.slack_ns + total.slack_ns
        )
    return found


def _same(table: Total, trace: Total | None) -> bool:
    """Equal calls, and times as equal as rounding lets them be; traces keep ns, tables three places of a unit."""
    if trace is None or table.calls != trace.calls:
        return False
    return abs(table.time_ns - trace.time_ns) <= table.slack_ns + trace.calls
