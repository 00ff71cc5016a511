"""A recording's file: a magic line, then frames of length, checksum and one msgpack record, appended only.

A killed process leaves whole frames and at most one broken one at the end; a reader takes what is before it. A flush
of more than ``PACK_FROM`` bytes is one frame that holds its frames deflated: an eager server's records shrink to a third
(TP2 at 158 steps/s: 18.5 to 6 MB per hour and worker).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from m3probe.schema.records import AnyRecord

MAGIC = b"m3probe recording 1\n"
SUFFIX = ".m3p"
MANIFEST = "manifest.json"
MOST_BYTES = 64 * 1024 * 1024
"""No frame is longer: a length beyond it is damage, and must not become an allocation."""

PACK_FROM = 512
_PACKED = b"Z"
"""First byte of a packed payload; no record begins so: in msgpack it is the number 90, and a record is a map."""
_HEAD = struct.Struct("<II")
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[AnyRecord] = msgspec.msgpack.Decoder(AnyRecord)


def frame(record: object) -> bytes:
    """One record as it stands in a file; records, and messages of the control socket."""
    return _framed(_ENCODER.encode(record))


def packed(frames: bytes) -> bytes:
    """Several frames as one, smaller; as they are where there is little to win."""
    return frames if len(frames) < PACK_FROM else _framed(_PACKED + zlib.compress(frames, 1))


def _framed(payload: bytes) -> bytes:
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


@dataclass(slots=True)
class Cut:
    """Where and why reading ended early; ``at``: offset of the first byte that was not read."""

    at: int = -1
    why: str = ""
    skipped: int = 0
    """Sound frames whose record this version does not know."""


def payloads(data: bytes | memoryview, cut: Cut, start: int = 0) -> Iterator[bytes]:
    """Payloads of the whole frames of ``data`` from ``start``; ``cut`` says where they end."""
    view, at, end = memoryview(data), start, len(data)
    cut.at = at
    while at < end:
        if end - at < _HEAD.size:
            cut.why = "a frame's head is cut"
            return
        length, crc = _HEAD.unpack_from(view, at)
        if length > MOST_BYTES:
            cut.why = "a frame's length is damaged"
            return
        stop = at + _HEAD.size + length
        if stop > end:
            cut.why = "the last frame is cut"
            return
        payload = bytes(view[at + _HEAD.size : stop])
        if zlib.crc32(payload) != crc:
            cut.why = "a frame's checksum does not match"
            return
        at = cut.at = stop
        yield payload


def records(data: bytes | memoryview, cut: Cut, start: int = 0) -> Iterator[AnyRecord]:
    """Records of ``data`` from ``start``; what this version does not know is counted in ``cut.skipped``."""
    for payload in payloads(data, cut, start):
        if payload[:1] != _PACKED:
            yield from _decoded(payload, cut)
            continue
        for inner in payloads(_inflated(payload, cut), Cut()):
            yield from _decoded(inner, cut)


def _decoded(payload: bytes, cut: Cut) -> Iterator[AnyRecord]:
    try:
        yield _DECODER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        cut.skipped += 1


def _inflated(payload: bytes, cut: Cut) -> bytes:
    """The frames of a packed one; nothing where it is none, or holds more than a frame may."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(payload[1:], MOST_BYTES)
    except zlib.error:
        found = b""
    if not inflater.eof:
        cut.skipped += 1
        return b""
    return found
