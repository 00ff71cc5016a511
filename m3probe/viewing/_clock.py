"""Time for feeds: Unix time that never goes back, and how often something that costs may be done."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds of Unix time; it never goes back."""


def steady() -> Clock:
    """Wall time now, and from then on the monotonic clock: no wall clock that is set makes a rate negative."""
    base = time.time() - time.monotonic()
    return lambda: base + time.monotonic()


class Paced:
    """Lets work be done again when what it cost is at most a share of the time since.

    Args:
        share: of one core.
        least_s: seconds between two, however cheap.
        cost: what counts: the thread's own processor time; a test gives its own.
    """

    def __init__(self, share: float, least_s: float, cost: Clock = time.thread_time) -> None:
        self.share, self.least_s = share, least_s
        self._cost, self._began, self.due_s = cost, 0.0, 0.0
        self.last_s = 0.0
        """What the last one cost."""

    def due(self, now_s: float) -> bool:
        """Whether it may be done."""
        return now_s >= self.due_s

    def begin(self) -> None:
        """The work starts."""
        self._began = self._cost()

    def end(self, now_s: float) -> None:
        """The work is done."""
        self.last_s = self._cost() - self._began
        self.due_s = now_s + max(self.least_s, self.last_s / self.share)
