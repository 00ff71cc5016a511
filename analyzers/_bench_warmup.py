"""Was the server warm? The requests that were sent first against the later ones of the same run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.model.bench import BenchRun

SLOWER = 2.0
"""Times the median of the later requests, from which the first ones count as slow."""
LEAST_LATER = 20
"""Later requests that a median needs."""


@dataclass(frozen=True, slots=True)
class FirstWave:
    """The requests that were sent before any ended; medians of TTFT in ms.

    ``mean_without_ms``: mean TTFT of the run without them.
    """

    count: int
    later: int
    first_ms: float
    later_ms: float
    mean_ms: float
    mean_without_ms: float

    @property
    def slow(self) -> bool:
        """Whether they waited much longer than the rest."""
        return self.first_ms > SLOWER * self.later_ms


def first_wave(run: BenchRun) -> FirstWave | None:
    """None where the run does not keep when requests were sent and how long they took, or all were sent at once."""
    kept = run.requests
    if kept is None or kept.start_ns is None or kept.ttft_ns is None or kept.e2e_ns is None:
        return None
    rows = np.flatnonzero(kept.success & (kept.start_ns >= 0) & (kept.ttft_ns >= 0) & (kept.e2e_ns >= 0))
    if not len(rows):
        return None
    start, ttft = kept.start_ns[rows], kept.ttft_ns[rows] / 1e6
    first = start < (start + kept.e2e_ns[rows]).min()
    later = ~first
    if np.count_nonzero(later) < LEAST_LATER:
        return None
    return FirstWave(
        count=int(np.count_nonzero(first)),
        later=int(np.count_nonzero(later)),
        first_ms=float(np.median(ttft[first])),
        later_ms=float(np.median(ttft[later])),
        mean_ms=float(ttft.mean()),
        mean_without_ms=float(ttft[later].mean()),
    )
