"""A live server by its address: /metrics once a second, gauges at once, and the questions judged on the kept pages."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from m3probe.attach.fetch import client
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.model.view import Cancelled, Gauge, SourceState, Told, View, Word
from m3probe.readers._prom_lines import Page
from m3probe.viewing._book import Book
from m3probe.viewing._clock import Clock, Paced, steady
from m3probe.viewing._columns import MOST_COLUMNS, Break, Row
from m3probe.viewing._figures import Looked, thinned
from m3probe.viewing._link import EVERY_S, Answer, Get, Link, refused
from m3probe.viewing.gauges import Context, gauges, missing
from m3probe.viewing.history import History

PATH = "/metrics"
WINDOW_S = 60.0
DRAWN_S = 60.0
"""A spark line shows at least so much."""
SLOW_S = 0.5
OVERDUE = 1.25
"""An answer may take so much of what the last one took, before it is more than slow."""
STALE_S = 15.0
"""A server that has not answered for so long is DOWN."""
MARKED_S = 10.0
"""A restart is the word of the view for so long."""
FLIPPED_S = 60.0
"""A balancer of two shows itself again within seconds; a server that was replaced is the only one after a while."""
NEEDED = 2
"""Pages before there is a rate."""
REPORT_SHARE, REPORT_LEAST_S = 0.01, 2.0
"""Of one core for reports: the rest of a budget of 3 % is for asking and drawing."""
MOST_STARTS = 32
SEVERAL = (
    "process_start_time_seconds goes back and forth: several servers answer at this address, and no rate is right. "
    "Name each server's own address"
)
FOREIGN = "a page of metrics, but none of vLLM or SGLang: another service, or a vLLM with --disable-log-stats"


@dataclass(slots=True)
class _Seen:
    """What pages told so far. ``epoch`` counts breaks between pages whose counters do not go on."""

    history: History = field(default_factory=lambda: History(MOST_COLUMNS))
    epoch: int = 0
    pages: int = 0
    began_with_reset: bool = False
    resets: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_STARTS))
    flipped_s: float | None = None
    """When a start time came back that had been another one's before."""

    def several(self, now_s: float) -> bool:
        """Whether more than one server answers at this address."""
        return self.flipped_s is not None and now_s - self.flipped_s < FLIPPED_S

    def take(self, page: Page, row: Row, at_s: float) -> None:
        """One page more."""
        began = row.began
        started = page.started_s
        if math.isfinite(started) and (not self.starts or self.starts[-1] != started):
            self.flipped_s = at_s if started in self.starts else self.flipped_s
            began = Break.RESET if self.starts else began
            self.starts.append(started)
        if began is not Break.NONE:
            self.epoch += 1
            self.began_with_reset = began is Break.RESET
            if began is Break.RESET:
                self.resets.append(at_s)
        self.pages += 1
        self.history.put(at_s, self.epoch, row.values)


class UrlFeed:
    """One address. Nothing but GET /metrics is ever sent.

    Raises:
        UsageError: the URL is none that a server can have.
    """

    live = True

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        cacert: Path | None = None,
        *,
        clock: Clock | None = None,
        get: Get | None = None,
    ) -> None:
        address = client(url.removesuffix(PATH), headers or {}, cacert)
        self.url = address.url
        self._clock = clock or steady()
        self._link = Link(get or (lambda within_s: address.get(PATH, within_s)), self._clock)
        self._book = Book(self.url)
        self._seen = _Seen()
        self._window_s: float | None = WINDOW_S
        self._last_ok_s: float | None = None
        self._took_s = 0.0
        self._trouble: tuple[Word, str] | None = None
        self._paced = Paced(REPORT_SHARE, REPORT_LEAST_S)
        self._judged: tuple[Report, Recording] | None = None
        self._judged_page = 0
        self.judges = True
        """Whether its pages become reports: not where guests tell more."""

    def poll(self, told: Told, cancelled: Cancelled) -> View:
        """Ask where it is time; at most a second, whatever the server does."""
        answer = self._link.turn(cancelled)
        if answer is not None:
            self._take(answer)
        if self.judges and self._seen.pages >= NEEDED and not cancelled():
            self._judge(told)
        return self._view()

    def look_back(self, window_s: float | None) -> None:
        """Gauges at once; the report at its next turn."""
        if window_s != self._window_s:
            self._window_s, self._judged_page = window_s, 0
            self._paced.due_s = min(self._paced.due_s, self._clock() + REPORT_LEAST_S)

    def scrub(self, by_s: float) -> None:
        """A live server has no other time than now."""

    def retry(self) -> None:
        """Ask at the next poll, whatever the back-off says."""
        self._link.retry()

    def close(self) -> None:
        """At once, also while a request hangs."""
        self._link.close()

    # --- one answer ---

    def _take(self, answer: Answer) -> None:
        self._trouble = refused(answer.reply, answer.took_s)
        if self._trouble is None:
            read = self._book.read(answer.reply.body, answer.at_s)
            if read is None:
                self._trouble = (Word.BAD_DATA, self._book.why)
            else:
                self._seen.take(*read, answer.at_s)
                self._last_ok_s, self._took_s = answer.at_s, answer.took_s
        if self._trouble is None:
            self._link.worked()
        else:
            self._link.failed()

    def _judge(self, told: Told) -> None:
        """The report of the kept pages, where it is time and a page is new."""
        if (
            self._judged_page == self._seen.pages
            or not self._paced.due(self._clock())
            or self._seen.several(self._clock())
        ):
            return
        from m3probe.pipeline import ANALYZERS, report

        told(self.url, 0, 1)
        list(ANALYZERS.plugs())  # their import, 0.3 s once, is no cost of a report
        self._paced.begin()
        recording = self._book.recording(self._window_s)
        self._judged = (report(recording), recording)
        self._paced.end(self._clock())
        self._judged_page = self._seen.pages
        told(self.url, 1, 1)

    # --- the view ---

    def _view(self) -> View:
        now = self._clock()
        found = self._gauges(now)
        word, detail = self._state(now)
        report, recording = self._judged or (None, None)
        return View(
            title=self._title(),
            word=word,
            at_s=now,
            detail=detail,
            report=report,
            recording=recording,
            sources=(self._source(word, detail, found),),
            gauges=found,
            next_poll_s=self._next_s(now),
            window_s=self._window_s,
        )

    def _next_s(self, now: float) -> float:
        """Each second; while an answer is waited for or a server is down its age and the time to the next try go on."""
        return min(EVERY_S, max(0.05, self._link.due_s - now)) if self._link.asked_s is None else 0.05

    def _state(self, now: float) -> tuple[Word, str]:
        age = None if self._last_ok_s is None else now - self._last_ok_s
        waited = self._link.waited_s
        if self._trouble is not None:
            word, why = self._trouble
            retry = self._link.retry_in_s
            return word, f"{why} ({self.url}{PATH})" + ("" if retry is None else f"; next try in {retry:.0f} s")
        if age is None:
            return Word.CONNECTING, f"{self.url}{PATH}" + (f": no answer for {waited:.0f} s" if waited else "")
        if waited is not None and waited >= EVERY_S:
            if self._took_s > SLOW_S and waited <= OVERDUE * self._took_s:
                took_ms = self._took_s * 1e3
                return (
                    Word.SLOW,
                    f"the last page took {took_ms:,.0f} ms; asked {waited:.0f} s ago, figures are {age:.0f} s old",
                )
            word = Word.DOWN if age > STALE_S else Word.STALE
            return word, f"asked {waited:.0f} s ago, no answer yet; figures are {age:.0f} s old"
        return self._well(now)

    def _well(self, now: float) -> tuple[Word, str]:
        """States of a server whose last answer was a page."""
        seen = self._seen
        if seen.several(now):
            return Word.BAD_DATA, SEVERAL
        if not self._book.columns.present:
            return Word.PARTIAL, FOREIGN
        if seen.pages < NEEDED:
            return Word.COLLECTING, f"{seen.pages}/{NEEDED} pages: rates come with the next"
        if seen.resets and now - seen.resets[-1] < MARKED_S:
            return Word.RESET, f"the server was started again {now - seen.resets[-1]:.0f} s ago: rates begin anew"
        if self._took_s > SLOW_S:
            return Word.SLOW, f"the last page took {self._took_s * 1e3:,.0f} ms"
        return Word.LIVE, ""

    def _gauges(self, now: float) -> Mapping[str, Gauge]:
        """None before the first page: then not even their absence is known."""
        if self._last_ok_s is None:
            return {}
        seen, last = self._seen, self._last_ok_s
        window = math.inf if self._window_s is None else self._window_s
        held = seen.history.since(last - max(window, DRAWN_S) - EVERY_S / 2)
        inside = held.since(last - window - EVERY_S / 2).newest_epoch()
        looked = Looked(self._book.columns, now, inside.since(last) if seen.several(now) else inside, thinned(held))
        return gauges(Context(looked, now - last, seen.began_with_reset, tuple(now - at for at in seen.resets)))

    def _source(self, word: Word, detail: str, found: Mapping[str, Gauge]) -> SourceState:
        return SourceState(
            name=f"{self.url}{PATH}",
            kind="metrics",
            word=word,
            detail=detail,
            last_ok_s=self._last_ok_s,
            took_ms=self._took_s * 1e3 if self._last_ok_s is not None else None,
            retry_in_s=self._link.retry_in_s,
            found=f"{self._book.samples:,} series" if self._book.samples else "",
            missing=missing(found),
        )

    def _title(self) -> str:
        model = self._book.model
        place = self.url.partition("://")[2]
        return f"{model} at {place}" if model else place
