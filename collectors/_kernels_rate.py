"""How fast steps follow each other, before a profiler window and after it."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from statistics import median

FEWEST = 8
MOST = 64
LOST = 0.95
"""Below this share of the rate before, the window has left something behind."""


class Rate:
    """Starts of the last steps. Written by the worker's thread, read by the writer's."""

    def __init__(self) -> None:
        self._starts: deque[int] = deque(maxlen=MOST + 1)

    def step(self, mono_ns: int) -> None:
        """A step begins."""
        self._starts.append(mono_ns)

    def restart(self) -> None:
        """Forget what was before: the window lies between."""
        self._starts.clear()

    @property
    def full(self) -> bool:
        """As many steps as are looked at have come."""
        return len(self._starts) > MOST

    def steps_per_s(self) -> float | None:
        """Of steps that follow each other: one over the median gap, so that waits for requests count little.

        None with fewer than ``FEWEST`` gaps.
        """
        starts = list(self._starts)
        gaps = [after - before for before, after in pairwise(starts)]
        return 1e9 / max(median(gaps), 1) if len(gaps) >= FEWEST else None


def compared(before: float | None, after: float | None) -> str:
    """What the two rates say, in words."""
    if before is None or after is None:
        return f"too few steps {'before' if before is None else 'after'} the window to compare the step rate"
    change = 100 * (after / before - 1)
    word = "has returned" if after >= LOST * before else "has NOT returned, unless the load changed"
    return f"the step rate {word}: {before:,.1f} steps/s before, {after:,.1f} after ({change:+.1f} %)"
