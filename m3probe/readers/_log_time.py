"""Times of a log's records as they are written: no zone, and no year but in JSON records."""

from __future__ import annotations

import re
from datetime import datetime

_TIME = re.compile(rb"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) +(\d\d-\d\d \d\d:\d\d:\d\d)")
_JSON_TIME = re.compile(rb'"asctime": ?"((?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)')
_LEAP = "2024"
"""Stands for the year that a record does not write: the 29th of February is a day of it."""
_YEAR_S = 366 * 86_400
_HALF_YEAR_S = 183 * 86_400


class Clock:
    """The first and the last record of a log so far; what stands between them is looked at only when asked for."""

    __slots__ = ("_first", "_first_s", "_last", "_last_s")

    def __init__(self) -> None:
        self._first = self._last = b""
        self._first_s: int | None = None
        self._last_s = 0

    def see(self, raw: bytes) -> None:
        """One record, in the order of the log."""
        self._last = raw
        if not self._first:
            self._first = raw

    @property
    def times(self) -> tuple[str, str] | None:
        """``11-29 20:21:22`` twice; None where either has none."""
        found = (_written(self._first), _written(self._last))
        return found if all(found) else None

    @property
    def now_s(self) -> int | None:
        """Whole seconds from the first record to the last one; the turn of a year is counted as a leap year's."""
        if self._first_s is None:
            self._first_s = self._last_s = _seconds(_written(self._first)) or 0
        now = _seconds(_written(self._last))
        if now is None:
            return None
        while now < self._last_s - _HALF_YEAR_S:
            now += _YEAR_S
        self._last_s = max(self._last_s, now)
        return now - self._first_s


def _seconds(text: str) -> int | None:
    """Since some fixed day; None for what is no date."""
    if not text:
        return None
    whole = text if text[4:5] == "-" else f"{_LEAP}-{text}"
    try:
        return int((datetime.fromisoformat(whole) - datetime(2024, 1, 1)).total_seconds())  # noqa: DTZ001 - a difference
    except ValueError:
        return None


def _written(raw: bytes) -> str:
    found = _TIME.search(raw) or _JSON_TIME.search(raw)
    return found[1].decode() if found else ""
