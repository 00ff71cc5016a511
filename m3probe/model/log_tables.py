"""The statistics lines of a server's log as a table; NaN where a line lacks a figure, never 0."""

from __future__ import annotations

SINGLE, AGGREGATED = -1, -2
"""``log_stats.engine`` of a line that names none, and of one that sums several."""

LOG_TABLES: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "log_stats": (
        ("file", "int32", "id", "index into Recording.files"),
        ("line", "int64", "line", "in the file, from 1"),
        ("at_ns", "int64", "ns", "since the first record of the log, to the second; -1: not told"),
        ("engine", "int32", "index", "-1: the line names none; -2: it sums several"),
        ("engines", "int32", "engines", "that the line sums; 1 for one"),
        ("prompt_tps", "float64", "tokens/s", "prompt tokens computed, mean since the line before"),
        ("generation_tps", "float64", "tokens/s", "tokens generated, mean since the line before"),
        ("running", "float64", "requests", "at the time of the line"),
        ("waiting", "float64", "requests", "those deferred included; Pending in old releases"),
        ("swapped", "float64", "requests", "old releases"),
        ("deferred", "float64", "requests", "waiting for something else than room"),
        ("fetch_waiting", "float64", "requests", "whose KV fetch is to start"),
        ("fetch_running", "float64", "requests", "whose KV fetch is in progress"),
        ("fetch_done", "float64", "requests", "whose KV is there and that wait"),
        ("preemptions", "float64", "requests", "since the line before"),
        ("kv_cache_pct", "float64", "%", "of the blocks in use"),
        ("cpu_kv_cache_pct", "float64", "%", "swap space of old releases"),
        ("prefix_hit_pct", "float64", "%", "hits over queries since the start"),
        ("external_hit_pct", "float64", "%", "of the connector's cache"),
        ("acceptance_length", "float64", "tokens", "mean a draft, the bonus token included"),
        ("draft_acceptance_pct", "float64", "%", "drafted tokens that were accepted"),
    ),
}
COUNTS = ("running", "waiting", "swapped", "deferred", "fetch_waiting", "fetch_running", "fetch_done", "preemptions")
"""Whole numbers among the figures."""
FIGURES = tuple(name for name, dtype, _, _ in LOG_TABLES["log_stats"] if dtype == "float64")
