"""Levels and rates of a recording's own samples, for the same tiles that a live server has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from m3probe.analyzers._queues_series import Series, metrics_of
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.model.view import Absent, Gauge, Scope
from m3probe.viewing._figures import POINTS

_LEVELS = (
    ("running", "running", "num_requests_running", "", "requests", 1.0, None),
    ("waiting", "waiting", "num_requests_waiting", "", "requests", 1.0, None),
    ("waiting_capacity", "waiting for capacity", "num_requests_waiting_by_reason", "capacity", "requests", 1.0, None),
    ("waiting_deferred", "waiting, deferred", "num_requests_waiting_by_reason", "deferred", "requests", 1.0, None),
    ("kv_usage", "KV cache used", "kv_cache_usage_perc", "", "%", 100.0, 100.0),
)
LEAST_S = 1.0
"""Guests sample each second: two samples nearer to each other are the ends of a burst, no rate."""
_RATES = (
    ("output_tokens_per_s", "output", "generation_tokens", "tokens/s"),
    ("prompt_tokens_per_s", "prompts", "prompt_tokens", "tokens/s"),
    ("requests_per_s", "finished", "request_success", "requests/s"),
)


def recorded_gauges(rec: Recording, age_s: float | None) -> Mapping[str, Gauge]:
    """Gauges of what guests, ``attach`` or pages say.

    Args:
        age_s: how old the recording's newest value is; None: it does not say when it was made.
    """
    held = metrics_of(rec)
    found: dict[str, Gauge] = {}
    for name, title, word, reason, unit, scale, high in _LEVELS:
        series = held.named(word, "", **({"reason": reason} if reason else {}))
        made = Gauge(name, title, None, unit, Scope.RECORDED, age_s, high=high)
        if not series:
            found[name] = _absent(made, Absent.NOT_EXPOSED)
            continue
        at, values = _together(series, np.maximum if word == "kv_cache_usage_perc" else np.add)
        found[name] = _of(made, at, values * scale, float(values[-1]) * scale)
    for name, title, word, unit in _RATES:
        series = [one for one in held.named(word) if one.timed]
        made = Gauge(name, title, None, unit, Scope.RECORDED, age_s)
        seconds = max((one.seconds for one in series), default=0.0)
        if not series or seconds < LEAST_S:
            found[name] = _absent(made, Absent.TOO_FEW if held.named(word) else Absent.NOT_EXPOSED)
            continue
        grown = sum(one.increase - (float(one.steps()[0]) if one.base is not None else 0.0) for one in series)
        found[name] = _of(made, np.zeros(0, dtype=np.int64), np.zeros(0), grown / seconds)
    return found


def _absent(made: Gauge, why: Absent) -> Gauge:
    return Gauge(made.name, made.title, None, made.unit, made.scope, made.age_s, why, high=made.high)


def _of(made: Gauge, at_ns: Array, values: Array, last: float) -> Gauge:
    rows = np.unique(np.linspace(0, len(at_ns) - 1, POINTS).astype(np.int64)) if len(at_ns) else at_ns
    ago_s = made.age_s or 0.0
    newest = int(at_ns[-1]) if len(at_ns) else 0
    recent = tuple((ago_s + (newest - int(at_ns[row])) / 1e9, float(values[row])) for row in rows.tolist())
    return Gauge(made.name, made.title, last, made.unit, made.scope, made.age_s, high=made.high, recent=recent)


def _together(series: Sequence[Series], put: np.ufunc) -> tuple[Array, Array]:
    """Several engines on the times of the first: the newest value of each at that time."""
    at, values = series[0].at_ns, series[0].values
    for other in series[1:]:
        place = np.maximum(np.searchsorted(other.at_ns, at, side="right") - 1, 0)
        values = put(values, other.values[place])
    return at, values
