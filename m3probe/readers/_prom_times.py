"""When a metrics page was taken, and whose it is: from a line of a scrape log, or from the file's name."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import PurePath

from m3probe.model.tables import NONE

_ISO = re.compile(
    r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)[T _-]?(\d\d)[:-]?(\d\d)[:-]?(\d\d)(?:[.,](\d{1,9}))?(?:\s?(Z|UTC|[+-]\d\d:?\d\d))?(?!\d)"
)
_EPOCH = re.compile(r"(?<![\d.])(1\d{9})(?:(\d{3})(\d{3})?(\d{3})?|\.(\d{1,9}))?(?![\d.]*\d)")
"""Seconds since 1970, with 3, 6 or 9 further digits, or with a fraction: 2001 to 2033."""
_DATE = re.compile(r"(?i)^(?:date:\s*)?((?:mon|tue|wed|thu|fri|sat|sun)\b.{8,40})$")
_UNIX_DATE = re.compile(r"(\w{3}) (\w{3}) +(\d+) (\d\d:\d\d:\d\d) (\w+) (20\d\d)")
_SUFFIXES = re.compile(r"(?i)(\.(gz|prom|txt|metrics|openmetrics|log|out|om))+$")
_NUMBER = re.compile(r"(?<!\d)(\d{1,9})$")
_WORDS = dict.fromkeys(("before", "start", "begin", "first", "pre"), 0) | dict.fromkeys(
    ("after", "end", "last", "final", "post"), 1
)
_SPLIT = re.compile(r"[-_. ]+")
_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Named:
    """What a file's name says.

    Args:
        server: the name without what tells scrapes apart, with its folder.
        at_ns: wall time; -1 where it has none.
        place: order by a number or a word (before, after); -1 where it has neither.
    """

    server: str
    at_ns: int = NONE
    place: int = NONE


def named(path: PurePath) -> Named:
    """``run/metrics_20261130-095004.prom``: server ``run/metrics``, and its time."""
    stem = _SUFFIXES.sub("", path.name)
    at_ns, left = _time(stem)
    place = NONE
    if at_ns == NONE:
        number = _NUMBER.search(left)
        parts = _SPLIT.split(left)
        words = [part for part in parts if part.lower() in _WORDS]
        if number is not None:
            place, left = int(number[1]), left[: number.start()]
        elif len(words) == 1:
            place = _WORDS[words[0].lower()]
            left = " ".join(part for part in parts if part is not words[0])
    return Named(str(path.parent / "_".join(part for part in _SPLIT.split(left) if part)), at_ns, place)


def time_of(line: str) -> int:
    """Wall time in ns that a line between pages states; -1 where it is none."""
    line = line.strip().strip("#=-* \t")
    if len(line) > 80:
        return NONE
    said = _DATE.match(line)
    if said:
        return _date(said[1])
    return _time(line)[0]


def _time(text: str) -> tuple[int, str]:
    """(ns or -1, the text without the time)."""
    for pattern, make in ((_ISO, _iso), (_EPOCH, _epoch)):
        said = pattern.search(text)
        at_ns = make(said) if said else NONE
        if said and at_ns != NONE:
            return at_ns, text[: said.start()] + text[said.end() :]
    return NONE, text


def _iso(said: re.Match[str]) -> int:
    """UTC where it does not name its zone."""
    parts = [int(said[n]) for n in range(1, 7)]
    if not (1 <= parts[1] <= 12 and 1 <= parts[2] <= 31 and parts[3] < 24 and parts[4] < 60 and parts[5] < 61):
        return NONE
    zone, ahead = said[8] or "Z", 0
    if zone not in {"Z", "UTC"}:
        digits = zone[1:].replace(":", "")
        ahead = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if zone[0] == "+" else -1)
    return (calendar.timegm((*parts, 0, 0, 0)) - ahead) * _S + int((said[7] or "0").ljust(9, "0"))


def _epoch(said: re.Match[str]) -> int:
    if said[5]:
        return int(said[1]) * _S + int(said[5].ljust(9, "0"))
    return int((said[1] + "".join(said[n] or "" for n in (2, 3, 4))).ljust(19, "0"))


def _date(text: str) -> int:
    """As HTTP and ``date`` write it."""
    unix = _UNIX_DATE.search(text)
    if unix:
        text = f"{unix[1]}, {unix[3]} {unix[2]} {unix[6]} {unix[4]} {'+0000' if unix[5] == 'UTC' else unix[5]}"
    try:
        return round(parsedate_to_datetime(text).timestamp() * _S)
    except (ValueError, OverflowError, IndexError, TypeError):
        return NONE
