"""Each server as its metrics show it: what waits, what runs, how much came and went, and how long each part took."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._ledger_sums import once
from m3probe.analyzers._queues_histogram import Histogram, during
from m3probe.analyzers._queues_series import Metrics, metrics_of
from m3probe.analyzers._queues_shape import Line, line
from m3probe.model.recording import Recording

PREFILL, DECODE = "prefill", "decode"
_ROLES = (
    (PREFILL, re.compile(r"(?i)prefill|producer|(?:^|[/_.-])p\d*$")),
    (DECODE, re.compile(r"(?i)decode|consumer|(?:^|[/_.-])d\d*$")),
)
_COLUMNS = {"queue": "queued_ns", "prefill": "prefill_ns", "decode": "decode_ns", "e2e": "e2e_ns", "ttft": "ttft_ns"}
_WORDS = {
    "queue": "request_queue_time_seconds",
    "prefill": "request_prefill_time_seconds",
    "decode": "request_decode_time_seconds",
    "e2e": "e2e_request_latency_seconds",
    "ttft": "time_to_first_token_seconds",
}


@dataclass(frozen=True, slots=True)
class Took:
    """Mean time of finished requests in one part of the way, in seconds."""

    mean_s: float
    count: float
    since_start: bool
    table: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """One server.

    Args:
        running: over all engines; ``waiting`` too, deferred ones included.
        seconds: of its gauges; 0 where times are not known.
        completed: requests that finished meanwhile; None where nobody counts, or there is one page alone.
        gone: of those, the ones after the first sample: what a rate is made of. ``first_tokens`` alike.
    """

    name: str
    metrics: Metrics
    running: Line | None
    waiting: Line | None
    deferred: Line | None
    stages: dict[str, Line]
    seconds: float
    completed: float | None
    gone: float | None
    first_tokens: float | None
    took: dict[str, Took]

    @property
    def inside(self) -> Line | None:
        """Requests that vLLM knows of: running and waiting."""
        held = [s for part in (self.running, self.waiting) if part for s in part.series]
        return line(held) if self.running and self.waiting else None

    @property
    def rate(self) -> float | None:
        """Requests completed a second."""
        return self.gone / self.seconds if self.gone is not None and self.seconds > 0 else None

    @property
    def role(self) -> str:
        """``prefill`` or ``decode`` of a disaggregated deployment, by its name, or by what only a KV consumer exposes."""
        for role, pattern in _ROLES:
            if pattern.search(self.name):
                return role
        return DECODE if self.stages else ""


@once
def servers_seen(rec: Recording) -> list[Server]:
    """Every server, in the order of the inputs."""
    held = metrics_of(rec)
    names = held.servers
    return [_server(rec, held.of(name), name, alone=len(names) == 1) for name in names]


def _server(rec: Recording, metrics: Metrics, name: str, *, alone: bool) -> Server:
    running, waiting = (metrics.named(word) for word in ("num_requests_running", "num_requests_waiting"))
    most = {word: metrics.named(word, "max") for word in ("num_requests_running", "num_requests_waiting")}
    by_reason = {"reason": "deferred"}
    stages = {s.labels.get("stage", "") for s in metrics.named("num_requests_kv_fetch_by_stage")}
    all_running, all_waiting = (
        line(running, most["num_requests_running"]),
        line(waiting, most["num_requests_waiting"]),
    )
    gauges = [part for part in (all_running, all_waiting) if part is not None]
    return Server(
        name=name,
        metrics=metrics,
        running=all_running,
        waiting=all_waiting,
        deferred=line(
            metrics.named("num_requests_waiting_by_reason", **by_reason),
            metrics.named("num_requests_waiting_by_reason", "max", **by_reason),
        ),
        stages=_stages(metrics, sorted(stages)),
        seconds=max((part.seconds for part in gauges), default=0.0),
        completed=_counted(metrics, "request_success"),
        gone=_counted(metrics, "request_success", after_first=True),
        first_tokens=_counted(metrics, "time_to_first_token_seconds", "count", after_first=True),
        took=_took(rec, metrics, alone=alone),
    )


def _stages(metrics: Metrics, names: list[str]) -> dict[str, Line]:
    word = "num_requests_kv_fetch_by_stage"
    found = {
        name: line(metrics.named(word, stage=name), metrics.named(word, "max", stage=name)) for name in names if name
    }
    return {name: part for name, part in found.items() if part is not None}


def _counted(metrics: Metrics, word: str, part: str = "", *, after_first: bool = False) -> float | None:
    """Increase over all engines and labels; None for one page alone, whose counters began at the server's start.

    Args:
        after_first: without what a guest's first sample holds, which is of the second before it.
    """
    held = metrics.named(word, part)
    if not held or all(len(series.values) == 1 and series.base is None for series in held):
        return None
    first = sum(float(series.steps()[0]) for series in held if series.base is not None) if after_first else 0.0
    return sum(series.increase for series in held) - first


def _took(rec: Recording, metrics: Metrics, *, alone: bool) -> dict[str, Took]:
    """By histograms, else by the guests' own list of requests (of a single server: the list does not name one)."""
    found = {}
    for name, word in _WORDS.items():
        seen = during(metrics, word)
        took = _of_histogram(seen) if seen else None
        took = took or (_of_requests(rec, _COLUMNS[name]) if alone else None)
        if took is not None:
            found[name] = took
    return found


def _of_histogram(seen: Histogram) -> Took | None:
    if seen.mean is None:
        return None
    rows = tuple(int(series.rows[-1]) for series in seen.series)
    return Took(seen.mean, seen.count, seen.of_all, seen.series[0].table, rows)


def _of_requests(rec: Recording, column: str) -> Took | None:
    rows = np.flatnonzero(rec.tables["requests"][column] >= 0)
    if not len(rows):
        return None
    mean = float(rec.tables["requests"][column][rows].mean()) / 1e9
    return Took(mean, float(len(rows)), False, "requests", tuple(rows[:5].tolist()))  # noqa: FBT003 - a field
