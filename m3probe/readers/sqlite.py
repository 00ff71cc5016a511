"""SQLite databases of profilers: rocprofv3's rocpd, RPD and the SQLite export of nsys, told apart by their tables."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from m3probe.errors import ForeignInput, UnreadableInput
from m3probe.model.recording import EventCounts, RecordingBuilder, SourceFile
from m3probe.plugs import Progress, Reader
from m3probe.readers import _nsys, _rocpd, _rpd
from m3probe.readers._process import add_process, check_devices
from m3probe.readers._rows import plausible
from m3probe.readers._smi_rows import add as add_samples
from m3probe.readers._sqlite import Database
from m3probe.readers._sqlite_dump import Dump, Ran
from m3probe.readers.chunks import Chunks
from m3probe.readers.events import NO_TIME

MAGIC = b"SQLite format 3\0"
DIALECTS = (_rpd, _rocpd, _nsys)
MOST_INFLATED = 4 * 2**30
"""Bytes of a database that is inflated to a temporary file."""
_BESIDE = ("-wal", "-journal")


def sniff(_path: Path, head: bytes) -> bool:
    """Whether it is a database of SQLite 3, of whatever program: which one, its tables tell."""
    return head.startswith(MAGIC)


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the processes of one database, each device of each as a file of its own.

    Raises:
        UnreadableInput: it cannot be read, is no profiler's, or holds nothing.
    """
    chunks = Chunks(path)
    with _plain(path, chunks) as plain, Database(plain, path) as db:
        dialect = next((one for one in DIALECTS if one.knows(db)), None)
        if dialect is None:
            raise _foreign(path, db)
        dump = dialect.read(db, builder)
        damage, skipped = dict(db.damage), db.skipped
    check_devices(sum(len(ran.process.devices()) for ran in dump.processes), path)
    _tell(dump, path, damage, skipped, chunks)
    _add(dump, path, builder, chunks.size_bytes, in_folder=in_folder, cut=bool(damage) or chunks.cut)
    progress(path, chunks.size_bytes, chunks.size_bytes)


READER = Reader(title="SQLite database of a profiler (rocpd, RPD, nsys)", sniff=sniff, read=read)


def _foreign(path: Path, db: Database) -> UnreadableInput:
    if not db.tables and _pending(path):
        what = f"a SQLite database without a table{_pending(path)}"
        return UnreadableInput(what, where=str(path), next_move="Let the profiler end, then read it again")
    some = ascii(", ".join(sorted(db.tables)[:3]) or "none")[1:-1][:200]
    return ForeignInput(
        f"a SQLite database, but of no profiler that m3probe knows (its tables: {some})",
        where=str(path),
        next_move="m3probe reads rocprofv3's rocpd, RPD's .rpd and what `nsys export --type sqlite` writes",
    )


@contextmanager
def _plain(path: Path, chunks: Chunks) -> Iterator[Path]:
    """The database as a file that SQLite can open; of a gzip a temporary copy, which is deleted whatever happens."""
    if not chunks.is_gzip:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="m3probe-", suffix=".db") as copy:
        most = min(MOST_INFLATED, shutil.disk_usage(copy.name).free // 2)
        written = 0
        for chunk in chunks:
            written += len(chunk)
            if written > most:
                raise UnreadableInput(
                    f"inflates to more than {most:,} bytes",
                    where=str(path),
                    next_move="Inflate it yourself, if you trust it, and name the database",
                )
            copy.write(chunk)
        copy.flush()
        yield Path(copy.name)


def _pending(path: Path) -> str:
    """What lies beside a database that is still being written, or that a killed process left."""
    found = [other for other in (path.with_name(path.name + end) for end in _BESIDE) if _size(other)]
    return "".join(
        f"; {other.name} holds {_size(other):,} bytes that are not in it yet and were not read: the profiler still "
        "writes it, or was killed"
        for other in found
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tell(dump: Dump, path: Path, damage: dict[str, str], skipped: int, chunks: Chunks) -> None:
    pending = _pending(path)
    dump.note("still_written", f"the recording may not be whole{pending}", int(bool(pending)), lossy=True)
    for table, error in damage.items():
        text = f"table {ascii(table)[1:-1][:80]}: its rest cannot be read ({error}); figures cover what was read"
        dump.note("damaged_table", text, lossy=True)
    dump.note("lost_rows", f"{skipped:,} row(s) with a cell of more than 16 MiB left out", skipped, lossy=True)
    dump.note("truncated", "the gzip stream ends early: the database is cut", int(chunks.cut), lossy=True)
    unnamed = sum(int((ran.process.column("kernels", "name") < 0).sum()) for ran in dump.processes)
    dump.note("unnamed_kernels", f"{unnamed:,} kernel(s) without a name", unnamed)


def _add(dump: Dump, path: Path, builder: RecordingBuilder, size_bytes: int, *, in_folder: bool, cut: bool) -> None:
    ranks = _ranks(dump)
    for number, ran in enumerate(dump.processes):
        first = ran.process.devices()[:1]

        def file_of(device: int | None, number: int = number, ran: Ran = ran, first: list[int] = first) -> SourceFile:
            lost = sum(note.count for note in dump.notes if note.word == "lost_rows") if not number else 0
            return SourceFile(
                path=str(path),
                kind=dump.kind,
                role="rank",
                rank=ranks.get((number, device)),
                world_size=None,
                base_time_ns=None,
                size_bytes=size_bytes,
                counts=_counts(ran, device, lost, whole=[device] == first or device is None, cut=cut),
                in_folder=in_folder,
                pid=ran.pid,
                device=ran.labels.get(device, "") if device is not None else "",
            )

        files = len(builder.files)
        add_process(ran.process, builder, file_of)
        _add_whole_graphs(ran, builder, files)
    if dump.samples:
        add_samples(builder, path, dump.kind, dump.samples, size_bytes, cut=cut, in_folder=in_folder)
    builder.note([replace(note, path=note.path or str(path)) for note in dump.notes])
    builder.meta = replace(
        builder.meta,
        devices=builder.meta.devices or dump.devices,
        versions={**builder.meta.versions, **dump.versions},
    )


def _add_whole_graphs(ran: Ran, builder: RecordingBuilder, first: int) -> None:
    """Graphs that were recorded as wholes, each in the file of its device, else in the process's first."""
    found = ran.whole_graphs
    if not found:
        return
    places = {device: first + number for number, device in enumerate(ran.process.devices())}
    files = [places.get(device, first) for device in found["device"].tolist()]
    start, dur = (np.where(found[name] == NO_TIME, 0, found[name]) for name in ("start_ns", "dur_ns"))
    known = (found["start_ns"] != NO_TIME) & (found["dur_ns"] != NO_TIME) & (start != 0) & plausible(dur)
    columns = {name: found[name] for name in ("device", "stream", "correlation", "graph")}
    own = {"file": np.array(files, dtype=np.int32), "start_ns": start, "dur_ns": dur, "timed": known}
    builder.add("whole_graphs", {**own, **columns})


def _counts(ran: Ran, device: int | None, lost: int, *, whole: bool, cut: bool) -> EventCounts:
    """Records of one device; the host's are counted with the first."""
    process = ran.process
    on_device = sum(int((process.column(p, "device") == device).sum()) for p in ("kernels", "memcpy", "memset"))
    host = sum(process.count(part) for part in ("launches", "ops", "annotations")) if whole else 0
    return EventCounts(events_x=on_device + host, lost_events=lost if whole else 0, truncated=cut)


def _ranks(dump: Dump) -> dict[tuple[int, int | None], int]:
    """(process, device) -> rank: the device's number where no two processes drove one device, else in order."""
    places = [
        (number, device)
        for number, ran in enumerate(dump.processes)
        for device in (_with_kernels(ran) or ran.process.devices())
    ]
    numbers = [device for _, device in places]
    by_device = len(set(numbers)) == len(numbers)
    if len(places) > 1:
        how = "the device's number is the rank" if by_device else "ranks are numbered in order of process and device"
        dump.note("ranks_of_devices", f"{len(places)} devices or processes in one file: {how}", quiet=True)
    return {place: place[1] if by_device else order for order, place in enumerate(places)}


def _with_kernels(ran: Ran) -> list[int]:
    found: list[int] = np.unique(ran.process.column("kernels", "device")).tolist()
    return found
