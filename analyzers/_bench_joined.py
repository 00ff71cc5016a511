"""Which benchmark runs may be used beside other inputs, and which agree with themselves well enough to be used at all."""

from __future__ import annotations

import numpy as np

from m3probe.analyzers._bench_checks import contradictions
from m3probe.analyzers._ledger_sums import once
from m3probe.model.bench import LITTLE_TOLERANCE, BenchRun, little
from m3probe.model.clock import FileClock, clocks, meet
from m3probe.model.recording import Recording


@once
def apart(rec: Recording) -> frozenset[int]:
    """Files of runs that were not made while the others were, or not while the metrics were taken; unknown times are neither."""
    found = clocks(rec)
    runs = {run.file for run in rec.meta.bench}
    scraped = set(np.unique(rec.tables["scrapes"]["file"]).tolist())
    others = [c for c in found if c.file not in runs and c.span is not None and not c.by_mtime]
    pages = [c for c in others if c.file in scraped]
    return frozenset(c.file for c in found if c.file in runs and _alone(c, pages or others))


def _alone(clock: FileClock, others: list[FileClock]) -> bool:
    if clock.never_meets:
        return True
    return clock.span is not None and bool(others) and not any(meet(clock, other) for other in others)


def believed(run: BenchRun) -> bool:
    """Whether its figures can be true together: more requests in flight than the client kept cannot have been."""
    gap = little(run).gap
    return not contradictions(run) and (gap is None or gap <= LITTLE_TOLERANCE)
