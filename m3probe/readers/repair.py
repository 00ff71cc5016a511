r"""Making broken JSON readable: first without loss, then event by event.

Without loss: NaN, Infinity and their C spellings and bare N/A become null; raw control bytes are
escaped; bytes that are no UTF-8 are written ``\xNN``. With a guess: backslashes that start no
escape are doubled. What still does not decode is lost and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
    lost_samples: list[str] = field(default_factory=list)


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
    out: list[str] = []
    while data:
        try:
            out.append(data.decode("utf-8"))
            break
        except UnicodeDecodeError as error:
            out.append(data[: error.start].decode("utf-8"))
            # written as text, so that a broken byte still keeps two names apart
            out.extend(f"\\\\x{byte:02x}" for byte in data[error.start : error.end])
            damage.bad_utf8 += 1
            data = data[error.end :]
    return "".join(out).encode()


def _escape_control(string: bytes, damage: Damage) -> bytes:
    if _CONTROL.search(string) is None:
        return string
    damage.control_bytes += 1
    return _CONTROL.sub(lambda m: b"\\u%04x" % m.group(0)[0], string)


def event_from(piece: bytes, damage: Damage) -> Event | None:
    """One event from its bytes; None when it is lost (counted by the caller)."""
    try:
        return _typed(piece)
    except msgspec.MsgspecError:
        pass
    trial = Damage()
    repaired = without_loss(piece, trial)
    event = _decode_leniently(repaired)
    if event is None:
        doubled = _STRING.sub(lambda m: _BAD_ESCAPE.sub(rb"\\\\", m.group(0)), repaired)
        event = _decode_leniently(doubled) if doubled != repaired else None
        trial.guessed += event is not None
    if event is not None:
        _merge(damage, trial)
    return event


def _typed(piece: bytes) -> Event:
    event = ONE_DECODER.decode(piece)
    return ONE_EXACT_DECODER.decode(piece) if loses_ns((event.ts, event.dur)) else event


def _decode_leniently(piece: bytes) -> Event | None:
    try:
        return _typed(piece)
    except msgspec.ValidationError:
        pass
    except msgspec.DecodeError:
        return None
    try:
        return lenient(ANY_DECODER.decode(piece))
    except (msgspec.MsgspecError, ValueError):
        return None


def _merge(damage: Damage, other: Damage) -> None:
    damage.non_finite += other.non_finite
    damage.not_available += other.not_available
    damage.control_bytes += other.control_bytes
    damage.bad_utf8 += other.bad_utf8
    damage.guessed += other.guessed


def object_end(data: bytes, start: int) -> int:
    """Index after the object that begins at ``start``; -1 when it does not close in ``data``."""
    depth = 0
    for match in _BRACES.finditer(data, start):
        token = match.group(0)
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1
