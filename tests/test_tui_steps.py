"""The time line and one step: by hand for two ranks, by a plain recount of the H200 sample, and for millions of kernels."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_builder import empty_report, summary
from sheet_kit import column, grid, report_of, said, texts, view_of
from tree import ROOT
from two_ranks import HOSTILE, two_ranks

from m3probe.model.recording import Recording, RecordingBuilder
from m3probe.model.report import StepRow, Summary, SummarySection
from m3probe.model.tables import TABLES
from m3probe.model.view import View
from m3probe.pipeline import open_recording, report
from m3probe.present.sheets import _in_step
from m3probe.present.sheets.sheet import Bars, Lens, Strip
from m3probe.present.sheets.steps import step, steps

SAMPLES = ROOT / "samples"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    rec = two_ranks(tmp_path_factory.mktemp("two"))
    return view_of(report(rec), rec)


def test_each_step_has_its_counts_and_times(view: View) -> None:
    shown = grid(steps(view, Lens()), "Steps, recorded")
    # rank 0 prefill: 130 to 320 = 190 us, 20 + 10 us of kernels; decode: 320 to 345, 10 us between its kernels
    assert [texts(line)[:10] for line in shown.lines] == [
        ["0", "0", "prefill", "64", "1", "2", "0.030", "0.190", "0.160", "NONE"],
        ["1", "0", "decode", "8", "8", "2", "0.015", "0.025", "0.010", "NONE"],
        ["2", "1", "prefill", "64", "1", "2", "0.060", "0.190", "0.130", "NONE"],
        ["3", "1", "decode", "8", "8", "2", "0.015", "0.025", "0.010", "NONE"],
    ]
    assert [line.opens for line in shown.lines] == ["step/0", "step/1", "step/2", "step/3"]
    assert shown.lines[0].cells[8].raw == pytest.approx(0.16)


def test_the_strip_is_of_one_rank_with_the_gap_between_its_steps(view: View) -> None:
    strip = next(block for block in steps(view, Lens(rank=1)).blocks if isinstance(block, Strip))
    # 130 to 200 on the GPU (160 + 10 + 30), then nothing until 320
    assert strip.spans == ((0.0, pytest.approx(0.07), "prefill"), (pytest.approx(0.19), pytest.approx(0.215), "decode"))
    assert strip.length == pytest.approx(0.215)
    assert strip.title == "2 steps of rank 1 on the GPU, recorded"


def test_the_lens_chooses_by_rank_and_phase_and_an_empty_choice_names_the_keys(view: View) -> None:
    assert column(grid(steps(view, Lens(rank=1, phase="decode")), "Steps, recorded"), "step") == ["3"]
    shown = grid(steps(view, Lens(rank=7, phase="mixed")), "Steps, recorded")
    assert shown.empty == "No step of rank 7 and phase mixed. Press r or p to change the filter."


def test_one_step_stands_beside_the_same_of_the_other_rank_with_its_collectives(view: View) -> None:
    page = step(view, Lens(), "0")
    shown = grid(page, "The same step")
    assert [each.name for each in shown.columns] == [
        "step", "rank", "phase", "rows", "kernels", "kernel ms", "step ms", "idle ms", "comm", "comm ms", "graph",
    ]  # fmt: skip
    assert [texts(line) for line in shown.lines] == [
        ["0", "0", "prefill", "64", "2", "0.030", "0.190", "0.160", "1", "0.010", "NONE"],
        ["2", "1", "prefill", "64", "2", "0.060", "0.190", "0.130", "1", "0.040", "NONE"],
    ]
    assert [line.opens for line in shown.lines] == ["step/0", "step/2"]
    assert column(grid(step(view, Lens(), "3"), "The same step"), "step") == ["1", "3"]


def test_kernels_stand_in_the_order_of_their_launches_and_count_from_the_steps_begin(view: View) -> None:
    shown = grid(step(view, Lens(), "1"), "Kernels as launched")
    assert [texts(line) for line in shown.lines] == [
        ["0", HOSTILE, "unknown", "40.0", "5.00", "—", "7", HOSTILE],
        ["1", "nvjet_sm90_tst_64x8_TNT", "gemm", "20.0", "10.00", "4 x 24 x 1", "7", "nvjet_sm90_tst_64x8_TNT"],
    ]


def test_more_kernels_than_can_be_sorted_within_a_key_stay_in_order_of_record(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_in_step, "MOST_SORTED", 1)
    shown = grid(step(view, Lens(), "1"), "Kernels in order of record, too many to sort")
    assert column(shown, "family") == ["gemm", "unknown"]


def test_families_are_bars_from_zero_and_the_small_ones_share_one(view: View) -> None:
    bars = next(block for block in step(view, Lens(), "2").blocks if isinstance(block, Bars))
    assert [(bar.label, bar.text) for bar in bars.bars] == [
        ("comm", "0.040 ms, 1 kernel, 66.7 %"),
        ("gemm", "0.020 ms, 1 kernel, 33.3 %"),
    ]
    assert bars.high == pytest.approx(0.04)


def test_a_rank_that_recorded_fewer_steps_is_named_and_gets_no_figure() -> None:
    rows = tuple(StepRow(rank, "s", "decode", 8, 8, 40, 40_000, "FULL") for rank in (0, 0, 1, 2, 2))
    view = view_of(report_of([], replace(summary(), steps=rows)))
    page = step(view, Lens(), "1")
    assert column(grid(page, "The same step"), "rank") == ["0", "2"]
    assert "Without a step 1: rank 1. It recorded fewer." in said(page)
    assert not any("recorded fewer" in text for text in said(step(view, Lens(), "2")))


@pytest.mark.parametrize("which", ["4", "-1", "x", "", "99999999999999999999"])
def test_a_step_that_is_not_there_is_a_key_error_that_names_it(view: View, which: str) -> None:
    with pytest.raises(KeyError, match="is not in this recording"):
        step(view, Lens(), which)


def test_a_report_without_its_recording_shows_steps_and_says_what_it_cannot() -> None:
    view = view_of(report_of([], summary()))
    shown = grid(steps(view, Lens()), "Steps, recorded")
    assert texts(shown.lines[2])[:9] == ["2", "—", "decode", "—", "—", "207", "—", "—", "—"]
    page = step(view, Lens(), "2")
    assert any(text.startswith("Its kernels cannot be shown: no recording is open") for text in said(page))
    assert texts(grid(page, "The same step").lines[0])[8:10] == ["—", "—"], "no collective was counted"


def test_nothing_recorded_says_what_would_record_steps() -> None:
    assert grid(steps(view_of(empty_report()), Lens()), "Steps, recorded").empty.startswith(
        "No step was recorded: give"
    )
    assert said(steps(view_of(None, detail="Reading"), Lens())) == ["Reading"]


def test_figures_of_the_h200_sample_are_those_of_a_plain_recount() -> None:
    path = SAMPLES / "h200-m3-tp4rank-graph.pt.trace.json.gz"
    rec = open_recording([path])
    shown = grid(steps(view_of(report(rec), rec), Lens()), "Steps, recorded")
    counted = recount(path)
    # the last step launched nothing
    assert [(texts(line)[5], texts(line)[6], texts(line)[8]) for line in shown.lines[:10]] == counted


def recount(path: Path) -> list[tuple[str, str, str]]:
    """(kernels, kernel ms, idle ms) of each step, from the file by json and plain loops."""
    found = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    complete = [each for each in found if each.get("ph") == "X"]
    begins = sorted(
        each["ts"] for each in complete if each["cat"] == "user_annotation" and each["name"].startswith("execute_")
    )
    launched = {
        each["args"]["correlation"]: each["ts"]
        for each in complete
        if each["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in each["args"]
    }
    work = [each for each in complete if each["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    of: list[list[dict[str, float]]] = [[] for _ in begins]
    for each in work:
        at = launched[each["args"]["correlation"]]
        place = sum(begin <= at for begin in begins) - 1
        if place >= 0:
            of[place].append(each)
    firsts = [min(each["ts"] for each in here) for here in of if here]
    result = []
    for place, here in enumerate(each for each in of if each):
        kernels = [each for each in here if each["cat"] == "kernel"]
        last = max(each["ts"] + each["dur"] for each in here)
        edge = firsts[place + 1] if place + 1 < len(firsts) else last
        idle, reach = 0.0, firsts[place]
        for each in sorted(work, key=lambda one: one["ts"]):
            if firsts[place] <= each["ts"] < edge:
                idle += max(each["ts"] - reach, 0.0)
                reach = max(reach, each["ts"] + each["dur"])
        idle += max(edge - reach, 0.0)
        result.append((str(len(kernels)), f"{sum(each['dur'] for each in kernels) / 1e3:.3f}", f"{idle / 1e3:.3f}"))
    return result


def test_a_live_recording_shows_its_guests_steps_with_host_times() -> None:
    rec = open_recording([SAMPLES / "live-h200-m3-attach"])
    page = steps(view_of(report(rec), rec), Lens())
    table = rec.tables["step_rows"]
    workers = [row for row in range(len(table)) if rec.strings[int(table["role"][row])] == "worker"]
    shown = grid(page, "Steps of guests")
    first = workers[0]
    launch_ms = (int(table["t_launched"][first]) - int(table["t_launch"][first])) / 1e6
    assert column(shown, "launch ms")[0] == f"{launch_ms:,.3f}"
    assert len(grid(steps(view_of(report(rec), rec), Lens(phase="prefill")), "Steps of guests").lines) < len(workers)
    assert column(grid(page, "Mean step of one rank"), "phase") == ["decode", "decode", "mixed", "prefill"]


KERNELS, STEPS = 4_000_000, 100_000


def huge() -> tuple[Recording, SummarySection]:
    """Forty kernels in each of 100,000 steps."""
    builder = RecordingBuilder()
    builder.strings.intern("k")
    columns = {each.name: np.zeros(KERNELS, dtype=each.dtype) for each in TABLES["kernels"]}
    columns["step"] = np.repeat(np.arange(STEPS, dtype=np.int32), KERNELS // STEPS)
    columns["timed"][:] = True
    columns["dur_ns"][:] = 1_000
    columns["launch"][:] = -1
    columns["grid"][:] = -1
    builder.add("kernels", columns)
    builder.add("steps", {each.name: np.zeros(STEPS, dtype=each.dtype) for each in TABLES["steps"]})
    rows = tuple(
        StepRow(0, "s", "decode", 8, 8, 40, 40_000, "FULL", at * 100, at * 100 + 50, 100, 50) for at in range(STEPS)
    )
    return builder.build(), SummarySection({}, Summary(KERNELS, None, None, None, 0, (0,), (), ()), rows)


def test_four_million_kernels_are_made_into_lines_only_where_one_looks() -> None:
    rec, section = huge()
    view = view_of(report_of([], section), rec)
    tracemalloc.start()
    page, one = steps(view, Lens()), step(view, Lens(), "99999")
    shown = grid(page, "Steps, recorded")
    assert [texts(line)[0] for line in shown.lines[99_990:99_992]] == ["99,990", "99,991"]
    kernels = grid(one, "Kernels as launched")
    last = kernels.lines[-1]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(shown.lines) == STEPS
    assert last.key == "kernels/3999999"
    # one mask over the kernels and one list of the steps, nothing for each line
    assert peak < 40 << 20
    strip = next(block for block in page.blocks if isinstance(block, Strip))
    assert len(strip.spans) == 400
    assert "250 steps to a span" in strip.title
