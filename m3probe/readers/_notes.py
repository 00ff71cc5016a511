"""What a user must be told about one trace file."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Note, SourceFile
from m3probe.model.tables import NONE
from m3probe.readers import _exported
from m3probe.readers._gather import Gather
from m3probe.readers.events import NO_TIME
from m3probe.readers.stream import TraceStream


def notes_of(file: SourceFile, stream: TraceStream, gather: Gather) -> list[Note]:
    """Losses, repairs and oddities of one file.

    Raises:
        UnreadableInput: the file holds no event at all.
    """
    if not file.counts.events_x and not stream.truncated and not stream.damage.lost:
        raise UnreadableInput(
            "the trace holds no events (traceEvents is empty)",
            where=file.path,
            next_move="Record again with work running between start and stop of the profiler",
        )
    if not file.counts.events_x and stream.damage.lost:
        raise UnreadableInput(
            f"none of the {stream.damage.lost:,} events can be decoded{_place(stream)}",
            where=file.path,
            next_move="The writer of this file did not write JSON; record again",
        )
    if not file.counts.events_x:
        raise UnreadableInput(
            "the trace is cut before its first whole event",
            where=file.path,
            next_move="Record again; stop the profiler before the process ends",
        )
    before = _exported.notes(_exported.losses(stream.header), file.path)
    return [*before, *_losses(file, stream), *_repairs(file, stream), *_times(file, gather)]


def _place(stream: TraceStream) -> str:
    damage = stream.damage
    if damage.first_bad_byte < 0:
        return ""
    return f" (first at line {damage.first_bad_line}, byte {damage.first_bad_byte} of the trace text)"


def _losses(file: SourceFile, stream: TraceStream) -> Iterator[Note]:
    damage = stream.damage
    if stream.truncated:
        kept = file.counts.events_x
        yield Note(
            "truncated",
            f"truncated file: the tail is missing; figures cover only the {kept:,} events that were read",
            file.path,
            lossy=True,
        )
    if damage.lost:
        text = f"not valid JSON: {damage.lost:,} event(s) could not be repaired and are lost{_place(stream)}"
        yield Note("lost_events", text, file.path, damage.lost, lossy=True)
    if stream.trailing_bytes:
        text = f"{stream.trailing_bytes:,} byte(s) after the end of the trace are left out"
        yield Note("trailing", text, file.path, stream.trailing_bytes, lossy=True)
    if damage.guessed:
        text = f"not valid JSON: {damage.guessed:,} event(s) repaired by guessing (bad backslashes){_place(stream)}"
        yield Note("guessed_events", text, file.path, damage.guessed, lossy=True)


def _repairs(file: SourceFile, stream: TraceStream) -> Iterator[Note]:
    damage = stream.damage
    if damage.non_finite:
        text = f"non-finite numbers: {damage.non_finite:,} NaN or Infinity read as not known"
        yield Note("non_finite", text, file.path, damage.non_finite)
    if damage.not_available:
        text = f"not valid JSON: {damage.not_available:,} bare N/A read as not known"
        yield Note("not_available", text, file.path, damage.not_available)
    if damage.control_bytes:
        text = f"control characters in names: raw control bytes in {damage.control_bytes:,} text(s), escaped"
        yield Note("control_bytes", text, file.path, damage.control_bytes)
    if damage.bad_utf8:
        text = f"{damage.bad_utf8:,} byte sequence(s) are no UTF-8, written as \\xNN"
        yield Note("bad_utf8", text, file.path, damage.bad_utf8)
    if stream.unclosed_array:
        yield Note("unclosed_array", "no closing bracket: the array form may leave it out", file.path)


def _times(file: SourceFile, gather: Gather) -> Iterator[Note]:
    unnamed = int((gather.column("kernels", "name") == NONE).sum())
    if unnamed:
        yield Note("unnamed_kernels", f"{unnamed:,} kernel(s) without a name", file.path, unnamed)
    undated = int((gather.column("annotations", "start_ns") == NO_TIME).sum())
    if undated:
        text = f"{undated:,} annotation(s) without a usable time stamp: the steps they name are left out"
        yield Note("undated_annotations", text, file.path, undated, lossy=True)
    if gather.other_unit:
        text = (
            f"time stamps disagree about their unit: {gather.other_unit:,} of them would be microseconds in a file that "
            "counts ns"
        )
        yield Note("time_unit", text, file.path, gather.other_unit)
