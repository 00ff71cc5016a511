"""Queues of a live recording: lengths, use and limits as they were sampled, each with its range and its trend."""

from __future__ import annotations

import numpy as np

from m3probe.analyzers._ledger import texts
from m3probe.model.recording import Recording
from m3probe.model.tables import Array

Series = dict[str, tuple[Array, Array]]
METRICS = "metrics"
LEAST_FOR_TREND = 5
"""Samples below which a slope says nothing."""


def live_queues(rec: Recording) -> dict[str, str]:
    """Queue -> what was measured; queues that nobody sampled are left out."""
    series = _series(rec)
    found = {
        "admission": _length(series, "num_requests_waiting", "waiting"),
        "prefill": _requests(rec, "prefill_ns", "prefill"),
        "decode": _length(series, "num_requests_running", "running"),
        "kv_transfer": _length(series, "num_requests_waiting_by_reason:deferred", "deferred"),
        "kv_capacity": _usage(series),
        "prefix_cache": _prefix(rec) or _scraped_prefix(series),
        "os_limits": _limits(rec),
    }
    queued = _requests(rec, "queued_ns", "queued")
    if queued:
        found["admission"] = f"{found['admission']}; {queued}" if found["admission"] else queued
    return {name: text for name, text in found.items() if text}


def _series(rec: Recording) -> Series:
    """Sampled name -> (seconds, values) in order of time: the engine's own where it has them, else those of /metrics.

    Of several engines the one with the largest value speaks: a queue that grows in one of them is what is looked for.
    """
    table = rec.tables["samples"]
    found: dict[tuple[str, bool, str], list[int]] = {}
    for row, (name, source) in enumerate(zip(texts(rec, table, "name"), texts(rec, table, "source"), strict=True)):
        base, _, labels = name.partition("{")
        found.setdefault((base.removeprefix("vllm:"), source == METRICS, labels), []).append(row)
    made: Series = {}
    told: dict[str, tuple[bool, float]] = {}
    for (base, scraped, _labels), rows in found.items():
        order = np.array(rows)[np.argsort(table["mono_ns"][rows], kind="stable")]
        values = table["value"][order]
        rank = (not scraped, float(values.max()))
        if base not in told or rank > told[base]:
            told[base], made[base] = rank, (table["mono_ns"][order] / 1e9, values)
    return made


def _length(series: Series, name: str, word: str) -> str:
    if name not in series:
        return ""
    times, values = series[name]
    most = series.get(f"{name}:max", (times, values))[1]
    text = f"{word} {values.min():,.0f} to {most.max():,.0f} requests in {len(values):,} sample(s)"
    if len(values) >= LEAST_FOR_TREND and times[-1] > times[0]:
        slope = float(np.polyfit(times - times[0], values, 1)[0])
        text += f", {slope:+,.2f} a second"
    return text


def _usage(series: Series) -> str:
    name = "kv_cache_usage_perc"
    if name not in series:
        return ""
    values = series.get(f"{name}:max", series[name])[1]
    text = f"at most {values.max():.1%} of the cache in use"
    if "num_preemptions" in series:
        text += f", {series['num_preemptions'][1].sum():,.0f} preemption(s)"  # since the sample before
    elif "num_preemptions_total" in series:
        counter = series["num_preemptions_total"][1]
        text += f", {counter[-1] - counter[0]:,.0f} preemption(s)"
    return text


def _requests(rec: Recording, column: str, word: str) -> str:
    """Median and 95th percentile over finished requests whose time vLLM kept."""
    values = rec.tables["requests"][column]
    values = values[values >= 0] / 1e6
    if not len(values):
        return ""
    low, high = np.percentile(values, (50, 95))
    return f"{word} {low:,.1f} ms (median), {high:,.1f} ms (95 %) over {len(values):,} finished request(s)"


def _prefix(rec: Recording) -> str:
    """The last totals of each engine: achieved, what an infinite cache would have hit, and the gap by cause."""
    table = rec.tables["prefix_caches"]
    if not len(table):
        return ""
    last = [int(np.flatnonzero(table["file"] == file)[-1]) for file in np.unique(table["file"])]
    total = {name: int(table[name][last].clip(min=0).sum()) for name in ("queries", "hits", "infinite_hits")}
    if not total["queries"]:
        return "no prompt token was looked up"
    text = (
        f"hit {total['hits'] / total['queries']:.1%} of {total['queries']:,} prompt tokens; an infinite cache would have hit "
        f"{total['infinite_hits'] / total['queries']:.1%}"
    )
    lost = {
        word: int(table[f"lost_{word}"][last].clip(min=0).sum()) for word in ("rounding", "eviction", "not_computed")
    }
    gap = ", ".join(f"{word.replace('_', ' ')} {tokens:,}" for word, tokens in lost.items() if tokens)
    return f"{text} (lost to {gap} tokens)" if gap else text


def _scraped_prefix(series: Series) -> str:
    """Hits over queries while it recorded, from counters of /metrics; what was lost to which cause they do not tell."""
    names = ("prefix_cache_hits_total", "prefix_cache_queries_total")
    if any(name not in series for name in names):
        return ""
    hits, queries = (series[name][1][-1] - series[name][1][0] for name in names)
    return (
        f"hit {hits / queries:.1%} of {queries:,.0f} prompt tokens" if queries > 0 else "no prompt token was looked up"
    )


def _limits(rec: Recording) -> str:
    """The process nearest to its soft limit of file descriptors."""
    table = rec.tables["hosts"]
    known = np.flatnonzero((table["fds"] >= 0) & (table["fd_soft"] > 0))
    if not len(known):
        return ""
    share = table["fds"][known] / table["fd_soft"][known]
    row = int(known[int(np.argmax(share))])
    role = rec.strings[int(table["role"][row])]
    return f"{role} (pid {table['pid'][row]}) had {table['fds'][row]:,} of {table['fd_soft'][row]:,} file descriptors open, the nearest to its limit"
