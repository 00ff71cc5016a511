"""One address asked again and again: one request in flight, never waited for long, later and later while it fails."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from m3probe.attach.fetch import FORBIDDEN, NOT_FOUND, OK, UNAUTHORIZED, Reply
from m3probe.model.view import Cancelled, Word
from m3probe.viewing._clock import Clock

EVERY_S = 1.0
WAIT_S = 1.0
"""A poll waits so long for an answer; then the view is made without it, and the next poll goes on waiting."""
GIVEN_UP_S = 10.0
"""A busy vLLM has been seen to take 8 s for a page: given up earlier, nothing would ever be known of it."""
BACK_OFF_S = (1.0, 2.0, 5.0, 10.0)
_LOOK_S = 0.05
Get = Callable[[float], Reply]
"""One GET that takes at most so many seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, when, and how long it took."""

    reply: Reply
    at_s: float
    took_s: float


class Link:
    """Asks in a thread of its own, so that nobody waits for a server that hangs."""

    def __init__(self, get: Get, clock: Clock) -> None:
        self._get, self._clock = get, clock
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._closed = False
        self._failed = 0
        self.asked_s: float | None = None
        """When the request that is in flight was sent; None: none is."""
        self.due_s = 0.0

    def turn(self, cancelled: Cancelled) -> Answer | None:
        """Ask where it is time, and wait a moment; None: nothing came."""
        if self._closed:
            return None
        if self.asked_s is None:
            if self._clock() < self.due_s:
                return None
            self.asked_s = self._clock()
            threading.Thread(target=self._ask, args=(self.asked_s,), name="m3probe-scrape", daemon=True).start()
        return self._waited(cancelled)

    def worked(self) -> None:
        """The last answer was good: ask again at the usual time."""
        self._failed = 0
        self.due_s = max(self._clock(), (self._last_asked or 0.0) + EVERY_S)

    def failed(self) -> None:
        """It was not: wait longer each time."""
        self.due_s = self._clock() + BACK_OFF_S[min(self._failed, len(BACK_OFF_S) - 1)]
        self._failed += 1

    def retry(self) -> None:
        """Ask at the next turn."""
        self.due_s = 0.0

    @property
    def waited_s(self) -> float | None:
        """Since when the request in flight has been out."""
        return None if self.asked_s is None else self._clock() - self.asked_s

    @property
    def retry_in_s(self) -> float | None:
        """Until it is asked again after failures; None: it is on its way, or the last answer was good."""
        return max(0.0, self.due_s - self._clock()) if self._failed and self.asked_s is None else None

    def close(self) -> None:
        """Nobody waits any more; a request in flight ends by itself."""
        self._closed = True
        self._answers.put(None)

    _last_asked: float | None = None

    def _ask(self, asked_s: float) -> None:
        reply = self._get(GIVEN_UP_S)
        now = self._clock()
        self._answers.put(Answer(reply, now, now - asked_s))

    def _waited(self, cancelled: Cancelled) -> Answer | None:
        left = WAIT_S
        while left > 0 and not self._closed and not cancelled():
            try:
                answer = self._answers.get(timeout=_LOOK_S)
            except queue.Empty:
                left -= _LOOK_S
                continue
            if answer is not None:
                self._last_asked, self.asked_s = self.asked_s, None
            return answer
        return None


def refused(reply: Reply, took_s: float) -> tuple[Word, str] | None:
    """(state, why) of an answer that is no page; None where it may be one."""
    if reply.error:
        said = reply.error.partition("] ")[2] or reply.error
        if "no whole answer" in said or "timed out" in said:
            said = f"no whole answer within {took_s:.0f} s"
        return Word.DOWN, said[:1].lower() + said[1:]
    if reply.status in {UNAUTHORIZED, FORBIDDEN}:
        return Word.DOWN, f"HTTP {reply.status}: it wants a key (--header 'Authorization: Bearer KEY')"
    if reply.status == NOT_FOUND:
        return Word.BAD_DATA, "HTTP 404: there is no /metrics at this address"
    if reply.status != OK:
        return Word.DOWN, f"HTTP {reply.status}"
    return None
