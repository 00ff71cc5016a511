"""InferenceX's result files: one point of its sweep, latencies in seconds, throughputs per GPU.

``utils/process_result.py`` takes a client's result and writes ``agg_*.json``; the agentic scenario writes the same head
with ``request_metrics`` and ``server_metrics`` below it, or those figures flat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from m3probe.model.bench import METRICS, BenchRun, Latency
from m3probe.readers._bench_documents import Result
from m3probe.readers._bench_latency import Stats, measured
from m3probe.readers._bench_run import completed_by, run_of


def inferencex_run(result: Result, file: int, path: str, index: int) -> BenchRun:
    """The run behind one aggregate. Its throughputs are those of all GPUs again."""
    run = run_of(result, file, path, index)
    prefill, decode = run.prefill_gpus, run.decode_gpus
    if prefill is not None and result.count("num_decode_gpu") == 0:
        prefill = None  # one worker does both: "prefill" is where the script puts it
    gpus = _gpus(result)
    run = replace(
        run,
        num_gpus=run.num_gpus or gpus,
        prefill_gpus=prefill,
        decode_gpus=decode if prefill is not None else None,
        backend=run.backend or result.text("framework"),
        label=run.label or _label(result),
    )
    run = completed_by(_nested(_throughputs(run, result), result))
    return replace(run, negative=tuple(result.negative))


def _gpus(result: Result) -> int | None:
    """GPUs of both roles; of a single node tp x pp x pcp, which is what the script divides by."""
    roles = [result.count(key) for key in ("num_prefill_gpu", "num_decode_gpu")]
    known = [count for count in roles if count is not None]
    if known:
        return sum(known) or None
    tp = result.count("tp")
    return tp * (result.count("pp") or 1) * (result.count("pcp_size") or 1) if tp else None


def _throughputs(run: BenchRun, result: Result) -> BenchRun:
    """Output is divided by the decode GPUs and input by the prefill GPUs where the roles have their own."""
    total = result.number("total_tput_tps")
    output = result.number("output_tput_tps")
    inputs = result.number("input_tput_tps")
    per = {name: result.number(f"{name}tput_per_gpu") for name in ("", "output_", "input_")}
    if run.num_gpus:
        total = _times(per[""], run.num_gpus) if total is None else total
        output = _times(per["output_"], run.decode_gpus or run.num_gpus) if output is None else output
        inputs = _times(per["input_"], run.prefill_gpus or run.num_gpus) if inputs is None else inputs
    return replace(
        run,
        total_token_throughput=run.total_token_throughput if total is None else total,
        output_throughput=run.output_throughput if output is None else output,
        input_throughput=run.input_throughput if inputs is None else inputs,
    )


def _times(value: float | None, by: int) -> float | None:
    return None if value is None else value * by


def _nested(run: BenchRun, result: Result) -> BenchRun:
    """What the agentic scenario adds; every figure may be missing."""
    asked, done = result.count("num_requests_total"), result.count("num_requests_successful")
    requests, server = result.inside("request_metrics"), result.inside("server_metrics")
    speed, tokens = requests.inside("throughput"), requests.inside("tokens")
    cache, kv = server.inside("cache"), server.inside("kv_cache")
    warm = result.inside("request_accounting").count("records_warmup_dropped") or 0
    failed = None if asked is None or done is None else max(asked - done - warm, 0)
    rate = requests.inside("qps").number("mean")
    return replace(
        run,
        num_prompts=run.num_prompts if asked is None else max(asked - warm, 0),
        completed=run.completed if done is None else done,
        failed=run.failed if failed is None else failed,
        duration_s=_first(run.duration_s, speed.number("duration_seconds"), result.number("duration_seconds")),
        request_throughput=_first(run.request_throughput, rate, result.number("mean_qps")),
        total_token_throughput=_first(run.total_token_throughput, speed.inside("total").number("tokens_per_second")),
        output_throughput=_first(run.output_throughput, speed.inside("output").number("tokens_per_second")),
        input_throughput=_first(run.input_throughput, speed.inside("input").number("tokens_per_second")),
        mean_input_tokens=_first(run.mean_input_tokens, tokens.inside("input").number("mean")),
        mean_output_tokens=_first(
            run.mean_output_tokens,
            tokens.inside("output_actual").number("mean"),
            result.number("mean_output_tokens_actual"),
        ),
        latencies=run.latencies or _latencies(requests.inside("latency")),
        prefix_cache_hit_rate=_first(
            run.prefix_cache_hit_rate,
            cache.share("gpu_cache_hit_rate"),
            result.share("server_gpu_cache_hit_rate", "gpu_cache_hit_rate"),
        ),
        theoretical_prefix_hit_rate=_first(
            run.theoretical_prefix_hit_rate, requests.inside("cache").share("theoretical_cache_hit_rate")
        ),
        kv_cache_usage=kv.share("gpu_usage_pct"),
        kv_capacity_tokens=kv.count("gpu_total_tokens") or result.count("kv_cache_pool_tokens"),
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _latencies(nested: Result) -> Mapping[str, Latency]:
    """``{"ttft": {"mean": s, "p50": s, ...}}``."""
    found: dict[str, Stats] = {}
    for metric in METRICS:
        stats = nested.inside(metric)
        values = {key: stats.number(key) for key in stats.values if key in ("mean", "median", "std") or _is_share(key)}
        found[metric] = {key: value * 1e3 for key, value in values.items() if value is not None and value >= 0}
    return measured(found)


def _is_share(key: str) -> bool:
    return key[:1] == "p" and key[1:].isascii() and key[1:].isdecimal() and len(key) <= 3


def _label(result: Result) -> str:
    parts = [result.text(key) for key in ("infmax_model_prefix", "hw", "precision", "framework")]
    return " ".join(part for part in parts if part)
