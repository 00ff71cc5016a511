"""Rows of counters from columns of text: dispatches told apart by a key, values that are numbers."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

import numpy as np

from m3probe.model.counter_tables import COUNTER_TABLES
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers._csv_columns import Block
from m3probe.readers._process import spans
from m3probe.readers._rocprof_numbers import as_int64
from m3probe.readers._rows import plausible
from m3probe.readers.events import NO_TIME

MOST_VALUES = 4_000_000
"""96 MB of columns; a counter run of a whole server says nothing that one of a few steps does not."""
MOST_DISPATCHES = 500_000
"""About 120 MB of keys and columns."""
_LARGEST = 2.0**62
_INTS: dict[str, tuple[str, ...]] = {
    "dispatch": ("dispatch_id",),
    "pid": ("process_id", "pid"),
    "group_items": ("workgroup_size",),
    "vgprs": ("vgpr_count", "arch_vgpr"),
    "accum_vgprs": ("accum_vgpr_count", "accum_vgpr"),
    "sgprs": ("sgpr_count", "sgpr"),
    "lds_bytes": ("lds_block_size", "lds_per_workgroup"),
    "scratch_bytes": ("scratch_size", "scratch_per_workitem"),
}
"""Column of ``counted`` -> names of rocprofv3's and rocprofiler-compute's; both write products of the axes as sizes."""


class CounterRows:
    """The dispatches and values of one run, added to the builder at the end."""

    def __init__(self, builder: RecordingBuilder) -> None:
        self.builder = builder
        self.beyond = 0
        self.bad_values = 0
        self._rows: dict[Hashable, int] = {}
        self._columns = {name: array("q") for name, *_ in COUNTER_TABLES["counted"] if name != "file"}
        self._parts: list[tuple[Array, Array, Array, Array]] = []
        self._values = 0

    def dispatches(self, block: Block, keys: Sequence[Hashable], agent: str) -> tuple[Array, Array]:
        """(row of each line's dispatch, its time in ns or -1); a key that is new becomes a dispatch, -1 beyond the last."""
        known, lines, new = self._rows, [NONE] * block.rows, []
        for line, key in enumerate(keys):
            row = known.get(key)
            if row is None:
                if len(known) >= MOST_DISPATCHES:
                    continue
                row = known[key] = len(known)
                new.append(line)
            lines[line] = row
        described = self._described(block.at(new), agent)
        for name, cells in self._columns.items():
            cells.frombytes(described[name].astype(np.int64).tobytes())
        rows, times = np.array(lines, dtype=np.int64), _durations(block)
        if len(new) < block.rows:
            self._fill("time_ns", rows, times)
            self._fill("groups", rows, _groups(block))
        return rows, times

    def _fill(self, name: str, rows: Array, values: Array) -> None:
        """What an earlier line did not tell of a dispatch."""
        cells = self._columns[name]
        told = np.frombuffer(cells, dtype=np.int64).copy()
        for line in np.flatnonzero((rows != NONE) & (values != NONE) & (told[rows] == NONE))[::-1].tolist():
            cells[int(rows[line])] = int(values[line])  # backwards, so that the first line's value stays

    def _described(self, block: Block, agent: str) -> dict[str, Array]:
        ints = {name: block.ints(*columns) for name, columns in _INTS.items()}
        strings = self.builder.strings
        ids = {"name": block.ids(strings, "kernel_name"), "agent": block.ids(strings, agent)}
        return {**ints, **ids, "groups": _groups(block), "time_ns": _durations(block)}

    def add(self, rows: Array, counters: Array, cells: Sequence[str], times: Array) -> None:
        """Values as text; what is no finite number is counted and left out."""
        values, good = _numbers(cells)
        self.bad_values += sum(1 for cell, fine in zip(cells, good.tolist(), strict=True) if not fine and cell.strip())
        room = max(MOST_VALUES - self._values, 0)
        at = np.flatnonzero(good & (rows != NONE))[:room]
        self.beyond += int(good.sum()) - len(at)
        self._values += len(at)
        self._parts.append((rows[at], counters[at], values[at], times[at]))

    @property
    def pid(self) -> int | None:
        """The one process of all dispatches; None where it is not told, or there are several."""
        found = set(self._columns["pid"])
        return found.pop() if len(found) == 1 and found != {NONE} else None

    def notes(self, path: Path) -> Iterator[Note]:
        """What was lost."""
        if self.bad_values:
            text = f"{self.bad_values:,} counter value(s) are no number: left out"
            yield Note("bad_values", text, str(path), self.bad_values, lossy=True)
        if self.beyond:
            limits = f"{MOST_VALUES:,} values and {MOST_DISPATCHES:,} dispatches"
            text = (
                f"{self.beyond:,} counter values beyond the first {limits} left out: sums are of those that were read"
            )
            yield Note("many_values", text, str(path), self.beyond, lossy=True)

    def finish(self, file: int) -> None:
        """Add both tables, of the file with this index."""
        offset, count = self.builder.rows("counted"), len(self._rows)
        columns = {name: np.frombuffer(cells, dtype=np.int64) for name, cells in self._columns.items()}
        self.builder.add("counted", {"file": np.full(count, file, dtype=np.int32), **columns})
        rows, counters, values, times = (
            np.concatenate([part[i] for part in self._parts]) if self._parts else np.empty(0) for i in range(4)
        )
        self.builder.add(
            "counter_values", {"counted": rows + offset, "counter": counters, "value": values, "time_ns": times}
        )


def _groups(block: Block) -> Array:
    """Workgroups of each line; the tools write the grid in work-items."""
    items, group = block.ints("grid_size"), block.ints("workgroup_size")
    return np.where((items > 0) & (group > 0), -(-items // np.maximum(group, 1)), NONE)


def _durations(block: Block) -> Array:
    start, dur = spans(*(_times(block.texts(f"{edge}_timestamp")) for edge in ("start", "end")))
    return np.where((start != NO_TIME) & plausible(dur) & (dur > 0), dur, NONE)


def _times(cells: Sequence[str]) -> Array:
    """Times in ns; ``pmc_perf.csv`` holds means over the passes, with a fraction (``1248227792617386.5``, seen)."""
    found, bad = as_int64(cells, NO_TIME)
    if bad:
        values, good = _numbers(cells)
        found = np.where((found == NO_TIME) & good, np.where(good, values, 0).round().astype(np.int64), found)
    return found


def _numbers(cells: Sequence[str]) -> tuple[Array, Array]:
    """(values, mask of those that are numbers)."""
    try:
        values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
    except ValueError:
        values = np.array([_number(cell) for cell in cells], dtype=np.float64)
    return values, np.isfinite(values) & (np.abs(values) <= _LARGEST)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
