"""Progress of long reads on stderr, shown only after half a second and only to a person."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_QUIET_S = 0.5


class Told(Protocol):
    """Called with (file, bytes read, bytes on disk)."""

    def __call__(self, path: Path, read: int, size: int, /) -> None:
        """Tell it."""


@contextmanager
def progress(*, enabled: bool) -> Iterator[Told]:
    """A callback for readers; a progress bar appears when reading takes longer than a moment."""
    shown = _Shown() if enabled else None
    try:
        yield shown or _silent
    finally:
        if shown:
            shown.close()


def _silent(path: Path, read: int, size: int, /) -> None:
    """Shows nothing."""


class _Shown:
    def __init__(self) -> None:
        self._since = time.monotonic()
        self._bar: Bar | None = None
        self._tasks: dict[Path, TaskID] = {}
        self._gone = False

    def __call__(self, path: Path, read: int, size: int, /) -> None:
        if self._gone:
            return
        try:
            self._show(path, read, size)
        except OSError:  # the terminal went away: reading goes on, whoever started it may have kept stdout
            self._gone = True

    def _show(self, path: Path, read: int, size: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._since < _QUIET_S:
                return
            self._bar = _bar()
            self._bar.start()
        task = self._tasks.get(path)
        if task is None:
            from rich.markup import escape

            from m3probe.present.escape import safe

            task = self._tasks[path] = self._bar.add_task(escape(safe(path.name)), total=None)
        # bytes read are inflated ones and the size is on disk: only for a plain file do they share a scale
        self._bar.update(task, completed=read, total=size if size >= read else None)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.stop()


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading {task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
