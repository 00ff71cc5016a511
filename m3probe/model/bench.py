"""What a client measured of a server: one run of a benchmark, as its file or its console says it.

Latencies are milliseconds, rates are per second, and nothing here counts failed requests. What a run does not say, or
could not measure, is None; foreign text is escaped by the presenter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from m3probe.model.tables import Array

TTFT, TPOT, ITL, E2EL = "ttft", "tpot", "itl", "e2el"
METRICS = (TTFT, TPOT, ITL, E2EL)
"""Time to first token, time per output token after the first, time between tokens, whole latency."""


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency over the successful requests of a run, in ms.

    Args:
        percentiles: percentile (99, 99.9) -> ms; the median stands in ``median_ms``.
    """

    mean_ms: float | None = None
    median_ms: float | None = None
    std_ms: float | None = None
    percentiles: Mapping[float, float] = field(default_factory=dict)

    @property
    def typical(self) -> tuple[float, str] | None:
        """The mean, else the median, and which of the two it is; None without either."""
        if self.mean_ms is not None:
            return self.mean_ms, "mean"
        return None if self.median_ms is None else (self.median_ms, "median")

    @property
    def p99_ms(self) -> float | None:
        """The 99th percentile."""
        return self.percentiles.get(99.0)


@dataclass(frozen=True, slots=True, eq=False)
class BenchRequests:
    """What a run keeps of each request, in the file's order; a column is None where the file has no such list.

    Every column is as long as ``success``. Times are int64 ns, -1 where a request has none.

    Args:
        success: bool; the request ended without an error.
        start_ns: when it was sent, on the client's own monotonic clock: good for differences alone.
        ttft_ns: from sending to the first token.
        e2e_ns: from sending to the end: the file's own, else ttft plus the times between tokens.
        queue_ns: what it waited for before it was sent, where the client limits its concurrency.
        input_tokens: int64, -1 where it is not known; ``output_tokens`` too.
        itl_sum_ns: sum of the times between its tokens.
        itl_count: how many of them.
    """

    success: Array
    start_ns: Array | None = None
    ttft_ns: Array | None = None
    e2e_ns: Array | None = None
    queue_ns: Array | None = None
    input_tokens: Array | None = None
    output_tokens: Array | None = None
    itl_sum_ns: Array | None = None
    itl_count: Array | None = None

    def __len__(self) -> int:
        return len(self.success)


@dataclass(frozen=True, slots=True)
class Drafts:
    """Speculative decoding as a run says it."""

    acceptance_rate: float | None = None
    """Share of drafted tokens that were accepted, 0 to 1."""
    acceptance_length: float | None = None
    """Tokens a step of the target model yields, its own included."""
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    by_position: tuple[float, ...] = ()
    """Share accepted at each position of a draft, 0 to 1."""


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One run.

    Args:
        file: index into ``Recording.files``.
        index: its place in that file, from 0.
        dialect: ``vllm``, ``vllm-2024``, ``sglang``, ``seconds``, ``inferencex``, ``inferencex-agentic``, ``console``.
        backend: what the client spoke to, or what served.
        date: as written: ``20261129-202122`` is the client's local time at the end of the run, without a zone.
        num_prompts: requests that were asked for.
        max_concurrency: requests the client keeps in flight at most.
        request_rate: requests a second that were asked for; ``inf`` = all at once, or as the limit allows.
        num_gpus: of the whole deployment; ``prefill_gpus`` and ``decode_gpus`` of its roles where it is disaggregated.
        mean_input_tokens: prompt tokens a request, over successes. ``mean_output_tokens`` alike.
        request_throughput: successful requests a second. The others are tokens a second, of *all* GPUs.
        goodput: requests a second that met the latency they were promised; None where none was asked for.
        latencies: by ``METRICS``; a metric that was not measured is not in it.
        requests: what was kept of each request; ``odd_lists`` names lists of the file that could not be used.
        errors: error text -> requests that ended so.
        prefix_cache_hit_rate: achieved, 0 to 1, where the run itself says it.
        theoretical_prefix_hit_rate: of an endless cache at the same block size, 0 to 1.
        kv_cache_usage: share of the KV cache in use, 0 to 1, and ``kv_capacity_tokens`` its size, where the run says so.
        metadata: further values the run was labelled with, as text (``tp``, ``precision``, ``ramp_up_strategy``).
        derived: names of figures that were worked out from others of the run.
        stated: what the file says in ms where its own requests give another value, by name (``mean_ttft_ms``).
    """

    file: int
    path: str
    index: int = 0
    dialect: str = "vllm"
    label: str = ""
    backend: str = ""
    model: str = ""
    date: str = ""
    duration_s: float | None = None
    num_prompts: int | None = None
    completed: int | None = None
    failed: int | None = None
    max_concurrency: int | None = None
    max_concurrent_requests: int | None = None
    """The most that were in flight in some second: counts those that began or ended in it, so it exceeds the limit."""
    request_rate: float | None = None
    burstiness: float | None = None
    num_gpus: int | None = None
    prefill_gpus: int | None = None
    decode_gpus: int | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    mean_input_tokens: float | None = None
    mean_output_tokens: float | None = None
    request_throughput: float | None = None
    input_throughput: float | None = None
    output_throughput: float | None = None
    total_token_throughput: float | None = None
    max_output_tokens_per_s: float | None = None
    goodput: float | None = None
    latencies: Mapping[str, Latency] = field(default_factory=dict)
    requests: BenchRequests | None = None
    odd_lists: tuple[str, ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    drafts: Drafts | None = None
    prefix_cache_hit_rate: float | None = None
    theoretical_prefix_hit_rate: float | None = None
    kv_cache_usage: float | None = None
    kv_capacity_tokens: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    derived: tuple[str, ...] = ()
    stated: Mapping[str, float] = field(default_factory=dict)
    negative: tuple[str, ...] = ()
    """Names of figures that the file gives below 0: nothing of the kind can be, so that they are not known."""

    @property
    def ttft(self) -> Latency:
        """Time to first token."""
        return self.latencies.get(TTFT, _UNKNOWN)

    @property
    def tpot(self) -> Latency:
        """Time per output token after the first."""
        return self.latencies.get(TPOT, _UNKNOWN)

    @property
    def itl(self) -> Latency:
        """Time between tokens."""
        return self.latencies.get(ITL, _UNKNOWN)

    @property
    def e2el(self) -> Latency:
        """From sending to the last token."""
        return self.latencies.get(E2EL, _UNKNOWN)

    @property
    def name(self) -> str:
        """What to call it: its label, else its file, with its place where the file holds several."""
        base = self.label or self.path.rsplit("/", 1)[-1]
        return f"{base} #{self.index + 1}" if self.index else base

    @property
    def disaggregated(self) -> bool | None:
        """Whether prefill and decode have GPUs of their own; None where the run does not tell."""
        if self.prefill_gpus is not None and self.decode_gpus is not None:
            return True
        said = str(self.metadata.get("disagg", "")).lower()
        return {"true": True, "1": True, "false": False, "0": False}.get(said)

    @property
    def failure_share(self) -> float | None:
        """Failed of all that ended, 0 to 1; None where the run does not count failures, or nothing ended."""
        if self.failed is None or self.completed is None or not self.completed + self.failed:
            return None
        return self.failed / (self.completed + self.failed)

    @property
    def requests_missing(self) -> int | None:
        """Requests that were asked for and neither completed nor failed; None without both counts."""
        if self.num_prompts is None or self.completed is None:
            return None
        return self.num_prompts - self.completed - (self.failed or 0)

    @property
    def comparable(self) -> bool:
        """Whether its latencies stand for at least 99 % of the requests, and for one at all."""
        if self.completed == 0:
            return False
        share = self.failure_share
        lost = self.requests_missing
        if lost and self.num_prompts and lost > 0.01 * self.num_prompts:
            return False
        return share is None or share <= 0.01

    @property
    def closed_loop(self) -> bool:
        """Whether the client keeps ``max_concurrency`` requests in flight: no finite rate holds it back."""
        return self.max_concurrency is not None and (self.request_rate is None or self.request_rate == float("inf"))


_UNKNOWN = Latency()


@dataclass(frozen=True, slots=True)
class LittleLaw:
    """Requests by what they wait for: throughput times time in that state (Little's law).

    Args:
        waiting: for their first token; None without TTFT or throughput.
        decoding: between their first token and their last.
        in_flight: both.
        ttft_of: ``mean`` or ``median``: what stood in for the mean, or empty. ``tpot_of`` alike.
        expected: what the client kept in flight; None where a finite rate, or nothing, decides that.
        measured: requests in flight on average by the run's own list: sum of their latencies over its duration.
    """

    request_throughput: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    ttft_of: str = ""
    tpot_of: str = ""
    waiting: float | None = None
    decoding: float | None = None
    expected: int | None = None
    measured: float | None = None

    @property
    def in_flight(self) -> float | None:
        """Waiting and decoding; None unless both are known."""
        return None if self.waiting is None or self.decoding is None else self.waiting + self.decoding

    @property
    def gap(self) -> float | None:
        """How far ``in_flight`` is from ``expected``, as a share of it; below 0: fewer are accounted for."""
        if self.in_flight is None or not self.expected:
            return None
        return self.in_flight / self.expected - 1

    @property
    def consistent(self) -> bool | None:
        """Whether the run agrees with itself to 10 %; None where that cannot be told."""
        return None if self.gap is None else abs(self.gap) <= LITTLE_TOLERANCE


LITTLE_TOLERANCE = 0.10
"""How far throughput times latency may be from the concurrency: medians stand in for means, and runs have a tail."""


def little(run: BenchRun) -> LittleLaw:
    """The run's requests by state; unknown terms stay None, and a run without successes has none."""
    rate = run.request_throughput or None
    ttft, tpot, tokens = run.ttft.typical, run.tpot.typical, run.mean_output_tokens
    waiting = decoding = None
    if rate is not None and ttft is not None:
        waiting = rate * ttft[0] / 1e3
    if rate is not None and tpot is not None and tokens is not None:
        decoding = rate * tpot[0] / 1e3 * max(tokens - 1, 0.0)
    return LittleLaw(
        request_throughput=rate,
        ttft_ms=ttft[0] if ttft else None,
        tpot_ms=tpot[0] if tpot else None,
        ttft_of=ttft[1] if ttft else "",
        tpot_of=tpot[1] if tpot else "",
        waiting=waiting,
        decoding=decoding,
        expected=_expected(run),
        measured=_measured(run),
    )


def _expected(run: BenchRun) -> int | None:
    """What the client keeps in flight; failed requests hold a place too, and for an unknown time."""
    if not run.closed_loop or not run.comparable or run.max_concurrency is None:
        return None
    return run.max_concurrency if run.num_prompts is None else min(run.max_concurrency, run.num_prompts)


def _measured(run: BenchRun) -> float | None:
    kept = run.requests
    if kept is None or kept.e2e_ns is None or not run.duration_s:
        return None
    known = kept.e2e_ns[kept.success & (kept.e2e_ns >= 0)]
    return float(known.sum()) / 1e9 / run.duration_s if len(known) else None
