"""What a viewer is shown: a report, the recording behind it, and how every source of them is doing right now.

Made outside of the viewer (``m3probe/viewing/``), which opens no file and asks no server itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from m3probe.model.compare_report import CompareReport
from m3probe.model.recording import Recording
from m3probe.model.report import Report


class Word(StrEnum):
    """State of a source, and of the whole view: a word, never a colour alone."""

    CONNECTING = "CONNECTING"
    COLLECTING = "COLLECTING"
    LIVE = "LIVE"
    SLOW = "SLOW"
    STALE = "STALE"
    DOWN = "DOWN"
    BAD_DATA = "BAD DATA"
    RESET = "RESET"
    PAUSED = "PAUSED"
    REPLAY = "REPLAY"
    PARTIAL = "PARTIAL"
    READ = "READ"
    """A file that was read whole."""


class Absent(StrEnum):
    """Why a figure is not there; never 0."""

    NOT_EXPOSED = "NOT EXPOSED"
    OFF_ON_SERVER = "OFF ON SERVER"
    TOO_FEW = "TOO FEW"
    RESET = "RESET"
    NOT_MEASURED = "NOT MEASURED"


class Scope(StrEnum):
    """Over what a figure is taken."""

    LIVE = "live"
    WINDOWED = "windowed"
    LIFETIME = "lifetime"
    COMPUTED = "computed"
    RECORDED = "recorded"


WINDOWS = (10.0, 60.0, 600.0, None)
"""Seconds that live figures look back; None: all that is kept."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """One endpoint, trace, recording or log.

    Args:
        name: what it is called on screen: an address or a file's name.
        kind: ``metrics``, ``trace``, ``recording``, ``log``, ``bench``.
        word: its state.
        detail: why, in one sentence: the error, the first bytes of a body that is no page, what was lost.
        last_ok_s: when it was last read well, seconds of Unix time; None: never.
        took_ms: what the last read took.
        retry_in_s: when it is asked again; None: at the next turn, or never.
        found: what it gave, in words (``214 series``).
        missing: what it lacks and what that costs (``vllm:num_requests_waiting_by_reason: the split of waiting requests``).
    """

    name: str
    kind: str
    word: Word
    detail: str = ""
    last_ok_s: float | None = None
    took_ms: float | None = None
    retry_in_s: float | None = None
    found: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gauge:
    """One live figure for the tiles of the overview, with its last values for a spark line.

    Args:
        name: stable (``running``, ``waiting``, ``kv_usage``, ``output_tokens_per_s``, ``ttft_p50_ms`` ...).
        title: in words.
        value: None: ``absent`` says why.
        unit: ``requests``, ``%``, ``tokens/s``, ``ms``.
        scope: over what it is taken.
        age_s: how old it is.
        low: where its scale begins; ``high``: where it ends (a known limit, or None: the largest of ``recent``).
        recent: (seconds before now, value), oldest first; None: a gap or a restart.
        resets: seconds before now at which counters began anew.
        between: where the figure is known as a range alone (a histogram's bucket): above the first, at most the second
            (None: open); ``value`` is then the end that is known.
    """

    name: str
    title: str
    value: float | None
    unit: str
    scope: Scope
    age_s: float | None = None
    absent: Absent | None = None
    low: float = 0.0
    high: float | None = None
    recent: tuple[tuple[float, float | None], ...] = ()
    resets: tuple[float, ...] = ()
    between: tuple[float | None, float | None] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """One moment.

    Args:
        title: the run, model or address.
        word: state of the whole; ``detail`` says why.
        at_s: Unix time at which it was made.
        report: None until something was read.
        gauges: live figures by name; empty offline.
        next_poll_s: seconds until the feed wants to be asked again; None: never (a file that was read).
        window_s: seconds that live figures look back; None: all that is kept.
        replay: (position, length) in seconds where a recording is scrubbed.
        length_s: of a recording that can be scrubbed, shown at its end or not; None: it cannot.
        compare: the comparison of the runs that were given, the first as baseline.
    """

    title: str
    word: Word
    at_s: float
    detail: str = ""
    report: Report | None = None
    recording: Recording | None = None
    sources: tuple[SourceState, ...] = ()
    gauges: Mapping[str, Gauge] = field(default_factory=dict)
    next_poll_s: float | None = None
    window_s: float | None = None
    replay: tuple[float, float] | None = None
    length_s: float | None = None
    compare: CompareReport | None = None


Told = Callable[[str, int, int], None]
"""Told (what is being read, done, of how much) now and then."""
Cancelled = Callable[[], bool]


class Feed(Protocol):
    """Where views come from. ``poll`` blocks and is called off the UI's thread, one call at a time."""

    live: bool

    def poll(self, told: Told, cancelled: Cancelled) -> View:
        """The next view; it may raise ``M3ProbeError`` when nothing can ever be shown."""

    def look_back(self, window_s: float | None) -> None:
        """Live figures look back so far from the next view on."""

    def scrub(self, by_s: float) -> None:
        """Move in a recording that is replayed."""

    def close(self) -> None:
        """Give everything back; returns at once even while a poll hangs."""
