"""Totals where the evidence is whole, where it rests on the census, and where kernels are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording, step, write_trace
from steps import DENSE, MODEL, PERIOD_US, ROUTED, SPARSE, one_step, steps
from tree import shared_or_skip

from m3probe.analyzers import summary, trust
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, PhaseRow, Report, Summary, SummarySection, TrustSection
from m3probe.present.text import report_text
from m3probe.sources import open_recording

PREFILL = "execute_context_1(14)_generation_0(0)"


def summed(rec: Recording) -> SummarySection:
    section = summary.ANALYZER.judge(rec, Answer()).section(SummarySection)
    assert section is not None
    return section


def phases(rec: Recording) -> dict[str, PhaseRow]:
    return {row.phase: row for row in summed(rec).summary.phases}


def text(section: SummarySection) -> str:
    return " ".join(report_text(Report("ok", (), Answer((section,))), 120, color=False).split())


def doubts(rec: Recording) -> list[str]:
    section = trust.ANALYZER.judge(rec, Answer()).section(TrustSection)
    assert section is not None
    return [reason.word for reason in section.trust.reasons]


# --- idle share ----------------------------------------------------------------------------------------


def test_a_phase_that_was_recorded_in_whole_has_its_figures(tmp_path: Path) -> None:
    section = summed(recording(tmp_path, steps(3)))
    # 32 kernels of 2 us in each step; windows 1,000, 1,000 and 312 us
    assert section.summary.phases == (PhaseRow("decode", 3, 96, 192_000, pytest.approx(1 - 192 / 2312), 0, 2_312_000),)
    assert all(row.share is not None for row in section.summary.families)
    assert "missing" not in text(section)


def test_lost_replays_void_the_figures_of_their_phase_alone(tmp_path: Path) -> None:
    prefill = one_step(PERIOD_US, 90_000, MODEL, said=PREFILL)
    lost = one_step(2 * PERIOD_US, 9000, MODEL, graph=True, record=False)
    section = summed(recording(tmp_path, [*prefill, *lost, *one_step(3 * PERIOD_US, 9500, MODEL, graph=True)]))
    decode, before = sorted(section.summary.phases, key=lambda row: row.phase)
    assert decode == PhaseRow("decode", 2, 32, None, None, incomplete_steps=1)
    # its window ends with its own work: when the lost step began is not known
    assert before == PhaseRow("prefill", 1, 32, 64_000, pytest.approx(1 - 64 / 312), 0, 312_000)
    assert all(row.share is None for row in section.summary.families)
    assert [row.kernel_time_ns for row in section.steps] == [64_000, None, 64_000]
    shown = text(section)
    assert "kernels of 1 of 2 decode steps are or may be missing (see Trust)" in shown
    assert "decode 2 — — —" in shown


def test_a_cut_file_voids_every_figure_of_time(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.pt.trace.json", steps(3))
    path.write_text(path.read_text()[:-40])
    found = phases(open_recording([path]))["decode"]
    assert (found.kernel_time_ns, found.gpu_idle_share, found.incomplete_steps) == (None, None, 3)


# --- the census ----------------------------------------------------------------------------------------


def captured(tmp_path: Path, *replays: list[str]) -> Recording:
    """A profile folder: a graph of one GEMM ``a`` and two ``b`` for 8 rows was captured, decode steps replay it."""
    (tmp_path / "capture_traces").mkdir()
    names = ["aa_kernel", "bb_kernel", "bb_kernel"]
    capture: list[dict[str, Any]] = [step(0.0, 40.0, "capture_8_FULL"), launch(1.0, 0, "hipStreamBeginCapture")]
    capture += [launch(5.0 + 3 * i, 0, kernel=name, grid=[1, 1, 1]) for i, name in enumerate(names)]
    capture.append(launch(20.0, 0, "hipStreamEndCapture"))
    write_trace(tmp_path / "capture_traces" / "graph_capture_rank_0.1.pt.trace.json", capture)
    events: list[dict[str, Any]] = []
    for i, ran in enumerate(replays):
        at = PERIOD_US * (i + 1)
        events += [step(at, 100.0, "execute_context_0(0)_generation_8(8)"), launch(at + 1, i + 1, "hipGraphLaunch")]
        events += [kernel(at + 200 + 10 * j, 5.0, i + 1, name) for j, name in enumerate(ran)]
    write_trace(tmp_path / "dp0_pp0_tp0_dcp0_ep0_rank0.2.pt.trace.json", events)
    return open_recording([tmp_path])


def unrecorded(found: Summary) -> dict[str, int]:
    return {row.family: row.unrecorded for row in found.families}


def test_families_minus_what_only_the_census_knows_make_the_kernel_count(tmp_path: Path) -> None:
    section = summed(captured(tmp_path, ["aa_kernel", "bb_kernel", "bb_kernel"], ["aa_kernel"]))
    found = section.summary
    assert found.kernel_count == 4
    assert sum(row.count for row in found.families) == 6
    assert sum(unrecorded(found).values()) == 2
    short = [row for row in found.families if row.unrecorded]
    assert [(row.time_ns, row.share) for row in short] == [(None, None)]
    assert phases_of(found)["decode"].incomplete_steps == 1
    assert "2 of 6 are known from the graph census alone: no times" in text(section)


def phases_of(found: Summary) -> dict[str, PhaseRow]:
    return {row.phase: row for row in found.phases}


def test_whole_replays_leave_nothing_to_the_census(tmp_path: Path) -> None:
    section = summed(captured(tmp_path, ["aa_kernel", "bb_kernel", "bb_kernel"]))
    assert set(unrecorded(section.summary).values()) == {0}
    assert phases_of(section.summary)["decode"].gpu_idle_share == pytest.approx(1 - 15 / 25)
    assert "census alone" not in text(section)


# --- replays that all lost the same kernels ------------------------------------------------------------

THREE_LAYERS = [*DENSE, *SPARSE, *SPARSE, *SPARSE]


def prefill_and_graphs(tmp_path: Path, eager: list[str], graph: list[str]) -> Recording:
    prefill = one_step(0.0, 90_000, eager, said=PREFILL, every_us=2.0, dur_us=1.0)
    return recording(tmp_path, [*prefill, *steps(3, graph, graph=True)])


def test_graphs_that_all_show_fewer_layers_have_lost_kernels(tmp_path: Path) -> None:
    rec = prefill_and_graphs(tmp_path, THREE_LAYERS, MODEL)  # 3 sparse layers in prefill, 2 in each graph
    assert doubts(rec) == ["uneven_layers"]
    found = phases(rec)
    assert (found["decode"].gpu_idle_share, found["decode"].incomplete_steps) == (None, 3)
    assert found["prefill"].gpu_idle_share is not None


def test_layers_of_moe_alone_tell_as_well(tmp_path: Path) -> None:
    rec = prefill_and_graphs(tmp_path, [*DENSE, *3 * ROUTED], [*DENSE, *2 * ROUTED])
    assert doubts(rec) == ["uneven_layers"]


@pytest.mark.parametrize(
    ("eager", "graph"),
    [
        (MODEL, MODEL),
        ([*MODEL, *SPARSE, *SPARSE], MODEL),  # 4 and 2: prefill in two micro-batches runs every layer twice
        (MODEL, THREE_LAYERS),  # the graph shows more
        ([*DENSE, *DENSE], DENSE * 3),  # no kernel that counts sparse or MoE layers
        (DENSE, MODEL),  # short prompts may attend densely
    ],
)
def test_other_differences_are_no_loss(tmp_path: Path, eager: list[str], graph: list[str]) -> None:
    assert doubts(prefill_and_graphs(tmp_path, eager, graph)) == []


def test_without_an_eager_step_nothing_is_compared(tmp_path: Path) -> None:
    assert doubts(recording(tmp_path, steps(3, MODEL, graph=True))) == []


def test_eager_steps_that_differ_among_themselves_prove_nothing(tmp_path: Path) -> None:
    other = one_step(9 * PERIOD_US, 95_000, MODEL, said=PREFILL)
    prefill = one_step(0.0, 90_000, THREE_LAYERS, said=PREFILL, every_us=2.0, dur_us=1.0)
    assert doubts(recording(tmp_path, [*prefill, *steps(3, graph=True), *other])) == []


@pytest.mark.parametrize(
    "trace",
    [
        "h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz",
        "h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz",
        "tracelens/inference/vllm_decode_full",
        "tracelens/inference/vllm_prefilldecode_piecewise",
        "tracelens/b200/eager_trace.json.gz",
        "hta/negative_queue_length_values_check",
    ],
)
def test_sound_recordings_are_whole(trace: str) -> None:
    rec = open_recording([shared_or_skip(f"traces/{trace}")])
    assert "uneven_layers" not in doubts(rec)
    found = summed(rec).summary
    assert not any(row.incomplete_steps for row in found.phases)
    assert sum(row.count - row.unrecorded for row in found.families) == found.kernel_count == len(rec.kernels)
