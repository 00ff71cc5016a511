"""Histograms as pages have them: counts, means, and quantiles as the bucket that holds them, never a point in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._queues_series import Metrics, Series
from m3probe.schema.exposition import number_of

_Value = Callable[[Series], float]


@dataclass(frozen=True, slots=True)
class Range:
    """Where a quantile lies: above ``low``, at most ``high``; None: open on that side."""

    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations of one metric, of one engine or several.

    Args:
        buckets: (upper bound, observations at most that) in order; empty where only count and sum are known.
        of_all: since the server's start; False: of the time that was seen.
    """

    word: str
    count: float
    sum: float
    buckets: tuple[tuple[float, float], ...] = ()
    of_all: bool = False
    series: tuple[Series, ...] = ()

    @property
    def credible(self) -> bool:
        """False where all is in the lowest bucket and sums to nothing: the time was never taken."""
        lowest = bool(self.buckets) and self.buckets[0][1] >= self.count
        return not (self.count > 0 and self.sum == 0 and lowest and self.word.endswith("_seconds"))

    @property
    def mean(self) -> float | None:
        """None without observations, or where they are not credible."""
        return self.sum / self.count if self.count > 0 and self.credible and math.isfinite(self.sum) else None

    def quantile(self, share: float) -> Range | None:
        """The bucket that holds it; None without observations or buckets."""
        total = self.buckets[-1][1] if self.buckets else 0.0
        if not total > 0:
            return None
        below: float | None = None
        for bound, count in self.buckets:
            if count >= share * total:
                return Range(below, None if math.isinf(bound) else bound)
            below = bound
        return None


def latest(metrics: Metrics, word: str) -> Histogram | None:
    """What the last page says, since the server's start; over all engines. None where it has no such histogram."""
    return _made(metrics, word, lambda series: series.last, of_all=True)


def during(metrics: Metrics, word: str) -> Histogram | None:
    """What was observed between the first page and the last; what one page alone says counts from the server's start."""
    counts = metrics.named(word, "count")
    if counts and all(len(series.values) == 1 and series.base is None for series in counts):
        return latest(metrics, word)
    return _made(metrics, word, lambda series: series.increase, of_all=False)


def _made(metrics: Metrics, word: str, value: _Value, *, of_all: bool) -> Histogram | None:
    counts, sums = metrics.named(word, "count"), metrics.named(word, "sum")
    if not counts:
        return None
    bounds: dict[float, float] = {}
    for series in metrics.named(word, "bucket"):
        bound = number_of(series.labels.get("le", ""))
        if bound is not None and not math.isnan(bound):
            bounds[bound] = bounds.get(bound, 0.0) + value(series)
    return Histogram(
        word,
        float(sum(value(series) for series in counts)),
        float(sum(value(series) for series in sums)) if sums else math.nan,
        _rising(sorted(bounds.items())),
        of_all,
        tuple(counts),
    )


def _rising(buckets: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Cumulative counts never fall; a reset between two buckets' scrapes could make them."""
    if not buckets:
        return ()
    counts = np.maximum.accumulate([count for _, count in buckets]).tolist()
    return tuple((bound, float(count)) for (bound, _), count in zip(buckets, counts, strict=True))
