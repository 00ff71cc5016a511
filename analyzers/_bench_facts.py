"""What benchmark results hold, as ``inspect`` prints it (docs/inspect.md)."""

from __future__ import annotations

from typing import Any

from m3probe.model.bench import METRICS, BenchRun, Latency, little
from m3probe.model.recording import Recording
from m3probe.model.tables import Array

Facts = dict[str, Any]
_GIVEN = (
    "output_throughput", "total_token_throughput", "request_throughput", "max_concurrency", "num_gpus", "prefill_gpus",
    "decode_gpus", "prefix_cache_hit_rate", "theoretical_prefix_hit_rate", "kv_cache_usage", "kv_capacity_tokens",
)  # fmt: skip
"""Printed where they are known."""


def bench_facts(rec: Recording) -> Facts:
    """Facts of all runs: those of the only one, or of each under ``by_run``; {} where there is none."""
    runs = rec.meta.bench
    if not runs:
        return {}
    many = len({run.path for run in runs}) > 1
    each = [run_facts(run) | ({"file": run.path} if many else {}) for run in runs]
    return {"runs": 1} | each[0] if len(each) == 1 else {"runs": len(each), "by_run": each}


def run_facts(run: BenchRun) -> Facts:
    """Facts of one run; None is not known, never 0."""
    facts: Facts = {"completed": run.completed, "failed": run.failed, "comparable": run.comparable}
    facts |= {key: value for key in _GIVEN if (value := getattr(run, key)) is not None}
    facts |= {"derived": list(run.derived)} if run.derived else {}
    if run.requests_missing is not None:
        facts["requests_missing"] = run.requests_missing
    if run.failed and run.failure_share is not None:
        facts["failure_pct"] = 100 * run.failure_share
    facts |= {"errors": dict(run.errors)} if run.errors else {}
    if run.request_rate is not None:
        facts["request_rate"] = "inf" if run.request_rate == float("inf") else run.request_rate
    facts |= {"goodput": run.goodput, **_latencies(run), **_requests(run), **_states(run)}
    if run.mean_output_tokens is not None:
        facts["output_tokens_per_request"] = run.mean_output_tokens
    return facts


def _latencies(run: BenchRun) -> Facts:
    """Of a metric that is not known its mean says so."""
    facts: Facts = {}
    for metric in METRICS:
        latency = run.latencies.get(metric, Latency())
        facts[f"mean_{metric}_ns"] = _ns(latency.mean_ms)
        if latency.median_ms is not None:
            facts[f"median_{metric}_ns"] = _ns(latency.median_ms)
        facts |= {f"p{percentile:g}_{metric}_ns": _ns(value) for percentile, value in latency.percentiles.items()}
    return facts


def _requests(run: BenchRun) -> Facts:
    kept = run.requests
    if kept is None:
        return {}
    facts: Facts = {"requests": len(kept)}
    if kept.ttft_ns is not None:
        facts["mean_ttft_ns_successes"] = _mean(kept.ttft_ns)
    if kept.itl_sum_ns is not None and kept.itl_count is not None:
        good = kept.itl_sum_ns >= 0
        tokens = int(kept.itl_count[good].sum())
        facts["mean_itl_ns_successes"] = round(int(kept.itl_sum_ns[good].sum()) / tokens) if tokens else None
    return facts | {f"file_{name.removesuffix('_ms')}_ns": _ns(value) for name, value in run.stated.items()}


def _states(run: BenchRun) -> Facts:
    """Requests by what they wait for (Little's law)."""
    law = little(run)
    found = {"waiting_for_first_token": law.waiting, "decoding": law.decoding, "in_flight": law.in_flight}
    return {key: value for key, value in found.items() if value is not None}


def _ns(value_ms: float | None) -> int | None:
    return None if value_ms is None else round(value_ms * 1e6)


def _mean(times: Array) -> int | None:
    known = times[times >= 0]
    return round(float(known.mean())) if len(known) else None
