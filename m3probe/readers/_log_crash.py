"""Tracebacks of several processes, interleaved, and the exception in which each ends."""

from __future__ import annotations

import re

from m3probe.model.log_events import Raised
from m3probe.readers._log_lines import Line
from m3probe.readers._log_time import Clock

BEGIN = "Traceback (most recent call last):"
MOST_KEPT = 100
MOST_OPEN = 512
"""Processes whose traceback has begun: a log cut by ``grep`` may never end one."""
MOST_TEXT = 400
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: ?(.*))?$", re.DOTALL)
_ECHO_TYPES = ("EngineDeadError",)
_ECHO_TEXTS = (
    "root cause above",
    "(above) for the root cause",
    "WorkerProc initialization failed due to an exception in",
)


class Tracebacks:
    """Fed with every line while one is open."""

    def __init__(self) -> None:
        self.count = 0
        self.raised: list[Raised] = []
        self._open: dict[str, tuple[str, int]] = {}

    @property
    def open(self) -> bool:
        """Whether the next lines may belong to one."""
        return bool(self._open)

    def see(self, line: Line, clock: Clock) -> None:
        """One line; a record of JSON may hold a whole traceback."""
        for text in line.text.split("\n"):
            if text.endswith(BEGIN):
                self.count += 1
                if len(self._open) < MOST_OPEN:
                    self._open[line.label] = (text.removesuffix(BEGIN), line.number)
            elif line.label in self._open:
                self._next(line, text, clock)

    def _next(self, line: Line, text: str, clock: Clock) -> None:
        """Code is indented; the first line that is not ends it."""
        before, number = self._open[line.label]
        if line.indented or not text.startswith(before):
            return
        rest = text.removeprefix(before)
        if not rest or rest[0] in " \t":
            return
        del self._open[line.label]
        said = _EXCEPTION.match(rest)
        if said and len(self.raised) < MOST_KEPT:
            kind, what = said[1], (said[2] or "")[:MOST_TEXT]
            echo = kind.rpartition(".")[2] in _ECHO_TYPES or any(words in what for words in _ECHO_TEXTS)
            self.raised.append(Raised(line.label, line.pid, kind, what, number, clock.now_s, echo))
