"""Recordings of devices alone: idle, collectives beside compute, and what each question lacks, worked out by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from arithmetic import check_all
from builders import recording, step
from process_kit import GEMM, RCCL, Ran, recorded
from rocprof_kit import worker
from sheet_kit import grid, texts, view_of
from tree import ROOT, shared_or_skip

from m3probe import pipeline
from m3probe.analyzers._devices import by_device, device_rows
from m3probe.model.device_report import DevicesSection, UnansweredRow
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Report
from m3probe.present.sheets.sheet import Grid, Lens
from m3probe.present.sheets.steps import steps
from m3probe.present.text import report_text
from m3probe.sources import open_recording

FIRST = [
    (GEMM, 1_000, 3_000),
    (RCCL, 2_000, 4_000),  # alone from 3,000 on
    (GEMM, 6_000, 7_000),
    (RCCL, 8_000, 9_000),  # alone
    (RCCL, 10_000, 11_000),  # alone until 10,500
    (GEMM, 10_500, 12_000),
]
SECOND = [
    (GEMM, 1_000, 2_500),
    (RCCL, 3_000, 4_000),
    (RCCL, 8_200, 9_000),
    (RCCL, 10_300, 11_000),
]
TWO = Ran({0: FIRST, 1: SECOND})


def judged(rec: Recording) -> Report:
    return pipeline.report(rec)


def finding(report: Report, name: str) -> Finding:
    return next(f for f in report.findings if f.id == name)


def lacks(rec: Recording) -> dict[str, list[UnansweredRow]]:
    section = judged(rec).section(DevicesSection)
    assert section is not None
    found: dict[str, list[UnansweredRow]] = {}
    for row in section.unanswered:
        found.setdefault(row.question, []).append(row)
    return found


def test_time_of_two_agents_is_what_their_kernels_cover() -> None:
    first, second = device_rows(recorded(TWO))
    assert (first.rank, first.device, first.kernel_count, first.kernel_time_ns) == (0, 0, 6, 8_500)
    # 1,000-4,000, 6,000-7,000, 8,000-9,000, 10,000-12,000 of 1,000-12,000
    assert (first.span_ns, first.busy_ns, first.idle_share) == (11_000, 7_000, pytest.approx(4 / 11))
    assert (first.comm_count, first.comm_ns, first.exposed_ns) == (3, 4_000, 2_500)
    assert first.overlap_share == pytest.approx(0.375)
    assert (second.span_ns, second.busy_ns, second.idle_share) == (10_000, 4_000, pytest.approx(0.6))
    assert (second.comm_ns, second.exposed_ns, second.overlap_share) == (2_500, 2_500, 0.0)


def test_exposed_collectives_and_idle_devices_are_bounded_and_ranked() -> None:
    report = judged(recorded(TWO))
    idle, comm = (finding(report, f"next_bottleneck.{name}") for name in ("idle", "family.comm"))
    assert idle.bound is not None
    assert idle.bound.arithmetic == ("(21,000 ns - 11,000 ns) / 21,000 ns",)
    assert "rank 0 36.4 %, rank 1 60.0 %" in idle.claim
    assert comm.bound is not None
    assert comm.bound.high == pytest.approx(5_000 / 21_000)  # exposed on both
    assert comm.bound.arithmetic == ("(11,000 ns - 6,000 ns) / 21,000 ns",)
    assert comm.claim.endswith("of each device's span nothing hides rank 0 22.7 %, rank 1 25.0 %")
    assert report.next_bottleneck is not None
    assert report.next_bottleneck.finding == "next_bottleneck.idle"
    assert "host's (launches, start-up, or nobody who asks" in report.next_bottleneck.why
    assert check_all(report.findings) >= 4


def test_the_gaps_are_shown_by_the_kernels_that_ended_them() -> None:
    rec = recorded(TWO)
    (shown,) = finding(judged(rec), "next_bottleneck.idle").evidence
    # gaps: 4,200 and 1,300 and 500 on rank 1, 2,000, 1,000 and 1,000 on rank 0
    starts = rec.kernels["start_ns"][list(shown.rows)].tolist()
    assert (shown.table, shown.count) == ("kernels", 6)
    assert starts[:3] == [8_200, 6_000, 10_300]


def test_a_copy_hides_a_collective_as_a_kernel_does() -> None:
    rec = recorded(Ran({0: [(RCCL, 1_000, 3_000)]}, copies={0: [("MEMORY_COPY_DEVICE_TO_DEVICE", 2_500, 4_000)]}))
    (row,) = device_rows(rec)
    assert (row.span_ns, row.busy_ns, row.comm_ns, row.exposed_ns, row.kernel_count) == (3_000, 3_000, 2_000, 1_500, 1)
    assert row.overlap_share == pytest.approx(0.25)


def test_where_kernels_are_missing_no_share_is_stated() -> None:
    rec = recorded(Ran({0: FIRST}, calls=[("hipGraphLaunch", 500, 600, 77)]))
    report = judged(rec)
    (row,) = device_rows(rec)
    assert (row.busy_ns, row.idle_share, row.exposed_ns, row.overlap_share) == (7_000, None, None, None)
    assert report.trust is not None
    assert report.trust.verdict == "degraded"
    assert not [f for f in report.findings if f.id in ("next_bottleneck.idle", "next_bottleneck.family.comm")]
    assert "graph launches show no kernel" in lacks(rec)["paths"][0].lacks
    assert "M3PROBE_CENSUS=1" in lacks(rec)["paths"][0].record


def test_a_recording_without_a_kernel_has_no_device() -> None:
    rec = recorded(Ran({}, calls=[("hipMalloc", 500, 600, 1)]))
    assert device_rows(rec) == ()
    assert by_device((), lambda row: row.idle_share) == ""


def test_the_text_shows_the_devices_and_what_to_record() -> None:
    text = report_text(judged(recorded(TWO)), 120, color=False)
    heads = "rank  device  kernels  span ms  busy ms  idle %  comm ms  beside other work %  exposed ms"
    assert heads in text
    row = next(line for line in text.splitlines() if line.strip().startswith("0          0        6"))
    assert row.split()[5:] == ["36.4", "<0.01", "37.5", "<0.01"]
    assert "→ record: rocprofv3 --marker-trace and vllm serve --profiler-config.profiler cuda" in text
    assert "→ record: rocprofv3 --hip-trace" in text


def test_the_page_of_steps_shows_the_devices_where_there_is_no_step() -> None:
    rec = recorded(TWO)
    page = steps(view_of(judged(rec), rec), Lens())
    shown = grid(page, "Devices")
    assert texts(shown.lines[0])[:2] == ["0", "0"]
    assert texts(shown.lines[0])[3:] == ["6", "0.011", "0.007", "36.4", "0.004", "37.5", "0.003"]  # 2,500 ns exposed
    assert shown.lines[1].cells[6].raw == pytest.approx(0.6)
    asked = grid(page, "What to record")
    assert [line.cells[0].text for line in asked.lines] == ["shapes", "repeats", "bytes", "paths", "paths", "queues"]
    stepped = recorded(Ran({0: FIRST}, ranges=[("execute_context_0(0)_generation_8(8)", 900, 950)]))
    blocks = steps(view_of(judged(stepped), stepped), Lens()).blocks
    assert not [block for block in blocks if isinstance(block, Grid) and block.title.startswith("Devices")]


def test_each_question_that_lacks_something_names_the_option() -> None:
    alone = lacks(recorded(Ran({0: FIRST})))
    assert list(alone) == ["shapes", "repeats", "bytes", "paths", "queues"]
    assert "torch_profiler_record_shapes true" in alone["shapes"][0].record
    assert "--marker-trace" in alone["repeats"][0].record
    assert "--memory-copy-trace" in alone["bytes"][0].record
    assert [row.record.split(":")[0] for row in alone["paths"]] == ["rocprofv3 --hip-trace", "nothing more"]
    assert "/metrics" in alone["queues"][0].record


def test_what_was_recorded_is_not_asked_for(tmp_path: Path) -> None:
    """A worker's step, launches and agents: only what no option of rocprofv3 records is left."""
    worker(tmp_path / "node", 501)
    found = lacks(open_recording([tmp_path]))
    assert list(found) == ["shapes", "bytes", "paths", "queues"]
    assert [row.lacks for row in found["paths"]] == ["no trace tells what was configured and eligible"]
    unlinked = lacks(recorded(Ran({0: FIRST}, ranges=[("execute_context_0(0)_generation_8(8)", 900, 950)])))
    assert unlinked["repeats"][0].record == "rocprofv3 --hip-trace"


def test_graphs_as_wholes_ask_for_their_nodes() -> None:
    rec = open_recording([ROOT / "tests" / "data" / "cases" / "n01_graph_level_only.sqlite"])
    assert lacks(rec)["paths"][0] == UnansweredRow(
        "paths",
        # 5,000 and 6,000 ns
        "2 graph launches show no kernel (as wholes they took 0.011 ms in sum), so that no path in them is proven",
        "nsys profile --cuda-graph-trace=node",
    )


def test_traces_of_torch_and_recordings_say_it_in_their_findings(tmp_path: Path) -> None:
    assert lacks(recording(tmp_path, [step(1.0, 2.0, "execute_context_0(0)_generation_8(8)")])) == {}


def covered(intervals: list[tuple[int, int]]) -> int:
    """Length of a union by a walk over sorted ends, in plain Python."""
    total, reach = 0, -1
    for low, high in sorted(intervals):
        total += max(high - max(low, reach), 0)
        reach = max(reach, high)
    return total


def test_the_real_file_of_an_mi350x_equals_a_recount_by_plain_json() -> None:
    path = shared_or_skip("traces/rocprof/908_results.json.gz")
    with gzip.open(path) as stream:
        (tool,) = json.load(stream)["rocprofiler-sdk-tool"]
    names = {symbol["kernel_id"]: symbol["formatted_kernel_name"] for symbol in tool["kernel_symbols"]}
    agents: dict[int, list[tuple[str, int, int]]] = {}
    for one in tool["buffer_records"]["kernel_dispatch"]:
        info: dict[str, Any] = one["dispatch_info"]
        row = (names[info["kernel_id"]], one["start_timestamp"], one["end_timestamp"])
        agents.setdefault(info["agent_id"]["handle"], []).append(row)
    report = pipeline.analyze([path])
    section = report.section(DevicesSection)
    assert section is not None
    assert report.summary is not None
    family = {row.family: row.time_ns for row in report.summary.families}
    for words, word in ((("nccl",), "comm"), (("Cijk_",), "gemm")):
        every = [row for rows in agents.values() for row in rows if any(part in row[0] for part in words)]
        assert sum(end - start for _, start, end in every) == family[word]
    # the file describes eight GPUs, and one of them ran every dispatch
    ((handle, rows),) = agents.items()
    (found,) = section.device_time
    busy = covered([row[1:] for row in rows])
    span = max(row[2] for row in rows) - min(row[1] for row in rows)
    comm = covered([row[1:] for row in rows if "nccl" in row[0]])
    rest = covered([row[1:] for row in rows if "nccl" not in row[0]])
    assert (found.label, found.kernel_count) == (str(handle), 43_915)
    assert (found.span_ns, found.busy_ns, found.comm_ns, found.exposed_ns) == (span, busy, comm, busy - rest)
    assert found.idle_share == pytest.approx(1 - busy / span)
    assert found.overlap_share == pytest.approx(1 - (busy - rest) / comm)
