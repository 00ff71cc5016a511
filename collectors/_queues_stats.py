"""``SchedulerStats`` and ``IterationStats`` as samples and requests.

Names are those of vLLM's Prometheus metrics without ``vllm:``, so that a series has one name whichever way it came.
vLLM calls these classes no stable interface: every field is read with a default, and an absent one is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from m3probe.schema import records

MAX = ":max"
"""Suffix of the largest value within the second; the bare name is the last one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One call of ``record``: the engine's index, its scheduler's and its front end's statistics, or None."""

    engine: int
    scheduler: Any
    iteration: Any


def samples(seen: Iterable[Seen], now_ns: int) -> Iterator[records.Sample]:
    """Per engine one sample of the scheduler (last and largest of gauges, sums of counters) and one of the iterations."""
    engines: dict[int, list[Seen]] = defaultdict(list)
    for one in seen:
        engines[one.engine].append(one)
    for engine, steps in sorted(engines.items()):
        labels = {"engine": str(engine)}
        scheduler = _scheduler([one.scheduler for one in steps if one.scheduler is not None])
        iteration = _iteration([one.iteration for one in steps if one.iteration is not None])
        if scheduler:
            yield records.Sample(mono_ns=now_ns, source="scheduler", values=scheduler, labels=labels)
        if iteration:
            yield records.Sample(mono_ns=now_ns, source="iteration", values=iteration, labels=labels)


def request(finished: Any, now_ns: int) -> records.Request:
    """One finished request, in vLLM's intervals: queued to scheduled, to first token, to last token; TTFT is not kept."""
    tokens = _int(finished, "num_generation_tokens")
    return records.Request(
        mono_ns=now_ns,
        prompt_tokens=_int(finished, "num_prompt_tokens"),
        output_tokens=tokens,
        cached_tokens=_int(finished, "num_cached_tokens"),
        finish=str(getattr(finished, "finish_reason", "")),
        queued_ns=_ns(finished, "queued_time"),
        prefill_ns=_ns(finished, "prefill_time"),
        decode_ns=_ns(finished, "decode_time") if tokens else None,
        e2e_ns=_ns(finished, "e2e_latency"),
        preemptions=_int(finished, "num_preemptions"),
    )


def _scheduler(steps: list[Any]) -> dict[str, float]:
    if not steps:
        return {}
    values: Counter[str] = Counter()
    for step in steps:
        values.update(_counters(step))
    told = dict(values) | {"stat_updates": float(len(steps))}
    gauges = [_gauges(step) for step in steps]
    for name in sorted({name for step in gauges for name in step}):
        series = [step.get(name, 0.0) for step in gauges]
        told |= {name: series[-1], name + MAX: max(series)}
    return told


def _gauges(step: Any) -> dict[str, float]:
    """As /metrics has them: ``num_requests_waiting`` is all that wait, deferred ones included."""
    waiting, deferred = (_float(step, name) for name in ("num_waiting_reqs", "num_skipped_waiting_reqs"))
    told = {
        "num_requests_running": _float(step, "num_running_reqs"),
        "num_requests_waiting": None if waiting is None else waiting + (deferred or 0.0),
        "num_requests_waiting_by_reason:capacity": waiting,
        "num_requests_waiting_by_reason:deferred": deferred,
        "kv_cache_usage_perc": _float(step, "kv_cache_usage"),
    }
    for stage, count in (getattr(step, "num_kv_fetch_reqs_by_stage", None) or {}).items():
        told[f"num_requests_kv_fetch_by_stage:{stage}"] = float(count)
    return {name: value for name, value in told.items() if value is not None}


def _counters(step: Any) -> dict[str, float]:
    local, remote = (getattr(step, name, None) for name in ("prefix_cache_stats", "connector_prefix_cache_stats"))
    spec = getattr(step, "spec_decoding_stats", None)
    told = {
        "prefix_cache_queries": _float(local, "queries"),
        "prefix_cache_hits": _float(local, "hits"),
        "prefix_cache_queries:preempted": _float(local, "preempted_queries"),
        "prefix_cache_hits:preempted": _float(local, "preempted_hits"),
        "external_prefix_cache_queries": _float(remote, "queries"),
        "external_prefix_cache_hits": _float(remote, "hits"),
        "spec_decode_num_drafts": _float(spec, "num_drafts"),
        "spec_decode_num_draft_tokens": _float(spec, "num_draft_tokens"),
        "spec_decode_num_accepted_tokens": _float(spec, "num_accepted_tokens"),
    }
    return {name: value for name, value in told.items() if value is not None}


def _iteration(steps: list[Any]) -> dict[str, float]:
    """Sums over the second; latencies as sum and count, so that means of longer spans can be made."""
    values: Counter[str] = Counter()
    for step in steps:
        values.update(_tokens(step))
        for name, field in (
            ("time_to_first_token_seconds", "time_to_first_tokens_iter"),
            ("inter_token_latency_seconds", "inter_token_latencies_iter"),
        ):
            taken = getattr(step, field, None) or ()
            values[f"{name}:sum"] += sum(taken)
            values[f"{name}:count"] += len(taken)
    return dict(values)


def _tokens(step: Any) -> dict[str, float]:
    prompt = getattr(step, "prompt_token_stats", None)
    told = {
        "prompt_tokens": _float(step, "num_prompt_tokens"),
        "prompt_tokens_by_source:local_compute": _float(prompt, "computed"),
        "prompt_tokens_by_source:local_cache_hit": _float(prompt, "local_cache_hit"),
        "prompt_tokens_by_source:external_kv_transfer": _float(prompt, "external_kv_transfer"),
        "generation_tokens": _float(step, "num_generation_tokens"),
        "num_preemptions": _float(step, "num_preempted_reqs"),
        "request_success": float(len(getattr(step, "finished_requests", None) or ())),
    }
    return {name: value for name, value in told.items() if value is not None}


def _float(of: Any, name: str) -> float | None:
    value = getattr(of, name, None)
    return float(value) if isinstance(value, int | float) else None


def _int(of: Any, name: str) -> int:
    value = getattr(of, name, None)
    return value if isinstance(value, int) else -1


def _ns(of: Any, name: str) -> int | None:
    """Seconds as ns. vLLM's marks start at 0.0, so an interval between marks that were never set is negative or huge."""
    value = getattr(of, name, None)
    return round(value * 1e9) if isinstance(value, int | float) and 0 <= value < 1e6 else None
