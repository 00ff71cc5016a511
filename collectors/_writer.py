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

from m3probe.schema.frames import MAGIC, frame, packed
from m3probe.schema.records import AnyRecord, Clock, End

FLUSH_S = 1.0
CLOCK_S = 10.0
PATIENCE_S = 2.0
"""How long the end of a process or of a recording waits for a disk that does not answer."""
MOST_QUEUED = 65_536


class Writer:
    """One file of a recording.

    Args:
        path: the file; it must not exist.
        tick: called before each flush, in the writer's thread: collectors turn what they counted into records.
        most: records in the queue.
        stopped: called once in the writer's thread when recording has stopped by itself.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(
        self,
        path: Path,
        tick: Callable[[], None],
        most: int = MOST_QUEUED,
        stopped: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self.path = path
        self.dropped: Counter[str] = Counter()
        self.records = self.bytes = 0
        self.stopped = ""
        self._queue: deque[AnyRecord] = deque()
        self._most, self._tick, self._told = most, tick, stopped
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._wake = threading.Event()
        self._flushing, self._counting = threading.Lock(), threading.Lock()
        self._clock_due = 0.0
        if not self._write(MAGIC):
            os.close(self._file)
            path.unlink(missing_ok=True)
            raise OSError(self.stopped)
        self._thread = threading.Thread(target=self._run, name="m3probe-writer", daemon=True)

    def start(self) -> None:
        """Begin to flush.

        Raises:
            RuntimeError: the process may start no further thread.
        """
        self._thread.start()

    def put(self, record: AnyRecord) -> None:
        """Queue a record; waits for nothing but other droppers. Called from vLLM's threads."""
        if len(self._queue) >= self._most or self.stopped:
            self._drop(type(record).__name__)
            return
        self._queue.append(record)

    def flush(self) -> bool:
        """Write all that is queued as one piece; False where an earlier flush still waits for the disk."""
        if not self._flushing.acquire(timeout=PATIENCE_S):
            return False
        try:
            self._tick()
            self._written([self._queue.popleft() for _ in range(len(self._queue))])
        except Exception as error:  # noqa: BLE001 - the recording ends, not the server
            self._stop(f"the writer failed: {type(error).__name__}: {error}")
        finally:
            self._flushing.release()
        return True

    def close(self, end: Callable[[], End]) -> None:
        """Flush, write ``end()`` and close; never waits longer than ``PATIENCE_S`` at each of them."""
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(PATIENCE_S)
        if not self.flush() or not self._flushing.acquire(timeout=PATIENCE_S):
            self._stop("the disk does not answer")
            return  # the file is the thread's that waits in it
        try:
            self._write(frame(end()))
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
        finally:
            self._flushing.release()

    def abandon(self) -> None:
        """In a forked child: the file, the queue and the thread are the parent's."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._queue = -1, deque()

    def _written(self, taken: list[AnyRecord]) -> None:
        now = time.monotonic()
        if self._file >= 0 and not os.fstat(self._file).st_nlink:
            self._stop(f"{self.path.name} was deleted")
        if taken or now >= self._clock_due:
            self._clock_due = now + CLOCK_S
            taken.insert(0, clock())
        parts = []
        for record in taken:
            try:
                parts.append(frame(record))
            except Exception:  # noqa: BLE001 - a value msgpack does not know loses its record, not the recording
                self._drop(f"{type(record).__name__} (not encodable)")
        if self._write(packed(b"".join(parts))):
            self.records += len(parts)
        elif parts:
            self._drop("(not written)", len(parts))

    def _run(self) -> None:
        while not self._wake.wait(FLUSH_S):
            self.flush()
            if self.stopped:
                self._told(self.stopped)
                return

    def _write(self, data: bytes) -> bool:
        if self.stopped or self._file < 0:
            return False
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self._stop(f"cannot write {self.path.name}: {error.strerror}")
            return False
        self.bytes += len(data)
        return True

    def _drop(self, what: str, count: int = 1) -> None:
        with self._counting:
            self.dropped[what] += count

    def _stop(self, why: str) -> None:
        self.stopped = self.stopped or why


def clock() -> Clock:
    """Both clocks, read together."""
    return Clock(mono_ns=time.monotonic_ns(), wall_ns=time.time_ns())
