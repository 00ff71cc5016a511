"""What inputs of one run cannot both be right about; and that what is not covered is not compared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders import launch
from joining_kit import at, bench, clock, guest, log, mono, page, scrapes, trace
from log_kit import MODES, config_line
from recording_kit import write

from m3probe.model.findings import Finding
from m3probe.pipeline import analyze
from m3probe.schema import records
from m3probe.schema.roles import Role

STEPS = "vllm:iteration_tokens_total_count"


def told(*paths: Path) -> dict[str, Finding]:
    """Findings of joining by what they are about."""
    found = [f for f in analyze(list(paths)).answer.findings if f.question == "joining"]
    return {finding.id.split(".")[1]: finding for finding in found}


# --- steps ---------------------------------------------------------------------------------------------------------


def test_steps_that_the_guest_lacks_are_counted(tmp_path: Path) -> None:
    worker = guest(tmp_path / "w.m3p", {1: 5, 2: 5, 3: 5, 4: 5, 5: 5, 6: 5})
    server = scrapes(tmp_path / "h.m3p", {2: {STEPS: 100.0}, 5: {STEPS: 140.0}})
    found = told(worker, server)["steps"]
    # rows of the seconds 3, 4 and 5: 15 steps, where vLLM counted 140 - 100
    assert found.claim == "/metrics counted 40 engine steps in 3.0 s that w.m3p covers, and it holds 15"
    assert (found.verdict, found.confidence, found.evidence[0].count) == ("differs", "high", 15)


@pytest.mark.parametrize("counted", [100.0 + 15, 100.0 + 17])
def test_steps_that_agree_to_the_edges_of_the_scrapes_are_no_news(tmp_path: Path, counted: float) -> None:
    worker = guest(tmp_path / "w.m3p", {1: 5, 2: 5, 3: 5, 4: 5, 5: 5, 6: 5})
    assert told(worker, scrapes(tmp_path / "h.m3p", {2: {STEPS: 100.0}, 5: {STEPS: counted}})) == {}


def test_a_counter_that_stood_still_is_not_written_and_counts_as_it_was(tmp_path: Path) -> None:
    worker = guest(tmp_path / "w.m3p", {1: 5, 2: 5, 3: 0, 4: 0, 5: 0, 6: 0})
    server = scrapes(tmp_path / "h.m3p", {2: {STEPS: 100.0}, 5: {"vllm:num_requests_running": 0.0}})
    assert told(worker, server) == {}


def test_a_restart_between_two_scrapes_is_no_decrease(tmp_path: Path) -> None:
    worker = guest(tmp_path / "w.m3p", dict.fromkeys(range(1, 8), 5))
    server = scrapes(tmp_path / "h.m3p", {2: {STEPS: 100.0}, 4: {STEPS: 110.0}, 6: {STEPS: 90.0}})
    # 10, then 90 since the new start; the guest counted 4 x 5
    assert "counted 100 engine steps in 4.0 s" in told(worker, server)["steps"].claim


def test_steps_that_a_trace_lacks_are_counted(tmp_path: Path) -> None:
    made = trace(tmp_path / "t.json", [0.5, 1.5, 2.5, 3.5, 4.5])
    server = scrapes(tmp_path / "h.m3p", {0: {STEPS: 0.0}, 1: {STEPS: 7.0}, 4: {STEPS: 37.0}, 9: {STEPS: 99.0}})
    # scrapes at 1 s and 4 s lie in the trace: 30 steps, of which it holds those at 1.5, 2.5 and 3.5
    found = told(made, server)["steps"]
    assert found.claim == "/metrics counted 30 engine steps in 3.0 s that t.json covers, and it holds 3"


@pytest.mark.parametrize("base", [None, at(7_200)])
def test_a_trace_that_is_not_covered_is_not_held_against_counters(tmp_path: Path, base: int | None) -> None:
    made = trace(tmp_path / "t.json", [0.5, 1.5, 2.5, 3.5, 4.5], base=base)
    server = scrapes(tmp_path / "h.m3p", {1: {STEPS: 7.0}, 4: {STEPS: 37.0}})
    assert "steps" not in told(made, server)


def test_several_engines_are_not_held_against_one_engines_steps(tmp_path: Path) -> None:
    worker = guest(tmp_path / "w.m3p", dict.fromkeys(range(1, 7), 5))
    assert "steps" in told(worker, scrapes(tmp_path / "h.m3p", {2: {STEPS: 100.0}, 5: {STEPS: 140.0}}))
    two = [
        records.Sample(mono_ns=mono(second), values={STEPS: value}, source="metrics", labels={"engine": engine})
        for engine in ("0", "1")
        for second, value in ((2, 100.0), (5, 140.0))
    ]
    assert told(worker, write(tmp_path / "two.m3p", [clock(), *two], role=Role.HOST)) == {}


# --- requests ------------------------------------------------------------------------------------------------------


def saved(tmp_path: Path, before: float, after: float, errors: float = 0.0) -> Path:
    """A folder with one page before a run from 00:00:05 to 00:00:30, and one after it."""
    folder = tmp_path / "pages"
    folder.mkdir()
    page(folder / "metrics-20251001T000000Z.prom", stop=before, error=0.0)
    page(folder / "metrics-20251001T000040Z.prom", stop=after, error=errors)
    return folder


RUN = ("20251001-000030", 25.0)


def test_a_client_that_got_more_answers_than_the_server_gave(tmp_path: Path) -> None:
    found = told(saved(tmp_path, 1_000.0, 1_060.0), bench(tmp_path / "b.json", *RUN, 100))["requests"]
    assert found.claim == "b.json completed 100 requests, and the server finished 60 in that time"
    assert (found.verdict, found.confidence) == ("differs", "medium")  # the benchmark's zone is assumed


@pytest.mark.parametrize(("finished", "others"), [(100.0, False), (105.0, False), (106.0, True)])
def test_others_requests_are_told_beyond_five_percent(tmp_path: Path, finished: float, others: bool) -> None:
    found = told(saved(tmp_path, 0.0, finished), bench(tmp_path / "b.json", *RUN, 100))
    assert ("requests" in found) is others
    if others:
        assert found["requests"].claim.endswith("finished 106 in that time: others sent requests too")


def test_requests_that_ended_in_an_error_are_no_answers(tmp_path: Path) -> None:
    found = told(saved(tmp_path, 0.0, 90.0, errors=10.0), bench(tmp_path / "b.json", *RUN, 100))
    assert "the server finished 90 in that time" in found["requests"].claim


def test_pages_that_do_not_span_the_run_prove_nothing_but_may_be_too_early(tmp_path: Path) -> None:
    path = page(tmp_path / "m.prom", stop=40.0)
    os.utime(path, ns=(at(10), at(10)))
    found = told(path, bench(tmp_path / "b.json", *RUN, 100))["requests"]
    assert (found.verdict, found.confidence) == ("unproven", "low")
    assert "had finished 40 since its start when it was last scraped" in found.claim


def test_a_server_that_has_finished_more_since_its_start_is_no_news(tmp_path: Path) -> None:
    path = page(tmp_path / "m.prom", stop=5_000.0)
    assert "requests" not in told(path, bench(tmp_path / "b.json", *RUN, 100))


def test_two_servers_share_a_clients_requests(tmp_path: Path) -> None:
    page(tmp_path / "prefill.prom", stop=40.0)
    page(tmp_path / "decode.prom", stop=40.0)
    assert "requests" not in told(
        tmp_path / "prefill.prom", tmp_path / "decode.prom", bench(tmp_path / "b.json", *RUN, 100)
    )


# --- graphs --------------------------------------------------------------------------------------------------------


def logged(tmp_path: Path, **changed: str) -> Path:
    line = config_line(version="0.33.0", tensor_parallel_size="1", **changed).replace(
        "11-30 09:08:19", "10-01 00:00:01"
    )
    return log(tmp_path / "s.log", "10-01 00:00:00", "10-01 00:00:20", lines=(line,))


def test_a_log_without_graphs_beside_replays(tmp_path: Path) -> None:
    replay = [launch(5.0001e6, 7, "hipGraphLaunch"), launch(6.0001e6, 8, "hipGraphLaunch")]
    made = trace(tmp_path / "t.json", [5.0, 6.0], events=replay)
    found = told(made, logged(tmp_path, enforce_eager="True"))["graph_mode"]
    assert found.claim == "the log says enforce_eager, and the trace replays graphs: 2 launches in its steps"


def test_a_log_with_graphs_for_decode_beside_steps_without(tmp_path: Path) -> None:
    made = trace(tmp_path / "t.json", [5.0, 6.0], events=[launch(5.0001e6, 7), launch(6.0001e6, 8)])
    found = told(made, logged(tmp_path, modes=MODES))["graph_mode"]
    # 2 rows each, and batches of up to 64 were captured
    assert "cudagraph_mode FULL_AND_PIECEWISE with batches of up to 64 rows, and none of 2 decode steps" in found.claim


def test_steps_larger_than_what_was_captured_contradict_nothing(tmp_path: Path) -> None:
    made = trace(tmp_path / "t.json", [5.0, 6.0], events=[launch(5.0001e6, 7), launch(6.0001e6, 8)])
    small = MODES.replace("'max_cudagraph_capture_size': 64", "'max_cudagraph_capture_size': 1")
    assert "graph_mode" not in told(made, logged(tmp_path, modes=small))


def test_a_log_of_another_layout_is_not_held_against_the_graphs(tmp_path: Path) -> None:
    made = trace(tmp_path / "t.json", [5.0, 6.0], events=[launch(5.0001e6, 7, "hipGraphLaunch")])
    line = config_line(version="0.33.0", tensor_parallel_size="4", enforce_eager="True")
    assert "graph_mode" not in told(made, log(tmp_path / "s.log", "10-01 00:00:00", lines=(line,)))


# --- time ----------------------------------------------------------------------------------------------------------


def test_inputs_of_different_times_are_one_finding_a_pair_of_kinds(tmp_path: Path) -> None:
    made = trace(tmp_path / "t.json", [7_200.0 + 30, 7_200.0 + 31])
    found = [
        f for f in analyze([made, scrapes(tmp_path / "h.m3p", {1: {"a": 1.0}, 30: {"a": 1.0}})]).answer.findings
        if f.question == "joining"
    ]  # fmt: skip
    (only,) = found
    # the trace begins 2 h after the last scrape
    assert only.id == "joining.apart.0"
    assert only.claim == (
        "t.json was not made while the others were: it lies 2.0 hours after h.m3p, the nearest, so that it says nothing of "
        "what they show"
    )


@pytest.mark.parametrize(("last", "apart"), [("00:00:05", False), ("00:00:04", True)])
def test_a_log_that_fell_silent_a_minute_ago_is_not_apart(tmp_path: Path, last: str, apart: bool) -> None:
    made = trace(tmp_path / "t.json", [65.0])
    lines = log(tmp_path / "s.log", "10-01 00:00:00", f"10-01 {last}")
    # the trace begins 60 s after 00:00:05
    found = told(made, scrapes(tmp_path / "h.m3p", {3: {"a": 1.0}, 70: {"a": 1.0}}), lines)
    assert found == {}
    assert ("apart" in told(made, lines)) is apart


def test_a_log_that_meets_nothing_is_told(tmp_path: Path) -> None:
    found = told(trace(tmp_path / "t.json", [5.0]), log(tmp_path / "s.log", "10-08 00:00:00", "10-08 00:00:10"))[
        "apart"
    ]
    assert found.claim.startswith(
        "s.log was not made while the others were: in no time zone does it meet another input"
    )


def test_where_files_were_written_is_held_against_nothing(tmp_path: Path) -> None:
    path = page(tmp_path / "m.prom", stop=1.0)
    os.utime(path, ns=(at(999_999), at(999_999)))
    assert told(trace(tmp_path / "t.json", [5.0]), path) == {}
