"""Words and cells that several pages share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from m3probe.model.findings import Bound, Finding
from m3probe.model.report import BottleneckSection, RankedRow, Report
from m3probe.model.view import View
from m3probe.present._numbers import UNKNOWN, fixed, percent
from m3probe.present._paths import LOOKS
from m3probe.present.sheets.sheet import Cell, Line
from m3probe.schema.verdicts import FAMILIES

SECONDS_A_MINUTE, SECONDS_AN_HOUR = 60.0, 3600.0
_LONG_MS = ((120_000.0, 60_000.0, "min"), (10_000.0, 1_000.0, "s"))
"""From how many ms on a figure is told in what: 514,000 ms is 8.6 min."""


class Lazy(Sequence[Line]):
    """Lines that are made when they are looked at: ``make(i)`` for i below ``count``."""

    __slots__ = ("_count", "_make")

    def __init__(self, count: int, make: Callable[[int], Line]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._make(index % self._count)

    def __iter__(self) -> Iterator[Line]:
        return (self._make(i) for i in range(self._count))


def number(value: float | None, decimals: int = 0) -> Cell:
    """A figure; a dash that sorts last where it is not known."""
    return Cell(fixed(value, decimals), value)


def whole(value: int | None) -> Cell:
    """A count."""
    return number(value)


def in_ms(ns: float | None, decimals: int = 2) -> Cell:
    """Nanoseconds under a heading in ms."""
    return number(None if ns is None else ns / 1e6, decimals)


def in_us(ns: float | None, decimals: int = 1) -> Cell:
    """Nanoseconds under a heading in µs."""
    return number(None if ns is None else ns / 1e3, decimals)


def at_most(bound: Bound | None) -> Cell:
    """What is at most to be won, in per cent."""
    return Cell(UNKNOWN) if bound is None else Cell(percent(bound.high), bound.high)


def verdict(word: str) -> Cell:
    """A verdict as words; those of paths carry their mark."""
    return Cell(word.replace("_", " "), word, mark(word))


def mark(word: str) -> str:
    """The word itself where it has a glyph, else none."""
    return str(word) if word in LOOKS else ""


def without(shown: int, every: int) -> str:
    """How many lines a filter hides; the table itself counts what it shows."""
    return "" if shown == every else f"; {every:,} without the filter"


def text(said: str) -> Cell:
    """Words that are sorted as they are; a dash that sorts last for none."""
    return Cell(said or UNKNOWN, said or None)


def words(text: str) -> str:
    """An identifier as words."""
    return text.replace("_", " ")


def age(at_s: float, then_s: float | None) -> str:
    """How long ago, in the unit that reads best; a dash where it never was."""
    if then_s is None:
        return UNKNOWN
    return f"{lasting(max(at_s - then_s, 0.0))} ago"


def lasting(seconds: float) -> str:
    """``4 s``, ``8.6 min``, ``2.5 h``."""
    if seconds < SECONDS_A_MINUTE:
        return f"{seconds:.0f} s"
    if seconds < SECONDS_AN_HOUR:
        return f"{_tenths(seconds / SECONDS_A_MINUTE)} min"
    return f"{_tenths(seconds / SECONDS_AN_HOUR)} h"


def scaled(value: float, unit: str) -> tuple[float, str]:
    """A figure in the unit that reads best."""
    for least, size, name in _LONG_MS if unit == "ms" else ():
        if value >= least:
            return value / size, name
    return value, unit


def _tenths(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def lacks(view: View) -> str:
    """Why there is no report, in one sentence."""
    return view.detail or f"Nothing was read yet: the view is {view.word.value}."


def named(report: Report | None, finding: str) -> Finding:
    """The finding of an id.

    Raises:
        KeyError: it is not in the report any more.
    """
    found = next((each for each in report.answer.findings if each.id == finding), None) if report else None
    if found is None:
        raise KeyError(f"finding {finding} is not in this report (any more)")
    return found


def ranking(report: Report | None) -> tuple[RankedRow, ...]:
    """All that is ranked; () where nothing is."""
    section = report.answer.section(BottleneckSection) if report else None
    return section.ranking if section else ()


def short(finding: str) -> str:
    """A finding's id as words, without its question: that stands in a column of its own."""
    _, _, rest = finding.partition(".")
    # families are fixed words: moe_gemm is moe_gemm on every page
    return " ".join(part if part in FAMILIES else words(part) for part in rest.split(".")) or words(finding) or UNKNOWN
