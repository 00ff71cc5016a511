"""One table of metrics: a word, and every name that versions of vLLM and SGLang expose it under.

A word is vLLM 0.33's name without ``vllm:`` and without the ``_total`` that the page adds to counters. Newer names come
first: where a page has both, the newer one wins. SGLang's names stand here only where they mean the same (its
``sglang:cache_hit_rate`` and ``sglang:num_retracted_reqs`` are gauges of the last interval, which no counter of vLLM is).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from m3probe.schema.exposition import COUNTER, GAUGE, HISTOGRAM

INFO = "info"
PARTS = ("bucket", "sum", "count")
"""What a histogram consists of; the page appends them to its name."""
MAX = "max"
"""A part of our own recordings: the largest value of a gauge within the second."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Args:
        names: as exposed, newest first, without the parts of histograms.
        labels: labels that a name implies (``sglang:num_decode_transfer_queue_reqs`` is one stage of a queue).
    """

    word: str
    kind: str
    names: tuple[str, ...]
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Meant:
    """What an exposed name stands for: lower ``age`` is newer."""

    word: str
    part: str
    kind: str
    age: int
    labels: Mapping[str, str]


def _metric(word: str, kind: str, *older: str) -> Metric:
    end = "_total" if kind == COUNTER else ""
    return Metric(word, kind, (f"vllm:{word}{end}", *older))


METRICS: tuple[Metric, ...] = (
    # --- queues ---
    _metric("num_requests_running", GAUGE, "sglang:num_running_reqs"),
    _metric("num_requests_waiting", GAUGE, "sglang:num_queue_reqs"),
    _metric("num_requests_waiting_by_reason", GAUGE),
    _metric("num_requests_swapped", GAUGE),
    Metric(
        "num_requests_kv_fetch_by_stage",
        GAUGE,
        (
            "vllm:num_requests_kv_fetch_by_stage",
            "sglang:num_decode_prealloc_queue_reqs",
            "sglang:num_decode_transfer_queue_reqs",
        ),
        {
            "sglang:num_decode_prealloc_queue_reqs": {"stage": "waiting_to_start"},
            "sglang:num_decode_transfer_queue_reqs": {"stage": "in_progress"},
        },
    ),
    _metric("admission_rejections", COUNTER),
    _metric("request_success", COUNTER, "sglang:num_requests_total"),
    _metric("num_preemptions", COUNTER, "sglang:num_retracted_requests_total"),
    # --- cache: a share from 0 to 1, whatever `perc` says ---
    _metric("kv_cache_usage_perc", GAUGE, "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
    _metric("prefix_cache_queries", COUNTER),
    _metric("prefix_cache_hits", COUNTER),
    # early V1 (2025): blocks, not tokens; their ratio means the same
    Metric("prefix_cache_query_blocks", COUNTER, ("vllm:gpu_prefix_cache_queries_total",)),
    Metric("prefix_cache_hit_blocks", COUNTER, ("vllm:gpu_prefix_cache_hits_total",)),
    _metric("external_prefix_cache_queries", COUNTER),
    _metric("external_prefix_cache_hits", COUNTER),
    _metric("prompt_tokens", COUNTER, "sglang:prompt_tokens_total"),
    _metric("prompt_tokens_cached", COUNTER, "sglang:cached_tokens_total"),
    _metric("prompt_tokens_by_source", COUNTER),
    _metric("generation_tokens", COUNTER, "sglang:generation_tokens_total"),
    _metric("cache_config_info", INFO),
    # --- latencies ---
    _metric("time_to_first_token_seconds", HISTOGRAM, "sglang:time_to_first_token_seconds"),
    _metric(
        "inter_token_latency_seconds",
        HISTOGRAM,
        "vllm:time_per_output_token_seconds",
        "sglang:inter_token_latency_seconds",
        "sglang:time_per_output_token_seconds",
    ),
    _metric("e2e_request_latency_seconds", HISTOGRAM, "sglang:e2e_request_latency_seconds"),
    _metric("request_queue_time_seconds", HISTOGRAM, "sglang:queue_time_seconds"),
    _metric("request_prefill_time_seconds", HISTOGRAM),
    _metric("request_decode_time_seconds", HISTOGRAM),
    _metric("iteration_tokens_total", HISTOGRAM),  # named like a counter
    _metric("request_prefill_kv_computed_tokens", HISTOGRAM),
    # --- estimates: always 0 without --enable-mfu-metrics ---
    _metric("estimated_flops_per_gpu", COUNTER),
    # --- drafts ---
    _metric("spec_decode_num_drafts", COUNTER),
    _metric("spec_decode_num_draft_tokens", COUNTER),
    _metric("spec_decode_num_accepted_tokens", COUNTER),
    _metric("spec_decode_num_accepted_tokens_per_pos", COUNTER),
    # --- KV transfer ---
    _metric("nixl_xfer_time_seconds", HISTOGRAM),
    _metric("nixl_bytes_transferred", HISTOGRAM),
    _metric("nixl_num_failed_transfers", COUNTER),
    _metric("nixl_num_kv_expired_reqs", COUNTER),
    _metric("mooncake_xfer_time_seconds", HISTOGRAM),
    _metric("mooncake_bytes_transferred", HISTOGRAM),
    # --- the process that answers: the API server ---
    Metric("process_open_fds", GAUGE, ("process_open_fds",)),
    Metric("process_max_fds", GAUGE, ("process_max_fds",)),
    Metric("process_cpu_seconds", COUNTER, ("process_cpu_seconds_total",)),
    Metric("process_start_time_seconds", GAUGE, ("process_start_time_seconds",)),
)
BY_WORD: Mapping[str, Metric] = {metric.word: metric for metric in METRICS}
LABELLED: Mapping[str, str] = {
    "num_requests_waiting_by_reason": "reason",
    "num_requests_kv_fetch_by_stage": "stage",
    "prompt_tokens_by_source": "source",
}
"""Words that our own recordings write with the label's value behind a colon."""


@cache
def exposed() -> Mapping[str, Meant]:
    """Exposed name, parts of histograms included -> what it stands for."""
    found: dict[str, Meant] = {}
    for metric in METRICS:
        for age, name in enumerate(metric.names):
            labels = metric.labels.get(name, {})
            if metric.kind == HISTOGRAM:
                for part in PARTS:
                    found[f"{name}_{part}"] = Meant(metric.word, part, metric.kind, age, labels)
            else:
                found[name] = Meant(metric.word, "", metric.kind, age, labels)
    return found


@cache
def told(name: str) -> Meant | None:
    """What a name of our own recordings stands for: ``num_requests_waiting_by_reason:deferred:max``."""
    word, *rest = name.split(":")
    metric = BY_WORD.get(word)
    if metric is None:
        return None
    labels: dict[str, str] = {}
    if word in LABELLED and rest:
        labels = {LABELLED[word]: rest.pop(0)}
    if not rest:
        return Meant(word, "", metric.kind, 0, labels)
    fits = len(rest) == 1 and rest[0] in ((*PARTS, MAX) if metric.kind in {GAUGE, HISTOGRAM} else ())
    return Meant(word, rest[0], metric.kind, 0, labels) if fits else None
