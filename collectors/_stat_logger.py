"""What vLLM tells its own stat loggers, taken at ``StatLoggerManager.record`` and summed once a second.

No ``vllm.stat_logger_plugins`` entry point on purpose. In all four versions ``AsyncLLM.__init__`` turns ``log_stats`` on as
soon as one such class is installed: a server started with ``--disable-log-stats`` would then collect statistics in the
engine and in the API server, keep Prometheus counters and say so in its log, with ``M3PROBE=0`` too. The manager is the one
place that both ways of starting have, offline included; its hook exists only while recording.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from m3probe.collectors._queues_stats import Seen, request, samples
from m3probe.schema import records

MOST_QUEUED = 20_000
"""Steps between two ticks; an engine makes a few hundred a second."""
MOST_REQUESTS = 500
"""Finished requests told per second (60 bytes each); the rest is counted in ``requests_not_told``."""


class StatTap:
    """Keeps what ``record`` was called with until the next tick: vLLM makes new objects for every step."""

    def __init__(self) -> None:
        self.dropped = 0
        self._seen: deque[Seen] = deque()

    def record(
        self,
        _token: Any,
        _result: Any,
        _manager: Any,
        scheduler_stats: Any = None,
        iteration_stats: Any = None,
        mm_cache_stats: Any = None,  # noqa: ARG002 - positional in vLLM's signature
        engine_idx: int | None = None,
    ) -> None:
        """The hook: called after vLLM's loggers."""
        if len(self._seen) < MOST_QUEUED:
            self._seen.append(Seen(engine_idx or 0, scheduler_stats, iteration_stats))
        else:
            self.dropped += 1

    def drain(self) -> list[records.AnyRecord]:
        """Records of what came since the last call."""
        seen = [self._seen.popleft() for _ in range(len(self._seen))]
        now = time.monotonic_ns()
        finished = [one for step in seen for one in getattr(step.iteration, "finished_requests", None) or ()]
        told: list[records.AnyRecord] = [request(one, now) for one in finished[:MOST_REQUESTS]]
        told += samples(seen, now)
        if len(finished) > MOST_REQUESTS:
            told.append(_not_told(len(finished) - MOST_REQUESTS, now))
        return told


def _not_told(count: int, now_ns: int) -> records.Sample:
    return records.Sample(mono_ns=now_ns, source="iteration", values={"requests_not_told": float(count)})


def of_engine(scheduler: Any, now_ns: int) -> Iterable[records.Sample]:
    """Queue lengths read from the scheduler itself, for a server that collects no statistics; nothing where that fails."""
    running, waiting = scheduler.get_request_counts()
    manager = scheduler.kv_cache_manager
    values = {"num_requests_running": float(running), "num_requests_waiting": float(waiting)}
    yield records.Sample(
        mono_ns=now_ns, source="scheduler", values=values | {"kv_cache_usage_perc": float(manager.usage)}
    )
