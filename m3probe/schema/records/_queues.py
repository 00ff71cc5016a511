"""What waits and what limits it."""

from __future__ import annotations

from collections.abc import Mapping

from m3probe.schema.records._base import Record


class Sample(Record, tag="sample"):
    """One value of a time series: queue lengths, counters, host figures."""

    mono_ns: int
    values: Mapping[str, float]
    source: str = ""
    """``scheduler``, ``iteration``, ``host``, ``metrics``."""
    labels: Mapping[str, str] = {}


class Request(Record, tag="request"):
    """One finished request; times in ns, None where vLLM did not keep them."""

    mono_ns: int
    prompt_tokens: int = -1
    output_tokens: int = -1
    cached_tokens: int = -1
    finish: str = ""
    queued_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None
    e2e_ns: int | None = None
    ttft_ns: int | None = None
    preemptions: int = -1


class PrefixCache(Record, tag="prefix_cache"):
    """Prefix-cache tokens since arming: achieved, and what an infinite cache would have hit, the gap by cause."""

    mono_ns: int
    queries: int
    hits: int
    infinite_hits: int
    lost_rounding: int = -1
    lost_eviction: int = -1
    lost_not_computed: int = -1


class Host(Record, tag="host"):
    """Limits and use of one process on the path of a request; -1 where the host does not tell."""

    mono_ns: int
    pid: int
    role: str = ""
    fds: int = -1
    fd_soft: int = -1
    fd_hard: int = -1
    sockets: int = -1
    threads: int = -1
    rss_bytes: int = -1
    cpu_ns: int = -1
    cpu_by_thread: Mapping[str, int] = {}
