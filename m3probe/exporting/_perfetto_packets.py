"""Tracks as Perfetto packets.

One packet message for each distinct name and set of texts is kept and written again and again with another time: 0.75 us
a packet, where a new message for each slice takes 1.9 us (perfetto 0.59, protobuf 7.36).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np

from m3probe.exporting._track import COUNTER, INSTANTS, Arg, Track
from m3probe.model.tables import NONE, Array
from m3probe.present.escape import safe

_SEQUENCE = 1
_CLEARED, _NEEDS = 1, 2
"""``sequence_flags``: the first packet of a sequence, and those that use its interned texts."""
_REALTIME, _BOOTTIME = 1, 6
"""Clocks of builtin_clock.proto."""
_MOST_MESSAGES = 4096
_FLUSH_BYTES = 1 << 20


class Packets:
    """A file of packets; ``rows`` are the slices, instants and values written so far."""

    def __init__(self, file: IO[bytes]) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

        self._protos = protos
        self._file = file
        self._held: list[bytes] = []
        self._bytes = 0
        self._groups: dict[str, int] = {}
        self._uuid = 0
        self._interned: dict[tuple[str, str], int] = {}
        self._new: list[tuple[str, int, str]] = []
        self._first_ns: int | None = None
        self.rows = 0
        self._put(protos.TracePacket(trusted_packet_sequence_id=_SEQUENCE, sequence_flags=_CLEARED))

    def track(self, track: Track, *, wall: bool) -> None:
        """One track, in order of time and its slices one after or inside the other."""
        start = int(track.start_ns[0])
        if self._first_ns is None and wall:
            self._clock(start)
        self._first_ns = start if self._first_ns is None else min(start, self._first_ns)
        uuid = self._described(track)
        if track.kind == COUNTER:
            self._counter(track, uuid)
        else:
            self._events(track, uuid)
        self.rows += len(track)

    def close(self, said: Mapping[str, Any]) -> None:
        """What the file is, as one instant at its beginning; then everything is on its way to the disk."""
        if self._first_ns is not None:
            at = np.array([self._first_ns])
            args = tuple(Arg(key, np.zeros(1, dtype=np.int64), [text]) for key, text in said.items())
            about = Track("m3probe", "about this file", INSTANTS, at, np.zeros(1, dtype=np.int64), ["m3probe export"])
            self._events(replace(about, args=args), self._described(about))
        self._flush()

    # --- descriptions --------------------------------------------------------------------------------------

    def _described(self, track: Track) -> int:
        """The uuid of a new track, told with its group's."""
        descriptor = self._protos.TrackDescriptor
        if track.group not in self._groups:
            self._uuid += 1
            self._groups[track.group] = self._uuid
            process = {"pid": len(self._groups), "process_name": safe(track.group)}
            # an order of its own: by name a stream 10 would stand before a stream 7
            order = descriptor.EXPLICIT
            self._put(self._packet(track_descriptor={"uuid": self._uuid, "process": process, "child_ordering": order}))
        self._uuid += 1
        told: dict[str, Any] = {
            "uuid": self._uuid,
            "parent_uuid": self._groups[track.group],
            "name": safe(track.name),
            "sibling_order_rank": self._uuid,
        }
        if track.kind == COUNTER:
            told["counter"] = {"unit_name": track.unit}
        self._put(self._packet(track_descriptor=told))
        return self._uuid

    def _clock(self, at_ns: int) -> None:
        """The trace's clock is the wall's."""
        clocks = [{"clock_id": clock, "timestamp": at_ns} for clock in (_REALTIME, _BOOTTIME)]
        self._put(self._packet(timestamp=at_ns, clock_snapshot={"clocks": clocks}))

    # --- events --------------------------------------------------------------------------------------------

    def _counter(self, track: Track, uuid: int) -> None:
        if track.values is None:
            return
        packet = self._packet(track_event={"type": self._protos.TrackEvent.TYPE_COUNTER, "track_uuid": uuid})
        for at, value in zip(track.start_ns.tolist(), track.values.tolist(), strict=True):
            packet.timestamp = at
            packet.track_event.double_counter_value = value
            self._put(packet)

    def _events(self, track: Track, uuid: int) -> None:
        kinds = self._protos.TrackEvent
        end = self._packet(track_event={"type": kinds.TYPE_SLICE_END, "track_uuid": uuid})
        numbers = [arg for arg in track.args if arg.texts is None]
        open_ends: list[int] = []
        messages: dict[tuple[int, ...], tuple[Any, list[Any]]] = {}
        durs = itertools.repeat(None) if track.dur_ns is None else track.dur_ns.tolist()
        rows = zip(track.start_ns.tolist(), durs, _keys(track), _rows(arg.values for arg in numbers), strict=False)
        for at, dur, key, cells in rows:
            while open_ends and open_ends[-1] <= at:
                end.timestamp = open_ends.pop()
                self._put(end)
            made = messages.get(key)
            if made is None:
                if len(messages) >= _MOST_MESSAGES:
                    messages.clear()
                made = messages[key] = self._message(track, uuid, key, numbers)
            message, places = made
            for place, value in zip(places, cells, strict=False):
                if place is not None:
                    place.int_value = value
            message.timestamp = at
            self._put(message)
            if dur is not None:
                open_ends.append(at + dur)
        while open_ends:
            end.timestamp = open_ends.pop()
            self._put(end)

    def _message(self, track: Track, uuid: int, key: tuple[int, ...], numbers: Sequence[Arg]) -> tuple[Any, list[Any]]:
        """The packet of one name and set of texts, and where its numbers go (None: not known)."""
        kinds = self._protos.TrackEvent
        packet = self._packet(
            track_event={
                "type": kinds.TYPE_INSTANT if track.dur_ns is None else kinds.TYPE_SLICE_BEGIN,
                "track_uuid": uuid,
                "name_iid": self._iid("event_names", track.texts[key[0]] if key[0] >= 0 else ""),
            }
        )
        event = packet.track_event
        texts = [arg for arg in track.args if arg.texts is not None]
        for arg, value in zip(texts, key[1:], strict=False):
            if value >= 0 and arg.texts is not None:
                note = event.debug_annotations.add(name_iid=self._iid("debug_annotation_names", arg.name))
                note.string_value_iid = self._iid("debug_annotation_string_values", arg.texts[value])
        places: list[Any] = []
        for bit, arg in enumerate(numbers):
            known = not key[-1] >> bit & 1
            name = self._iid("debug_annotation_names", arg.name)
            places.append(event.debug_annotations.add(name_iid=name) if known else None)
        self._told()
        return packet, places

    # --- interned texts ------------------------------------------------------------------------------------

    def _iid(self, kind: str, text: str) -> int:
        key = (kind, text)
        found = self._interned.get(key)
        if found is None:
            found = self._interned[key] = len(self._interned) + 1
            self._new.append((kind, found, safe(text)))
        return found

    def _told(self) -> None:
        """New texts go before the packet that uses them."""
        if not self._new:
            return
        packet = self._packet()
        for kind, iid, text in self._new:
            entry = getattr(packet.interned_data, kind).add(iid=iid)
            if kind == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
        self._new.clear()
        self._put(packet)

    # --- bytes ---------------------------------------------------------------------------------------------

    def _packet(self, **said: Any) -> Any:
        return self._protos.TracePacket(trusted_packet_sequence_id=_SEQUENCE, sequence_flags=_NEEDS, **said)

    def _put(self, packet: Any) -> None:
        body = packet.SerializeToString()
        self._held += (b"\x0a", _varint(len(body)), body)
        self._bytes += len(body)
        if self._bytes > _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._file.write(b"".join(self._held))
        self._held.clear()
        self._bytes = 0


def _keys(track: Track) -> Iterator[tuple[int, ...]]:
    """For each row its name, its texts, and a bit for each number that is not known."""
    numbers = [arg for arg in track.args if arg.texts is None]
    unknown = np.zeros(len(track), dtype=np.int64)
    for bit, arg in enumerate(numbers):
        unknown |= (arg.values == NONE).astype(np.int64) << bit
    names = np.zeros(len(track), dtype=np.int64) if track.names is None else track.names
    return _rows([names, *(arg.values for arg in track.args if arg.texts is not None), unknown])


def _rows(columns: Iterable[Array]) -> Iterator[tuple[int, ...]]:
    """Rows of columns; empty tuples without end where there is no column."""
    lists = [column.tolist() for column in columns]
    return zip(*lists, strict=True) if lists else itertools.repeat(())


def _varint(number: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, the lowest first."""
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)
