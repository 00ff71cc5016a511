"""A recording's folder while it is written, and afterwards: read again when it grew, replayed where the user scrubs."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.model.view import Cancelled, Gauge, SourceState, Told, View, Word
from m3probe.schema.frames import SUFFIX
from m3probe.viewing._clock import Clock, Paced, steady
from m3probe.viewing.replay import Timeline

if TYPE_CHECKING:
    from m3probe.workload import Workload

SHARE, LEAST_S, FIRST_S = 0.02, 2.0, 5.0
"""Of one core for reading a recording again: it is read whole each time."""
QUIET_S = 10.0
"""Guests write each second while anything runs: after so long without a byte the server idles or has ended."""
EVERY_S, ENDED_EVERY_S = 1.0, 5.0
AFTER_S = 1e9
"""The year 2001: less is no wall time, but a clock that began with its machine."""
Size = tuple[int, int, float]
"""(files, bytes, newest time of writing)."""


class FollowFeed:
    """One folder.

    Raises:
        UnreadableInput: there is no such folder.
    """

    live = True

    def __init__(self, folder: Path, workload: Workload | None = None, *, clock: Clock | None = None) -> None:
        if not folder.is_dir():
            raise UnreadableInput("no such folder", where=str(folder), next_move="Check the path")
        self.folder = folder
        self._workload = workload
        self._clock = clock or steady()
        self._paced = Paced(SHARE, LEAST_S)
        self._seen: Size = (0, 0, 0.0)
        self._read_size: Size | None = None
        self._grown_s: float | None = None
        self._newest_s: float | None = None
        """When the newest of what was read had been written."""
        self._grew = False
        """Whether it grew since somebody looked."""
        self._read_s: float | None = None
        self._whole: tuple[Report, Recording] | None = None
        self._shown: tuple[Report, Recording] | None = None
        self._timeline: Timeline | None = None
        self._at_s: float | None = None
        """Where it is replayed; None: at its end."""
        self._shown_at: float | None = None
        self._why = ""

    def poll(self, told: Told, cancelled: Cancelled) -> View:
        """Read again where it grew and time has come; go to where it was scrubbed."""
        now = self._clock()
        self._look(now)
        if self._seen[0] and self._seen != self._read_size and self._paced.due(now) and not cancelled():
            self._read(told)
        if self._whole and not cancelled():
            self._replay()
        return self._view(self._clock())

    def look_back(self, window_s: float | None) -> None:
        """A recording's figures are of all that it holds up to where it is shown."""

    def scrub(self, by_s: float) -> None:
        """Move; past the end it is followed again."""
        length = self._length_s()
        at = (length if self._at_s is None else self._at_s) + by_s
        self._at_s = None if at >= length else max(0.0, at)

    def close(self) -> None:
        """Nothing is held."""

    # --- reading ---

    def _look(self, now: float) -> None:
        size = size_of(self.folder)
        if size != self._seen:
            # what was written before anybody looked grew when its files say so
            first = self._seen[0] == 0
            self._grown_s = now - max(0.0, time.time() - size[2]) if first else now
            self._grew = not first or now - self._grown_s <= QUIET_S
            self._seen = size

    def _read(self, told: Told) -> None:
        from m3probe.pipeline import ANALYZERS, read, report

        def progress(path: Path, done: int, of: int) -> None:
            told(path.name, done, of)

        list(ANALYZERS.plugs())  # their import is no cost of a report
        size, warm = self._seen, self._read_size is not None
        self._paced.begin()
        try:
            recording = read([self.folder], self._workload, progress)
            self._whole = (report(recording), recording)
            self._timeline, self._why = None, ""
            self._read_s, self._newest_s = self._clock(), self._grown_s
            if self._at_s is None:
                self._shown, self._shown_at = self._whole, None
        except UnreadableInput as error:
            self._why = error.sentence()
        self._read_size = size
        self._paced.end(self._clock())
        if not warm:  # what the first one cost is imports more than reading: a young recording is seen again soon
            self._paced.due_s = min(self._paced.due_s, self._clock() + FIRST_S)

    def _replay(self) -> None:
        if self._whole is None or self._at_s == self._shown_at:
            return
        self._shown_at = self._at_s
        if self._at_s is None:
            self._shown = self._whole
            return
        from m3probe.pipeline import report

        recording = self._line().until(self._at_s)
        self._shown = (report(recording), recording)

    def _line(self) -> Timeline:
        if self._timeline is None:
            assert self._whole is not None
            self._timeline = Timeline(self._whole[1])
        return self._timeline

    def _length_s(self) -> float:
        return self._line().length_s if self._whole else 0.0

    # --- the view ---

    @property
    def _ended(self) -> bool:
        """Every process that wrote has written its end, and all of it was read."""
        if self._whole is None or self._seen != self._read_size:
            return False
        return not any(note.word == "no_end" for note in self._whole[1].notes)

    def _view(self, now: float) -> View:
        word, detail = self._state(now)
        report, recording = self._shown or (None, None)
        source = SourceState(
            name=self.folder.name or str(self.folder),
            kind="recording",
            word=word if self._at_s is None else self._growth(now)[0],
            detail=detail,
            last_ok_s=self._read_s,
            took_ms=self._paced.last_s * 1e3 if self._read_s is not None else None,
            found=f"{self._seen[0]:,} files, {self._seen[1] / 1e6:,.1f} MB",
        )
        return View(
            title=self.folder.name or str(self.folder),
            word=word,
            at_s=now,
            detail=detail,
            report=report,
            recording=recording,
            sources=(source,),
            gauges=self._gauges(now, recording),
            next_poll_s=ENDED_EVERY_S if self._ended else EVERY_S,
            replay=None if self._at_s is None else (self._at_s, self._length_s()),
            length_s=self._length_s() or None,
        )

    def _gauges(self, now: float, recording: Recording | None) -> dict[str, Gauge]:
        """Of a recording with samples; pages and guests tell the same words."""
        if recording is None or not (len(recording.tables["samples"]) or len(recording.tables["scrapes"])):
            return {}
        from m3probe.viewing._recorded import recorded_gauges

        return dict(recorded_gauges(recording, self._age_s(now)))

    def _age_s(self, now: float) -> float | None:
        """Of the newest that is shown. One that is over has its own clock: a copy's files are as young as the copy."""
        if self._at_s is not None:
            return None  # how old it was then, is no age
        if self._growth(now)[0] is not Word.READ:
            return 0.0 if self._newest_s is None else max(0.0, now - self._newest_s)
        ended_s = self._line().end_ns / 1e9
        return max(0.0, now - ended_s) if ended_s > AFTER_S else None

    def _state(self, now: float) -> tuple[Word, str]:
        if self._at_s is not None:
            return Word.REPLAY, ""  # the view's ``replay`` says where
        return self._growth(now)

    def _growth(self, now: float) -> tuple[Word, str]:
        if self._whole is None:
            return Word.CONNECTING, self._why or f"nothing is written in {self.folder} yet"
        if self._why:
            return Word.STALE, f"its last state cannot be read: {self._why}"
        if self._ended:
            return Word.READ, ""
        quiet = now - (self._grown_s or now)
        if quiet <= QUIET_S:
            return Word.LIVE, ""
        if not self._grew:
            return Word.READ, "it has no end record: its server was killed, and the last second before is missing"
        return Word.STALE, f"not a byte more for {quiet:,.0f} s: the server idles, or was killed (no end record)"


def size_of(folder: Path) -> Size:
    """Of everything that a recording or a trace is made of."""
    files, size, newest = 0, 0, 0.0
    for path in folder.rglob("*"):
        with suppress(OSError):
            said = path.stat()
            if path.is_file() and not path.name.endswith(("manifest.json", ".tmp")):
                files, size, newest = files + 1, size + said.st_size, max(newest, said.st_mtime)
    return files, size, newest


def is_recording(path: Path) -> bool:
    """Whether a folder is a recording of ours: only such a one grows."""
    return path.is_dir() and next(path.glob(f"*{SUFFIX}"), None) is not None
