"""Paths to one recording: folders are searched, each file goes to the reader that knows it.

A file or folder that cannot be read is told as a loss as long as another file was read; alone it is an error.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from m3probe.errors import ForeignInput, UnreadableInput
from m3probe.model.recording import MOST_TEXT, Note, Recording, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers.census_link import with_census
from m3probe.readers.chunks import Chunks
from m3probe.readers.magic import kind_of, next_move
from m3probe.registry import Shelf

READERS = Shelf("m3probe.readers", "READER", Reader)
_BY_CONTENT = tuple(f"{suffix}{gz}" for suffix in (".log", ".prom", ".txt", ".jsonl", ".csv") for gz in ("", ".gz"))
"""Suffixes that every program uses: such a file is taken where a reader knows its beginning, and is no loss otherwise."""
_DATABASES = tuple(f"{suffix}{gz}" for suffix in (".db", ".rpd", ".rocpd", ".sqlite", ".sqlite3") for gz in ("", ".gz"))
_TRACES = tuple(f"{suffix}{gz}" for suffix in (".pftrace", ".perfetto-trace") for gz in ("", ".gz"))
"""Suffixes that promise a trace: such a file that is none is a loss."""
_SUFFIXES = (".json", ".json.gz", ".m3p", *_DATABASES, *_TRACES, ".pb", ".pb.gz", *_BY_CONTENT)
_HEAD = 256 * 1024
_NOWHERE = {errno.ENOENT, errno.ENOTDIR}
_MISSPELT = _NOWHERE | {errno.ENAMETOOLONG, errno.ELOOP}


def no_progress(_path: Path, _read: int, _size: int) -> None:
    """Tells nobody."""


def open_recording(paths: Sequence[Path], progress: Progress = no_progress) -> Recording:
    """Read files and folders into one recording; a file that several of them lead to counts once.

    Raises:
        UnreadableInput: a path leads nowhere, or nothing that was named can be read.
    """
    folders = [_leads_to_folder(path) for path in paths]
    intake = _Intake(RecordingBuilder(), [plug for _, plug in READERS.plugs()], progress)
    intake.builder.offered.update(path for path, is_folder in zip(paths, folders, strict=True) if not is_folder)
    # Folders first: only of a file that was found in one it is known that its other ranks should lie beside it.
    for path, is_folder in sorted(zip(paths, folders, strict=True), key=lambda item: not item[1]):
        if is_folder:
            intake.search(path)
        else:
            intake.take(path, in_folder=False)
    return with_census(intake.finished())


def _leads_to_folder(path: Path) -> bool:
    """Looked at before anything is read: a misspelt name must not cost the minutes of reading the others."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        if error.errno in _MISSPELT:
            raise _unreadable(path, error) from error
        return False  # something is there; taking it says what is wrong


def _unreadable(path: Path | str, error: OSError) -> UnreadableInput:
    if error.errno in _NOWHERE:
        return UnreadableInput("no such file or folder", where=str(path), next_move="Check the path")
    what = f"cannot be read ({error.strerror})"
    return UnreadableInput(what, where=str(path), next_move="Check the path and its permissions")


@dataclass(slots=True)
class _Intake:
    """What was read, what could not be, and what was met again."""

    builder: RecordingBuilder
    readers: list[Reader]
    progress: Progress
    seen: set[tuple[int, int]] = field(default_factory=set)
    again: list[Path] = field(default_factory=list)
    unread: list[UnreadableInput] = field(default_factory=list)

    def search(self, folder: Path) -> None:
        """Take every trace, recording, log, metrics page and result below ``folder``."""
        before = len(self.unread)
        files = sorted(p for p in self._walk(folder) if p.name.endswith(_SUFFIXES))
        self.builder.offered.update(files)
        traces = [path for path in files if self.take(path, in_folder=True)]
        if not traces and len(self.unread) == before:
            no_trace = UnreadableInput(
                "the folder holds no trace",
                where=str(folder),
                next_move="m3probe looks for traces of torch's profiler, rocprofv3, RPD, nsys and Perfetto, also in folders below; "
                "and for server logs, metrics pages and benchmark results",
            )
            self.unread.append(no_trace)
        left = set(files).difference(traces)
        ignored = sum(not path.name.endswith(_BY_CONTENT) for path in left)
        if ignored:
            text = f"{ignored} file(s) that are no trace left out"
            self.builder.note([Note("ignored", text, str(folder), ignored, quiet=True)])

    def take(self, path: Path, *, in_folder: bool) -> bool:
        """Read one file unless it was read before; False when it lies in a folder and is no trace."""
        files, notes = len(self.builder.files), len(self.builder.notes)
        reader: Reader | None = None
        try:
            said = _stat(path)
            if path in self.builder.joined:
                self.builder.joined.remove(path)
                self.seen.add((said.st_dev, said.st_ino))
                return True
            if (said.st_dev, said.st_ino) in self.seen:
                self.again.append(path)
                return True
            reader = _reader_in_folder(path, self.readers) if in_folder else _reader_for(path, self.readers)
            if reader is None:
                return False
            self.seen.add((said.st_dev, said.st_ino))
            reader.read(path, self.builder, self.progress, in_folder=in_folder)
        except UnreadableInput as error:
            # a reader may notice only at its end that the file is none of its own
            del self.builder.files[files:], self.builder.notes[notes:]
            if in_folder and isinstance(error, ForeignInput):
                return False
            if in_folder and path.name.endswith(_BY_CONTENT) and not (reader and reader.holds_kernels):
                text = (
                    f"left out, {error.what}: such a file holds no kernel, so that no figure of kernels lacks anything"
                )
                self.builder.note([Note("unread_beside", text, error.where)])
                return False
            self.unread.append(error)
        except MemoryError:
            # rows of it may be in the tables already: nothing can be made of the others either
            raise UnreadableInput(
                "does not fit in this machine's memory",
                where=str(path),
                next_move="Record a shorter window, or read it on a larger machine",
            ) from None
        return True

    def finished(self) -> Recording:
        """The recording, with what is missing in it."""
        if not self.builder.files:
            first, more = self.unread[0], len(self.unread) - 1
            if not more:
                raise first
            what = f"{first.what} ({more} more of what was named or found cannot be read either)"
            raise UnreadableInput(what, where=first.where, next_move=first.next_move)
        for error in self.unread:
            text = f"left out, {error.what}: what it holds is in no figure"
            self.builder.note([Note("unread", text, error.where, lossy=True)])
        cut = self.builder.strings.shortened
        if cut:
            text = f"{cut:,} text(s) longer than {MOST_TEXT:,} characters: only their beginning was kept"
            self.builder.note([Note("long_text", text, count=cut, lossy=True)])
        if self.again:
            text = f"{len(self.again)} path(s) lead to a file that was read already: it counts once"
            self.builder.note([Note("repeated", text, str(self.again[0]), len(self.again))])
        return self.builder.build()

    def _walk(self, folder: Path) -> Iterator[Path]:
        """Files below ``folder``, links to files among them; links to folders could lead in circles."""

        def refused(error: OSError) -> None:
            self.unread.append(_unreadable(error.filename or folder, error))

        for root, folders, files in os.walk(folder, onerror=refused):
            yield from (Path(root, name) for name in files)
            linked = [path for path in (Path(root, name) for name in folders) if _leads_out(path, folder)]
            if linked:
                text = f"{len(linked)} linked folder(s) not searched: name what they lead to"
                self.builder.note([Note("linked_folder", text, str(linked[0]), len(linked))])


def _leads_out(path: Path, folder: Path) -> bool:
    """Whether ``path`` is a link to what is not below ``folder`` anyway."""
    try:
        return path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a path too long, a circle of links: walking on tells it
        return False


def _stat(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error


def _reader_in_folder(path: Path, readers: list[Reader]) -> Reader | None:
    """The reader of a file that was found; None when it holds something else than a trace."""
    head = _head(path)
    text = head.strip()
    if path.name.endswith(_BY_CONTENT):
        return _sniffed(path, head, readers)
    # Nothing (a gzip of nothing), or JSON that ends before it is known of what: it may be all that is left of a trace.
    cut = not text or (len(head) < _HEAD and _is_json(text) and text[-1:] not in (b"}", b"]"))
    found = _sniffed(path, head, readers) or (_trace_reader(readers) if cut else None)
    if found is None and path.name.endswith(_TRACES):
        raise _foreign(path, head)
    return found


def _reader_for(path: Path, readers: list[Reader]) -> Reader:
    if not path.stat().st_size and path.name.endswith((".prom", ".prom.gz")):
        # seen: status 200 and no body
        raise UnreadableInput("no metrics in file: it is empty (0 bytes)", where=str(path), next_move="Scrape again")
    head = _head(path)
    reader = _sniffed(path, head, readers)
    if reader is not None:
        return reader
    if _is_json(head.lstrip()):
        return _trace_reader(readers)
    raise _foreign(path, head)


def _foreign(path: Path, head: bytes) -> UnreadableInput:
    """What a file is that no reader knows."""
    words = kind_of(head, path.name)
    packed = " inside gzip" if words and Chunks(path).is_gzip else ""
    what = f"{words}{packed}: no profiler data" if words else "no profiler data: bytes of no kind that is known"
    return UnreadableInput(
        "the file holds no data" if not head.strip() else f"not a trace: {what}",
        where=str(path),
        next_move=next_move(words)
        or "m3probe reads traces of torch's profiler, rocprofv3, RPD, nsys (exported to SQLite) and Perfetto, plain or gzip, "
        "folders of them, counters, logs of vLLM, pages of /metrics and benchmark results (docs/formats.md)",
    )


def _sniffed(path: Path, head: bytes, readers: list[Reader]) -> Reader | None:
    return next((reader for reader in readers if reader.sniff(path, head)), None)


def _trace_reader(readers: list[Reader]) -> Reader:
    """The reader that says of JSON of no known kind what is missing in it."""
    return next(reader for reader in readers if reader.title.startswith("torch-profiler"))


def _is_json(text: bytes) -> bool:
    return text[:1] in (b"{", b"[")


def _head(path: Path) -> bytes:
    """The first inflated bytes; all of them when there are fewer than ``_HEAD``."""
    head = b""
    for chunk in Chunks(path):
        head += chunk
        if len(head) >= _HEAD:
            break
    return head[:_HEAD]
