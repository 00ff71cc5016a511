"""A recording or a trace as it stood at a time since its start: what the viewer scrubs through.

Tables with times are cut by them, at the end of a step where there are steps, so that no step loses half its kernels.
Guests' counts have no times of their own: their files are cut between two flushes (about a second) and read again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from m3probe.model.clock import clocks
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, TABLES, Array, Table
from m3probe.schema.frames import MAGIC, Cut
from m3probe.schema.frames import records as records_of

GUEST = "m3probe"
_TIMES = ("start_ns", "mono_ns", "at_ns")
_NOT_WALL = frozenset({"log_stats", "device_samples"})
"""Their times are not on the clock of the rows beside them."""
_OWNED = ("launches", "kernels", "transfers")


class Timeline:
    """What lies on the wall between a recording's first and last moment.

    Args:
        rec: read whole; guests' files are read again from their paths.
    """

    def __init__(self, rec: Recording) -> None:
        self.rec = rec
        self._zeros = _zeros(rec)
        spans = [span for file, zero in self._zeros.items() if (span := _span(rec, file, zero))]
        self.begin_ns = min((first for first, _ in spans), default=0)
        self.end_ns = max((last for _, last in spans), default=0)
        self._ends: dict[str, list[tuple[int, int]]] = {}

    @property
    def length_s(self) -> float:
        """Seconds from the first moment to the last; 0 where nothing has a time."""
        return (self.end_ns - self.begin_ns) / 1e9

    def until(self, at_s: float) -> Recording:
        """The recording as it stood so many seconds after its first moment."""
        if at_s >= self.length_s:
            return self.rec
        wall_ns = self.begin_ns + round(at_s * 1e9)
        guests = [file for file in self.rec.files if file.kind == GUEST]
        if not guests:
            return cut(self.rec, self._zeros, wall_ns)
        folder = Path(tempfile.mkdtemp(prefix="m3probe-replay-"))
        try:
            again = self._read_again(folder, wall_ns)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return cut(again, _zeros(again), wall_ns)

    def _read_again(self, folder: Path, wall_ns: int) -> Recording:
        from m3probe.pipeline import read

        names: dict[str, str] = {}
        for number, file in enumerate(self.rec.files):
            to = folder / str(number) / Path(file.path).name
            to.parent.mkdir()
            names[str(to)] = file.path
            if file.kind == GUEST:
                to.write_bytes(Path(file.path).read_bytes()[: self._end(file.path, file.base_time_ns, wall_ns)])
            else:
                to.symlink_to(Path(file.path).absolute())
        found = read([folder])
        files = tuple(replace(file, path=names.get(file.path, file.path)) for file in found.files)
        notes = tuple(replace(note, path=names.get(note.path, note.path)) for note in found.notes)
        return replace(found, files=files, notes=notes)

    def _end(self, path: str, base_ns: int | None, wall_ns: int) -> int:
        """Bytes of a guest's file that were written by then; its first frame, which says who it is, always."""
        if path not in self._ends:
            self._ends[path] = _frames(Path(path).read_bytes())
        ends = self._ends[path]
        mono_ns = wall_ns - (base_ns or 0)
        written = [end for at_ns, end in ends if at_ns <= mono_ns]
        return written[-1] if written else (ends[0][1] if ends else len(MAGIC))


def cut(rec: Recording, zeros: Mapping[int, int], wall_ns: int) -> Recording:
    """Rows of tables with times up to ``wall_ns``; a file of ``zeros`` has its own zero at that wall time."""
    limit = np.array([wall_ns - zeros.get(file, 0) for file in range(len(rec.files))] or [0], dtype=np.int64)
    steps = rec.tables["steps"]
    kept: dict[str, Array] = {"steps": steps["end_ns"] <= limit[steps["file"]]}
    whole = np.where(np.isin(np.arange(len(limit)), steps["file"]), np.iinfo(np.int64).min, limit)
    np.maximum.at(whole, steps["file"][kept["steps"]], steps["end_ns"][kept["steps"]])
    kept["launches"] = _owned(rec.tables["launches"], kept, whole)
    for name, table in rec.tables.items():
        if name not in kept:
            kept[name] = _owned(table, kept, whole) if name in _OWNED else _timed(name, table, limit, whole)
    metrics = rec.tables["metrics"]
    kept["metrics"] = kept["scrapes"][metrics["scrape"]] if len(metrics) else kept["metrics"]
    places = {name: np.where(mask, np.cumsum(mask) - 1, NONE) for name, mask in kept.items()}
    return replace(rec, tables={name: _cut(table, kept[name], places) for name, table in rec.tables.items()})


def _owned(table: Table, kept: Mapping[str, Array], whole: Array) -> Array:
    """Rows go with their launch, else with their step, else by their own time."""
    found: Array = table["start_ns"] < whole[table["file"]]
    for column, owner in (("step", "steps"), ("launch", "launches")):
        if column in table.columns and len(kept.get(owner, ())):
            row = table[column]
            found = np.where(row >= 0, kept[owner][np.maximum(row, 0)], found)
    return found


def _timed(name: str, table: Table, limit: Array, whole: Array) -> Array:
    column = next((one for one in _TIMES if one in table.columns), None)
    every: Array = np.ones(len(table), dtype=bool)
    if column is None or name in _NOT_WALL or not len(table):
        return every
    until = (whole if column == "start_ns" else limit)[table["file"]]
    kept: Array = (table[column] <= until) | (table[column] == NONE)
    return kept


def _cut(table: Table, mask: Array, places: Mapping[str, Array]) -> Table:
    columns = {key: values[mask] for key, values in table.columns.items()}
    for column in TABLES[table.name]:
        owner = column.unit.removeprefix("row of ")
        if owner != column.unit and owner in places and len(places[owner]):
            row = columns[column.name]
            columns[column.name] = np.where(row >= 0, places[owner][np.maximum(row, 0)], row)
    return Table(table.name, columns)


def _zeros(rec: Recording) -> dict[int, int]:
    """File -> wall time of its zero; files without a wall time begin with the first of the others."""
    known = {clock.file: clock.offset_ns for clock in clocks(rec) if clock.offset_ns is not None}
    for file in np.unique(rec.tables["scrapes"]["file"]).tolist():
        known[file] = 0
    firsts = [span[0] for file, zero in known.items() if (span := _span(rec, file, zero))]
    begin = min(firsts, default=0)
    for file in range(len(rec.files)):
        span = _span(rec, file, 0) if file not in known else None
        if span:
            known[file] = begin - span[0]
    return known


def _span(rec: Recording, file: int, zero: int) -> tuple[int, int] | None:
    """First and last moment of a file's rows on the wall."""
    ends: list[int] = []
    for name, table in rec.tables.items():
        column = next((one for one in _TIMES if one in table.columns), None)
        if column is None or name in _NOT_WALL or "file" not in table.columns:
            continue
        mine = (table["file"] == file) & (table[column] > 0)
        if mine.any():
            length = np.maximum(table["dur_ns"][mine], 0) if column == "start_ns" else 0
            ends += [int(table[column][mine].min()), int((table[column][mine] + length).max())]
    return (min(ends) + zero, max(ends) + zero) if ends else None


def _frames(data: bytes) -> list[tuple[int, int]]:
    """(Latest monotonic time up to the frame's end, offset of that end) of each frame of a guest's file."""
    found: list[tuple[int, int]] = []
    stop, latest = Cut(), 0
    for record in records_of(data, stop, len(MAGIC)):
        latest = max(latest, int(getattr(record, "mono_ns", 0) or 0))
        if found and found[-1][1] == stop.at:
            found[-1] = (latest, stop.at)
        else:
            found.append((latest, stop.at))
    return found
