"""What metrics pages hold, as ``inspect`` prints it (docs/inspect.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from m3probe.analyzers._queues_cache import kv_capacity_tokens, kv_usage, prefix_hits, recompute_factor, theoretical_of
from m3probe.analyzers._queues_histogram import Histogram, latest
from m3probe.analyzers._queues_order import Pages, servers
from m3probe.analyzers._queues_series import Metrics, Series, metrics_of
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE
from m3probe.schema.exposition import GAUGE, SERIES, finite, labels_of

Facts = dict[str, Any]
_HISTOGRAMS = {
    "ttft": "time_to_first_token_seconds",
    "e2e": "e2e_request_latency_seconds",
    "inter_token_latency": "inter_token_latency_seconds",
    "iteration_tokens": "iteration_tokens_total",
}
_OWN = ("vllm:", "sglang:")
_COMMON = frozenset({"engine", "model_name"})


def metric_facts(rec: Recording) -> Facts:
    """Facts of all pages: those of the one server, or of each under ``by_server``; {} where there is none."""
    files = rec.meta.metrics
    if not files:
        return {}
    facts: Facts = {"samples": sum(file.samples for file in files)}
    pages = sum(file.pages for file in files)
    facts |= {"pages": pages} if pages > 1 else {}
    bad = {file.path: list(file.bad_lines) for file in files if file.bad}
    if bad:
        facts["bad_lines"] = next(iter(bad.values())) if len(files) == 1 else bad
    groups, seen = servers(rec), metrics_of(rec)
    each = {group.name: _server(rec, group, seen.of(group.name)) for group in groups}
    if len(each) == 1:
        return facts | next(iter(each.values()))
    return facts | {"by_server": each}


def _server(rec: Recording, pages: Pages, metrics: Metrics) -> Facts:
    engines = sorted({s.engine for held in metrics.found.values() for s in held if s.engine})
    facts: Facts = {"engines": engines} if engines else {}
    for key, word in (("running", "num_requests_running"), ("waiting", "num_requests_waiting")):
        facts |= _gauge(key, metrics.named(word), sum)
    facts |= _gauge("kv_cache_usage", metrics.named("kv_cache_usage_perc"), max)
    prompt = metrics.named("prompt_tokens")
    facts |= {"prompt_tokens": _number(sum(series.last for series in prompt))} if prompt else {}
    facts |= _generation(metrics, len(pages.rows))
    for key, word in _HISTOGRAMS.items():
        found = latest(metrics, word)
        facts |= {key: histogram_facts(found)} if found else {}
    return facts | _cache(rec, metrics) | _rest(rec, int(pages.rows[-1]))


def _gauge(key: str, held: list[Series], over: Any) -> Facts:
    newest = max((int(series.places[-1]) for series in held if len(series.places)), default=NONE)
    last: dict[str, list[float]] = {}
    for series in held:
        if not len(series.places) or series.places[-1] == newest:  # one that left is not known on the last page
            last.setdefault(series.engine, []).append(series.last)
    known = {engine: over(values) for engine, values in last.items()}
    if not known:
        return {}
    facts: Facts = {key: _number(over(known.values()))}
    return facts | ({f"{key}_by_engine": {e: _number(v) for e, v in sorted(known.items())}} if len(known) > 1 else {})


def _generation(metrics: Metrics, pages: int) -> Facts:
    held = metrics.named("generation_tokens")
    if pages < 2 or not held:
        return {}
    grown: dict[str, float] = {}
    for series in sorted(held, key=lambda s: s.engine):
        grown[series.engine] = grown.get(series.engine, 0.0) + series.increase
    by_engine = {engine: _number(value) for engine, value in grown.items()}
    facts: Facts = {
        "generation_tokens_delta": _number(sum(series.increase for series in held)),
        "generation_tokens_delta_by_engine": by_engine,
    }
    resets = sorted({series.engine for series in held if series.resets})
    return facts | ({"resets": resets} if resets else {})


def histogram_facts(found: Histogram) -> Facts:
    """Times as whole ns, other units as they are; quantiles as the bucket that holds them."""
    times = found.word.endswith("_seconds")
    end = "_ns" if times else ""

    def scaled(value: float | None) -> float | int | None:
        if value is None or not math.isfinite(value):
            return None
        return round(value * 1e9) if times else value

    facts: Facts = {"type": "histogram", "count": _number(found.count), f"sum{end}": scaled(found.sum)}
    facts[f"mean{end}"] = scaled(found.mean)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        held = found.quantile(share)
        if held is None:
            facts[f"{name}{end}"] = None
        elif held.low is None:
            facts[f"{name}_at_most{end}"] = scaled(held.high)
        elif held.high is None:
            facts[f"{name}_above{end}"] = scaled(held.low)
        else:
            facts[f"{name}_between{end}"] = [scaled(held.low), scaled(held.high)]
    bounds = {("+Inf" if math.isinf(bound) else f"{bound:g}"): _number(count) for bound, count in found.buckets}
    return facts | ({"buckets": bounds} if bounds else {})


def _cache(rec: Recording, metrics: Metrics) -> Facts:
    facts: Facts = {}
    hits = prefix_hits(metrics)
    capacity, usage = kv_capacity_tokens(metrics), kv_usage(metrics)
    if hits and hits.rate is not None:
        facts["prefix_cache_hit_rate"] = hits.rate
        best = theoretical_of(rec)
        factor = recompute_factor(hits.rate, best.rate) if best else None
        facts |= {"recompute_factor": factor} if factor is not None else {}
    if capacity:
        facts["kv_capacity_tokens"] = capacity
        facts |= {"kv_used_tokens": round(capacity * usage.last)} if usage else {}
    info = metrics.named("cache_config_info")
    return facts | ({"labels": dict(info[0].labels)} if info else {})


def _rest(rec: Recording, scrape: int) -> Facts:
    """Gauges of others on the last page: the Python process's, an exporter's."""
    table, types = rec.tables["metrics"], _types(rec, scrape)
    found: dict[str, float | str | None] = {}
    for row in np.flatnonzero(table["scrape"] == scrape).tolist():
        text = rec.strings[int(table["series"][row])]
        said = SERIES.fullmatch(text)
        if said is None or said[1].startswith(_OWN) or types.get(said[1]) != GAUGE:
            continue
        labels = {key: value for key, value in labels_of(said[2] or "").items() if key not in _COMMON}
        name = text if labels or said[1] in found else said[1]
        value = float(table["value"][row])
        found[name] = _number(value) if finite(value) is not None else _odd(value)
    return {"gauges": found} if found else {}


def _types(rec: Recording, scrape: int) -> dict[str, str]:
    file = int(rec.tables["scrapes"]["file"][scrape])
    return next((dict(held.types) for held in rec.meta.metrics if held.file == file), {})


def _odd(value: float) -> str | None:
    return None if math.isnan(value) else "inf" if value > 0 else "-inf"


def _number(value: float) -> float | int:
    """Counts as whole numbers."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
