"""What is on the desk of whoever looks: the view that is shown, what of it is chosen, whether it is held still."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from m3probe.model.report import BottleneckSection, SummarySection, TrustSection
from m3probe.model.view import WINDOWS, Feed, View, Word
from m3probe.present.sheets import _order
from m3probe.present.sheets.sheet import Lens, Said, Sheet
from m3probe.present.sheets.targets import PAGES, sheet_of
from m3probe.tui.looks import OLD
from m3probe.tui.widgets.heading import aged

TOLD = frozenset({*OLD, Word.SLOW, Word.RESET, Word.PARTIAL, Word.CONNECTING, Word.COLLECTING})
"""States that a banner explains for as long as they last."""
T = TypeVar("T")
_WINDOWS = {10.0: "10 s", 60.0: "1 min", 600.0: "10 min", None: "all"}
SCRUB_S = 1.0
"""What one press of ``[`` or ``]`` moves: at most a twentieth and at least a hundredth of the recording."""


def _nowhere(_name: str, _text: str) -> str:
    raise OSError("nothing can be written from here")


@dataclass
class Desk:
    """State between the feed and the screens; knows no widget.

    Args:
        feed: where views come from.
        clock: Unix time now; a test's own stands still.
        save: (name, text) -> where it was written; raises OSError.
    """

    feed: Feed
    clock: Callable[[], float] = time.time
    save: Callable[[str, str], str] = _nowhere
    view: View | None = None
    latest: View | None = None
    lens: Lens = field(default_factory=Lens)
    paused: bool = False
    window_s: float | None = WINDOWS[1]
    _seen: deque[tuple[str, ...]] = field(default_factory=lambda: deque(maxlen=_order.VIEWS_HELD))

    # --- views -------------------------------------------------------------------------------------------------

    def arrived(self, view: View) -> None:
        """A view; while paused only what it says of the sources is taken."""
        self.latest = view
        if self.paused and self.view is not None:
            self.view = _held(self.view, view)
            return
        self.view = view
        self.window_s = view.window_s if self.feed.live else self.window_s
        section = view.report.answer.section(BottleneckSection) if view.report else None
        if section is not None:
            self._seen.append(tuple(row.finding for row in section.ranking))
            self.lens = replace(self.lens, ranking=_order.held(self.lens.ranking, list(self._seen)))

    def pause(self) -> None:
        """Hold the figures, or show what came meanwhile."""
        self.paused = not self.paused
        if not self.paused and self.latest is not None:
            self.arrived(self.latest)

    def sheet(self, target: str) -> Sheet:
        """The page; one that cannot be made says why, and the others stand."""
        if self.view is None:
            return Sheet(target, (Said("Nothing has been read yet.", dim=True),))
        try:
            return sheet_of(target, self.view, self.lens)
        except KeyError as error:
            told = str(error.args[0]) if error.args and str(error.args[0]) not in PAGES else target
            return Sheet(
                "gone",
                (Said(f"This is not in the view any more: {told}", mark=Word.PARTIAL),),
                change="Escape leads back.",
            )
        except Exception as error:  # noqa: BLE001 - one page's fault must not take the others with it
            return _fault(target, error)

    # --- what is chosen ----------------------------------------------------------------------------------------

    def ranks(self) -> list[int]:
        """Ranks of the recording."""
        section = self.view.report.answer.section(TrustSection) if self.view and self.view.report else None
        found = section.coverage.get("ranks", ()) if section else ()
        return [rank for rank in found if isinstance(rank, int)]

    def phases(self) -> list[str]:
        """Phases that were seen."""
        section = self.view.report.answer.section(SummarySection) if self.view and self.view.report else None
        return [row.phase for row in section.summary.phases] if section else []

    def verdicts(self) -> list[str]:
        """Verdicts of the findings."""
        report = self.view.report if self.view else None
        return sorted({finding.verdict for finding in report.answer.findings}) if report else []

    def choose(self, what: str) -> str:
        """The next rank, phase or verdict, and in words what is seen now."""
        if what == "rank":
            rank = _after(self.ranks(), self.lens.rank)
            self.lens = replace(self.lens, rank=rank)
            return "all ranks" if rank is None else f"rank {rank}"
        if what == "phase":
            self.lens = replace(self.lens, phase=_after(self.phases(), self.lens.phase))
            return self.lens.phase or "all phases"
        self.lens = replace(self.lens, verdict=_after(self.verdicts(), self.lens.verdict))
        return (self.lens.verdict or "all verdicts").replace("_", " ")

    def look_back(self) -> str:
        """The next window of live figures, in words."""
        at = WINDOWS.index(self.window_s) if self.window_s in WINDOWS else -1
        self.window_s = WINDOWS[(at + 1) % len(WINDOWS)]
        self.feed.look_back(self.window_s)
        return f"figures look back: {_WINDOWS[self.window_s]}"

    def scrub(self, by: int) -> None:
        """Move in a recording that is replayed, or begin to replay one that is shown at its end."""
        view = self.view
        if view is not None and self.can_scrub:
            length_s = view.replay[1] if view.replay else view.length_s or 0.0
            self.feed.scrub(by * max(min(SCRUB_S, length_s / 20), length_s / 100))

    @property
    def can_scrub(self) -> bool:
        """Whether there is another time to go to."""
        return self.view is not None and (self.view.replay is not None or bool(self.view.length_s))

    # --- what head and banner say ------------------------------------------------------------------------------

    @property
    def word(self) -> str:
        """State of what is shown."""
        return Word.PAUSED if self.paused else self.view.word if self.view else Word.CONNECTING

    @property
    def old(self) -> bool:
        """Whether figures are no longer those of the server."""
        return self.paused or (self.view is not None and self.view.word in OLD)

    def aside(self) -> str:
        """What is chosen, how far figures look back, how old they are."""
        if self.view is None:
            return ""
        lens = self.lens
        found = [] if lens.rank is None else [f"rank {lens.rank}"]
        found += [word.replace("_", " ") for word in (lens.phase, lens.verdict) if word]
        if self.view.replay is not None:
            found.append(f"{self.view.replay[0]:,.1f} of {self.view.replay[1]:,.1f} s")
        elif self.feed.live and self.view.word is not Word.READ:
            window = _WINDOWS.get(self.window_s, f"{self.window_s} s")
            found += [f"window {window}", *self._age(self.view)]
        return "  ".join(found)

    def _age(self, view: View) -> list[str]:
        """Since figures were last read: a server that is down makes views, but no figures; one that never was up has none."""
        sources = [source.last_ok_s for source in view.sources if source.kind != "process"]
        known = [at_s for at_s in sources if at_s is not None]
        if sources and not known:
            return []
        return [aged(self.clock() - min(view.at_s, max(known, default=view.at_s)))]

    def banner(self) -> tuple[str, str]:
        """(word, why); empty words where nothing has to be said."""
        if self.view is None:
            return "", ""
        if self.paused:
            now = self.latest
            health = f"now {now.word}{f': {now.detail}' if now.detail else ''}" if now and now.word in TOLD else ""
            return Word.PAUSED, f"figures stand still, space goes on; {health or 'sources go on being checked'}"
        if self.view.word in TOLD:
            return self.view.word, self.view.detail
        return (Word.REPLAY, "[ and ] move in time") if self.view.replay is not None else ("", "")


def _held(view: View, now: View) -> View:
    """The same figures, older by as much as has passed, and the sources as they are now."""
    passed_s = max(0.0, now.at_s - view.at_s)
    gauges = {
        name: replace(
            gauge,
            age_s=None if gauge.age_s is None else gauge.age_s + passed_s,
            recent=tuple((ago + passed_s, value) for ago, value in gauge.recent),
            resets=tuple(ago + passed_s for ago in gauge.resets),
        )
        for name, gauge in view.gauges.items()
    }
    return replace(view, at_s=view.at_s + passed_s, sources=now.sources, gauges=gauges)


def _after(every: list[T], now: T | None) -> T | None:
    """The one after ``now``; None after the last."""
    if not every:
        return None
    if now is None or now not in every:
        return every[0]
    at = every.index(now) + 1
    return every[at] if at < len(every) else None


def _fault(target: str, error: Exception) -> Sheet:
    told = "".join(traceback.format_exception(error))
    said = f"This page could not be made: {type(error).__name__}: {error}"
    aside = Said("The other pages stand. Press y for the traceback, and report it.", dim=True)
    return Sheet(target.partition("/")[0], (Said(said, mark="failed"), aside), copy=told)
