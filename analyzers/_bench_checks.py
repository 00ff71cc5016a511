"""Does a run agree with itself? Each contradiction as a sentence with its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from m3probe.analyzers._view import percent
from m3probe.model.bench import METRICS, BenchRun, Latency

ROUNDED = 0.01
"""How far figures of one run may be apart: consoles print two decimals."""
_SLACK_MS = 0.01


def contradictions(run: BenchRun) -> list[str]:
    """What cannot all be true of one run."""
    return [*_order(run), *_rates(run), *_totals(run), *_lists(run)]


def _order(run: BenchRun) -> Iterator[str]:
    """A percentile is at least as large as every smaller one."""
    for metric in METRICS:
        latency = run.latencies.get(metric, Latency())
        known = {50.0: latency.median_ms, **latency.percentiles}
        points = sorted((at, value) for at, value in known.items() if value is not None)
        for (low, small), (high, large) in pairwise(points):
            if large < small - _SLACK_MS:
                yield (
                    f"{metric.upper()} p{high:g} of {large:,.2f} ms is below p{low:g} of {small:,.2f} ms: percentiles "
                    "out of order"
                )


def _rates(run: BenchRun) -> Iterator[str]:
    """Rates times the duration are the counts."""
    if not run.duration_s:
        return
    tokens = (
        None
        if run.total_input_tokens is None or run.total_output_tokens is None
        else run.total_input_tokens + run.total_output_tokens
    )
    pairs = (
        ("requests", "request_throughput", run.completed),
        ("output tokens", "output_throughput", run.total_output_tokens),
        ("tokens", "total_token_throughput", tokens),
    )
    for what, name, count in pairs:
        rate = getattr(run, name)
        if rate is None or count is None or name in run.derived:
            continue
        counted = count / run.duration_s
        # two decimals of a small rate are coarse
        if abs(rate - counted) > max(ROUNDED * counted, 0.005):
            yield (f"{rate:,.2f} {what} a second is stated, {count:,} in {run.duration_s:,.2f} s are {counted:,.2f}")


def _totals(run: BenchRun) -> Iterator[str]:
    low, high = run.output_throughput, run.total_token_throughput
    if low is not None and high is not None and low > high * (1 + ROUNDED):
        yield f"output of {low:,.2f} tokens a second is above the total of {high:,.2f}"
    missing = run.requests_missing
    if missing is not None and missing < 0 and run.completed is not None:
        yield f"{run.completed + (run.failed or 0):,} requests ended, {run.num_prompts:,} were asked for"


def _lists(run: BenchRun) -> Iterator[str]:
    kept = run.requests
    if kept is None:
        return
    good = int(np.count_nonzero(kept.success))
    if run.completed is not None and good != run.completed:
        yield f"{good:,} of the {len(kept):,} requests listed succeeded, {run.completed:,} are counted as completed"
    tokens = kept.output_tokens
    if tokens is not None and run.total_output_tokens is not None:
        listed = int(tokens[kept.success].clip(min=0).sum())
        if abs(listed - run.total_output_tokens) > ROUNDED * max(run.total_output_tokens, 1):
            yield f"{listed:,} output tokens are listed, {run.total_output_tokens:,} are counted"


def little_text(waiting: float, decoding: float, expected: int, gap: float) -> str:
    """The law's arithmetic against what the client kept in flight."""
    side = "fewer" if gap < 0 else "more"
    return (
        f"{waiting:,.1f} requests waiting for their first token + {decoding:,.1f} decoding = {waiting + decoding:,.1f} in "
        f"flight, {percent(abs(gap))} {side} than the {expected:,} that the client kept"
    )
