"""Which values of a metric can be: no NaN, nothing infinite, no negative length, no share above all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from m3probe.schema.exposition import GAUGE

if TYPE_CHECKING:
    from m3probe.analyzers._queues_series import Metrics, Series

USAGE, LENGTHS = "kv_cache_usage_perc", "num_requests_"
MOST = 2.0**63
"""No counter of a server reaches it; sums of larger numbers overflow."""
SLACK = 1e-6
"""By which a share may exceed 1 through rounding."""


def finite_only(series: Series) -> Series:
    """Without values that are no number or infinite: they are not known, neither 0 nor a restart."""
    kept = np.isfinite(series.values)
    if kept.all():
        return series
    places = series.places[kept] if len(series.places) else series.places
    return replace(series, at_ns=series.at_ns[kept], values=series.values[kept], rows=series.rows[kept], places=places)


def contradiction(word: str, kind: str, series: Series) -> str:
    """What cannot be of a series' values; empty where all can."""
    values = series.values
    if not len(values):
        return ""
    low, high = float(values.min()), float(values.max())
    if word == USAGE and (low < 0 or high > 1 + SLACK):
        return f"a share of the cache of {_shown(low if low < 0 else high)} (1 is all of it)"
    if word.startswith(LENGTHS) and low < 0:
        return f"{_shown(low)} requests"
    if (kind != GAUGE or word.startswith(LENGTHS)) and max(high, -low) >= MOST:
        return f"a count of {_shown(high if high >= MOST else low)}"
    return ""


def _shown(value: float) -> str:
    return f"{value:.6g}"


def without_impossible(made: Metrics, kinds: dict[str, str]) -> None:
    """Take out of ``made`` every metric of a server that holds what cannot be, and keep why: a part of it is no whole."""
    for (word, _), held in made.found.items():
        for series in held:
            why = contradiction(word, kinds.get(word, GAUGE), series)
            if why:
                made.impossible.setdefault((word, series.server), why)
    if made.impossible:
        kept = {key: _apart(held, key[0], made.impossible) for key, held in made.found.items()}
        made.found = {key: held for key, held in kept.items() if held}


def _apart(held: Iterable[Series], word: str, impossible: dict[tuple[str, str], str]) -> list[Series]:
    return [series for series in held if (word, series.server) not in impossible]
