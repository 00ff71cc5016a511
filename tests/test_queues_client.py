"""Benchmark runs beside the server's metrics: which queue holds the requests, what vLLM never sees, limits of the OS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from metrics_kit import findings, histogram, judged, lines, page, series
from recording_kit import SECOND, write

from m3probe.model.report import BottleneckSection, NextBottleneck, Report
from m3probe.schema import records
from m3probe.schema.roles import Role

CASES = Path(__file__).parent / "data" / "cases"


def bench(folder: Path, **values: Any) -> Path:
    """A run of 64 in flight: 8 requests/s x (1 s to the first token + 99 x 70 ms) = 8 + 55.4."""
    known = {
        "label": "run",
        "backend": "vllm",
        "date": "20251124-160100",
        "duration": 100.0,
        "completed": 800,
        "failed": 0,
        "num_prompts": 800,
        "max_concurrency": 64,
        "request_rate": "inf",
        "total_input_tokens": 800_000,
        "total_output_tokens": 80_000,
        "request_throughput": 8.0,
        "output_throughput": 800.0,
        "total_token_throughput": 8800.0,
        "mean_ttft_ms": 1000.0,
        "median_ttft_ms": 1000.0,
        "mean_tpot_ms": 70.0,
        "median_tpot_ms": 70.0,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench.json"
    path.write_text(json.dumps({**known, **values}))
    return path


def chosen(found: Report) -> NextBottleneck:
    held = found.answer.section(BottleneckSection)
    assert held is not None and held.next_bottleneck is not None
    return held.next_bottleneck


# --- published points --------------------------------------------------------------------------------------------------


def test_b20_waits_for_prefill_capacity() -> None:
    found = judged(CASES / "b20_pd_1024.json")
    claim = findings(found)["queues.prefill.0"].claim
    # 33,353.6 / 8,271 = 4.0326/s; x 223.2 s = 900.1; x 31.26 ms x 916 = 115.5
    assert "900 of 1,024 requests in flight wait for their first token and 115 decode" in claim
    assert "prefill capacity is short" in claim
    assert (chosen(found).finding, "queues.decode.0" in findings(found)) == ("queues.prefill.0", False)
    bound = chosen(found).bound
    assert bound is not None and bound.high == pytest.approx(900.1 / 1015.5, abs=0.001)
    assert "prefill workers or re-ratio" in findings(found)["queues.prefill.0"].advice


def test_b21_waits_for_the_decode_step() -> None:
    found = judged(CASES / "b21_pd_512.json")
    claim = findings(found)["queues.decode.0"].claim
    assert "12 of 512 requests in flight wait for their first token and 462 decode" in claim
    assert (chosen(found).finding, "queues.prefill.0" in findings(found)) == ("queues.decode.0", False)


def test_sixteen_and_twelve_gpus_make_no_speed_up() -> None:
    found = judged(CASES / "b20_pd_1024.json", CASES / "b21_pd_512.json")
    claims = [f.claim for f in found.answer.findings]
    assert any("GPUs 16 against 12" in claim and "no speed-up is claimed" in claim for claim in claims)
    assert not any("faster than" in claim for claim in claims)


def test_b22_computes_prompts_again_before_any_gemm() -> None:
    found = judged(CASES / "b22_agentx")
    finding = findings(found)["queues.prefix_cache"]
    assert (finding.verdict, chosen(found).finding) == ("eviction", "queues.prefix_cache")
    # (1 - 0.921) / (1 - 0.967) = 2.394; 48,945 x 128 x 0.885 = 5,544,490
    for word in ("92.1 %", "96.7 %", "2.39 x", "88.5 %", "5,544,490 of 6,264,960 tokens"):
        assert word in finding.claim
    assert "before any GEMM" in finding.advice
    assert finding.bound is not None and finding.bound.high == pytest.approx(1 - 0.033 / 0.079)
    assert {e.table for e in finding.evidence} == {"metrics", "bench.runs"}


def test_a_run_in_which_nothing_can_be_believed_names_no_queue(tmp_path: Path) -> None:
    bench(tmp_path, completed=300, failed=500, mean_ttft_ms=7000.0)
    assert [id_ for id_ in findings(judged(tmp_path)) if id_.startswith(("queues.prefill", "queues.decode"))] == []


def test_a_balanced_run_names_neither_queue(tmp_path: Path) -> None:
    # 8/s x 3 s = 24 wait, 8 x 99 x 50 ms = 39.6 decode: neither half nor four fifths of 64
    bench(tmp_path, mean_ttft_ms=3000.0, mean_tpot_ms=50.0)
    assert findings(judged(tmp_path)) == {}


def test_prefill_pages_beside_a_run_make_its_queue_certain(tmp_path: Path) -> None:
    bench(tmp_path / "run", max_concurrency=64, mean_ttft_ms=6000.0, mean_tpot_ms=20.0)
    for server, waiting, running in (("prefill", 45, 2), ("decode", 0, 16)):
        pages = [{"num_requests_waiting": waiting, "num_requests_running": running}] * 8
        series(tmp_path / "pages", pages, server=server)
    found = findings(judged(tmp_path))
    assert (found["queues.prefill.0"].confidence, found["queues.prefill.0"].verdict) == ("high", "prefill")
    assert "waiting 45 to 45 requests" in found["queues.prefill.0"].claim
    assert "TTFT 6,000 ms and TPOT 20.00 ms belong together" in found["queues.pd"].claim


# --- outside vLLM --------------------------------------------------------------------------------------------------------


def pages(waiting: float, running: float, ttft_s: float = 0.4, count: int = 30) -> list[dict[str, float]]:
    made = []
    for n in range(count):
        done = 8.0 * n
        made.append(
            {
                "num_requests_waiting": waiting,
                "num_requests_running": running,
                'request_success_total{engine="0"}': done,
                **histogram("time_to_first_token_seconds", {"+Inf": done}, done * ttft_s),
            }
        )
    return made


def test_requests_that_vllm_never_held_are_outside_of_it(tmp_path: Path) -> None:
    bench(tmp_path)
    series(tmp_path / "pages", pages(waiting=10, running=30))
    found = judged(tmp_path)
    finding = findings(found)["queues.outside_vllm"]
    # 64 - 40 = 24 of 64; the client's 1,000 ms to the first token are 600 ms more than the server's
    assert "37.5 % of the requests in flight are outside vLLM" in finding.claim
    assert "(24 hidden)" in finding.claim
    assert "600 ms of it are outside" in finding.claim
    # of 1,000 + 99 x 70 = 7,930 ms
    assert finding.bound is not None and finding.bound.high == pytest.approx(600 / 7930)
    assert chosen(found).finding == "queues.outside_vllm"


@pytest.mark.parametrize(("running", "hidden"), [(48, False), (47, True)])
def test_a_tenth_of_the_concurrency_may_be_on_its_way(tmp_path: Path, running: int, hidden: bool) -> None:
    bench(tmp_path)
    series(tmp_path / "pages", pages(waiting=10, running=running))  # 6 of 64 hidden is 9.4 %, 7 is 10.9 %
    assert ("queues.outside_vllm" in findings(judged(tmp_path))) is hidden


def test_requests_of_all_engines_and_servers_are_inside(tmp_path: Path) -> None:
    bench(tmp_path)
    for server in ("decode", "prefill"):
        held = [
            {
                f'num_requests_{what}{{engine="{engine}"}}': value
                for engine in (0, 1)
                for what, value in (("waiting", 8), ("running", 8))
            }
            for _ in range(30)
        ]
        series(tmp_path / "pages", held, server=server)  # 2 servers x 2 engines x 16 = 64
    assert "queues.outside_vllm" not in findings(judged(tmp_path))


def test_a_single_page_is_not_taken_for_the_whole_run(tmp_path: Path) -> None:
    bench(tmp_path)
    (tmp_path / "m.prom").write_text(page({"num_requests_waiting": 0, "num_requests_running": 5}))
    found = judged(tmp_path)
    assert "queues.outside_vllm" not in findings(found)
    assert "the client keeps 64 in flight, vLLM held at most 5" in lines(found)["outside_vllm"]


def test_a_finite_request_rate_has_no_hidden_requests(tmp_path: Path) -> None:
    bench(tmp_path, request_rate=8.0)
    series(tmp_path / "pages", pages(waiting=1, running=3))
    assert "queues.outside_vllm" not in findings(judged(tmp_path))


# --- the front end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cores", "full"), [(0.97, True), (0.6, False)])
def test_an_api_server_near_one_core_is_the_front_end(tmp_path: Path, cores: float, full: bool) -> None:
    series(tmp_path, [held | {"process_cpu_seconds_total": 50 + cores * n} for n, held in enumerate(pages(0, 30))])
    found = findings(judged(tmp_path))
    assert ("queues.front_end" in found) is full
    if full:
        assert "uses 0.97 cores" in found["queues.front_end"].claim


def test_the_guest_in_the_api_server_tells_its_cores_too(tmp_path: Path) -> None:
    hosts = [
        records.Host(
            mono_ns=n * SECOND, pid=7, role="api", fds=40, fd_soft=65_535, fd_hard=65_535, cpu_ns=n * SECOND * 9 // 10
        )
        for n in range(0, 31, 5)
    ]
    write(tmp_path / "a.m3p", hosts, role=Role.API)
    claim = findings(judged(tmp_path / "a.m3p"))["queues.front_end"].claim
    assert "uses 0.90 cores" in claim


# --- limits ----------------------------------------------------------------------------------------------------------------------


def test_nofile_1024_at_concurrency_1024_is_an_os_limit(tmp_path: Path) -> None:
    bench(tmp_path, max_concurrency=1024)
    (tmp_path / "m.prom").write_text(page({"process_max_fds": 1024, "process_open_fds": 89, "num_requests_running": 1}))
    found = judged(tmp_path)
    claim = findings(found)["queues.os_limit.nofile.the API server"].claim
    assert "1,024 requests at once need about 2 x 1,024 + 89 = 2,137 file descriptors" in claim
    assert "the API server may open 1,024" in claim
    assert chosen(found).finding == "queues.os_limit.nofile.the API server"


@pytest.mark.parametrize(("limit", "short"), [(2136, True), (2137, False)])
def test_the_limit_is_twice_the_concurrency_and_what_is_open_anyway(tmp_path: Path, limit: int, short: bool) -> None:
    bench(tmp_path, max_concurrency=1024)
    (tmp_path / "m.prom").write_text(page({"process_max_fds": limit, "process_open_fds": 89}))
    assert any("os_limit" in id_ for id_ in findings(judged(tmp_path))) is short


def test_a_guests_limit_counts_where_its_sockets_are_requests(tmp_path: Path) -> None:
    bench(tmp_path, max_concurrency=1024)
    for role, pid in (("worker", 1), ("api", 2)):
        host = records.Host(mono_ns=SECOND, pid=pid, role=role, fds=90, fd_soft=1024, fd_hard=4096)
        write(tmp_path / f"{role}.m3p", [host], role=Role.API if role == "api" else Role.WORKER)
    (id_,) = [id_ for id_ in findings(judged(tmp_path)) if "os_limit" in id_]
    assert id_ == "queues.os_limit.nofile.api (pid 2)"


def test_descriptors_near_the_limit_are_told_without_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "m.prom").write_text(page({"process_max_fds": 1024, "process_open_fds": 900}))
    claim = next(f.claim for id_, f in findings(judged(tmp_path)).items() if "os_limit" in id_)
    assert "900 file descriptors were open" in claim


def test_what_the_client_was_told_of_the_limit_is_counted(tmp_path: Path) -> None:
    errors = ["", *["OSError: [Errno 24] Too many open files"] * 3]
    bench(
        tmp_path,
        max_concurrency=1024,
        errors=errors,
        completed=1,
        failed=3,
        num_prompts=4,
        ttfts=[0.1] * 4,
        input_lens=[1] * 4,
        output_lens=[1] * 4,
        itls=[[]] * 4,
    )
    (tmp_path / "m.prom").write_text(page({"process_max_fds": 1024, "process_open_fds": 89}))
    claim = next(f.claim for id_, f in findings(judged(tmp_path)).items() if "os_limit" in id_)
    assert "3 request(s) failed with 'Too many open files'" in claim
