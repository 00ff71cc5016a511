"""What the user must be told of one guest's file: where it ends, what was dropped, what could not be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from m3probe.model.recording import Note
from m3probe.schema import records
from m3probe.schema.frames import Cut

JUMP_NS = 1_000_000_000
ENDINGS = frozenset({"the last frame is cut", "a frame's head is cut"})
"""What a killed process leaves; any other cut is damage."""
LOST = frozenset({"queue_full", "steps_lost", "hook_failed", "part_failed", "writes_not_told", "no_recording"})
"""Notes of guests that say that something was there and is not in the file; the others say what could not be seen."""
Found = dict[type[records.Record], list[Any]]


def notes_of(path: Path, process: records.Process, found: Found, cut: Cut) -> list[Note]:
    """Notes in the order of their weight."""
    where = str(path)
    return [
        *_ends(where, found, cut),
        *_lost(where, found),
        *_late(where, process),
        *_jumps(where, found.get(records.Clock, [])),
        *_said(where, found.get(records.Note, [])),
    ]


def _ends(where: str, found: Found, cut: Cut) -> Iterator[Note]:
    if cut.why and cut.why not in ENDINGS:
        yield Note("damaged", f"{cut.why} at byte {cut.at:,}: what follows is in no figure", where, lossy=True)
    elif not found.get(records.End):
        text = "no end record: the process was killed (up to its last second is missing), or it still records"
        yield Note("no_end", text, where)
    if cut.skipped:
        text = f"{cut.skipped:,} record(s) of a kind that this m3probe does not know were left out"
        yield Note("unknown_records", text, where, cut.skipped)


def _lost(where: str, found: Found) -> Iterator[Note]:
    for end in found.get(records.End, []):
        for kind, count in _counted(end.dropped):
            yield Note("dropped", f"{count:,} {kind} record(s) dropped: the queue was full", where, count, lossy=True)
        for seam, count in _counted(end.failed_hooks):
            text = f"the hook on {seam} failed {count:,} time(s): its facts are missing"
            yield Note("failed_hook", text, where, count, lossy=True)
        for name in end.left_behind:
            yield Note("left_behind", f"{name} could not be given back: somebody else replaced it", where)


def _counted(found: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Who is named lost one at least, whatever a damaged record counts."""
    return ((name, max(1, count)) for name, count in found.items())


def _late(where: str, process: records.Process) -> Iterator[Note]:
    if process.late:
        text = "attached late: nothing is known of load and graph capture, so paths inside graphs are unproven"
        yield Note("late", text, where)


def _jumps(where: str, clocks: list[records.Clock]) -> Iterator[Note]:
    offsets = [clock.wall_ns - clock.mono_ns for clock in clocks]
    jumps = [b - a for a, b in pairwise(offsets) if abs(b - a) > JUMP_NS]
    if jumps:
        text = f"the wall clock jumped {len(jumps)} time(s), by up to {max(map(abs, jumps)) / 1e9:,.1f} s; durations are sound"
        yield Note("clock_jump", text, where, len(jumps))


def _said(where: str, notes: list[records.Note]) -> Iterator[Note]:
    for note in notes:
        lost = note.lossy and note.word in LOST
        yield Note(note.word, note.text, where, max(1, note.count), lossy=lost, quiet=not note.lossy)
