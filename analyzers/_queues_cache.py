"""KV cache and prefix cache: how full, how much was hit, what an endless cache would have hit, and what the gap costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._bench_joined import apart
from m3probe.analyzers._queues_credible import SLACK
from m3probe.analyzers._queues_series import Metrics, Series
from m3probe.model.bench import BenchRun
from m3probe.model.recording import Recording

_COUNTERS = (
    ("prefix_cache_hits", "prefix_cache_queries"),
    ("prefix_cache_hit_blocks", "prefix_cache_query_blocks"),
    ("prompt_tokens_cached", "prompt_tokens"),
)
"""Hits and queries; the last pair where a server (SGLang) counts cached tokens alone."""


ROUNDED = 1e-3
"""Rates are written with three or four digits."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Tokens (blocks of an early V1) that were looked up and found.

    Args:
        since_start: counted from the server's start, because there is one page alone.
        by_engine: engine -> (hits, queries).
    """

    hits: float
    queries: float
    since_start: bool
    by_engine: dict[str, tuple[float, float]]
    series: tuple[Series, ...]

    @property
    def rate(self) -> float | None:
        """0 to 1; None where nothing was looked up, or where the counters contradict each other."""
        return self.hits / self.queries if self.queries > 0 and not self.contradictory else None

    @property
    def contradictory(self) -> bool:
        """Whether an engine found more than it looked up."""
        return any(
            found > asked * (1 + SLACK) for found, asked in (*self.by_engine.values(), (self.hits, self.queries))
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Share of the KV cache in use, 0 to 1, of the fullest engine."""

    mean: float
    most: float
    last: float
    series: Series


@dataclass(frozen=True, slots=True)
class Theoretical:
    """What an endless cache of the same blocks would hit, and who says so."""

    rate: float
    said_by: str
    table: str
    row: int


def prefix_hits(metrics: Metrics) -> Hits | None:
    """Local prefix cache while it was watched; None where nobody counts."""
    for hit, query in _COUNTERS:
        found, asked = metrics.named(hit), metrics.named(query)
        if found and asked:
            alone = all(len(series.values) == 1 and series.base is None for series in (*found, *asked))
            grown, of = _by_engine(found, alone=alone), _by_engine(asked, alone=alone)
            by_engine = {engine: (grown.get(engine, 0.0), queries) for engine, queries in of.items()}
            return Hits(sum(grown.values()), sum(of.values()), alone, by_engine, (*found, *asked))
    return None


def _by_engine(held: list[Series], *, alone: bool) -> dict[str, float]:
    """Summed over what else tells series of an engine apart, such as the model's name."""
    found: dict[str, float] = {}
    for series in held:
        found[series.engine] = found.get(series.engine, 0.0) + (series.last if alone else series.increase)
    return found


def kv_usage(metrics: Metrics) -> Usage | None:
    """The engine whose cache was fullest."""
    best: Usage | None = None
    largest = {series.engine: series for series in metrics.named("kv_cache_usage_perc", "max")}
    for series in metrics.named("kv_cache_usage_perc"):
        values = series.values[np.isfinite(series.values)]
        if not len(values):
            continue
        peaks = largest[series.engine].values if series.engine in largest else values
        found = Usage(float(values.mean()), float(np.nanmax(peaks)), float(values[-1]), series)
        if best is None or found.most > best.most:
            best = found
    return best


def kv_capacity_tokens(metrics: Metrics) -> int | None:
    """Blocks times tokens a block, of one engine; None where the page does not say."""
    for series in metrics.named("cache_config_info"):
        blocks, size = (series.labels.get(key, "") for key in ("num_gpu_blocks", "block_size"))
        if blocks.isascii() and blocks.isdigit() and size.isascii() and size.isdigit():
            return int(blocks[:18]) * int(size[:18])
    return None


def block_size(metrics: Metrics) -> int | None:
    """Tokens a block."""
    sizes = [series.labels.get("block_size", "") for series in metrics.named("cache_config_info")]
    return next((int(size) for size in sizes if size.isascii() and size.isdigit() and len(size) < 10), None)


def theoretical_of(rec: Recording) -> Theoretical | None:
    """The guests' own replay through an endless cache, else what a benchmark run made meanwhile says of its trace."""
    table = rec.tables["prefix_caches"]
    if len(table):
        last = [int(np.flatnonzero(table["file"] == file)[-1]) for file in np.unique(table["file"])]
        queries = int(table["queries"][last].clip(min=0).sum())
        if queries:
            rate = int(table["infinite_hits"][last].clip(min=0).sum()) / queries
            return Theoretical(rate, "the recorded prompts replayed through an endless cache", "prefix_caches", last[0])
    for place, run in enumerate(rec.meta.bench):
        rate_of = None if run.file in apart(rec) else _said(run)
        if rate_of is not None:
            return Theoretical(rate_of, run.name, "bench.runs", place)
    return None


def _said(run: BenchRun) -> float | None:
    rate = run.theoretical_prefix_hit_rate
    return rate if rate is not None and 0 <= rate <= 1 else None


def recompute_factor(achieved: float, theoretical: float) -> float | None:
    """How many times the uncached prompt tokens of an endless cache are computed; None where it would miss nothing.

    No cache hits more than an endless one: such rates are not of the same prompts, and have no factor.
    """
    least = 1 - theoretical
    if least <= 1e-9 or not math.isfinite(achieved) or impossible(achieved, theoretical):
        return None
    return max((1 - achieved) / least, 1.0)


def impossible(achieved: float, theoretical: float) -> bool:
    """Whether a cache is said to hit more than an endless one, by more than rounding."""
    return achieved > theoretical + ROUNDED
