"""Slices of a Perfetto trace as records: begin and end paired track by track, and what each is told by.

rocprofv3 (source/lib/output/generatePerfetto.cpp, ROCm/rocprofiler-sdk a5a2f86) writes a category for each kind of record and
its own times, ids and sizes as debug annotations; our own export names its tracks instead.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from m3probe.model.tables import NONE
from m3probe.readers._perfetto_stream import Sequence, text_of
from m3probe.readers.events import LARGEST_NS, NO_TIME

BEGIN, END, INSTANT = 1, 2, 3
MOST_SLICES = 10_000_000
MOST_TRACKS = 200_000
MOST_OPEN = 512
"""Slices inside each other on one track."""
_CATEGORIES = {
    "kernel_dispatch": "kernels",
    "memory_copy": "memcpy",
    "hip_api": "launches",
    "hsa_api": "launches",
    "rccl_api": "ops",
    "marker_api": "annotations",
}
_OURS = (
    (re.compile(r"GPU (?P<device>-?\d+) stream (?P<stream>-?\d+)(?: copies)?"), "kernels"),
    (re.compile(r"steps \(host\)"), "annotations"),
    (re.compile(r"graph launches \(host\)"), "launches"),
    (re.compile(r"runtime calls of thread (?P<tid>-?\d+) \((?P<pid>-?\d+)\)"), "launches"),
    (re.compile(r"operators of thread (?P<tid>-?\d+) \((?P<pid>-?\d+)\)"), "ops"),
)
"""Tracks of ``m3probe export --to perfetto``, which has no categories."""
_LANE = re.compile(r" \(overlaps \d+\)$")
COLUMNS = ("name", "start_ns", "dur_ns", "link", "device", "stream", "tid", "grid", "group", "bytes")
Columns = dict[str, "array[int]"]
"""int64 each; ``device``, ``grid``, ``group``: ids of texts as they are written, -1 for none."""


@dataclass(slots=True)
class Track:
    """One track: what was told of it, and its slices that are not closed yet."""

    name: str = ""
    parent: int = 0
    pid: int | None = None
    tid: int = NONE
    process: bool = False
    process_name: str = ""
    part: str = ""
    said: dict[str, int] = field(default_factory=dict)
    open: list[tuple[Columns | None, int]] = field(default_factory=list)
    deep: int = 0
    """Slices that are open beyond ``MOST_OPEN``."""


class Slices:
    """Fed with packets; afterwards ``rows`` holds (part, track) -> columns.

    Args:
        intern: text -> id.
    """

    def __init__(self, intern: Callable[[str], int]) -> None:
        self._intern = intern
        self.tracks: dict[int, Track] = {}
        self.rows: dict[tuple[str, int], Columns] = {}
        self.kept = self.events = self.stray_ends = self.beyond = self.undated = 0
        self.others: dict[str, int] = {}
        self.about: dict[str, str] = {}
        self.categories = False

    def take(self, packet: Any, sequence: Sequence, at_ns: int) -> None:
        """One packet."""
        if packet.HasField("track_event"):
            self._event(packet.track_event, sequence, at_ns)
        elif packet.HasField("track_descriptor"):
            self._describe(packet.track_descriptor)
        else:
            kind = packet.WhichOneof("data")
            if kind is not None:
                self.others[kind] = self.others.get(kind, 0) + 1

    def unended(self) -> int:
        """Slices that were begun and never ended."""
        return sum(columns is not None for track in self.tracks.values() for columns, _ in track.open)

    def process_of(self, uuid: int) -> tuple[int, Track]:
        """(uuid, track) of the process above a track; of the topmost track where none is."""
        seen: set[int] = set()
        found = self.tracks.get(uuid, Track())
        while not found.process and found.parent in self.tracks and found.parent not in seen:
            seen.add(uuid := found.parent)
            found = self.tracks[uuid]
        return (uuid, found) if found.process else (0, Track())

    # --- tracks ----------------------------------------------------------------------------------------------

    def _track(self, uuid: int) -> Track:
        found = self.tracks.get(uuid)
        if found is None:
            found = Track()
            if len(self.tracks) < MOST_TRACKS:
                self.tracks[uuid] = found
        return found

    def _describe(self, said: Any) -> None:
        track = self._track(said.uuid)
        track.name = text_of(said, "name") or text_of(said, "static_name")
        track.parent = said.parent_uuid
        if said.HasField("process"):
            track.process, track.pid = True, said.process.pid
            track.process_name = text_of(said.process, "process_name")
        if said.HasField("thread"):
            track.pid, track.tid = said.thread.pid, said.thread.tid
        for pattern, part in _OURS:
            found = pattern.fullmatch(_LANE.sub("", track.name[:200]))
            if found:
                track.part = part
                track.said = {key: _whole(text) for key, text in found.groupdict().items()}

    # --- events ----------------------------------------------------------------------------------------------

    def _event(self, event: Any, sequence: Sequence, at_ns: int) -> None:
        self.events += 1
        track = self._track(event.track_uuid)
        if event.type == END:
            self._end(track, at_ns)
        elif event.type == BEGIN:
            part = self._part(event, sequence, track)
            begun = self._begin(part, event, sequence, at_ns) if part else (None, NONE)
            if len(track.open) < MOST_OPEN:
                track.open.append(begun)
            else:
                track.deep += 1
        elif event.type == INSTANT and track.name == "about this file":
            self.about = {key: str(value)[:65536] for key, value in _arguments(event, sequence)}

    def _part(self, event: Any, sequence: Sequence, track: Track) -> str:
        known = sequence.interned["event_categories"]
        words = [known.get(iid, "") for iid in event.category_iids] or list(event.categories)
        for word in words:
            if word in _CATEGORIES:
                self.categories = True
                return _CATEGORIES[word]
        return track.part if not words else ""

    def _begin(self, part: str, event: Any, sequence: Sequence, at_ns: int) -> tuple[Columns | None, int]:
        """(columns, row) of the slice that its end closes; (None, -1): its end adds nothing."""
        if self.kept >= MOST_SLICES:
            self.beyond += 1
            return None, NONE
        self.kept += 1
        said = dict(_arguments(event, sequence))
        part = "memset" if said.get("kind") == "memset" else "memcpy" if said.get("kind") == "memcpy" else part
        name = text_of(event, "name") or sequence.interned["event_names"].get(event.name_iid, "")
        start, dur = at_ns, NO_TIME
        begin, end = _time(said.get("begin_ns")), _time(said.get("end_ns"))
        if begin is not None and end is not None:
            start, dur = begin, end - begin
        self.undated += start == NO_TIME
        values = (
            self._intern(name) if name else NONE,
            start,
            dur,
            _id(said.get("corr_id", said.get("correlation", event.flow_ids[0] if event.flow_ids else 0))),
            self._text(said.get("agent", said.get("dst_agent"))),
            _id(said.get("stream_id", said.get("queue", NONE))),
            _id(said.get("tid", NONE)),
            self._text(said.get("grid_size", said.get("grid"))),
            self._text(said.get("workgroup_size")),
            _id(said.get("copy_bytes", said.get("bytes", NONE))),
        )
        columns = self.rows.get((part, event.track_uuid))
        if columns is None:
            columns = self.rows[part, event.track_uuid] = {key: array("q") for key in COLUMNS}
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
        return (columns, len(columns["name"]) - 1) if dur == NO_TIME else (None, NONE)

    def _end(self, track: Track, at_ns: int) -> None:
        if track.deep:
            track.deep -= 1
            return
        if not track.open:
            self.stray_ends += track.part != ""
            return
        columns, row = track.open.pop()
        if columns is not None and NO_TIME not in (at_ns, columns["start_ns"][row]):
            columns["dur_ns"][row] = at_ns - columns["start_ns"][row]

    def _text(self, value: Any) -> int:
        return NONE if value is None or value == "" else self._intern(str(value)[:200])


def _arguments(event: Any, sequence: Sequence) -> Iterator[tuple[str, Any]]:
    """Name and value of each debug annotation that is a number or a text."""
    names = sequence.interned["debug_annotation_names"]
    for note in event.debug_annotations:
        name = names.get(note.name_iid, "") if note.name_iid else text_of(note, "name")
        kind = note.WhichOneof("value")
        if kind == "string_value_iid":
            yield name, sequence.interned["debug_annotation_string_values"].get(note.string_value_iid, "")
        elif kind == "string_value":
            yield name, text_of(note, "string_value")
        elif kind in ("int_value", "uint_value", "pointer_value"):
            yield name, getattr(note, kind)


def _time(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < LARGEST_NS else None


def _id(value: Any) -> int:
    """An id as int64, handles wrapped; -1 for what is none."""
    if not isinstance(value, int):
        return _whole(value) if isinstance(value, str) else NONE
    return (value + 2**63) % 2**64 - 2**63


def _whole(text: str) -> int:
    found = re.fullmatch(r"-?[0-9]{1,18}", text)
    return int(text) if found else NONE
