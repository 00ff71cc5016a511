"""Writes records from a thread of its own: hooks append to a bounded queue, and what does not fit is counted.

Each flush is one ``write``: a killed process loses what it had not flushed yet, at most one second. Where the disk is
full or the folder is gone, recording stops, the reason is kept for ``Status``, and serving goes on.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from m3probe.schema.frames import MAGIC, frame
from m3probe.schema.records import AnyRecord, Clock, End

FLUSH_S = 1.0
CLOCK_S = 10.0
MOST_QUEUED = 65_536


class Writer:
    """One file of a recording.

    Args:
        path: the file; it must not exist.
        tick: called before each flush, in the writer's thread: collectors turn what they counted into records.
        most: records in the queue.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, path: Path, tick: Callable[[], None], most: int = MOST_QUEUED) -> None:
        self.path = path
        self.dropped: Counter[str] = Counter()
        self.records = self.bytes = 0
        self.stopped = ""
        self._queue: deque[AnyRecord] = deque()
        self._most, self._tick = most, tick
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._wake = threading.Event()
        self._ending = False
        self._flushing = threading.Lock()
        self._clock_due = 0.0
        self._write(MAGIC)
        self._thread = threading.Thread(target=self._run, name="m3probe-writer", daemon=True)

    def start(self) -> None:
        """Begin to flush."""
        self._thread.start()

    def put(self, record: AnyRecord) -> None:
        """Queue a record; never waits. Called from vLLM's threads."""
        if len(self._queue) >= self._most:
            self.dropped[type(record).__name__] += 1
            return
        self._queue.append(record)

    def close(self, end: Callable[[], End]) -> None:
        """Flush, write ``end()`` and close; waits for the thread at most two seconds."""
        self._ending = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(2.0)
        self.flush()
        with self._flushing:
            self._write(frame(end()))
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def abandon(self) -> None:
        """In a forked child: the file, the queue and the thread are the parent's."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._queue = -1, deque()

    def flush(self) -> None:
        """Write all that is queued as one piece."""
        with self._flushing:
            self._tick()
            taken = [self._queue.popleft() for _ in range(len(self._queue))]
            now = time.monotonic()
            if taken or now >= self._clock_due:
                self._clock_due = now + CLOCK_S
                taken.insert(0, clock())
            parts = []
            for record in taken:
                try:
                    parts.append(frame(record))
                except Exception:  # noqa: BLE001 - a value msgpack does not know loses its record, not the recording
                    self.dropped[f"{type(record).__name__} (not encodable)"] += 1
            self._write(b"".join(parts))
            self.records += len(parts)

    def _run(self) -> None:
        while not self._ending:
            self._wake.wait(FLUSH_S)
            try:
                self.flush()
            except Exception as error:  # noqa: BLE001 - the recording ends, not the server
                self._stop(f"the writer failed: {type(error).__name__}: {error}")

    def _write(self, data: bytes) -> None:
        if self.stopped or self._file < 0:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self._stop(f"cannot write {self.path.name}: {error.strerror}")
            return
        self.bytes += len(data)

    def _stop(self, why: str) -> None:
        self.stopped = self.stopped or why


def clock() -> Clock:
    """Both clocks, read together."""
    return Clock(mono_ns=time.monotonic_ns(), wall_ns=time.time_ns())
