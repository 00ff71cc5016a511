"""Time of each device over the whole recording: idle, in collectives, and in collectives that nothing hides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._view import percent
from m3probe.analyzers._whole import whole
from m3probe.model.device_report import DeviceRow
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family

MOST_DEVICES = 4_096
"""Rows at most: no run has more devices, a damaged file may name any number."""
TOLD = 8
_COMM = FAMILIES.index(Family.COMM)


def device_rows(rec: Recording) -> tuple[DeviceRow, ...]:
    """One row for each (rank file, device) with timed work, in order of rank and device."""
    kernels, transfers = rec.kernels, rec.transfers
    timed = figures.timed(rec)
    sound = np.flatnonzero((transfers["start_ns"] != 0) & (transfers["dur_ns"] >= 0))
    none = np.zeros(len(sound), dtype=bool)
    key = np.concatenate([figures.device_key(kernels)[timed], figures.device_key(transfers)[sound]])
    start = np.concatenate([kernels["start_ns"][timed], transfers["start_ns"][sound]])
    dur = np.concatenate([kernels["dur_ns"][timed], transfers["dur_ns"][sound]])
    comm = np.concatenate([kernels["family"][timed] == _COMM, none])
    is_kernel = np.concatenate([np.ones(len(timed), dtype=bool), none])
    known = whole(rec)
    order = np.argsort(key, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(key) else []
    rows = []
    for group in groups[:MOST_DEVICES]:
        first = int(group[0])
        table, row = (kernels, timed[first]) if first < len(timed) else (transfers, sound[first - len(timed)])
        file = rec.files[int(table["file"][row])]
        work = (start[group], dur[group], comm[group], is_kernel[group])
        rows.append(_row((file.rank, int(table["device"][row]), file.device), *work, known=known))
    return tuple(sorted(rows, key=lambda row: (row.rank is None, row.rank or 0, row.device)))


def _row(
    who: tuple[int | None, int, str], start: Array, dur: Array, comm: Array, is_kernel: Array, *, known: bool
) -> DeviceRow:
    end = start + dur
    span, busy = int(end.max() - start.min()), figures.union_ns(start, end)
    in_comm = figures.union_ns(start[comm], end[comm])
    exposed = busy - figures.union_ns(start[~comm], end[~comm])
    return DeviceRow(
        *who,
        kernel_count=int(is_kernel.sum()),
        kernel_time_ns=int(dur[is_kernel].sum()),
        span_ns=span,
        busy_ns=busy,
        idle_share=1 - busy / span if known and span else None,
        comm_count=int(comm.sum()),
        comm_ns=in_comm,
        exposed_ns=exposed if known else None,
        overlap_share=1 - exposed / in_comm if known and in_comm else None,
    )


def by_device(rows: Sequence[DeviceRow], share: Callable[[DeviceRow], float | None]) -> str:
    """``rank 0 50.0 %, rank 1 20.0 %``; "" for one device, or where a share is not known."""
    said = [(row, share(row)) for row in rows]
    if len(rows) < 2 or any(value is None for _, value in said):
        return ""
    told = [f"{_name(row)} {percent(value or 0.0)}" for row, value in said[:TOLD]]
    return ", ".join(told) + (f", {len(rows) - TOLD:,} more" if len(rows) > TOLD else "")


def _name(row: DeviceRow) -> str:
    return f"device {row.device}" if row.rank is None else f"rank {row.rank}"
