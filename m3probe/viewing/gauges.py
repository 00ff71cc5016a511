"""The live figures of a server: what runs and waits, how full its cache is, how fast it is, each with its scope, age and absence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from m3probe.model.view import Absent, Gauge, Scope
from m3probe.viewing._figures import Looked

QUEUED, TTFT, ITL = "request_queue_time_seconds", "time_to_first_token_seconds", "inter_token_latency_seconds"
LEAST_OBSERVED = 5
"""Observations of a window below which a quantile says nothing: TOO FEW."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all figures share.

    Args:
        age_s: of the last page; None: there was none.
        restarted: the last rows go on from a restart, not from the beginning.
        resets: seconds before now.
    """

    looked: Looked
    age_s: float | None
    restarted: bool = False
    resets: tuple[float, ...] = ()

    @property
    def too_few(self) -> Absent:
        """Why a difference of two rows is not there."""
        return Absent.RESET if self.restarted and len(self.looked.inside) < 2 else Absent.TOO_FEW


Maker = Callable[[Context, Gauge], Gauge]


def gauges(context: Context) -> Mapping[str, Gauge]:
    """All of them by name; one that cannot be known says why."""
    empty = (
        (Gauge(name, title, None, unit, scope, context.age_s, high=high, resets=context.resets), make)
        for name, title, unit, scope, high, make in _ALL
    )
    return {plain.name: make(context, plain) for plain, make in empty}


def _level(word: str, label: str = "", scale: float = 1.0) -> Maker:
    def make(context: Context, plain: Gauge) -> Gauge:
        looked = context.looked
        column = looked.at(word, label)
        if column is None:
            return replace(plain, absent=Absent.NOT_EXPOSED)
        last = looked.last(column)
        if last is None or last < 0:
            return replace(plain, absent=Absent.NOT_MEASURED, recent=looked.levels(column, scale))
        return replace(plain, value=last * scale, recent=looked.levels(column, scale))

    return make


def _rate(word: str, scale: float = 1.0, *, count: bool = False, off_at_zero: str = "") -> Maker:
    """``count``: the increase of the window instead of one a second; ``off_at_zero``: a counter that moved while this did not."""

    def make(context: Context, plain: Gauge) -> Gauge:
        looked = context.looked
        column = looked.at(word)
        if column is None:
            return replace(plain, absent=Absent.NOT_EXPOSED)
        other = looked.at(off_at_zero) if off_at_zero else None
        if other is not None and looked.last(column) == 0 and (looked.last(other) or 0) > 0:
            return replace(plain, absent=Absent.OFF_ON_SERVER)
        recent = looked.rates(column, scale)
        grown = looked.increase(column)
        if grown is None:
            known = looked.last(column) is not None
            return replace(plain, absent=context.too_few if known else Absent.NOT_MEASURED, recent=recent)
        return replace(plain, value=grown * scale / (1.0 if count else looked.seconds), recent=recent)

    return make


def _share(*words: tuple[str, str], scale: float = 100.0, plus: float = 0.0, moved: str = "") -> Maker:
    """The first pair of (part, whole) that is exposed; ``moved``: where it grew and the whole never did, the thing is off."""

    def make(context: Context, plain: Gauge) -> Gauge:
        looked = context.looked
        for part_word, whole_word in words:
            part, whole = looked.at(part_word), looked.at(whole_word)
            if part is None or whole is None:
                continue
            other = looked.at(moved) if moved else None
            never = looked.last(whole) == 0 and other is not None and (looked.last(other) or 0) > 0
            if never:
                return replace(plain, absent=Absent.OFF_ON_SERVER)
            above, below = looked.increase(part), looked.increase(whole)
            recent = looked.shares(part, whole, scale)
            if looked.last(part) is None or looked.last(whole) is None or (below and above is not None and above < 0):
                return replace(plain, absent=Absent.NOT_MEASURED, recent=recent)
            if above is None or not below:
                return replace(plain, absent=context.too_few, recent=recent)
            return replace(plain, value=plus + scale * above / below, recent=recent)
        return replace(plain, absent=Absent.NOT_EXPOSED)

    return make


def _quantile(word: str, share: float, scale: float = 1e3) -> Maker:
    def make(context: Context, plain: Gauge) -> Gauge:
        looked = context.looked
        held = looked.buckets(word)
        if held is None:
            return replace(plain, absent=Absent.NOT_EXPOSED)
        recent = looked.quantiles(held, share, scale)
        found, observed = looked.quantile(held, share)
        if found is None or observed < LEAST_OBSERVED:
            return replace(plain, absent=context.too_few, recent=recent)
        low, high = (None if end is None else end * scale for end in found)
        value = high if high is not None else low
        return replace(plain, value=value, between=(low, high), recent=recent)

    return make


_Row = tuple[str, str, str, Scope, float | None, Maker]
_BY_REASON = "num_requests_waiting_by_reason"
_PREFIX = (("prefix_cache_hits", "prefix_cache_queries"), ("prefix_cache_hit_blocks", "prefix_cache_query_blocks"))
_ACCEPTED = ("spec_decode_num_accepted_tokens", "spec_decode_num_draft_tokens")
_ALL: tuple[_Row, ...] = (
    ("running", "running", "requests", Scope.LIVE, None, _level("num_requests_running")),
    ("waiting", "waiting", "requests", Scope.LIVE, None, _level("num_requests_waiting")),
    ("waiting_capacity", "waiting for capacity", "requests", Scope.LIVE, None, _level(_BY_REASON, "capacity")),
    ("waiting_deferred", "waiting, deferred", "requests", Scope.LIVE, None, _level(_BY_REASON, "deferred")),
    ("kv_usage", "KV cache used", "%", Scope.LIVE, 100.0, _level("kv_cache_usage_perc", scale=100.0)),
    (
        "prefix_hit_rate",
        "prefix cache hits",
        "%",
        Scope.WINDOWED,
        100.0,
        _share(*_PREFIX, moved="prompt_tokens"),
    ),
    ("output_tokens_per_s", "output", "tokens/s", Scope.WINDOWED, None, _rate("generation_tokens")),
    ("prompt_tokens_per_s", "prompts", "tokens/s", Scope.WINDOWED, None, _rate("prompt_tokens")),
    ("requests_per_s", "finished", "requests/s", Scope.WINDOWED, None, _rate("request_success")),
    ("preemptions", "preempted", "requests", Scope.WINDOWED, None, _rate("num_preemptions", count=True)),
    ("ttft_p50_ms", "first token, p50", "ms", Scope.WINDOWED, None, _quantile(TTFT, 0.5)),
    ("ttft_p90_ms", "first token, p90", "ms", Scope.WINDOWED, None, _quantile(TTFT, 0.9)),
    ("itl_p50_ms", "between tokens, p50", "ms", Scope.WINDOWED, None, _quantile(ITL, 0.5)),
    ("itl_p90_ms", "between tokens, p90", "ms", Scope.WINDOWED, None, _quantile(ITL, 0.9)),
    ("queued_p50_ms", "in the queue, p50", "ms", Scope.WINDOWED, None, _quantile(QUEUED, 0.5)),
    ("queued_p90_ms", "in the queue, p90", "ms", Scope.WINDOWED, None, _quantile(QUEUED, 0.9)),
    ("spec_acceptance", "drafts accepted", "%", Scope.WINDOWED, 100.0, _share(_ACCEPTED)),
    (
        "spec_length",
        "tokens a draft step",
        "tokens",
        Scope.COMPUTED,
        None,
        _share((_ACCEPTED[0], "spec_decode_num_drafts"), scale=1.0, plus=1.0),
    ),
    (
        "estimated_tflops",
        "model work a GPU (vLLM's estimate)",
        "TFLOP/s",
        Scope.COMPUTED,
        None,
        _rate("estimated_flops_per_gpu", 1e-12, off_at_zero="generation_tokens"),
    ),
)
COSTS: Mapping[str, str] = {
    "running": "how many requests run",
    "waiting": "whether a queue grows",
    "waiting_capacity": "the split of waiting requests by reason",
    "kv_usage": "how full the KV cache is",
    "prefix_hit_rate": "what the prefix cache saves",
    "output_tokens_per_s": "output tokens a second",
    "ttft_p50_ms": "the time to the first token",
    "itl_p50_ms": "the time between tokens",
    "queued_p50_ms": "the time in the queue",
}
"""What a source lacks where a gauge is not exposed."""


def missing(found: Mapping[str, Gauge]) -> tuple[str, ...]:
    """What this server's page lacks, in words."""
    gone = (name for name in COSTS if name in found and found[name].absent is Absent.NOT_EXPOSED)
    return tuple(f"{found[name].title} ({Absent.NOT_EXPOSED}): {COSTS[name]} is not known" for name in gone)
