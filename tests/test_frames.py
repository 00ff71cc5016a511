"""Frames of a recording: packed and plain ones read the same, and no length or deflated size is believed."""

import struct
import zlib

from m3probe.schema import records
from m3probe.schema.frames import MOST_BYTES, PACK_FROM, Cut, frame, packed
from m3probe.schema.frames import records as records_of

NOTES = [records.Note(word="w", text=f"text {number}") for number in range(40)]


def read(data: bytes) -> tuple[list[str], Cut]:
    cut = Cut()
    return [record.text for record in records_of(data, cut) if isinstance(record, records.Note)], cut


def test_a_flush_is_one_smaller_frame_with_the_same_records() -> None:
    plain = b"".join(frame(note) for note in NOTES)
    small = packed(plain)
    assert len(small) < len(plain) / 2
    assert read(small)[0] == read(plain)[0] == [note.text for note in NOTES]
    assert read(small)[1].at == len(small)


def test_a_short_flush_stays_as_it_is() -> None:
    one = frame(NOTES[0])
    assert len(one) < PACK_FROM
    assert packed(one) is one


def test_a_cut_packed_frame_loses_itself_and_nothing_before_it() -> None:
    first, second = packed(b"".join(map(frame, NOTES[:20]))), packed(b"".join(map(frame, NOTES[20:])))
    texts, cut = read((first + second)[:-1])
    assert texts == [note.text for note in NOTES[:20]]
    assert (cut.at, cut.why) == (len(first), "the last frame is cut")


def framed(payload: bytes) -> bytes:
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def test_a_deflated_bomb_is_counted_as_one_frame_that_is_not_known() -> None:
    bomb = framed(b"Z" + zlib.compress(bytes(2 * MOST_BYTES)))
    texts, cut = read(bomb + frame(NOTES[0]))
    assert texts == ["text 0"]
    assert cut.skipped == 1


def test_a_packed_payload_that_is_no_zlib_is_counted_too() -> None:
    texts, cut = read(framed(b"Znonsense") + frame(NOTES[1]))
    assert (texts, cut.skipped) == (["text 1"], 1)
