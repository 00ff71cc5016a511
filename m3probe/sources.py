"""Paths to one recording: folders are searched, each file goes to the reader that knows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Note, Recording, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers.census_link import with_census
from m3probe.readers.chunks import Chunks
from m3probe.registry import Shelf

READERS = Shelf("m3probe.readers", "READER", Reader)
_SUFFIXES = (".json", ".json.gz")
_HEAD = 256 * 1024


def no_progress(_path: Path, _read: int, _size: int) -> None:
    """Tells nobody."""


def open_recording(paths: Sequence[Path], progress: Progress = no_progress) -> Recording:
    """Read files and folders into one recording.

    Raises:
        UnreadableInput: a path is missing or unreadable, is no known format, or a folder has no trace.
    """
    builder = RecordingBuilder()
    readers = [plug for _, plug in READERS.plugs()]
    for path in paths:
        if path.is_dir():
            _read_folder(path, readers, builder, progress)
        else:
            _reader_for(path, readers).read(path, builder, progress, in_folder=False)
    return with_census(builder.build())


def _read_folder(folder: Path, readers: list[Reader], builder: RecordingBuilder, progress: Progress) -> None:
    ignored = 0
    found = 0
    for path in sorted(p for p in _walk(folder) if p.name.endswith(_SUFFIXES)):
        head = _head(path)
        reader = next((r for r in readers if r.sniff(path, head)), None)
        if reader is None and head:
            ignored += 1
            continue
        (reader or readers[0]).read(path, builder, progress, in_folder=True)
        found += 1
    if not found:
        raise UnreadableInput(
            "the folder holds no trace",
            where=str(folder),
            next_move="m3probe looks for *.json and *.json.gz torch-profiler traces, also in folders below",
        )
    if ignored:
        builder.note(
            [Note("ignored", f"{ignored} file(s) that are no trace left out", str(folder), ignored, quiet=True)]
        )


def _walk(folder: Path) -> list[Path]:
    try:
        return [p for p in folder.rglob("*") if p.is_file()]
    except OSError as error:
        raise UnreadableInput(f"cannot be searched ({error.strerror})", where=str(folder)) from error


def _head(path: Path) -> bytes:
    for chunk in Chunks(path):
        return chunk[:_HEAD]
    return b""


def _reader_for(path: Path, readers: list[Reader]) -> Reader:
    if not path.exists():
        raise UnreadableInput("no such file or folder", where=str(path), next_move="Check the path")
    head = _head(path)
    for reader in readers:
        if reader.sniff(path, head):
            return reader
    if head.lstrip()[:1] in (b"{", b"["):
        # JSON of no known kind: the trace reader says what is missing
        return next(r for r in readers if r.title.startswith("torch-profiler"))
    what = "the file holds no data" if not head.strip() else "not a trace: the content is not JSON"
    raise UnreadableInput(
        what,
        where=str(path),
        next_move="m3probe reads torch-profiler (Chrome) traces, plain or gzip, and folders of them",
    )
