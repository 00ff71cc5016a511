"""One clock for a time line: wall time in ns since 1970, or the trace's own where nothing ties it to the wall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from m3probe.model.clock import FileClock, Tie, clocks
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array

NOWHERE = -(2**63)
"""A row that is on no clock."""
_TIMED = ("steps", "launches", "ops", "kernels", "transfers")


@dataclass(frozen=True, slots=True)
class When:
    """Where rows of a recording lie on the time line.

    Args:
        wall: whether times are wall time; else they are those of the traces' own clock.
        offset_ns: [files] to be added to a file's own times; ``NOWHERE`` where the file is on another clock.
        log_first_ns: [files] wall time of the first record of a log; ``NOWHERE`` likewise.
        off: what is left out because it is on another clock; one sentence each.
    """

    rec: Recording
    wall: bool
    offset_ns: Array
    log_first_ns: Array
    off: tuple[str, ...]

    def of(self, table: str, rows: Array) -> Array:
        """Times of rows of one table, int64 ns; ``NOWHERE`` where they have none."""
        columns = self.rec.tables[table].columns
        if table in _TIMED:
            timed = columns["timed"][rows] if "timed" in columns else columns["start_ns"][rows] != 0
            return np.where(timed, self._shifted(columns["start_ns"][rows], columns["file"][rows]), NOWHERE)
        if table == "metrics":
            return self.of("scrapes", columns["scrape"][rows])
        return self._beside(table, columns, rows) if self.wall else np.full(len(rows), NOWHERE, dtype=np.int64)

    def _beside(self, table: str, columns: Mapping[str, Array], rows: Array) -> Array:
        """Wall times of what is no trace."""
        nowhere: Array = np.full(len(rows), NOWHERE, dtype=np.int64)
        if table == "scrapes":
            written = columns["mtime_ns"][rows]
            return _first(columns["at_ns"][rows], np.where(written > 0, written, NOWHERE))
        if table == "device_samples":  # the tool's own writing, taken as UTC
            return _first(columns["at_ns"][rows], nowhere)
        if table == "log_stats":
            at, first = columns["at_ns"][rows], self.log_first_ns[columns["file"][rows]]
            return np.where((at != NONE) & (first != NOWHERE), first + at, NOWHERE)
        if "file" not in columns:  # values of counters, which stand beside their dispatch
            return nowhere
        own = next((columns[name][rows] for name in ("mono_ns", "t_start") if name in columns), nowhere)
        return np.where(own > 0, self._shifted(own, columns["file"][rows]), NOWHERE)

    def _shifted(self, own: Array, file: Array) -> Array:
        offset = self.offset_ns[file]
        return np.where(offset == NOWHERE, NOWHERE, own + np.where(offset == NOWHERE, 0, offset))


def _first(known: Array, other: Array) -> Array:
    return np.where(known > 0, known, other)


def when(rec: Recording) -> When:
    """The clock of a recording's time line: the wall, unless there are traces and none of them is tied to it."""
    ties = clocks(rec)
    traces = [tie for tie in ties if _has_rows(rec, tie.file)]
    wall = not traces or any(tie.offset_ns is not None for tie in traces)
    offsets = np.full(len(rec.files), NOWHERE, dtype=np.int64)
    firsts = np.full(len(rec.files), NOWHERE, dtype=np.int64)
    off: list[str] = []
    for tie in ties:
        if tie.state is not Tie.UNALIGNED and tie.first_ns is not None:
            firsts[tie.file] = tie.first_ns
        if wall and tie.offset_ns is not None:
            offsets[tie.file] = tie.offset_ns
        elif not wall and tie in traces:
            offsets[tie.file] = 0
        elif tie in traces or (not wall and tie.state is not Tie.UNALIGNED):
            off.append(_off(tie))
    return When(rec, wall, offsets, firsts, tuple(off))


def _has_rows(rec: Recording, file: int) -> bool:
    return any(bool((rec.tables[name]["file"] == file).any()) for name in _TIMED)


def _off(tie: FileClock) -> str:
    return f"{tie.path} is not on the time line, which has another clock ({tie.how})"
