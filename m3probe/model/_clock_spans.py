"""What each file says of its own time, by kind of file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from m3probe.model._clock_zone import Local
from m3probe.model.live_tables import LIVE_TABLES
from m3probe.model.recording import Recording, SourceFile
from m3probe.model.tables import Array

OLDEST_NS = 946_684_800 * 10**9
"""2000-01-01: an earlier wall time is none."""
LATEST_NS = 4_102_444_800 * 10**9
"""2100-01-01."""
LONGEST_RUN_S = 366 * 86_400.0
"""A benchmark of more than a year is damage."""
_TRACE_TABLES = ("steps", "launches", "kernels")
_MONO = tuple(name for name, columns in LIVE_TABLES.items() if any(column[0] == "mono_ns" for column in columns))
_NEVER = "it carries no time of its own"


@dataclass(frozen=True, slots=True)
class Raw:
    """One file's time, or that of all files that hold pages of one server.

    Args:
        files: how many files it speaks for.
        how: what ties it to the wall, or why nothing does.
        offset_ns: wall time of its zero; None where it has none.
        first_ns, last_ns: on the wall, where ``offset_ns`` is known and it holds anything.
        local: its time without a zone, where that is what it has.
    """

    file: int
    how: str
    offset_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    local: Local | None = None
    guessed: tuple[int, int] | None = None
    """Where it may lie on the wall, by something else than its content."""
    name: str = ""
    files: int = 1


def raw_spans(rec: Recording) -> list[Raw]:
    """One for each file; a folder of scrapes, which may be ten thousand, is one."""
    scraped = set(np.unique(rec.tables["scrapes"]["file"]).tolist())
    single = [_raw(rec, index, source) for index, source in enumerate(rec.files) if index not in scraped]
    return sorted([*single, *_scraped(rec)], key=lambda raw: raw.file)


def _scraped(rec: Recording) -> Iterator[Raw]:
    """Pages of /metrics by server: dated by themselves or their names, else by when their files were written."""
    table = rec.tables["scrapes"]
    for server in np.unique(table["server"]).tolist():
        mine = table["server"] == server
        files = np.unique(table["file"][mine])
        name = rec.strings[int(server)] if len(files) > 1 else ""
        first, dated = int(files[0]), table["at_ns"][mine]
        if (dated > 0).all():
            how = "its pages, or their names, are dated"
            yield Raw(first, how, 0, int(dated.min()), int(dated.max()), name=name, files=len(files))
            continue
        times = table["mtime_ns"][mine]
        how = "no date on its pages; by the time at which the file was written, which a copy may lose"
        span = (int(times.min()), int(times.max())) if (times > OLDEST_NS).all() else None
        yield Raw(first, how if span else _NEVER, guessed=span, name=name, files=len(files))


def _raw(rec: Recording, file: int, source: SourceFile) -> Raw:
    runs = [run for run in rec.meta.bench if run.file == file]
    if runs:
        return _bench(file, [(run.date, run.duration_s) for run in runs])
    if source.local_times is not None:
        return _written(file, source.local_times)
    if any((rec.tables[name]["file"] == file).any() for name in _MONO):
        return _mono(rec, file, source)
    if source.kind == "kineto":
        return _trace(rec, file, source)
    if source.base_time_ns is not None and OLDEST_NS < source.base_time_ns < LATEST_NS:
        return Raw(file, "it says the wall time of its zero", source.base_time_ns)
    return Raw(file, _NEVER)


def _trace(rec: Recording, file: int, source: SourceFile) -> Raw:
    times = list(_trace_times(rec, file))
    base = source.base_time_ns
    if not times:
        if base is not None and OLDEST_NS < base < LATEST_NS:
            return Raw(file, "baseTimeNanoseconds; no step, launch or kernel in it", base)
        return Raw(file, "it holds no time of a step, launch or kernel")
    first, last = min(t[0] for t in times), max(t[1] for t in times)
    for offset, how in ((base, "baseTimeNanoseconds"), (0, "its times count from 1970")):
        if offset is not None and first + offset > OLDEST_NS and last + offset < LATEST_NS:
            return Raw(file, how, offset, first + offset, last + offset)
    said = "no baseTimeNanoseconds" if base is None else f"baseTimeNanoseconds {base} gives no wall time"
    return Raw(file, f"{said}, and its times do not count from 1970")


def _trace_times(rec: Recording, file: int) -> Iterator[tuple[int, int]]:
    for name in _TRACE_TABLES:
        table = rec.tables[name]
        mine = table["file"] == file
        if name == "kernels":
            mine &= table["timed"]
        if mine.any():
            start, dur = table["start_ns"][mine], table["dur_ns"][mine]
            yield int(start.min()), int((start + np.maximum(dur, 0)).max())


def _mono(rec: Recording, file: int, source: SourceFile) -> Raw:
    times = [found for name in _MONO if len(found := _mono_of(rec, name, file))]
    rows = rec.tables["step_rows"]
    mine = rows["file"] == file
    times += [found for name in ("t_start", "t_done") if len(found := rows[name][mine & (rows[name] > 0)])]
    base = source.base_time_ns
    if base is None:
        return Raw(file, "no clock record ties its monotonic clock to the wall")
    how = "clock records tie its monotonic clock to the wall"
    if not times:
        return Raw(file, how, base)
    return Raw(file, how, base, base + min(int(t.min()) for t in times), base + max(int(t.max()) for t in times))


def _mono_of(rec: Recording, name: str, file: int) -> Array:
    table = rec.tables[name]
    found: Array = table["mono_ns"][(table["file"] == file) & (table["mono_ns"] > 0)]
    return found


def _written(file: int, times: tuple[str, str]) -> Raw:
    ends = [_parsed(text) for text in times]
    if None in ends:
        return Raw(file, f"its times ({times[0][:40]} to {times[1][:40]}) are none")
    (first, dated), (last, _) = (end for end in ends if end is not None)
    if dated and not OLDEST_NS < min(first, last) <= max(first, last) < LATEST_NS:
        return Raw(file, f"its times ({times[0][:40]} to {times[1][:40]}) are of no server")
    how = "local time without a zone" if dated else "local time without a zone and a year"
    if last < first and not dated:  # over new year
        last = _parsed(f"1973-{times[1]}")[0]  # type: ignore[index]
    return Raw(file, how, local=Local(first, max(first, last), dated=dated))


def _parsed(text: str) -> tuple[int, bool] | None:
    """(ns as if it were UTC, whether the year is known); 1972 stands in for the year, as it has a 29 February."""
    dated = text[4:5] == "-"
    try:
        at = datetime.strptime(text if dated else f"1972-{text}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(at.timestamp()) * 10**9, dated


def _bench(file: int, runs: list[tuple[str, float | None]]) -> Raw:
    """``20261129-202122`` is the client's local time at the end of a run; its length leads back to its start."""
    spans = []
    for date, seconds in runs:
        try:
            end = datetime.strptime(date, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        except ValueError:
            continue
        last = int(end.timestamp()) * 10**9
        if OLDEST_NS < last < LATEST_NS:
            spans.append((last - _length_ns(seconds), last))
    if not spans:
        return Raw(file, "the run says no date")
    how = "the client's local time at the end of the run, without a zone"
    return Raw(file, how, local=Local(min(s[0] for s in spans), max(s[1] for s in spans), dated=True))


def _length_ns(seconds: float | None) -> int:
    """Of a run; 0 where it is not said, or cannot be one."""
    return int(seconds * 1e9) if seconds is not None and 0 < seconds < LONGEST_RUN_S else 0
