"""Tracks of a time line, whoever draws them: slices, instants or values over time, with what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from m3probe.model.tables import LONGEST_NS, NONE, Array

SLICES, INSTANTS, COUNTER = "slices", "instants", "counter"
MOST_LANES = 16
"""Slices that overlap lie side by side; of more than so many at once the rest is left out, and said."""


@dataclass(frozen=True, slots=True, eq=False)
class Arg:
    """What is known of each slice: whole numbers, or with ``texts`` ids of texts; -1 is not known and not written."""

    name: str
    values: Array
    texts: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One track.

    Args:
        group: the process under which a viewer shows it.
        kind: ``slices``, ``instants`` or ``counter``.
        start_ns: int64 [n] on the time line.
        dur_ns: int64 [n] of slices.
        names: int [n], ids into ``texts``, of slices and instants.
        values: float64 [n] of a counter, in ``unit``.
        nested: slices may lie inside each other, as calls do; else they follow each other.
    """

    group: str
    name: str
    kind: str
    start_ns: Array
    names: Array | None = None
    texts: Sequence[str] = ()
    dur_ns: Array | None = None
    args: tuple[Arg, ...] = ()
    values: Array | None = None
    unit: str = ""
    nested: bool = False

    def __len__(self) -> int:
        return len(self.start_ns)

    def at(self, rows: Array) -> Track:
        """The chosen rows, in that order."""
        return replace(
            self,
            start_ns=self.start_ns[rows],
            names=None if self.names is None else self.names[rows],
            dur_ns=None if self.dur_ns is None else self.dur_ns[rows],
            values=None if self.values is None else self.values[rows],
            args=tuple(replace(arg, values=arg.values[rows]) for arg in self.args),
        )


def placed(track: Track) -> tuple[Track, int]:
    """The rows that have a place, by time (outer slices first), and how many have none: no time, or a damaged one."""
    kept = track.start_ns >= 0  # NOWHERE lies far below, and what counts from before 1970 is damaged too
    dur = track.dur_ns
    if dur is not None:
        kept &= (dur >= 0) & (dur < LONGEST_NS)
    rows = np.flatnonzero(kept)
    order = np.lexsort((np.zeros(len(rows)) if dur is None else -dur[rows], track.start_ns[rows]))
    return track.at(rows[order]), int(len(track) - len(rows))


def lanes(track: Track) -> tuple[list[Track], int]:
    """Slices that overlap as tracks side by side; and how many found no lane. ``track`` is in order of time."""
    if track.kind != SLICES or track.dur_ns is None or not len(track):
        return [track], 0
    end = track.start_ns + track.dur_ns
    if not track.nested and (track.start_ns[1:] >= end[:-1]).all():
        return [track], 0
    lane = _lanes(track.start_ns.tolist(), end.tolist(), nested=track.nested)
    found = []
    for number in range(int(lane.max()) + 1):
        name = track.name if not number else f"{track.name} (overlaps {number})"
        found.append(replace(track.at(np.flatnonzero(lane == number)), name=name))
    return found, int((lane == NONE).sum())


def _lanes(start: list[int], end: list[int], *, nested: bool) -> Array:
    stacks: list[list[int]] = [[] for _ in range(MOST_LANES)]
    lane = np.full(len(start), NONE, dtype=np.int64)
    for row, (begin, finish) in enumerate(zip(start, end, strict=True)):
        for number, stack in enumerate(stacks):
            while stack and stack[-1] <= begin:
                stack.pop()
            if not stack or (nested and finish <= stack[-1]):
                stack.append(finish)
                lane[row] = number
                break
    return lane
