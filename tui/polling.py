"""Asks a feed for views off the UI's thread: one call at a time, and nobody waits for it at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.message import Message

from m3probe.errors import M3ProbeError
from m3probe.model.view import Feed, View

Post = Callable[[Message], object]


class Arrived(Message):
    """A view."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view


class Told(Message):
    """What is being read, and how far."""

    def __init__(self, what: str, done: int, of: int) -> None:
        super().__init__()
        self.what, self.done, self.of = what, done, of


class Failed(Message):
    """A poll ended without a view. A fault is not one of ours: it ends the viewer."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    @property
    def expected(self) -> bool:
        """Whether it says what to do."""
        return isinstance(self.error, M3ProbeError)


class Poller:
    """Daemon threads: a call that hangs is left behind, so that quitting takes no longer for it."""

    def __init__(self, feed: Feed, post: Post) -> None:
        self._feed, self._post = feed, post
        self._stop = threading.Event()
        self._busy = threading.Lock()

    def poll(self) -> bool:
        """Begin a poll; False while one is under way or after ``stop``."""
        if self._stop.is_set() or not self._busy.acquire(blocking=False):
            return False
        threading.Thread(target=self._run, name="m3probe-poll", daemon=True).start()
        return True

    def stop(self) -> None:
        """Nothing is told from now on."""
        self._stop.set()

    def _run(self) -> None:
        told: Message
        try:
            told = Arrived(self._feed.poll(self._told, self._stop.is_set))
        except BaseException as error:  # noqa: BLE001 - whoever shows it decides; a feed that was told to stop may raise anything
            told = Failed(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
        finally:
            self._busy.release()
        self._tell(told)

    def _told(self, what: str, done: int, of: int) -> None:
        self._tell(Told(what, done, of))

    def _tell(self, message: Message) -> None:
        if not self._stop.is_set():
            self._post(message)
