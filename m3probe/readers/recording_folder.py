"""Our own recording: one ``.m3p`` file per process of a server, whole frames up to wherever it ends.

A killed process leaves no end record and at most one broken frame: what is before it is read. A file that is still being
written looks the same, so a missing end is told and is no loss by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.model.recording import MOST_RANKS, EventCounts, RecordingBuilder, SourceFile, time_or_none
from m3probe.plugs import Progress, Reader
from m3probe.readers._guest_census import add_census
from m3probe.readers._guest_meta import with_guest
from m3probe.readers._guest_notes import notes_of
from m3probe.readers._guest_rows import add_rows
from m3probe.schema import records
from m3probe.schema.frames import MAGIC, SUFFIX, Cut
from m3probe.schema.frames import records as records_of

MOST_BYTES = 4 * 2**30
MOST_RECORDS = 5_000_000
"""About 100 hours of a busy process: packed frames may claim to hold far more than memory does."""
EVERY = 20_000
"""Records between two reports of progress."""


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file begins with our magic line, or is named so: one that lost its head must not be passed over."""
    return head.startswith(MAGIC) or path.suffix == SUFFIX


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add one process's file.

    Raises:
        UnreadableInput: it cannot be read, is no recording, holds no process record, or is of a later format.
    """
    data = _content(path)
    if not data.startswith(MAGIC):
        raise UnreadableInput(
            "not a recording: it does not begin with m3probe's magic line" if data else "the file holds no data",
            where=str(path),
            next_move="The process ended before it wrote, or the file is damaged from its start; record again",
        )
    cut = Cut()
    found: dict[type[records.Record], list[Any]] = {}
    for number, record in enumerate(records_of(data, cut, len(MAGIC))):
        if number == MOST_RECORDS:
            cut.why = f"more than {MOST_RECORDS:,} records"
            break
        found.setdefault(type(record), []).append(record)
        if number % EVERY == 0:
            progress(path, cut.at, len(data))
    process = _process(path, found.get(records.Process, []))
    found[records.Process] = [process]
    file = len(builder.files)
    builder.files.append(
        SourceFile(
            path=str(path),
            kind="m3probe",
            role="guest",
            rank=process.rank if 0 <= process.rank < MOST_RANKS else None,
            world_size=process.world_size if 0 < process.world_size <= MOST_RANKS else None,
            base_time_ns=_base(found.get(records.Clock, [])),
            size_bytes=len(data),
            counts=EventCounts(truncated=bool(cut.why)),
            in_folder=in_folder,
        )
    )
    add_rows(found, builder, file)
    add_census(found, builder, file)
    builder.meta = with_guest(builder.meta, process, found)
    builder.note(notes_of(path, process, found, cut))
    progress(path, len(data), len(data))


READER = Reader(title="m3probe recording", sniff=sniff, read=read)


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UnreadableInput(
                f"{size:,} bytes: more than a recording of one process holds",
                where=str(path),
                next_move="Record a shorter time",
            )
        return path.read_bytes()
    except OSError as error:
        raise UnreadableInput(
            f"cannot be read ({error.strerror})", where=str(path), next_move="Check the path and its permissions"
        ) from error


def _process(path: Path, found: list[records.Process]) -> records.Process:
    """The last one: a process learns its roles one by one."""
    if not found:
        raise UnreadableInput(
            "no process record: nothing tells who wrote it",
            where=str(path),
            next_move="The recording was ended at once, or the file is damaged from its start; record again",
        )
    process = found[-1]
    if process.format > records.FORMAT:
        raise UnreadableInput(
            f"format {process.format}; this m3probe reads up to {records.FORMAT}",
            where=str(path),
            next_move="Use the m3probe that recorded it, or a later one",
        )
    return process


def _base(clocks: list[records.Clock]) -> int | None:
    """Wall time at monotonic zero, so that start times of different hosts can be put on one axis."""
    return time_or_none(clocks[0].wall_ns - clocks[0].mono_ns) if clocks else None
