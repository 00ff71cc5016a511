"""Results in JSON: detailed ones with failures, seconds, InferenceX, SGLang, and files that are damaged."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from bench_kit import only, read, result, told, written
from tree import shared_or_skip

from m3probe.errors import UnreadableInput
from m3probe.model.bench import ITL, TPOT, TTFT
from m3probe.schema.verdicts import Outcome
from m3probe.sources import open_recording


def detailed(**more: Any) -> dict[str, Any]:
    """Two requests of 0.1 and 0.3 s TTFT with 3 tokens each, 50 and 100 ms apart, and one that failed."""
    lists = {
        "num_prompts": 3, "completed": 2, "failed": 1, "duration": 1.0, "total_input_tokens": 20, "total_output_tokens": 6,
        "request_throughput": 2.0, "output_throughput": 6.0, "total_token_throughput": 26.0, "max_concurrency": 3,
        "input_lens": [10, 10, 10], "output_lens": [3, 3, 0], "ttfts": [0.1, 0.3, 0.0],
        "itls": [[0.05, 0.05], [0.1, 0.1], []], "start_times": [5.0, 5.1, 5.2], "errors": ["", "", "Connection reset"],
        "generated_texts": ["a", "b", ""], "mean_ttft_ms": 200.0, "median_ttft_ms": 200.0, "p99_ttft_ms": 298.0,
        "mean_tpot_ms": 75.0, "median_tpot_ms": 75.0, "p99_tpot_ms": 99.5,
    }  # fmt: skip
    return result(**lists | more)


def test_a_detailed_result_keeps_its_requests(tmp_path: Path) -> None:
    run = only(read(tmp_path, detailed()))
    kept = run.requests
    assert kept is not None
    assert kept.success.tolist() == [True, True, False]
    assert kept.ttft_ns is not None
    assert kept.ttft_ns.tolist() == [100_000_000, 300_000_000, -1]
    assert kept.e2e_ns is not None
    assert kept.e2e_ns.tolist() == [200_000_000, 500_000_000, -1]
    assert kept.start_ns is not None
    assert kept.start_ns.tolist() == [5_000_000_000, 5_100_000_000, 5_200_000_000]
    assert run.errors == {"Connection reset": 1}
    assert run.stated == {}
    assert run.itl.mean_ms == pytest.approx(75.0)  # (50 + 50 + 100 + 100) / 4


def test_failed_requests_never_enter_a_mean(tmp_path: Path) -> None:
    """A client that averages 0.1, 0.3 and a failed 0.0 says 133 ms; the two successes had 200."""
    rec = read(tmp_path, detailed(mean_ttft_ms=133.333, median_ttft_ms=100.0, p99_ttft_ms=296.0))
    run = only(rec)
    assert run.ttft.mean_ms == pytest.approx(200.0)
    assert run.ttft.median_ms == pytest.approx(200.0)
    assert run.ttft.p99_ms == pytest.approx(298.0)
    assert run.stated == {"mean_ttft_ms": 133.333}
    assert "133.333 ms is not that of its successful requests, 200.000 ms" in told(rec)


def test_failures_are_counted_by_the_lists_of_a_client_that_counts_none(tmp_path: Path) -> None:
    known = {key: value for key, value in detailed().items() if key != "failed"}
    assert only(read(tmp_path, known)).failed == 1


def test_an_empty_answer_without_an_error_is_no_success(tmp_path: Path) -> None:
    kept = only(read(tmp_path, detailed(errors=["", "", ""]))).requests
    assert kept is not None
    assert kept.success.tolist() == [True, True, False]


def test_a_list_of_another_length_is_left_out_and_named(tmp_path: Path) -> None:
    rec = read(tmp_path, detailed(output_lens=[3]))
    assert only(rec).odd_lists == ("output_lens",)
    assert "left out: output_lens" in told(rec)
    kept = only(rec).requests
    assert kept is not None
    assert kept.output_tokens is None


def test_seconds_are_told_by_the_missing_unit(tmp_path: Path) -> None:
    run = only(
        read(tmp_path, {"median_ttft": 1.32, "p99_ttft": 4.5, "median_tpot": 0.0546, "completed": 10, "duration": 2.0})
    )
    assert run.dialect == "seconds"
    assert run.ttft.mean_ms is None
    assert run.ttft.median_ms == pytest.approx(1320.0)
    assert run.ttft.p99_ms == pytest.approx(4500.0)
    assert run.tpot.median_ms == pytest.approx(54.6)
    assert run.request_throughput == 5.0


def test_inferencex_divides_each_throughput_by_its_own_gpus(tmp_path: Path) -> None:
    """4 prefill + 8 decode GPUs: total 100 x 12, output 30 x 8, input 240 x 4: 1,200 = 240 + 960."""
    aggregate = {
        "hw": "mi355x", "conc": 512, "model": "amd/MiniMax-M3-MXFP4", "infmax_model_prefix": "minimaxm3",
        "framework": "vllm-disagg", "precision": "fp4", "spec_decoding": "none", "disagg": True, "is_multinode": True,
        "isl": 8192, "osl": 1024, "num_prefill_gpu": 4, "num_decode_gpu": 8, "prefill_tp": 4, "decode_tp": 4,
        "tput_per_gpu": 100.0, "output_tput_per_gpu": 30.0, "input_tput_per_gpu": 240.0, "mean_ttft": 1.5,
        "median_ttft": 1.25, "p99_ttft": 6.0, "mean_tpot": 0.05, "mean_intvty": 20.0,
    }  # fmt: skip
    run = only(read(tmp_path, aggregate))
    assert (run.num_gpus, run.prefill_gpus, run.decode_gpus) == (12, 4, 8)
    assert run.disaggregated is True
    assert run.total_token_throughput == 1200.0
    assert run.output_throughput == 240.0
    assert run.input_throughput == 960.0
    assert run.max_concurrency == 512
    assert run.ttft.mean_ms == 1500.0
    assert run.tpot.mean_ms == 50.0
    assert run.mean_output_tokens is None  # osl is what was asked for at most, not a mean
    assert run.request_throughput is None
    assert run.metadata["osl"] == "1024"


def test_inferencex_of_one_node_divides_by_its_parallel_sizes(tmp_path: Path) -> None:
    run = only(read(tmp_path, {"conc": 8, "tp": 4, "pp": 2, "tput_per_gpu": 100.0, "output_tput_per_gpu": 10.0}))
    assert run.num_gpus == 8
    assert run.total_token_throughput == 800.0
    assert run.output_throughput == 80.0
    assert run.prefill_gpus is None


def test_an_aggregated_deployment_has_no_roles(tmp_path: Path) -> None:
    run = only(
        read(
            tmp_path, {"conc": 8, "num_prefill_gpu": 8, "num_decode_gpu": 0, "tput_per_gpu": 10.0, "is_multinode": True}
        )
    )
    assert (run.num_gpus, run.prefill_gpus, run.decode_gpus) == (8, None, None)


def test_inferencex_agentic_holds_its_figures_below(tmp_path: Path) -> None:
    aggregate = {
        "scenario_type": "agentic-coding", "conc": 28, "tp": 4, "num_requests_total": 120, "num_requests_successful": 97,
        "request_accounting": {"records_warmup_dropped": 20, "records_error_dropped": 3},
        "request_metrics": {
            "qps": {"mean": 0.582}, "latency": {"ttft": {"p50": 0.645, "p95": 3.0}, "tpot": {"p50": 0.0413}},
            "tokens": {"output_actual": {"mean": 875.4}},
            "throughput": {"output": {"tokens_per_second": 509.5}, "duration_seconds": 200.0},
            "cache": {"theoretical_cache_hit_rate": 0.967},
        },
        "server_metrics": {"cache": {"gpu_cache_hit_rate": 0.921}, "kv_cache": {"gpu_usage_pct": 0.885, "gpu_total_tokens": 6264960}},
    }  # fmt: skip
    run = only(read(tmp_path, aggregate))
    assert (run.num_prompts, run.completed, run.failed) == (100, 97, 3)
    assert run.request_throughput == 0.582
    assert run.ttft.median_ms == 645.0
    assert run.ttft.percentiles == {95.0: 3000.0}
    assert run.mean_output_tokens == 875.4
    assert run.prefix_cache_hit_rate == 0.921
    assert run.theoretical_prefix_hit_rate == 0.967
    assert run.kv_cache_usage == 0.885
    assert run.kv_capacity_tokens == 6_264_960
    assert run.num_gpus == 4


def test_sglang_writes_zero_where_it_did_not_measure(tmp_path: Path) -> None:
    path = tmp_path / "sglang.jsonl"
    path.write_text(
        '{"backend": "sglang", "request_rate": Infinity, "max_concurrency": 4, "duration": 2.0, "completed": 8, '
        '"total_input_tokens": 80, "total_output_tokens": 800, "request_throughput": 4.0, "mean_ttft_ms": 30.0, '
        '"mean_itl_ms": 0.0, "median_itl_ms": 0.0, "mean_e2e_latency_ms": 990.0, "accept_length": 2.5}\n'
    )
    run = only(open_recording([path]))
    assert run.dialect == "sglang"
    assert run.request_rate == math.inf
    assert set(run.latencies) == {TTFT, "e2el"}
    assert run.e2el.mean_ms == 990.0
    assert run.drafts is not None
    assert run.drafts.acceptance_length == 2.5


def test_speculative_decoding_of_vllm(tmp_path: Path) -> None:
    more = {
        "spec_decode_acceptance_rate": 62.5, "spec_decode_acceptance_length": 2.875, "spec_decode_num_drafts": 1000,
        "spec_decode_draft_tokens": 3000, "spec_decode_accepted_tokens": 1875,
        "spec_decode_per_position_acceptance_rates": [0.9, 0.6, 0.375],
    }  # fmt: skip
    drafts = only(read(tmp_path, result(**more))).drafts
    assert drafts is not None
    assert drafts.acceptance_rate == 0.625  # vLLM writes per cent
    assert drafts.by_position == (0.9, 0.6, 0.375)
    assert drafts.accepted_tokens == 1875


def test_metadata_is_text(tmp_path: Path) -> None:
    run = only(read(tmp_path, result(tp="8", commit="abc", note={"not": "plain"})))
    assert run.metadata == {"tp": "8", "commit": "abc"}


@pytest.mark.parametrize("rate", ["inf", "Infinity", 10, 10.0, "10"])
def test_request_rates(tmp_path: Path, rate: Any) -> None:
    assert only(read(tmp_path, result(request_rate=rate))).request_rate in (10.0, math.inf)


def test_a_list_of_results_is_read(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps([result(max_concurrency=1), result(max_concurrency=2)], indent=1))
    assert [run.max_concurrency for run in open_recording([path]).meta.bench] == [1, 2]


def test_indented_results_one_after_the_other_are_read(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text("\n".join(json.dumps(result(max_concurrency=n), indent=2) for n in (1, 2, 4)))
    assert [run.max_concurrency for run in open_recording([path]).meta.bench] == [1, 2, 4]


def test_a_file_that_ends_in_its_last_result_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(result()) + "\n" + json.dumps(result())[:-30])
    rec = open_recording([path])
    assert len(rec.meta.bench) == 1
    assert rec.outcome is Outcome.PARTIAL
    assert "the result after the first 1 is cut" in told(rec)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(result())[:-30],
        '{"request_throughput": 1.0, "completed": }',
        '{"request_throughput": 1.0, "completed": 3} trailing words {',
        "[" * 5000 + '"request_throughput": 1, "completed": 2',
        '["request_throughput", "completed"]',
        '{"note": {"request_throughput": 1.0, "completed": 3}}',
    ],
)
def test_a_damaged_file_is_refused_or_keeps_what_is_whole(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    try:
        rec = open_recording([path])
    except UnreadableInput as error:
        assert str(path) in error.sentence()
    else:
        assert rec.outcome is Outcome.PARTIAL
        assert len(rec.meta.bench) == 1


def test_values_of_the_wrong_kind_are_not_known(tmp_path: Path) -> None:
    odd = result(
        completed="many", duration=[1], max_concurrency=-5, failed=1.5, mean_ttft_ms={"a": 1}, label=7, errors="none",
        ttfts=[[1]], itls=5, total_input_tokens=10**400, output_throughput=True,
    )  # fmt: skip
    run = only(read(tmp_path, odd))
    assert (run.completed, run.duration_s, run.max_concurrency, run.failed) == (None, None, None, None)
    assert run.ttft.mean_ms is None
    assert run.total_input_tokens is None
    assert run.output_throughput is None
    assert run.requests is None


def test_times_of_requests_beyond_any_clock_are_not_known(tmp_path: Path) -> None:
    kept = only(read(tmp_path, detailed(start_times=[1e30, -1.0, 5.0]))).requests
    assert kept is not None
    assert kept.start_ns is not None
    assert kept.start_ns.tolist() == [-1, -1, 5_000_000_000]


def test_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bench.json.gz"
    path.write_bytes(gzip.compress(json.dumps(result()).encode()))
    assert only(open_recording([path])).completed == 100


def test_a_folder_is_a_sweep(tmp_path: Path) -> None:
    for concurrency in (8, 16, 32):
        written(tmp_path, result(max_concurrency=concurrency), name=f"c{concurrency:02}.json")
    runs = open_recording([tmp_path]).meta.bench
    assert [run.max_concurrency for run in runs] == [8, 16, 32]
    assert [run.file for run in runs] == [0, 1, 2]
    assert {run.name for run in runs} == {"c08.json", "c16.json", "c32.json"}


def test_the_real_result_of_a_cpu_server() -> None:
    """60 requests, 64 + 64 tokens; its own means are those of its requests."""
    run = only(open_recording([shared_or_skip("traces/cpu/bench_serve_tp2_moe.json")]))
    kept = run.requests
    assert kept is not None
    assert len(kept) == 60
    assert run.stated == {}
    assert run.odd_lists == ()
    assert kept.itl_count is not None
    assert kept.itl_count.sum() == 60 * 63
    assert set(run.latencies) >= {TTFT, TPOT, ITL}
