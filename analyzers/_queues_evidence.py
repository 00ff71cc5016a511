"""Evidence of the queues: rows of series, of runs and of requests, newest or most telling first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from m3probe.analyzers._queues_series import Series
from m3probe.analyzers._queues_servers import Took
from m3probe.analyzers._queues_shape import Line
from m3probe.model.findings import Evidence, evidence

RUNS = "bench.runs"
"""The rows of benchmark runs in the report."""


def of_line(part: Line, observed: str, expected: str = "") -> Evidence:
    """The highest sample of a length, then the last one."""
    series = part.series[0]
    return of_series(series, observed, expected)


def of_series(series: Series, observed: str, expected: str = "") -> Evidence:
    """The row of its highest value, of its first and of its last."""
    finite = np.nan_to_num(series.values, nan=-np.inf)
    rows = dict.fromkeys([int(series.rows[int(np.argmax(finite))]), int(series.rows[0]), int(series.rows[-1])])
    return evidence(series.table, list(rows), observed, expected, count=len(series.rows))


def of_counters(held: Sequence[Series], observed: str, expected: str = "") -> Evidence:
    """The last value of each of several series of one table."""
    rows = [int(series.rows[-1]) for series in held]
    return evidence(held[0].table, rows, observed, expected, count=len(rows))


def of_run(place: int, observed: str, expected: str = "") -> Evidence:
    """One benchmark run."""
    return Evidence(RUNS, (place,), 1, observed, expected)


def of_took(took: Took, what: str) -> Evidence:
    """A mean over requests."""
    since = " since the server's start" if took.since_start else ""
    return Evidence(
        took.table, took.rows, int(took.count), f"{what}: {took.mean_s * 1e3:,.1f} ms over {took.count:,.0f}{since}"
    )
