"""Cache, admission, KV transfer, ranks and drafts by metrics: each cause told from its neighbours, by hand-made pages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from metrics_kit import findings, histogram, judged, lines, page, rows, series
from recording_kit import SECOND, write

from m3probe.analyzers._queues_spread import spread_findings
from m3probe.model.bench import BenchRun
from m3probe.model.recording import RecordingBuilder
from m3probe.schema import records
from m3probe.schema.roles import Role


def theoretical(folder: Path, rate: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    run = {"label": "trace", "num_gpus": 4, "max_concurrency": 8, "theoretical_prefix_hit_rate": rate}
    (folder / "bench.json").write_text(json.dumps({**run, "request_throughput": 0.5, "output_throughput": 400.0}))


def cached(hits: float, usage: float) -> dict[str, float]:
    return {
        "prefix_cache_queries_total": 1000 + 10_000,
        "prefix_cache_hits_total": 500 + hits,
        "kv_cache_usage_perc": usage,
    }


BEFORE = {"prefix_cache_queries_total": 1000, "prefix_cache_hits_total": 500, "kv_cache_usage_perc": 0.1}


# --- prefix cache ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "verdict", "why"),
    [
        (0.86, "eviction", "eviction takes prefixes away"),
        (0.69, "alignment", "alignment or routing"),
        (0.8, "unproven", "does not tell"),
    ],
)
def test_the_gap_to_an_endless_cache_is_eviction_where_it_is_full_and_alignment_where_it_has_room(
    tmp_path: Path, usage: float, verdict: str, why: str
) -> None:
    theoretical(tmp_path, 0.9)
    series(tmp_path / "pages", [BEFORE, cached(8000, usage)])
    finding = findings(judged(tmp_path))["queues.prefix_cache"]
    # 8,000 of the 10,000 tokens between the pages; (1 - 0.8) / (1 - 0.9)
    assert (finding.verdict, why in finding.claim) == (verdict, True)
    assert "80.0 % where an endless one would hit 90.0 %: 2.00 x the uncached prompt work" in finding.claim


@pytest.mark.parametrize(("hits", "told"), [(8810, False), (8790, True)])
def test_a_gap_of_two_points_is_no_finding(tmp_path: Path, hits: float, told: bool) -> None:
    theoretical(tmp_path, 0.9)
    series(tmp_path / "pages", [BEFORE, cached(hits, 0.9)])
    assert ("queues.prefix_cache" in findings(judged(tmp_path))) is told


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ({"rounding": 900, "eviction": 100}, "alignment"),
        ({"rounding": 100, "eviction": 900}, "eviction"),
        ({"not_computed": 1000}, "concurrency"),
    ],
)
def test_what_the_guest_counted_beats_what_the_cache_use_suggests(
    tmp_path: Path, lost: dict[str, int], verdict: str
) -> None:
    told = {f"lost_{cause}": tokens for cause, tokens in lost.items()}
    cache = records.PrefixCache(
        mono_ns=SECOND,
        queries=10_000,
        hits=8000,
        infinite_hits=9000,
        **{"lost_rounding": 0, "lost_eviction": 0, "lost_not_computed": 0, **told},
    )
    use = records.Sample(
        mono_ns=SECOND, source="scheduler", labels={"engine": "0"}, values={"kv_cache_usage_perc": 0.99}
    )
    write(tmp_path / "a.m3p", [cache, use], role=Role.API)
    finding = findings(judged(tmp_path / "a.m3p"))["queues.prefix_cache"]
    assert finding.verdict == verdict
    assert "2.00 x the uncached prompt work" in finding.claim


def test_an_endless_cache_that_misses_nothing_gives_no_factor(tmp_path: Path) -> None:
    theoretical(tmp_path, 1.0)
    series(tmp_path / "pages", [BEFORE, cached(8000, 0.9)])
    assert "queues.prefix_cache" not in findings(judged(tmp_path))


def test_blocks_of_an_early_version_give_the_same_rate(tmp_path: Path) -> None:
    held = {"vllm:gpu_prefix_cache_queries_total": 200, "vllm:gpu_prefix_cache_hits_total": 50}
    (tmp_path / "m.prom").write_text(page(held))
    assert lines(judged(tmp_path))["prefix_cache"].startswith("hit 25.0% of 200")


def test_sglang_counts_cached_tokens_of_all_prompt_tokens(tmp_path: Path) -> None:
    (tmp_path / "m.prom").write_text("sglang:prompt_tokens_total 1000\nsglang:cached_tokens_total 300\n")
    assert lines(judged(tmp_path))["prefix_cache"].startswith(
        "hit 30.0% of 1,000 prompt tokens since the server's start"
    )


# --- admission and KV capacity ---------------------------------------------------------------------------------------------


def growing(usage: float, deferred: float = 0.0) -> list[dict[str, float]]:
    return [
        {
            "num_requests_waiting": 5 * n,
            'num_requests_waiting_by_reason{engine="0",reason="capacity"}': 5 * n * (1 - deferred),
            'num_requests_waiting_by_reason{engine="0",reason="deferred"}': 5 * n * deferred,
            "num_requests_running": 8,
            "kv_cache_usage_perc": usage,
        }
        for n in range(12)
    ]


@pytest.mark.parametrize(
    ("usage", "deferred", "why"),
    [
        (0.97, 0.0, "the KV cache is full (97.0 % at most)"),
        (0.4, 0.0, "the KV cache is not full (40.0 % at most): the token budget or --max-num-seqs"),
        (0.97, 0.9, "requests deferred (KV transfer or another blocked state)"),
    ],
)
def test_an_admission_queue_that_grows_says_what_it_waits_for(
    tmp_path: Path, usage: float, deferred: float, why: str
) -> None:
    finding = findings(judged(series(tmp_path, growing(usage, deferred))))["queues.admission"]
    assert why in finding.claim
    assert (finding.verdict, finding.confidence) == ("grows", "high")
    assert finding.evidence[0].table == "metrics"


def test_preemptions_are_told_with_what_finished_meanwhile(tmp_path: Path) -> None:
    held = [
        {"num_preemptions_total": 3 + n, 'request_success_total{engine="0"}': 4 * n, "kv_cache_usage_perc": 0.99}
        for n in range(6)
    ]
    finding = findings(judged(series(tmp_path, held)))["queues.preemptions"]
    assert "5 preemption(s) while 20 requests finished with at most 99.0 % of the KV cache in use" in finding.claim


def test_preemptions_before_the_first_page_are_none_of_this_time(tmp_path: Path) -> None:
    held = [{"num_preemptions_total": 900, 'request_success_total{engine="0"}': 4 * n} for n in range(6)]
    assert findings(judged(series(tmp_path, held))) == {}


# --- KV transfer -----------------------------------------------------------------------------------------------------------------

STAGE = 'num_requests_kv_fetch_by_stage{{engine="0",stage="{0}"}}'
CAME = 'prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"}'


def moving(number: int, waiting: float, came: float, took_s: float = 0.1) -> dict[str, float]:
    """One transfer of 2 GB a second."""
    done = float(number)
    bounds = {"0.05": 0.0, "0.2": done, "+Inf": done} if took_s < 0.2 else {"0.05": 0.0, "0.2": 0.0, "+Inf": done}
    return {
        STAGE.format("waiting_to_start"): 0,
        STAGE.format("in_progress"): waiting,
        CAME: came,
        "num_requests_running": 4,
        **histogram("nixl_xfer_time_seconds", bounds, done * took_s),
        **histogram("nixl_bytes_transferred", {"+Inf": done}, done * 2e9),
    }


def test_kv_transfer_is_a_queue_with_its_stages_bytes_and_times(tmp_path: Path) -> None:
    found = judged(series(tmp_path, [moving(n, 2, 100 * n) for n in range(11)]))
    line = lines(found)["kv_transfer"]
    assert "in progress 2 to 2 requests in 11 sample(s)" in line
    # 10 transfers of 2 GB in 10 s, each 0.1 s long; the bucket's upper bound
    assert "10 transfer(s) by nixl metrics, 20.000 GB (2.000 GB/s over the time seen, 20.000 GB/s while one ran" in line
    assert "99 % within 200.0 ms" in line
    assert rows(found)["kv_transfer.in_progress"].length_mean == 2
    assert findings(found) == {}


def test_a_stage_that_grows_is_a_finding(tmp_path: Path) -> None:
    finding = findings(judged(series(tmp_path, [moving(n, 3 * n, 100 * n) for n in range(11)])))["queues.kv_transfer"]
    assert finding.verdict == "grows"
    assert "0 to 30 requests" in finding.claim


@pytest.mark.parametrize(("still_s", "stranded"), [(4, True), (2, False)])
def test_requests_that_wait_ten_times_a_transfer_without_an_arrival_are_stranded(
    tmp_path: Path, still_s: int, stranded: bool
) -> None:
    # 99 % within 0.2 s: more than 2 s without an arrival while 3 wait
    came = [100 * n for n in range(6)] + [500] * still_s + [700]
    found = findings(judged(series(tmp_path, [moving(n, 3, tokens) for n, tokens in enumerate(came)])))
    assert ("queues.kv_transfer.stranded" in found) is stranded
    if stranded:
        assert (
            "3 or more requests waited 4.0 s for their KV and none arrived, 20 x"
            in found["queues.kv_transfer.stranded"].claim
        )


def test_a_connector_that_exports_nothing_is_still_a_queue(tmp_path: Path) -> None:
    held = [
        {'num_requests_waiting_by_reason{engine="0",reason="deferred"}': 4 * n, CAME: 50 * n, "num_requests_running": 2}
        for n in range(8)
    ]
    found = judged(series(tmp_path, held))
    assert "deferred 0 to 28 requests" in lines(found)["kv_transfer"]
    assert "the connector exports no time and no bytes" in lines(found)["kv_transfer"]
    assert "its connector exports nothing of its transfers" in findings(found)["queues.kv_transfer"].claim


# --- ranks -------------------------------------------------------------------------------------------------------------------------


def by_engine(name: str, *values: float) -> dict[str, float]:
    return {f'{name}{{engine="{engine}"}}': value for engine, value in enumerate(values)}


def test_ranks_that_hit_unlike_shares_are_skewed(tmp_path: Path) -> None:
    first = by_engine("prefix_cache_queries_total", 0, 0) | by_engine("prefix_cache_hits_total", 0, 0)
    last = by_engine("prefix_cache_queries_total", 2000, 2000) | by_engine("prefix_cache_hits_total", 1800, 1500)
    finding = findings(judged(series(tmp_path, [first, last])))["queues.rank_skew.hits"]
    assert "Engine 0 hits 90.0 % of its prompt tokens, engine 1 75.0 %" in finding.claim


@pytest.mark.parametrize(("busiest", "skewed"), [(20, True), (9, False)])
def test_a_rank_that_runs_far_more_requests_than_the_mean_is_told(tmp_path: Path, busiest: float, skewed: bool) -> None:
    # 20 of (20 + 5 + 5) / 3 = 10 is twice the mean; 9 of 6.3 is 1.4 times
    held = [by_engine("num_requests_running", busiest, 5, 5)] * 6
    assert ("queues.rank_skew.load" in findings(judged(series(tmp_path, held)))) is skewed


def test_hits_that_were_promised_and_never_came_are_a_lookup_of_another_rank(tmp_path: Path) -> None:
    held = [
        {
            "external_prefix_cache_hits_total": 5000 * n,
            'prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"}': 400 * n,
            'request_success_total{engine="0"}': n,
        }
        for n in range(3)
    ]
    finding = findings(judged(series(tmp_path, held)))["queues.lookup_skew"]
    assert "promised 10,000 tokens and 800 came" in finding.claim


@pytest.mark.parametrize(("counted", "told"), [(8, True), (16, False)])
def test_gpus_of_both_sides_are_the_denominator(counted: int, told: bool) -> None:
    builder = RecordingBuilder()
    run = BenchRun(file=0, path="pd.json", num_gpus=counted, prefill_gpus=8, decode_gpus=8)
    builder.meta = replace(builder.meta, bench=(run,))
    found = [f.claim for f in spread_findings(builder.build())]
    assert bool(found) is told
    assert (
        not told
        or "8 prefill + 8 decode GPUs are 16, and the run counts 8: its figures per GPU are off by 2.00x" in found[0]
    )


# --- drafts ---------------------------------------------------------------------------------------------------------------------------


def test_acceptance_is_told_by_position_and_of_these_prompts_alone(tmp_path: Path) -> None:
    def drafted(n: int) -> dict[str, float]:
        per = {
            f'spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{p}"}}': v * n
            for p, v in enumerate((70, 40, 10))
        }
        return {"spec_decode_num_drafts_total": 100 * n, "spec_decode_num_accepted_tokens_total": 120 * n, **per}

    line = lines(judged(series(tmp_path, [drafted(1), drafted(3)])))["acceptance"]
    # 200 drafts, 240 tokens accepted
    assert line.startswith("2.20 tokens a verified draft: 70%, 40%, 10% by position (200 drafts)")
    assert "of these prompts alone" in line
