"""Protobuf's wire format, so far as a file can be told by it without a message class."""

from __future__ import annotations

from collections.abc import Iterator

_WIDTHS = {1: 8, 5: 4}


def varint(data: bytes, place: int) -> tuple[int, int]:
    """(number, index after it); index -1 where it does not end within ``data`` or in ten bytes."""
    number = 0
    for i, byte in enumerate(data[place : place + 10]):
        number |= (byte & 127) << (7 * i)
        if byte < 128:
            return number, place + i + 1
    return number, -1


class Fields:
    """Iterates over (number, wire type) of one message's fields; afterwards ``broken`` says whether it was none.

    A message that goes on behind ``stop`` is looked at so far as it is there.
    """

    def __init__(self, data: bytes, start: int, stop: int) -> None:
        self._data, self._place, self._stop = data, start, stop
        self.broken = False

    def __iter__(self) -> Iterator[tuple[int, int]]:
        whole = self._stop < len(self._data)
        while self._place < self._stop:
            tag, after = varint(self._data, self._place)
            number, wire = tag >> 3, tag & 7
            if after > 0 and wire == 0:
                _, after = varint(self._data, after)
            elif after > 0 and wire == 2:
                size, after = varint(self._data, after)
                after = after + size if after > 0 else after
            elif after > 0:
                after += _WIDTHS.get(wire, -(2**62))
            if after < 0 or not 0 < number < 2**29 or (whole and after > self._stop):
                self.broken = whole or after < -1 or not 0 < number < 2**29
                return
            yield number, wire
            self._place = after
