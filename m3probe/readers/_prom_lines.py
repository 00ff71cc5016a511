"""Lines of metrics pages as rows: one scrape a page, however many pages a file holds.

Why not the client library's parser (prometheus_client 0.26.0, measured on a vLLM page of 58 kB): it takes 7.0 ms a page,
70 s for 10,000; one line that is no sample, or a page that was cut, raises, and what stands behind it is lost; and
importing it loads an HTTP server. Here a page takes 0.3 ms, because its series are those of the page before.
``tests/test_prom_oracle.py`` holds the two against each other.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from m3probe.model.recording import Strings
from m3probe.model.tables import NONE
from m3probe.readers._prom_times import time_of
from m3probe.schema.exposition import CREATED, SAMPLE, SERIES, number_of

MOST_LINE = 64 * 1024
MOST_SERIES = 500_000
"""Different series of a recording; a vLLM page has about 500, and each engine as many again."""
BAD_LISTED = 100
STARTED = "process_start_time_seconds"
_NOT_KEPT, _BEYOND = -2, -3
_HTTP = (b"http/", b"content-", b"server:", b"connection:", b"transfer-", b"x-", b"vary:", b"access-control")
"""What ``curl -i`` writes before a page, in lower case."""


@dataclass(slots=True)
class Page:
    """One scrape: the series and values of its lines."""

    at_ns: int = NONE
    started_s: float = float("nan")
    created_s: float = float("nan")
    samples: int = 0
    first: int = NONE
    series: array[int] = field(default_factory=lambda: array("i"))
    values: array[float] = field(default_factory=lambda: array("d"))


class Known:
    """What the pages of one recording share: series by their bytes, and comments that were read."""

    def __init__(self, strings: Strings) -> None:
        self.strings = strings
        self.series: dict[bytes, int] = {}
        self.comments: dict[bytes, tuple[str, str]] = {}
        self.started: set[int] = set()


class Pages:
    """Fed with lines; afterwards ``done`` holds the pages, and the counts what was odd."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.done: list[Page] = []
        self.types: dict[str, str] = {}
        self.bad: list[int] = []
        self.bad_count = self.repeated = self.beyond = self.lines = 0
        self._page = Page()
        self._seen: set[int] = set()
        self._next_at = NONE

    def feed(self, lines: Iterable[bytes]) -> None:
        """Whole lines without their ends."""
        series_of, page = self.known.series, self._page
        for raw in lines:
            self.lines += 1
            key, _, text = raw.rpartition(b" ")
            series = series_of.get(key)
            value = None if series is None else number_of(text)
            if series is None or value is None:
                self._other(raw)
                page = self._page
                continue
            if series == page.first:
                page = self._new_page()
            self._add(page, series, value)

    def close(self) -> None:
        """The last page ends with the file."""
        left = self._new_page().at_ns
        if left != NONE and self.done and self.done[0].at_ns == NONE:
            # who writes the time behind each page leaves one over at the end
            for page, follows in zip(self.done, [*self.done[1:], None], strict=True):
                page.at_ns = left if follows is None else follows.at_ns

    @property
    def samples(self) -> int:
        """Whole sample lines of all pages."""
        return sum(page.samples for page in self.done)

    def _add(self, page: Page, series: int, value: float) -> None:
        page.samples += 1
        if series == _NOT_KEPT:
            if math.isnan(page.created_s):
                page.created_s = value
            return
        if series == _BEYOND:
            return
        if page.first == NONE:
            page.first = series
        if series in self._seen:
            self.repeated += 1
        self._seen.add(series)
        page.series.append(series)
        page.values.append(value)
        if series in self.known.started:
            page.started_s = value

    def _new_page(self) -> Page:
        if self._page.samples:
            self.done.append(self._page)
            self._page, self._seen = Page(), set()
        if self._next_at != NONE:
            self._page.at_ns, self._next_at = self._next_at, NONE
        return self._page

    def _other(self, raw: bytes) -> None:
        """Comments, times, blank lines, series that are new, and what is none of these."""
        line = raw.strip()
        if not line:
            return
        if line.startswith(b"#"):
            self._comment(line)
        elif not self._sample(line) and not self._between(line):
            self.bad_count += 1
            if len(self.bad) < BAD_LISTED:
                self.bad.append(self.lines)

    def _comment(self, line: bytes) -> None:
        known = self.known.comments.get(line)
        if known is None:
            words = line.decode("utf-8", "replace").split(None, 3)
            known = (words[2], words[3].strip()) if len(words) == 4 and words[1] == "TYPE" else ("", "")
            if len(self.known.comments) < MOST_SERIES:
                self.known.comments[line] = known
        name, kind = known
        if name:
            self.types[name] = kind
        elif line == b"# EOF":
            self._new_page()
        elif not line.startswith((b"# HELP", b"# UNIT")):
            self._time(line)

    def _between(self, line: bytes) -> bool:
        """A time, or the head of an HTTP answer (``curl -i``)."""
        return line.lower().startswith(_HTTP) or self._time(line)

    def _time(self, line: bytes) -> bool:
        at_ns = time_of(line[:200].decode("utf-8", "replace"))
        if at_ns == NONE:
            return False
        self._next_at = at_ns
        self._new_page()
        return True

    def _sample(self, line: bytes) -> bool:
        """A series that was not met before, or a line with more than series and value."""
        said = SAMPLE.fullmatch(line.decode("utf-8", "replace")) if len(line) <= MOST_LINE else None
        value = number_of(said[4]) if said else None
        if said is None or value is None:
            return False
        series = self._series(said[1], said[2])
        if series == self._page.first and series >= 0:
            self._new_page()
        if said[5] and self._page.at_ns == NONE:
            self._page.at_ns = _stamp(said[5])
        self._add(self._page, series, value)
        return True

    def _series(self, text: str, name: str) -> int:
        key = text.encode()
        series = self.known.series.get(key)
        if series is not None:
            return series
        if len(self.known.series) >= MOST_SERIES:
            self.beyond += 1
            return _BEYOND
        series = _NOT_KEPT if name.endswith(CREATED) else self.known.strings.intern(text)
        if SERIES.fullmatch(text):
            self.known.series[key] = series
        if name == STARTED:
            self.known.started.add(series)
        return series


def _stamp(text: str) -> int:
    """A sample's own time: milliseconds in Prometheus' format, seconds with a fraction in OpenMetrics'."""
    value = number_of(text)
    if value is None or not 1e9 <= value < 1e13:
        return NONE
    return round(value * 1e6) if value >= 1e11 else round(value * 1e9)
