"""The recording's folder as ``attach`` makes it: manifest, its own file, and what the guests' files tell meanwhile."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from m3probe import __version__
from m3probe.errors import UsageError
from m3probe.schema import records, secrets
from m3probe.schema.frames import MAGIC, MANIFEST, SUFFIX, Cut, frame, packed
from m3probe.schema.frames import records as records_in
from m3probe.schema.manifest import Manifest
from m3probe.schema.roles import Role

CLOCK_S = 10.0


def new_folder(out: Path | None) -> Path:
    """Make the folder; without a name one in the current folder, or the temporary one where that is not writable.

    Raises:
        UsageError: it cannot be made, or holds something already: two recordings in one folder would be read as one.
    """
    folder = out.expanduser().absolute() if out is not None else _default()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError("the folder is not empty", where=str(folder), next_move="Name a new one with --out")
    except OSError as error:
        raise UsageError(
            f"cannot be made ({error.strerror})", where=str(folder), next_move="Name another with --out"
        ) from error
    return folder


def write_manifest(folder: Path) -> None:
    """Write ``manifest.json`` before the guests come, so that they find it."""
    manifest = Manifest(
        format=records.FORMAT,
        m3probe=__version__,
        id=os.urandom(8).hex(),
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        host=socket.gethostname(),
        pid=os.getpid(),
        command=secrets.command(sys.orig_argv),
    )
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


class HostFile:
    """``attach``'s own file: series of /metrics, configuration over HTTP, use of processes without a guest."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"host--1-{os.getpid()}-{time.time_ns() // 1_000_000}{SUFFIX}"
        self.lost = ""
        """Why no more is written (a full disk); empty: all was."""
        self.bytes = 0
        self._file = self.path.open("xb", buffering=0)
        self._clock_due = 0.0
        self._write(MAGIC)
        self.put(
            records.Process(
                format=records.FORMAT,
                m3probe=__version__,
                role=Role.HOST,
                roles=(Role.HOST,),
                pid=os.getpid(),
                ppid=os.getppid(),
                host=socket.gethostname(),
                python=platform.python_version(),
            )
        )

    def put(self, *these: records.AnyRecord) -> None:
        """Write records as one piece."""
        now = time.monotonic()
        parts = [frame(record) for record in these]
        if now >= self._clock_due:
            self._clock_due = now + CLOCK_S
            parts.insert(0, frame(records.Clock(mono_ns=time.monotonic_ns(), wall_ns=time.time_ns())))
        self._write(packed(b"".join(parts)))

    def close(self, reason: str) -> None:
        """Write the end record and close."""
        self.put(records.End(mono_ns=time.monotonic_ns(), reason=reason))
        self._file.close()

    def _write(self, data: bytes) -> None:
        if self.lost:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
            self.bytes += len(data)
        except OSError as error:
            self.lost = f"cannot write {self.path.name}: {error.strerror}"


class Tail:
    """New records of the guests' files, as they are flushed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def new(self) -> Iterator[tuple[int, records.AnyRecord]]:
        """(pid of the guest, record) of all that came since the call before."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            pid = _pid_of(path)
            start = self._read.get(path, len(MAGIC))
            with suppress(OSError):
                with path.open("rb") as file:
                    file.seek(start)
                    data = file.read()
                cut = Cut()
                for record in records_in(data, cut):
                    yield pid, record
                self._read[path] = start + max(cut.at, 0)


def size_of(folder: Path) -> int:
    """Bytes of all files in it."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _pid_of(path: Path) -> int:
    """``worker-0-4711-1790000000000.m3p`` -> 4711; -1 for another name."""
    words = path.name.removesuffix(SUFFIX).rsplit("-", 2)
    return int(words[1]) if len(words) == 3 and words[1].isdecimal() else -1


def _default() -> Path:
    name = time.strftime("m3probe-%Y%m%dT%H%M%S") + f"-{os.getpid()}"
    here = Path.cwd()
    if os.access(here, os.W_OK):
        return here / name
    import tempfile

    return Path(tempfile.gettempdir()) / name
