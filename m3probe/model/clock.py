"""All inputs on one clock: wall time in ns since 1970, with how each file got there, or why it did not.

A trace says the wall time of its zero, guests tie their monotonic clock to the wall, logs and benchmark results write
local time without a zone (logs without a year too), and a single scrape carries no time at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from m3probe.model._clock_spans import Raw, raw_spans
from m3probe.model._clock_zone import SLACK_NS, apart, placed, words
from m3probe.model.recording import Recording


class Tie(StrEnum):
    """How a file's times are tied to the wall."""

    ALIGNED = "aligned"
    """The file itself says it."""
    ASSUMED = "assumed"
    """It writes local time, and its zone is taken from where it meets other inputs, or as UTC."""
    UNALIGNED = "unaligned"


@dataclass(frozen=True, slots=True)
class FileClock:
    """One input on the wall.

    Args:
        file: index into ``Recording.files``.
        how: what ties it, or why nothing does; one clause.
        first_ns: of what it holds, wall time since 1970; None where it is not known. ``last_ns`` alike.
        offset_ns: wall time of the file's own zero: add it to a time of its rows; None: its rows have no wall time.
    """

    file: int
    path: str
    kind: str
    state: Tie
    how: str
    first_ns: int | None = None
    last_ns: int | None = None
    offset_ns: int | None = None
    files: int = 1
    """Files that it stands for: pages of one server are told together."""
    never_meets: bool = False
    """Its local time meets no other input in any time zone."""
    by_mtime: bool = False
    """Its place is when its file was last written: good enough to order pages, not to hold against other inputs."""

    @property
    def span(self) -> tuple[int, int] | None:
        """(first, last) on the wall; None where either is not known."""
        return None if self.first_ns is None or self.last_ns is None else (self.first_ns, self.last_ns)


@dataclass(frozen=True, slots=True)
class ClockSection:
    """What is on one clock: a row a file, in the order in which they were read."""

    clocks: tuple[FileClock, ...]


def clocks(rec: Recording) -> tuple[FileClock, ...]:
    """Every file of a recording on the wall; a file of several benchmark runs spans them all."""
    raws = raw_spans(rec)
    anchors = [(raw.first_ns, raw.last_ns) for raw in raws if raw.first_ns is not None and raw.last_ns is not None]
    return tuple(_clock(rec, raw, anchors) for raw in raws)


def _clock(rec: Recording, raw: Raw, anchors: list[tuple[int, int]]) -> FileClock:
    source = rec.files[raw.file]
    made = FileClock(raw.file, raw.name or source.path, source.kind, Tie.UNALIGNED, raw.how, files=raw.files)
    if raw.guessed is not None:
        return replace(made, state=Tie.ASSUMED, first_ns=raw.guessed[0], last_ns=raw.guessed[1], by_mtime=True)
    if raw.offset_ns is not None:
        return replace(made, state=Tie.ALIGNED, first_ns=raw.first_ns, last_ns=raw.last_ns, offset_ns=raw.offset_ns)
    if raw.local is None:
        return made
    place = placed(raw.local, anchors)
    if place is None:
        never = apart(raw.local, anchors)
        return replace(made, how=f"{raw.how}; {words(raw.local, anchors)}", never_meets=never)
    first, last = place.span
    return replace(made, state=Tie.ASSUMED, how=f"{raw.how}; {place.how}", first_ns=first, last_ns=last)


def meet(a: FileClock, b: FileClock) -> bool:
    """Whether both were made at one time, as near as inputs tell it; False where one of them is not on the clock."""
    if a.span is None or b.span is None:
        return False
    return max(a.span[0], b.span[0]) - min(a.span[1], b.span[1]) <= SLACK_NS
