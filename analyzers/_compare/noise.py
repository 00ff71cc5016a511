"""How far equal runs lie apart: standard errors of means, from repeats or from one run's own requests.

Repeats are the measure. One run tells less: its own requests say how well its mean is known, and nothing of what
changes when a server is started again. Requests that are in flight together
share their steps; where their order is kept the error is taken from batches of consecutive ones too, and the larger of
both holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from m3probe.model.bench import E2EL, ITL, TPOT, TTFT, BenchRequests, BenchRun
from m3probe.model.compare_bench import Sample
from m3probe.model.tables import Array

NO_EFFECT = 0.001
"""Share of a figure below which a difference is no effect, however small the noise is: 708.0 and 707.7 are one figure."""
LEAST_REQUESTS = 10
"""Requests of one run from which on their spread says something."""
_BATCHES, _LEAST_BATCHED = 10, 50
_MEAN = "mean"
# Two-sided 95 % points of Student's t by degrees of freedom: two standard errors of 2 runs against 2 are far too few.
_STUDENT = (
    (1, 12.706),
    (2, 4.303),
    (3, 3.182),
    (4, 2.776),
    (5, 2.571),
    (6, 2.447),
    (7, 2.365),
    (8, 2.306),
    (10, 2.228),
)
_STUDENT_MORE = ((15, 2.131), (20, 2.086), (30, 2.042))
_TWO = 2.0


def of_repeats(values: Sequence[float]) -> Sample:
    """Mean and standard error of the mean of two or more runs."""
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return Sample(mean, len(values), spread / math.sqrt(len(values)), len(values) - 1.0, f"{len(values)} runs")


def of_one(run: BenchRun, metric: str, of: str, value: float) -> Sample:
    """One run's value with the error that its own requests give it; without one where they tell nothing."""
    if metric in (TTFT, TPOT, ITL, E2EL):
        found = _latency_error(run, metric) if of == _MEAN else None
    else:
        found = _rate_error(run, metric)
    if found is None:
        return Sample(value)
    relative, freedom, words = found
    return Sample(value, 1, relative * value, freedom, f"{words} of one run")


def ratio_error(a: Sample, b: Sample) -> float | None:
    """Standard error of b over a: relative errors add in squares."""
    if a.error is None or b.error is None or not a.value or not b.value:
        return None
    return b.value / a.value * math.hypot(a.error / a.value, b.error / b.value)


def band(a: Sample, b: Sample) -> float | None:
    """How far the ratio must be from 1 to count: two of its standard errors, more where few runs made them."""
    error = ratio_error(a, b)
    return None if error is None else max(factor(_freedom(a, b)) * error, NO_EFFECT)


def factor(freedom: float) -> float:
    """Standard errors that 95 % of equal pairs stay within: 2, and Student's t where its freedom is small."""
    known = [t for at, t in (*_STUDENT, *_STUDENT_MORE) if at <= freedom]
    if not known:
        return math.inf
    return known[-1] if freedom < 60 else _TWO


def _freedom(a: Sample, b: Sample) -> float:
    """Welch's degrees of freedom of the two relative errors."""
    parts = [((s.error or 0.0) / s.value) ** 2 for s in (a, b)]
    below = sum(part**2 / (s.freedom or 1.0) for part, s in zip(parts, (a, b), strict=True))
    return sum(parts) ** 2 / below if below else math.inf


def _latency_error(run: BenchRun, metric: str) -> tuple[float, float, str] | None:
    """(relative error of the mean, degrees of freedom, of what)."""
    found = _request_values(run.requests, metric) if run.requests is not None else None
    if found is not None and len(found[0]) >= LEAST_REQUESTS:
        return _of_values(*found)
    latency, count = run.latencies[metric], run.completed or 0
    # tokens of one step share its time: the spread over tokens says nothing of the mean's error
    if metric == ITL or latency.std_ms is None or not latency.mean_ms or count < LEAST_REQUESTS:
        return None
    return latency.std_ms / latency.mean_ms / math.sqrt(count), count - 1.0, f"spread over {count:,} requests"


def _request_values(kept: BenchRequests, metric: str) -> tuple[Array, Array | None] | None:
    """(value of each successful request that has one, when each was sent); a ratio of sums as its linear residuals."""
    ttft, e2e, tokens = kept.ttft_ns, kept.e2e_ns, kept.output_tokens
    if metric in (TTFT, E2EL):
        times = ttft if metric == TTFT else e2e
        if times is None:
            return None
        rows = np.flatnonzero(kept.success & (times >= 0))
        values = times[rows] / 1.0
    elif metric == TPOT:
        if ttft is None or e2e is None or tokens is None:
            return None
        rows = np.flatnonzero(kept.success & (ttft >= 0) & (e2e >= ttft) & (tokens > 1))
        values = (e2e[rows] - ttft[rows]) / (tokens[rows] - 1)
    else:
        if kept.itl_sum_ns is None or kept.itl_count is None:
            return None
        rows = np.flatnonzero(kept.success & (kept.itl_sum_ns >= 0) & (kept.itl_count > 0))
        sums, counts = kept.itl_sum_ns[rows], kept.itl_count[rows]
        mean = sums.sum() / max(int(counts.sum()), 1)
        values = mean + (sums - mean * counts) / counts.mean() if len(rows) else sums / 1.0
    return values, None if kept.start_ns is None else kept.start_ns[rows]


def _of_values(values: Array, start: Array | None) -> tuple[float, float, str] | None:
    count, mean = len(values), float(values.mean())
    if mean <= 0:
        return None
    error, freedom, words = float(values.std(ddof=1)) / math.sqrt(count), count - 1.0, f"{count:,} requests"
    if start is not None and (start >= 0).all() and count >= _LEAST_BATCHED:
        batches = np.array_split(values[np.argsort(start, kind="stable")], _BATCHES)
        means = np.array([part.mean() for part in batches])
        batched = float(means.std(ddof=1)) / math.sqrt(_BATCHES)
        if batched > error:
            error, freedom, words = batched, _BATCHES - 1.0, f"{_BATCHES} batches of {count:,} requests"
    return error / mean, freedom, words


def _rate_error(run: BenchRun, metric: str) -> tuple[float, float, str] | None:
    """Of a throughput: what was done in each of ten equal spans of the run, without its beginning and its end."""
    kept = run.requests
    if kept is None or kept.start_ns is None or kept.e2e_ns is None:
        return None
    done = np.flatnonzero(kept.success & (kept.start_ns >= 0) & (kept.e2e_ns > 0))
    if len(done) < _LEAST_BATCHED:
        return None
    start, end = kept.start_ns[done], kept.start_ns[done] + kept.e2e_ns[done]
    edges = np.linspace(start.min(), end.max(), _BATCHES + 3)[1:-1]
    amounts = _done_by(kept, done, metric, edges)
    if amounts is None:
        return None
    spans = np.diff(amounts)
    mean = float(spans.mean())
    if mean <= 0:
        return None
    error = float(spans.std(ddof=1)) / math.sqrt(_BATCHES) / mean
    return error, _BATCHES - 1.0, f"{_BATCHES} spans"


def _done_by(kept: BenchRequests, done: Array, metric: str, edges: Array) -> Array | None:
    """What was finished by each of ``edges`` (ns): requests, or tokens evenly from the first one to the end."""
    if kept.start_ns is None or kept.e2e_ns is None:
        return None
    end = kept.start_ns[done] + kept.e2e_ns[done]
    if metric == "requests":
        return np.searchsorted(np.sort(end), edges, side="right").astype(np.float64)
    if kept.ttft_ns is None or kept.output_tokens is None or metric not in _TOKENS:
        return None
    first, tokens = kept.start_ns[done] + np.maximum(kept.ttft_ns[done], 0), np.maximum(kept.output_tokens[done], 0)
    shares = np.clip((edges[:, None] - first) / np.maximum(end - first, 1), 0.0, 1.0)
    found: Array = shares @ tokens
    if not metric.startswith("total"):
        return found
    if kept.input_tokens is None:
        return None
    prompts: Array = (edges[:, None] >= first) @ np.maximum(kept.input_tokens[done], 0)
    return found + prompts


_TOKENS = frozenset({"output", "output_per_gpu", "total", "total_per_gpu"})
