"""Question 2 as a page: families per step, idle time, graph coverage and costs."""

from dataclasses import replace

import pytest
from page_kit import GRAPH, LIVE, bars, chart, column, full, grid, hollow, nothing, page, said, sample, texts, view
from report_builder import repeats, summary

from m3probe.model.live_report import LiveSection, StepTimeRow
from m3probe.model.repeat_report import Costs, RepeatRow, RepeatsSection
from m3probe.model.report import FamilyRow
from m3probe.present.sheets.sheet import Lens, Said


def test_families_are_lines_by_what_a_step_spends_on_them() -> None:
    table = grid(page("repeats", full()), "Kernels by family")
    assert column(table, "family") == ["moe_gemm", "sparse_attention"]
    assert column(table, "µs/step") == [1_200_000.0, 98_000.0]
    assert texts(table, "µs/step") == ["1,200.0", "98.0"]
    assert texts(table, "per layer") == ["2.00", "—"]


def test_every_line_opens_the_steps() -> None:
    table = grid(page("repeats", full()), "Kernels by family")
    assert {line.opens for line in table.lines} == {"steps"}


def test_bars_show_kernel_time_and_idle_on_the_steps_scale() -> None:
    # decode: 12,000,000 ns of 2 steps = 6,000 us each, half of it idle
    sheet = page("repeats", full())
    assert bars(sheet) == {"moe_gemm": 1_200.0, "sparse_attention": 98.0, "device idle": 3_000.0}
    assert chart(sheet).high == 6_000.0


def test_idle_is_no_bar_where_it_is_not_known() -> None:
    found = summary()
    unknown = tuple(replace(row, gpu_idle_share=None) for row in found.summary.phases)
    sheet = page("repeats", view(replace(found, summary=replace(found.summary, phases=unknown)), repeats()))
    assert set(bars(sheet)) == {"moe_gemm", "sparse_attention"}


def test_without_times_there_is_no_chart_and_no_zero() -> None:
    row = RepeatRow("decode", "gemm", 4.0, 2.0, None, None, "ledger")
    sheet = page("repeats", view(RepeatsSection((row,), (), Costs(None, None, None, None, None, None))))
    assert not [block for block in sheet.blocks if type(block).__name__ == "Bars"]
    table = grid(sheet, "Kernels by family")
    assert texts(table, "µs/step") == ["—"]
    assert column(table, "µs/step") == [None]
    assert "cost per token unproven: decode steps have no proven kernel times" in said(sheet)


def test_graph_coverage_and_costs_are_the_sections_own() -> None:
    sheet = page("repeats", full())
    cover = grid(sheet, "Graph coverage")
    assert column(cover, "steps %") == [2 / 3, 1 / 3]
    assert texts(cover, "output tokens %") == ["100.0", "—"]
    costs = grid(sheet, "Cost of output")
    assert column(costs, "ms") == [375_000.0, 375_000_000.0, 47_000.0, None, None]
    assert texts(costs, "ms")[:3] == ["0.375", "375.000", "0.047"]
    assert "launch-bound: yes; no decode token was made in a mixed step" in said(sheet)


def test_gaps_by_cause_are_the_hosts_times_in_microseconds() -> None:
    row = StepTimeRow("decode", "FULL", 100.0, 8.0, 8.0, None, 2_000_000.0, 200_000.0, 900_000.0, None, 1_400_000.0)
    table = grid(page("repeats", view(repeats(), LiveSection((), (row,), 1.0))), "A step by the host's clock")
    assert [texts(table, f"{part} µs")[0] for part in ("schedule", "prepare", "launch", "wait", "idle")] == [
        "—", "2,000", "200", "900", "1,400",
    ]  # fmt: skip


def test_phase_filter_and_its_empty_table() -> None:
    table = grid(page("repeats", full(), Lens(phase="prefill")), "Kernels by family")
    assert len(table.lines) == 0
    assert table.empty == "No family of kernels in phase prefill. Press p to change the filter."


@pytest.mark.parametrize("shown", [hollow(), nothing()])
def test_nothing_counted_is_unproven(shown: object) -> None:
    first = page("repeats", shown).blocks[0]  # type: ignore[arg-type]
    assert isinstance(first, Said)
    assert first.mark == "unproven"


@pytest.mark.parametrize("path", [GRAPH, LIVE], ids=["trace", "live"])
def test_sample_has_the_figures_of_its_json(path: object) -> None:
    shown, told = sample(path)  # type: ignore[arg-type]
    sheet = page("repeats", shown)
    table = grid(sheet, "Kernels by family")
    mine = {
        (family, phase, evidence, per_step, ns)
        for family, phase, evidence, per_step, ns in zip(
            *(column(table, key) for key in ("family", "phase", "evidence", "per step", "µs/step")), strict=True
        )
    }
    keys = ("family", "phase", "evidence", "per_step", "ns_per_step")
    assert mine == {tuple(row[key] for key in keys) for row in told["repeats"]}
    assert column(grid(sheet, "Graph coverage"), "steps") == [row["steps"] for row in told["graph_coverage"]]


def test_samples_idle_bar_is_the_phases_share_of_its_step() -> None:
    shown, told = sample(GRAPH)
    row = next(row for row in told["summary"]["phases"] if row["phase"] == "decode")
    sheet = page("repeats", shown)
    assert chart(sheet).high == pytest.approx(row["step_time_ns"] / row["steps"] / 1e3)
    assert bars(sheet)["device idle"] == pytest.approx(row["gpu_idle_share"] * row["step_time_ns"] / row["steps"] / 1e3)


def test_without_steps_families_stand_over_the_whole_recording() -> None:
    found = summary()
    rows = (FamilyRow("norm", 3, 1_000_000, 0.2), FamilyRow("comm", 2, 4_000_000, 0.8))
    bare = replace(found, summary=replace(found.summary, phases=(), families=rows))
    empty = RepeatsSection((), (), Costs(None, None, None, None, None, None))
    sheet = page("repeats", view(bare, empty))
    table = grid(sheet, "Kernels by family, over the whole recording")
    assert column(table, "family") == ["comm", "norm"]
    assert (column(table, "kernels"), texts(table, "ms")) == ([2, 3], ["4.000", "1.000"])
    assert texts(table, "share %") == ["80.0", "20.0"]
    assert bars(sheet) == {"comm": 4.0, "norm": 1.0}
    assert chart(sheet).high == 4.0
    # with steps, and where nothing was recorded at all, the table is of a step's mean
    assert grid(page("repeats", full()), "Kernels by family, mean of a step").lines
    nothing_ran = replace(found, summary=replace(found.summary, phases=(), families=()))
    assert not grid(page("repeats", view(nothing_ran, empty)), "Kernels by family, mean of a step").lines
