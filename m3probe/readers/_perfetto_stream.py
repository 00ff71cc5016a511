"""A Perfetto file packet by packet: lengths, decoding, clocks and interned texts; nothing of it is trusted.

A trace is ``repeated TracePacket packet = 1`` (protos/perfetto/trace/trace.proto), so that it can be cut between packets.
Clocks and interned texts belong to a sequence and are forgotten where ``SEQ_INCREMENTAL_STATE_CLEARED`` is set
(trace_packet.proto, clock_snapshot.proto, interned_data.proto; read at v54).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.readers._protobuf import Fields, varint
from m3probe.readers.chunks import Chunks
from m3probe.readers.events import LARGEST_NS, NO_TIME

MOST_PACKET = 64 * 2**20
"""Bytes of one packet; a tracing service cuts its packets at some 256 KiB."""
MOST_TEXT = 256 * 2**20
"""Bytes of all interned texts that are held at a time."""
MOST_SEQUENCES = 65_536
_PACKET = 1 << 3 | 2
_TELLING = {3, 8, 10}
_CLEARED = 1
_BOOTTIME, _REALTIME = 6, 1
_OF_A_SEQUENCE = range(64, 128)
"""Clock ids that mean something within their sequence alone."""
_INTERNED = ("event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values")


def packets_in(head: bytes) -> bool:
    """Whether the first bytes are packets of a Perfetto trace, told without the package.

    Other lists of messages (a profile of JAX or TensorFlow, ``XSpace``) begin with the same byte: a trace packet is told
    by the sequence, the user or the time that its writer sets as numbers (fields 10, 3 and 8).
    """
    place, told = 0, False
    for whole in range(32):
        size, start = varint(head, place + 1)
        fields = Fields(head, start, min(start + size, len(head)))
        sound = head[place : place + 1] == b"\n" and start > 0 and 0 < size <= MOST_PACKET
        numbers = {number for number, wire in fields if wire == 0} if sound else set()
        if not sound or fields.broken:
            return told and (whole > 1 or place >= len(head))  # damaged later on is a trace still
        told, place = told or bool(numbers & _TELLING), start + size
    return told


@dataclass(slots=True)
class Sequence:
    """What the packets of one writer share until it is cleared."""

    clock: int = 0
    clocks: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """id -> (time of the trace that its zero is, ns per unit, incremental: its last time in ns, else -1)."""
    interned: dict[str, dict[int, Any]] = field(default_factory=lambda: {kind: {} for kind in _INTERNED})
    text_bytes: int = 0


class PacketStream:
    """Iterates over (packet, sequence, time); afterwards the counts say what was lost.

    Args:
        path: the file, plain or gzip.

    Raises:
        UnreadableInput: the package is missing, or the file has more text or sequences than memory is for.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._message, self._error = _protos(path)
        self._chunks = Chunks(path)
        self.size_bytes = self._chunks.size_bytes
        self.bytes_read = 0
        self.packets = self.undecoded = self.dropped = self.discarded = self.compressed = 0
        self.damaged_at = -1
        self.wall_ns: int | None = None
        self.text_bytes = 0
        self._sequences: dict[int, Sequence] = {}
        self._zeros: dict[int, int] = {}
        """Clock of the whole trace -> its zero on the trace's own clock; the first snapshot counts."""

    @property
    def cut(self) -> bool:
        """The file ends inside a packet, or what follows is no packet."""
        return self.damaged_at >= 0 or self._chunks.cut

    def __iter__(self) -> Iterator[tuple[Any, Sequence, int]]:
        for body in self._bodies():
            self.packets += 1
            try:
                packet = self._message.FromString(body)
            except self._error:
                self.undecoded += 1
                continue
            sequence = self._sequence(packet)
            self._learn(packet, sequence)
            yield packet, sequence, self._time(packet, sequence)

    # --- bytes -----------------------------------------------------------------------------------------------

    def _bodies(self) -> Iterator[bytes]:
        """Each packet's bytes, up to the first place that is none."""
        buffer, consumed = b"", 0
        for chunk in self._chunks:
            self.bytes_read += len(chunk)
            buffer = buffer + chunk if buffer else chunk
            place = 0
            while True:
                start, end = _next(buffer, place)
                if start < 0:
                    self.damaged_at = consumed + place
                    return
                if end > len(buffer) or start == end == place:
                    break
                yield buffer[start:end]
                place = end
            consumed += place
            buffer = buffer[place:]
        if buffer:
            self.damaged_at = consumed

    # --- what a sequence says --------------------------------------------------------------------------------

    def _sequence(self, packet: Any) -> Sequence:
        key = packet.trusted_packet_sequence_id
        found = self._sequences.get(key)
        if found is None:
            if len(self._sequences) >= MOST_SEQUENCES:
                raise self._too_much(f"more than {MOST_SEQUENCES:,} sequences of packets")
            found = self._sequences[key] = Sequence()
        elif packet.previous_packet_dropped:  # a sequence's first packet has it too, of which nothing is known
            self.dropped += 1
        if packet.sequence_flags & _CLEARED or packet.incremental_state_cleared:
            self.text_bytes -= found.text_bytes
            found = self._sequences[key] = Sequence()
        return found

    def _learn(self, packet: Any, sequence: Sequence) -> None:
        if packet.HasField("interned_data"):
            self._intern(packet.interned_data, sequence)
        if packet.HasField("trace_packet_defaults") and packet.trace_packet_defaults.timestamp_clock_id:
            sequence.clock = packet.trace_packet_defaults.timestamp_clock_id
        if packet.HasField("clock_snapshot"):
            self._snapshot(packet.clock_snapshot, sequence)
        if packet.HasField("trace_stats"):
            stats = packet.trace_stats.buffer_stats
            self.discarded = sum(b.chunks_discarded + b.chunks_overwritten + b.trace_writer_packet_loss for b in stats)
        if packet.compressed_packets or packet.HasField("zstd_compressed_packets"):
            self.compressed += 1

    def _intern(self, data: Any, sequence: Sequence) -> None:
        for kind, known in sequence.interned.items():
            for entry in getattr(data, kind):
                text = entry.str if kind == "debug_annotation_string_values" else text_of(entry, "name")
                known[entry.iid] = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
                sequence.text_bytes += len(text) + 64
                self.text_bytes += len(text) + 64
        if self.text_bytes > MOST_TEXT:
            raise self._too_much(f"more than {MOST_TEXT // 2**20} MiB of interned texts")

    def _snapshot(self, snapshot: Any, sequence: Sequence) -> None:
        """Clocks that were read at one moment: each one's zero on the trace's clock."""
        said = {c.clock_id: c for c in snapshot.clocks}
        now = said.get(snapshot.primary_trace_clock or _BOOTTIME)
        if now is None or now.timestamp > LARGEST_NS:
            return
        for clock, entry in list(said.items())[:64]:
            unit = min(entry.unit_multiplier_ns or 1, 10**9)
            value = min(entry.timestamp, LARGEST_NS) * unit
            if clock in _OF_A_SEQUENCE:
                sequence.clocks[clock] = (now.timestamp - value, unit, value if entry.is_incremental else -1)
            else:
                self._zeros.setdefault(clock, now.timestamp - value)
        if _REALTIME in said and self.wall_ns is None:
            self.wall_ns = -self._zeros[_REALTIME]

    def _time(self, packet: Any, sequence: Sequence) -> int:
        """The packet's time on the trace's clock, ns; ``NO_TIME`` where it has none or its clock is not known."""
        if not packet.HasField("timestamp"):
            return NO_TIME
        clock = packet.timestamp_clock_id or sequence.clock
        at = int(packet.timestamp)
        if clock not in _OF_A_SEQUENCE:
            at += self._zeros.get(clock, 0)
        elif clock not in sequence.clocks:
            return NO_TIME
        else:
            zero, unit, last = sequence.clocks[clock]
            at *= unit
            if last >= 0:
                at = min(at + last, LARGEST_NS)
                sequence.clocks[clock] = (zero, unit, at)
            at += zero
        return at if 0 <= at < LARGEST_NS else NO_TIME

    def _too_much(self, what: str) -> UnreadableInput:
        return UnreadableInput(what, where=str(self.path), next_move="No profiler writes that; record again")


def text_of(message: Any, name: str) -> str:
    """A text field; bytes that are no UTF-8 make it unknown, since the message classes refuse to give them."""
    try:
        return str(getattr(message, name))
    except UnicodeDecodeError:
        return ""


def _next(buffer: bytes, place: int) -> tuple[int, int]:
    """(start, end) of the next packet's body, end beyond the buffer where it is not whole; (-1, -1): no packet."""
    if place >= len(buffer):
        return place, place
    if buffer[place] != _PACKET:
        return -1, -1
    size, start = varint(buffer, place + 1)
    if start < 0:
        return (place, len(buffer) + 1) if len(buffer) - place < 11 else (-1, -1)
    return (start, start + size) if size <= MOST_PACKET else (-1, -1)


def _protos(path: Path) -> tuple[Any, type[Exception]]:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
    except ImportError as error:
        raise UnreadableInput(
            f"a Perfetto trace, which needs the package perfetto, and that cannot be imported ({error})",
            where=str(path),
            next_move="pip install 'm3probe[export]', or from a clone pip install '.[export]'",
        ) from error
    failed: type[Exception] = import_module("google.protobuf.message").DecodeError
    return protos.TracePacket, failed
