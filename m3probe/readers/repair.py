r"""Making broken JSON readable: first without loss, then event by event.

Without loss: NaN, Infinity and their C spellings and bare N/A become null; raw control bytes are
escaped; bytes that are no UTF-8 are written ``\xNN``. With a guess: backslashes that start no
escape are doubled. What still does not decode is lost and counted.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

import msgspec

from m3probe.readers.events import ANY_DECODER, ONE_DECODER, ONE_EXACT_DECODER, Event, lenient, loses_ns

_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"'
    rb"|(?<![\w.\"+-])([+-]?(?:nan(?:\(\w*\))?|infinity|inf)|N/A)(?![\w.\"])",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BAD_ESCAPE = re.compile(rb'\\(?!["\\/bfnrtu]|u[0-9a-fA-F]{4})|\\(?=u(?![0-9a-fA-F]{4}))')
_BRACES = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)

BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args)"\s*:)')
"""End of one event and start of the next: any first key, any white space."""


@dataclass(slots=True)
class Damage:
    """What had to be repaired or given up in one file."""

    non_finite: int = 0
    not_available: int = 0
    control_bytes: int = 0
    bad_utf8: int = 0
    guessed: int = 0
    lost: int = 0
    first_bad_byte: int = -1
    first_bad_line: int = -1

    def add(self, other: Damage) -> None:
        """Count the repairs of one piece; losses and places are counted where they are met."""
        self.non_finite += other.non_finite
        self.not_available += other.not_available
        self.control_bytes += other.control_bytes
        self.bad_utf8 += other.bad_utf8
        self.guessed += other.guessed


# UnicodeDecodeError: what msgspec up to 0.21 raises for bytes that are no UTF-8 (0.23 has an error of its own)
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises on damage; RecursionError: nested a thousand levels deep."""


def without_loss(data: bytes, damage: Damage) -> bytes:
    """``data`` with every repair that loses nothing."""
    data = _escape_bad_utf8(data, damage)

    def fix(match: re.Match[bytes]) -> bytes:
        token = match.group(1)
        if token is None:
            return _escape_control(match.group(0), damage)
        if token == b"N/A":
            damage.not_available += 1
        else:
            damage.non_finite += 1
        return b"null"

    return _TOKEN.sub(fix, data)


def _escape_bad_utf8(data: bytes, damage: Damage) -> bytes:
    """Bytes that are no UTF-8 written as text, so that a broken byte still keeps two names apart."""

    def write(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        damage.bad_utf8 += 1
        return "".join(f"\\\\x{byte:02x}" for byte in error.object[error.start : error.end]), error.end

    codecs.register_error("m3probe_write_bytes", write)
    return data.decode("utf-8", errors="m3probe_write_bytes").encode()


def _escape_control(string: bytes, damage: Damage) -> bytes:
    if _CONTROL.search(string) is None:
        return string
    damage.control_bytes += 1
    return _CONTROL.sub(lambda m: b"\\u%04x" % m.group(0)[0], string)


def event_from(piece: bytes, damage: Damage) -> Event | None:
    """One event from its bytes; None when it is lost (counted by the caller)."""
    try:
        return _typed(piece)
    except UNDECODABLE:
        pass
    trial = Damage()
    repaired = without_loss(piece, trial)
    event = _decode_leniently(repaired)
    if event is None:
        doubled = _STRING.sub(lambda m: _BAD_ESCAPE.sub(rb"\\\\", m.group(0)), repaired)
        event = _decode_leniently(doubled) if doubled != repaired else None
        trial.guessed += event is not None
    if event is not None:
        damage.add(trial)
    return event


def _typed(piece: bytes) -> Event:
    event = ONE_DECODER.decode(piece)
    return ONE_EXACT_DECODER.decode(piece) if loses_ns((event.ts, event.dur)) else event


def _decode_leniently(piece: bytes) -> Event | None:
    try:
        return _typed(piece)
    except msgspec.ValidationError:
        pass
    except UNDECODABLE:
        return None
    try:
        return lenient(ANY_DECODER.decode(piece))
    except (*UNDECODABLE, ValueError):
        return None


_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|[^\s,\[\]{}"]+', re.DOTALL)


def value_end(data: bytes, start: int, stop: int) -> int:
    """Index after the JSON value that begins at ``start``; -1 when it does not end before ``stop``."""
    if data[start : start + 1] in (b"{", b"["):
        return object_end(data, start, stop)
    scalar = _SCALAR.match(data, start, stop)
    return scalar.end() if scalar else -1


def object_end(data: bytes, start: int, stop: int) -> int:
    """Index after the object that begins at ``start``; -1 when it does not close before ``stop``."""
    depth = 0
    for match in _BRACES.finditer(data, start, stop):
        token = match.group(0)
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1
