"""How a queue's length moved: its range, its slope, and whether it grew, drained, or rose and fell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._queues_series import Series
from m3probe.model.tables import NONE, Array

_NOISE = 0.005
"""Requests a second below which a slope is shown as 0.00: it has no sign."""
LEAST_FOR_TREND = 5
"""Samples below which a slope says nothing."""
EMPTY, STEADY, GROWS, DRAINS, ROSE_AND_FELL = "empty", "steady", "grows", "drains", "rose_and_fell"
_MOVED = 0.5
"""Share of its highest length by which a queue must rise or fall to have done so; and at least two requests."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A length over time, of one engine or summed over several.

    Args:
        at_ns: -1 where only the order of the samples is known.
        most: the highest length, between the samples too where that was kept.
    """

    at_ns: Array
    values: Array
    most: float
    series: tuple[Series, ...]

    @property
    def timed(self) -> bool:
        """Whether a slope can be made."""
        return len(self.at_ns) > 1 and bool(self.at_ns[0] != NONE) and bool(self.at_ns[-1] > self.at_ns[0])

    @property
    def seconds(self) -> float:
        """From the first sample to the last; 0 where not known."""
        return float(self.at_ns[-1] - self.at_ns[0]) / 1e9 if self.timed else 0.0

    @property
    def mean(self) -> float:
        """Over time where times are known (a length holds until the next sample), else over samples."""
        if not self.timed:
            return float(self.values.mean())
        spans = np.diff(self.at_ns)
        return float((self.values[:-1] * spans).sum() / spans.sum())

    @property
    def change(self) -> float:
        """Last length minus first."""
        return float(self.values[-1] - self.values[0])

    @property
    def slope(self) -> float | None:
        """Requests a second by a straight line; None with too few samples, or without times."""
        if len(self.values) < LEAST_FOR_TREND or not self.timed:
            return None
        slope = float(np.polyfit((self.at_ns - self.at_ns[0]) / 1e9, self.values, 1)[0])
        return slope if abs(slope) >= _NOISE else 0.0

    @property
    def trend(self) -> str:
        """One of the words above; empty with too few samples."""
        values = self.values
        if len(values) < LEAST_FOR_TREND:
            return ""
        top = float(values.max())
        if top <= 0:
            return EMPTY
        peak = int(np.argmax(values))
        least = max(2.0, _MOVED * top)
        rose = top - float(values[: peak + 1].min()) >= least
        fell = top - float(values[peak:].min()) >= least
        if rose and fell:
            # a queue that fell once and is back at its top still grows
            return ROSE_AND_FELL if float(values[-1]) <= top - least else GROWS if self.change > 0 else STEADY
        return GROWS if rose else DRAINS if fell else STEADY

    def text(self, word: str) -> str:
        """``waiting 0 to 12 requests in 30 sample(s), rose from 0 to 12 at 9.0 s and fell to 0 by 21.0 s``."""
        values = self.values
        engines = len({(series.server, series.engine) for series in self.series})
        over = f" over {engines} engines" if engines > 1 else ""
        said = f"{word} {values.min():,.0f} to {self.most:,.0f} requests{over} in {len(values):,} sample(s)"
        slope = self.slope
        if slope is not None:
            said += f", {slope:+,.2f} a second" if slope else ", 0.00 a second"
        if self.trend == ROSE_AND_FELL:
            said += f", {self.rise_and_fall()}"
        return said

    def rise_and_fall(self) -> str:
        """From its lowest before the peak, to the peak, to its lowest after it, with times where they are known."""
        peak = int(np.argmax(self.values))
        end = peak + int(np.argmin(self.values[peak:]))
        low = float(self.values[: peak + 1].min())
        at = [f" at {(self.at_ns[i] - self.at_ns[0]) / 1e9:,.1f} s" if self.timed else "" for i in (peak, end)]
        return f"rose from {low:,.0f} to {self.values[peak]:,.0f}{at[0]} and fell to {self.values[end]:,.0f}{at[1]}"


def line(held: Sequence[Series], peaks: Sequence[Series] = ()) -> Line | None:
    """One length of several engines: their sum at every time at which any of them was sampled.

    Args:
        peaks: the highest values within the seconds, where they were kept.
    """
    known = [series for series in held if np.isfinite(series.values).any()]
    paged = bool(known) and all(len(s.places) and s.server == known[0].server for s in known)
    if paged:
        known = _together(known)
    parts = [_known(series) for series in known]
    if not parts:
        return None
    if paged:
        at_ns, values = _on_pages(known)
    elif all(np.array_equal(at, parts[0][0]) for at, _ in parts[1:]):
        at_ns, values = parts[0][0], np.sum([values for _, values in parts], axis=0)
    else:
        begin = max(int(at[0]) for at, _ in parts)  # before that one of them is not known
        at_ns = np.unique(np.concatenate([at[at >= begin] for at, _ in parts]))
        values = np.sum([_held(at, values, at_ns) for at, values in parts], axis=0)
    # peaks of several engines need not have been at one time: only one engine's can be told
    kept = [_known(series)[1] for series in peaks if np.isfinite(series.values).any()] if len(known) == 1 else []
    most = max((float(values.max()) for values in kept), default=0.0)
    return Line(at_ns, values, max(most, float(values.max())), tuple(known))


def _together(known: list[Series]) -> list[Series]:
    """Those that one page at least has together; where there is none, those of the newest page."""
    if len(_common(known)):
        return known
    newest = max(int(series.places[-1]) for series in known)
    return [series for series in known if series.places[-1] == newest]


def _common(known: Sequence[Series]) -> Array:
    """Places of the pages that have all of them: where one is absent, the sum is not known."""
    found = known[0].places
    for series in known[1:]:
        found = np.intersect1d(found, series.places)
    return found


def _on_pages(known: Sequence[Series]) -> tuple[Array, Array]:
    places = _common(known)
    values = [series.values[np.searchsorted(series.places, places)] for series in known]
    return known[0].at_ns[np.searchsorted(known[0].places, places)], np.sum(values, axis=0)


def _known(series: Series) -> tuple[Array, Array]:
    """(times, values) without those that are no number: NaN is no length of 0."""
    finite = np.isfinite(series.values)
    return series.at_ns[finite], series.values[finite]


def _held(own_ns: Array, values: Array, at_ns: Array) -> Array:
    """Values at other times, none of them before the first: each holds until the next."""
    held: Array = values[np.searchsorted(own_ns, at_ns, side="right") - 1]
    return held
