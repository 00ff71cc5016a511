"""One result of a benchmark -> a run: whichever of its dialects it is in (docs/bench.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from m3probe.model.bench import ITL, TPOT, BenchRun, Drafts, Latency
from m3probe.readers._bench_documents import Result, finite
from m3probe.readers._bench_latency import KEY, by_requests, said
from m3probe.readers._bench_requests import LISTS, Kept, kept_of

MOST_LABELS = 100
"""Further values that are kept of a run, and how long their text may be."""
MOST_TEXT = 200
_READ = {
    "date", "endpoint_type", "backend", "label", "model_id", "model", "num_prompts", "request_rate", "burstiness",
    "max_concurrency", "conc", "duration", "completed", "failed", "total_input_tokens", "total_output_tokens",
    "request_throughput", "request_goodput", "input_throughput", "output_throughput", "total_token_throughput",
    "max_output_tokens_per_s", "max_concurrent_requests", "num_gpus", "num_prefill_gpu", "num_decode_gpu",
    "mean_input_tokens", "mean_output_tokens", "prefix_cache_hit_rate", "theoretical_prefix_hit_rate",
    "generated_texts", "framework", *LISTS,
}  # fmt: skip
_DRAFTS = ("spec_decode_", "")
"""vLLM's prefix of its speculative keys, and none."""


def run_of(result: Result, file: int, path: str, index: int) -> BenchRun:
    """The run that one result of a client states: vLLM's of any age, SGLang's, or one in seconds."""
    kept = kept_of(result)
    latencies, stated = by_requests(said(result), kept)
    completed, failed = result.count("completed"), result.count("failed")
    run = BenchRun(
        file=file,
        path=path,
        index=index,
        dialect=dialect_of(result),
        label=result.text("label"),
        backend=result.text("backend", "endpoint_type"),
        model=result.text("model_id", "model"),
        date=result.text("date"),
        duration_s=result.number("duration"),
        num_prompts=result.count("num_prompts"),
        completed=completed,
        failed=failed if failed is not None else _failed(kept, completed),
        max_concurrency=result.count("max_concurrency", "conc") or None,
        max_concurrent_requests=result.count("max_concurrent_requests"),
        request_rate=rate_of(result),
        burstiness=result.number("burstiness"),
        num_gpus=result.count("num_gpus") or None,
        prefill_gpus=result.count("num_prefill_gpu") or None,
        decode_gpus=result.count("num_decode_gpu") or None,
        total_input_tokens=result.count("total_input_tokens"),
        total_output_tokens=result.count("total_output_tokens"),
        mean_input_tokens=result.number("mean_input_tokens"),
        mean_output_tokens=result.number("mean_output_tokens"),
        request_throughput=result.number("request_throughput"),
        input_throughput=result.number("input_throughput"),
        output_throughput=result.number("output_throughput"),
        total_token_throughput=result.number("total_token_throughput"),
        max_output_tokens_per_s=result.number("max_output_tokens_per_s"),
        goodput=result.number("request_goodput"),
        latencies=latencies,
        requests=kept.requests,
        odd_lists=kept.odd,
        errors=kept.errors,
        drafts=drafts_of(result),
        prefix_cache_hit_rate=result.share("prefix_cache_hit_rate"),
        theoretical_prefix_hit_rate=result.share("theoretical_prefix_hit_rate", "theoretical_cache_hit_rate"),
        metadata=metadata_of(result),
        stated=stated,
    )
    return replace(completed_by(run), negative=tuple(result.negative))


def completed_by(run: BenchRun) -> BenchRun:
    """``run`` with the figures that follow from its others, named in ``derived``; without those it cannot have measured."""
    run = _with_means(run)
    follows = {
        "request_throughput": _request_throughput(run),
        "output_throughput": _per_second(run, run.total_output_tokens),
        "total_token_throughput": _total(run),
    }
    new: dict[str, Any] = {k: v for k, v in follows.items() if v is not None and getattr(run, k) is None}
    run = _with_means(replace(run, **new, derived=(*run.derived, *new)))
    return replace(run, latencies=_measurable(run))


def rate_of(result: Result) -> float | None:
    """Requests a second that were asked for; ``inf`` as text, as a number, or repaired from one."""
    value = result.any("request_rate")
    if isinstance(value, str) and value.strip().lower() in ("inf", "infinity"):
        return math.inf
    found = finite(value)
    return found if found is not None and found > 0 else None


def dialect_of(result: Result) -> str:
    """Which client or script wrote it."""
    if "scenario_type" in result or "request_metrics" in result:
        return "inferencex-agentic"
    if "tput_per_gpu" in result:
        return "inferencex"
    if result.text("backend") == "sglang" or "sharegpt_output_len" in result:
        return "sglang"
    if any(KEY.fullmatch(key) and not key.endswith("_ms") for key in result.values):
        return "seconds"
    return "vllm-2024" if "input_throughput" in result and "endpoint_type" not in result else "vllm"


def drafts_of(result: Result) -> Drafts | None:
    """Speculative decoding; vLLM's rate is per cent, its shares by position are 0 to 1."""
    for prefix in _DRAFTS:
        rate = result.number(f"{prefix}acceptance_rate")
        length = result.number(f"{prefix}acceptance_length", "accept_length")
        if rate is None and length is None:
            continue
        listed = result.any(f"{prefix}per_position_acceptance_rates")
        positions = [finite(value) for value in listed] if isinstance(listed, list) else []
        return Drafts(
            acceptance_rate=None if rate is None else rate / 100,
            acceptance_length=length or None,
            drafts=result.count(f"{prefix}num_drafts"),
            draft_tokens=result.count(f"{prefix}draft_tokens"),
            accepted_tokens=result.count(f"{prefix}accepted_tokens"),
            by_position=tuple(value for value in positions if value is not None),
        )
    return None


def metadata_of(result: Result, read: set[str] = _READ) -> Mapping[str, str]:
    """Plain values of keys that no field holds, as text: ``--metadata``, and what a script added."""
    found: dict[str, str] = {}
    for key in result.values:
        if key in read or KEY.fullmatch(key) or len(key) > MOST_TEXT or len(result.values[key]) > 4 * MOST_TEXT:
            continue
        value = result.any(key)
        if isinstance(value, str | int | float) and value != "":
            found[key] = str(value)[:MOST_TEXT]
        if len(found) == MOST_LABELS:
            break
    return found


def _failed(kept: Kept, completed: int | None) -> int | None:
    """Failures of a client that does not count them: requests that its lists hold beyond those that completed."""
    if kept.requests is None:
        return None
    found = int((~kept.requests.success).sum())
    return found if completed is None or completed + found == len(kept.requests) else None


def _with_means(run: BenchRun) -> BenchRun:
    done = run.completed or None
    inputs, outputs = run.mean_input_tokens, run.mean_output_tokens
    if inputs is None and run.total_input_tokens is not None and done:
        inputs = run.total_input_tokens / done
    if outputs is None and run.total_output_tokens is not None and done:
        outputs = run.total_output_tokens / done
    if outputs is None and run.output_throughput and run.request_throughput:
        outputs = run.output_throughput / run.request_throughput
    return replace(run, mean_input_tokens=inputs, mean_output_tokens=outputs)


def _request_throughput(run: BenchRun) -> float | None:
    if run.completed is not None and run.duration_s:
        return run.completed / run.duration_s
    if run.total_token_throughput is None or run.mean_input_tokens is None or run.mean_output_tokens is None:
        return None
    tokens = run.mean_input_tokens + run.mean_output_tokens
    return run.total_token_throughput / tokens if tokens else None


def _per_second(run: BenchRun, tokens: int | None) -> float | None:
    return tokens / run.duration_s if tokens is not None and run.duration_s else None


def _total(run: BenchRun) -> float | None:
    if run.total_input_tokens is None or run.total_output_tokens is None:
        return None
    return _per_second(run, run.total_input_tokens + run.total_output_tokens)


def _measurable(run: BenchRun) -> Mapping[str, Latency]:
    """Latencies that the run can have measured: of no request there are none, between one token and nothing neither."""
    if run.completed == 0:
        return {}
    if run.mean_output_tokens is not None and run.mean_output_tokens <= 1:
        return {metric: latency for metric, latency in run.latencies.items() if metric not in (TPOT, ITL)}
    return run.latencies
