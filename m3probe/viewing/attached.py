"""A running server by its process: recorded by its guests into a folder that is followed, beside its /metrics."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from m3probe.attach.asked import Asked
from m3probe.errors import M3ProbeError
from m3probe.model.attach_report import Now
from m3probe.model.view import Cancelled, SourceState, Told, View, Word
from m3probe.viewing._clock import Clock, steady
from m3probe.viewing.follow import FollowFeed
from m3probe.viewing.live import UrlFeed
from m3probe.viewing.recorder import Line, order_of

FIRST_S, EVERY_S = 0.2, 1.0
ENDS = {
    "steps": "it has the steps that were asked for",
    "seconds": "its time is over",
    "idle": "nothing ran for as long as it was to wait",
}
"""Ends of ``attach`` that were asked for; others speak for themselves."""
_ANSWERS = frozenset({Word.LIVE, Word.SLOW, Word.COLLECTING, Word.RESET})
_UNWELL = frozenset({Word.SLOW, Word.STALE, Word.DOWN, Word.BAD_DATA, Word.RESET})


class _Recorder:
    """The recording process and the last that it told. Closing its stdin ends it in order, also when this process dies."""

    def __init__(self, asked: Asked, *, remove: bool) -> None:
        self.said = self.error = self.ended = self.address = ""
        self.now: Now | None = None
        environment = {name: value for name, value in os.environ.items() if name not in {"M3PROBE", "PYTHONINSPECT"}}
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "m3probe.viewing.recorder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the viewer's terminal is the viewer's
            env=environment,
        )
        assert self._child.stdin is not None
        with suppress(OSError):
            self._child.stdin.write(order_of(asked, remove=remove))
            self._child.stdin.flush()
        threading.Thread(target=self._listen, name="m3probe-recorder", daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether nothing is recorded any more."""
        return bool(self.error or self.ended) or self._child.poll() is not None

    def stop(self, wait_s: float = 0.0) -> None:
        """Say that it is over; it gives everything back by itself."""
        with suppress(OSError):
            if self._child.stdin is not None:
                self._child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(wait_s)

    def _listen(self) -> None:
        decoder = msgspec.json.Decoder(Line)
        assert self._child.stdout is not None
        for raw in self._child.stdout:
            with suppress(msgspec.MsgspecError):
                line = decoder.decode(raw)
                self.said, self.address = line.say or self.said, line.address or self.address
                self.now = line.now or self.now
                self.error, self.ended = line.error or self.error, line.ended or self.ended
        if not self.error and not self.ended:
            self.error = "the recording process has ended without a word"


class PidFeed:
    """One server, by its pid, its address, or ``auto``. Nothing is injected and no profiler runs unless it is asked for.

    Args:
        asked: what ``attach`` would be asked for.
    """

    live = True

    def __init__(self, asked: Asked, *, clock: Clock | None = None) -> None:
        self._asked = asked
        self._clock = clock or steady()
        self._remove = asked.out is None
        self._metrics: UrlFeed | None = None
        self._window_s: float | None = None
        self._wanted: int | None = None
        self._windows = 0
        self._heard: Now | None = None
        self._heard_s: float | None = None
        """When the recorder last told how its processes are."""
        self._refused = ""
        """Why the last window was not opened."""
        self._begin(asked.out or Path(tempfile.mkdtemp(prefix="m3probe-tui-")), asked.profile)

    def poll(self, told: Told, cancelled: Cancelled) -> View:
        """What the guests told so far, with the gauges of its metrics."""
        if self._wanted is not None or (self._windows and self._recorder.error):
            self._reopen(self._wanted)
        self._meet()
        if self._metrics:
            self._metrics.judges = self._followed is None
        page = self._metrics.poll(told, cancelled) if self._metrics else None
        view = self._followed.poll(told, cancelled) if self._followed else None
        return self._together(page, view)

    def look_back(self, window_s: float | None) -> None:
        """Gauges of its metrics look back so far; what guests count is since the recording began."""
        self._window_s = window_s
        if self._metrics:
            self._metrics.look_back(window_s)

    def scrub(self, by_s: float) -> None:
        """In what the guests recorded."""
        if self._followed:
            self._followed.scrub(by_s)

    def retry(self) -> None:
        """Ask its metrics at the next poll."""
        if self._metrics:
            self._metrics.retry()

    def window(self, steps: int) -> str:
        """Ask for a profiler window; only after the user said yes. What happens, as a sentence."""
        if self._recorder.over:
            return f"No window: nothing is recorded ({self._recorder.error or self._recorder.ended})."
        self._wanted = steps
        return f"A window of {steps:,} steps is asked for: the recording begins anew with it, and the server is slower meanwhile."

    def close(self) -> None:
        """The recorder gives guests back by itself; nobody waits for it."""
        self._recorder.stop()
        if self._metrics:
            self._metrics.close()

    # --- parts ---

    def _begin(self, folder: Path, profile: int | None = None) -> None:
        self.folder = folder
        asked = replace(self._asked, out=folder, profile=profile)
        self._followed: FollowFeed | None = None
        self._recorder = _Recorder(asked, remove=self._remove)

    def _reopen(self, steps: int | None) -> None:
        """Guests are armed for a window or not at all: end this recording and begin another, beside the first.

        Args:
            steps: of the window; None: it was refused, and recording goes on without one.
        """
        self._wanted = None
        self._refused = "" if steps else f"no window: {self._recorder.error}"
        self._recorder.stop(10.0)
        if steps is None:
            self._windows = 0
            self._begin(self.folder.parent / f"{self.folder.name}-on")
            return
        self._windows += 1
        self._begin(self.folder.parent / f"{self.folder.name}-window-{self._windows}", steps)

    def _meet(self) -> None:
        """Its parts come up one after the other."""
        if self._metrics is None and self._recorder.address:
            with suppress(M3ProbeError):
                self._metrics = UrlFeed(
                    self._recorder.address, self._asked.headers, self._asked.cacert, clock=self._clock
                )
                if self._window_s is not None:
                    self._metrics.look_back(self._window_s)
        if self._followed is None and self._recorder.now is not None and self.folder.is_dir():
            self._followed = FollowFeed(self.folder, clock=self._clock)

    def _together(self, page: View | None, view: View | None) -> View:
        """Guests tell what ran; the page has the fresher gauges."""
        if view is not None and view.report is not None:
            base = view
        elif page is not None:
            base = page
        else:
            base = View(f"server {self._asked.target}", Word.CONNECTING, self._clock(), self._recorder.said)
        word, detail = self._state(base, page)
        gauges = page.gauges if page is not None and page.gauges and _at_end(view) else base.gauges
        return replace(
            base,
            title=page.title if page else base.title,
            word=word,
            detail=detail,
            gauges=gauges,
            sources=(*self._processes(), *(view.sources if view else ()), *(page.sources if page else ())),
            window_s=page.window_s if page else None,
            next_poll_s=min(EVERY_S, base.next_poll_s or EVERY_S) if base.report or page else FIRST_S,
        )

    def _state(self, base: View, page: View | None) -> tuple[Word, str]:
        if self._recorder.error:
            seen = "only its /metrics is seen" if self._metrics else "nothing of it is seen"
            if base.word in {Word.LIVE, Word.SLOW, Word.COLLECTING}:
                return Word.PARTIAL, f"no process is recorded: {self._recorder.error} Until then {seen}."
            word = Word.DOWN if base.word is Word.CONNECTING and not self._metrics else base.word
            return word, f"{base.detail or 'no process is recorded'}; {self._recorder.error}"
        if self._recorder.ended and base.word is not Word.REPLAY:
            return self._ended(page)
        if page is not None and base.word is Word.LIVE and page.word in _UNWELL:
            return page.word, page.detail
        if self._windows and not base.detail:
            return base.word, self._recorder.said
        return base.word, base.detail or self._refused

    def _ended(self, page: View | None) -> tuple[Word, str]:
        """Nothing is recorded any more; a server that was started again has other processes, at the same address."""
        first, *losses = self._recorder.ended.split("; ")
        why = "; ".join((f"the recording has ended: {ENDS.get(first, first)}", *losses))
        if page is not None and page.word in _ANSWERS:
            return Word.PARTIAL, f"only /metrics is seen, a server answers there; {why}"
        return Word.DOWN, why

    def _processes(self) -> tuple[SourceState, ...]:
        now = self._recorder.now
        if now is not self._heard:
            self._heard, self._heard_s = now, self._clock()
        if now is None:
            detail = self._recorder.error or self._recorder.said
            word = Word.DOWN if self._recorder.error else Word.CONNECTING
            return (SourceState(f"server {self._asked.target}", "process", word, detail),)
        over = self._recorder.over
        return tuple(
            SourceState(
                name=row.name,
                kind="process",
                word=Word.DOWN if row.state != "recorded" else Word.READ if over else Word.LIVE,
                last_ok_s=self._heard_s,
                detail=row.state
                + (" until the recording ended" if over and row.state == "recorded" else "")
                + (f"; {row.dropped:,} records dropped" if row.dropped > 0 else ""),
                found=f"{row.records:,} records, {row.bytes / 1e6:,.1f} MB" if row.records >= 0 else "",
            )
            for row in now.rows
        )


def _at_end(view: View | None) -> bool:
    """Whether what is shown is now, not a time that was scrubbed to."""
    return view is None or view.replay is None
