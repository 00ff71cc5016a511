"""Latencies of a result: its own figures, held against its own requests."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from m3probe.model.bench import E2EL, ITL, METRICS, TPOT, TTFT, BenchRequests, Latency
from m3probe.model.tables import Array
from m3probe.readers._bench_documents import Result
from m3probe.readers._bench_requests import Kept

KEY = re.compile(r"(mean|median|std|p\d{1,2}(?:\.\d{1,4})?|p100)_(ttft|tpot|itl|e2el|e2e_latency)(_ms)?")
_NAMES = {"e2e_latency": E2EL}
"""SGLang's word."""
_DIFFERS = 1e-3
"""Share by which a file's mean may differ from that of its own requests: consoles and reprints are rounded."""
Stats = dict[str, float]
"""``mean``, ``median``, ``std`` or a percentile (``p99``) -> ms."""


def said(result: Result) -> dict[str, Latency]:
    """Latencies as the result gives them, in ms. Without ``_ms`` in their names they are seconds (InferenceX)."""
    found: dict[str, Stats] = {}
    for key in result.values:
        match = KEY.fullmatch(key)
        value = result.number(key) if match else None
        if match and value is not None and value >= 0:
            stats = found.setdefault(_NAMES.get(match[2], match[2]), {})
            # should both be there, milliseconds are what the run measured
            if match[3] or match[1] not in stats:
                stats[match[1]] = value if match[3] else value * 1e3
    return measured(found)


def measured(found: Mapping[str, Stats]) -> dict[str, Latency]:
    """Without what was not measured: clients begin with 0.0, and no latency is 0."""
    kept = {metric: {stat: ms for stat, ms in stats.items() if ms or stat == "std"} for metric, stats in found.items()}
    return {metric: _latency(kept[metric]) for metric in METRICS if set(kept.get(metric, {})) - {"std"}}


def _latency(stats: Stats) -> Latency:
    percentiles = {float(stat[1:]): ms for stat, ms in stats.items() if stat.startswith("p")}
    median = stats.get("median")
    return Latency(
        mean_ms=stats.get("mean"),
        median_ms=percentiles.pop(50.0, None) if median is None else median,
        std_ms=stats.get("std"),
        percentiles=dict(sorted(percentiles.items())),
    )


def by_requests(latencies: Mapping[str, Latency], kept: Kept) -> tuple[dict[str, Latency], dict[str, float]]:
    """Latencies with the requests' own in place of those that differ from them, and what the file said instead.

    A mean over failed requests, whose times are 0.0, is none.
    """
    found = dict(latencies)
    stated: Stats = {}
    for metric, values in columns_ms(kept).items():
        own, theirs = float(values.mean()), latencies.get(metric, Latency()).mean_ms
        if theirs is not None and abs(own - theirs) <= _DIFFERS * own:
            continue
        stated |= {} if theirs is None else {f"mean_{metric}_ms": theirs}
        asked = {99.0, *latencies.get(metric, Latency()).percentiles}
        found[metric] = Latency(
            mean_ms=own,
            median_ms=float(np.median(values)),
            std_ms=float(values.std()),
            percentiles={p: float(np.percentile(values, p)) for p in sorted(asked)},
        )
    return {metric: found[metric] for metric in METRICS if metric in found}, stated


def columns_ms(kept: Kept) -> dict[str, Array]:
    """Each metric over the successful requests, in ms; ITL over all their tokens."""
    requests = kept.requests
    if requests is None:
        return {}
    found = {TTFT: _ms(requests.ttft_ns), TPOT: _tpot(requests), ITL: kept.itls_ms, E2EL: _ms(requests.e2e_ns)}
    return {metric: values for metric, values in found.items() if values is not None and len(values)}


def _ms(times: Array | None) -> Array | None:
    return None if times is None else times[times >= 0] / 1e6


def _tpot(requests: BenchRequests) -> Array | None:
    """(whole latency - time to first token) / tokens after the first."""
    ttft, e2e, tokens = requests.ttft_ns, requests.e2e_ns, requests.output_tokens
    if ttft is None or e2e is None or tokens is None:
        return None
    rows = np.flatnonzero(requests.success & (ttft >= 0) & (e2e >= ttft) & (tokens > 1))
    found: Array = (e2e[rows] - ttft[rows]) / (tokens[rows] - 1) / 1e6
    return found
