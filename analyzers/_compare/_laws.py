"""Fits by least squares, and lines in log-log: what scaling and crossings are worked out with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from m3probe.model.compare_bench import Crossover

TIE = 0.01
"""Share within which two times are one: nothing crosses between places that differ less."""


def constant(values: Sequence[float]) -> tuple[float, float]:
    """(the constant that fits best, root mean square residual)."""
    mean = sum(values) / len(values)
    return mean, rms([value - mean for value in values])


def proportional(xs: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """(k of value = k * x that fits best, root mean square residual)."""
    k = sum(x * value for x, value in zip(xs, values, strict=True)) / sum(x * x for x in xs)
    return k, rms([value - k * x for x, value in zip(xs, values, strict=True)])


def rms(values: Sequence[float]) -> float:
    """Root of the mean square."""
    return math.sqrt(sum(value * value for value in values) / len(values))


def crossovers(points: Sequence[tuple[float, float]], *, tie: float = TIE) -> Iterator[Crossover]:
    """Where the sign of log(ratio) changes.

    Args:
        points: (x, b over a as times: below 1 B is the faster) in ascending x; x and ratio above 0.
        tie: a ratio this near 1 is on no side.
    """
    sided = [(x, ratio) for x, ratio in points if abs(ratio - 1) > tie]
    for (low, before), (high, after) in pairwise(sided):
        if (before > 1) == (after > 1):
            continue
        y0, y1 = math.log(before), math.log(after)
        at = math.exp(math.log(low) + (math.log(high) - math.log(low)) * y0 / (y0 - y1))
        yield Crossover(low, high, at, b_faster_above=after < 1)
