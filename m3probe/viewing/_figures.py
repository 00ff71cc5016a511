"""Figures of one metric out of rows of history: levels, rates, shares of two counters, quantiles as the bucket that holds them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from m3probe.model.tables import Array
from m3probe.schema.exposition import number_of
from m3probe.viewing._columns import Columns
from m3probe.viewing.history import Held

POINTS = 60
"""Values of a spark line: more than any terminal's tile has places."""
GAP_S = 5.0
"""Two rows farther apart than this, and than three usual distances, have a gap between them."""
Recent = tuple[tuple[float, float | None], ...]
Range = tuple[float | None, float | None]


class Buckets(NamedTuple):
    """A histogram's columns in the order of their bounds."""

    columns: Array
    bounds: Array


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """What figures are made of.

    Args:
        now_s: the time from which ages count.
        inside: rows of the window that go on from each other up to the last one.
        drawn: rows of the spark lines, thinned, whatever lies between them.
    """

    columns: Columns
    now_s: float
    inside: Held
    drawn: Held

    def at(self, word: str, label: str = "") -> int | None:
        """The column of a figure that the last page has."""
        return self.columns.index.get((word, label)) if (word, label) in self.columns.present else None

    def last(self, column: int) -> float | None:
        """The newest value; None where the page says NaN or infinite."""
        value = float(self.inside.values[-1, column]) if len(self.inside) else math.nan
        return value if math.isfinite(value) else None

    def increase(self, column: int) -> float | None:
        """How much a counter grew within the window; None with less than two rows, or where a value is not known."""
        if len(self.inside) < 2:
            return None
        grown = float(self.inside.values[-1, column] - self.inside.values[0, column])
        return grown if math.isfinite(grown) and grown >= 0 else None

    @property
    def seconds(self) -> float:
        """From the first row of the window to its last."""
        return float(self.inside.at_s[-1] - self.inside.at_s[0]) if len(self.inside) > 1 else 0.0

    def buckets(self, word: str) -> Buckets | None:
        """A histogram's columns; None where the last page has none."""
        found = []
        for label, column in self.columns.of(word).items():
            bound = number_of(label)
            if bound is not None and (word, label) in self.columns.present:
                found.append((bound, column))
        found.sort()
        if not found:
            return None
        return Buckets(np.array([column for _, column in found]), np.array([bound for bound, _ in found]))

    def quantile(self, held: Buckets, share: float) -> tuple[Range | None, float]:
        """(The bucket that holds it among what was observed within the window, observations)."""
        if len(self.inside) < 2:
            return None, 0.0
        grown = self.inside.values[-1, held.columns] - self.inside.values[0, held.columns]
        if not np.isfinite(grown).all() or not grown[-1] > 0:
            return None, 0.0
        place = int(np.argmax(np.maximum.accumulate(grown) >= share * grown[-1]))
        high = float(held.bounds[place])
        low = float(held.bounds[place - 1]) if place else 0.0
        return (low, None if math.isinf(high) else high), float(grown[-1])

    # --- spark lines ---

    def levels(self, column: int, scale: float) -> Recent:
        """Values of a gauge."""
        return self._gapped(self.drawn.values[:, column] * scale, self.drawn.at_s)

    def rates(self, column: int, scale: float) -> Recent:
        """Increase a second between two rows."""
        grown, seconds = np.diff(self.drawn.values[:, column]), np.diff(self.drawn.at_s)
        return self._between(np.where(grown >= 0, grown, np.nan) * scale / seconds)

    def shares(self, part: int, whole: int, scale: float) -> Recent:
        """Increase of one counter over that of another."""
        above, below = (np.diff(self.drawn.values[:, column]) for column in (part, whole))
        known = (above >= 0) & (below > 0)
        return self._between(np.where(known, above, np.nan) / np.where(known, below, 1.0) * scale)

    def quantiles(self, held: Buckets, share: float, scale: float) -> Recent:
        """Upper ends of the buckets: a point within a bucket would draw jitter that nobody measured."""
        if len(self.drawn) < 2:
            return ()
        grown = np.diff(self.drawn.values[:, held.columns], axis=0)
        place = np.argmax(np.maximum.accumulate(grown, axis=1) >= share * grown[:, -1:], axis=1)
        ends = held.bounds[place] * scale
        return self._between(np.where((grown[:, -1] > 0) & np.isfinite(ends), ends, np.nan))

    def _between(self, values: Array) -> Recent:
        """Values of the times between two rows: none across a restart."""
        if not len(values):
            return ()
        same = np.diff(self.drawn.epoch) == 0
        return self._gapped(np.where(same, values, np.nan), self.drawn.at_s[1:])

    def _gapped(self, values: Array, at_s: Array) -> Recent:
        apart = np.diff(at_s)
        usual = max(GAP_S, 3 * float(np.median(apart))) if len(apart) else GAP_S
        found: list[tuple[float, float | None]] = []
        before = None
        for at, value in zip(at_s.tolist(), values.tolist(), strict=True):
            if before is not None and at - before > usual:
                found.append((self.now_s - (before + at) / 2, None))
            found.append((self.now_s - at, value if math.isfinite(value) else None))
            before = at
        return tuple(found)


def thinned(held: Held) -> Held:
    """As many rows as a spark line has points, evenly over their time, the newest among them."""
    if len(held) <= POINTS + 1:
        return held
    wanted = np.linspace(held.at_s[0], held.at_s[-1], POINTS + 1)
    return held.picked(np.unique(np.searchsorted(held.at_s, wanted - 1e-6)))
