"""Local times without a zone, put where they meet what is on the wall already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

HOUR_NS = 3_600 * 10**9
DAY_NS = 24 * HOUR_NS
QUARTERS = range(-12 * 4, 14 * 4 + 1)
"""Quarter hours of all time zones there are: UTC-12 to UTC+14."""
SLACK_NS = 60 * 10**9
"""Stretches that lie so near each other meet: a log is silent while nothing happens, whole seconds are written, and time
zones are at least a quarter of an hour apart."""
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Local:
    """A stretch of local time in ns, as if it were UTC; without ``dated`` its year is a stand-in (1972)."""

    first_ns: int
    last_ns: int
    dated: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """Where it lies on the wall, and why there."""

    span: Span
    how: str


def placed(local: Local, anchors: Sequence[Span]) -> Placed | None:
    """The zone in which it meets an anchor; UTC where several would do and UTC is one of them, or nothing is aligned.

    None where it meets no anchor in any zone, where several zones would do and UTC is not among them, or where neither it
    nor anything else tells the year.
    """
    if not anchors:
        return (
            Placed((local.first_ns, local.last_ns), "taken as UTC: no input beside it says the wall time")
            if local.dated
            else None
        )
    spans = [(local.first_ns, local.last_ns)] if local.dated else _years(local, anchors)
    fits = [
        (quarter, _shifted(span, quarter))
        for span in spans
        for quarter in QUARTERS
        if _meets(_shifted(span, quarter), anchors)
    ]
    whole = [fit for fit in fits if fit[0] % 4 == 0] or fits
    utc = next((span for quarter, span in whole if quarter == 0), None)
    if len(whole) == 1:
        return Placed(whole[0][1], f"{_zone(whole[0][0])} is the only zone in which it meets the others")
    if utc is not None:
        return Placed(utc, f"taken as UTC, one of {len(whole)} zones in which it meets the others")
    return None


def words(local: Local, anchors: Sequence[Span]) -> str:
    """Why ``placed`` has no answer."""
    if not anchors:
        return "no input beside it tells the year"
    spans = [(local.first_ns, local.last_ns)] if local.dated else _years(local, anchors)
    fits = sorted({q for span in spans for q in QUARTERS if q % 4 == 0 and _meets(_shifted(span, q), anchors)})
    if fits:
        return (
            f"it meets the others in {len(fits)} zones, {_zone(fits[0])} to {_zone(fits[-1])}, and UTC is none of them"
        )
    return "in no time zone does it meet another input"


def apart(local: Local, anchors: Sequence[Span]) -> bool:
    """Whether it meets no anchor in any zone."""
    spans = [(local.first_ns, local.last_ns)] if local.dated else _years(local, anchors)
    return bool(anchors) and not any(_meets(_shifted(span, q), anchors) for span in spans for q in QUARTERS)


def _years(local: Local, anchors: Iterable[Span]) -> list[Span]:
    """The stretch in every year that an anchor touches, and the one before (a log may have begun there)."""
    years = {datetime.fromtimestamp(at / 1e9, UTC).year for anchor in anchors for at in anchor}
    made = []
    first = datetime.fromtimestamp(local.first_ns // 10**9, UTC)
    for year in sorted(years | {year - 1 for year in years}):
        try:
            start = int(first.replace(year=year).timestamp()) * 10**9
        except ValueError:
            continue  # 29 February in a year without one
        made.append((start, start + local.last_ns - local.first_ns))
    return made


def _shifted(span: Span, quarter: int) -> Span:
    """Wall time of a local stretch in the zone so many quarter hours ahead of UTC."""
    return span[0] - quarter * HOUR_NS // 4, span[1] - quarter * HOUR_NS // 4


def _meets(span: Span, anchors: Iterable[Span]) -> bool:
    return any(span[0] - SLACK_NS <= last and first <= span[1] + SLACK_NS for first, last in anchors)


def _zone(quarter: int) -> str:
    hours, rest = divmod(abs(quarter), 4)
    sign = "-" if quarter < 0 else "+"
    return f"UTC{sign}{hours}{f':{rest * 15:02}' if rest else ''}" if quarter else "UTC"
