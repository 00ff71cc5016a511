"""Figures of the HTML report against reports written by hand."""

import re
from dataclasses import replace
from typing import Any

import pytest
import report_builder as build
from figures_kit import column, drawn, every, labels, trace
from page_kit import HOSTILE, full, hollow, nothing, of_report, view
from sheet_kit import bounded, report_of

from m3probe.model.findings import Bound
from m3probe.model.idle_report import IdlePart, IdleSection
from m3probe.model.live_report import LiveSection, StepTimeRow
from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.repeat_report import Costs, RepeatRow, RepeatsSection
from m3probe.model.report import (
    BytePlanes,
    BytesSection,
    PlaneRow,
    ShapeRow,
    ShapesSection,
)
from m3probe.present.html.figures._plot import HOVERED, LABEL, WRAPPED, beside, hover, label, near


def test_labels_hold_no_markup_and_no_control_character() -> None:
    assert label("<b>x</b> & \x1b[2J") == "&lt;b&gt;x&lt;/b&gt; &amp; \\x1b[2J"
    assert hover("a<a href='x'>", "", "b\u202e") == "a&lt;a href='x'&gt;<br>b\\u202e"


def test_long_text_is_cut_and_broken() -> None:
    assert beside("short one") == "short one"
    assert beside("AITER sparse paged attention") == "AITER sparse paged<br>attention"
    assert max(map(len, beside("x" * 500).split("<br>"))) <= LABEL
    lines = hover("y" * 5000).split("<br>")
    assert max(map(len, lines)) <= WRAPPED
    assert sum(map(len, lines)) <= HOVERED


def test_cutting_never_leaves_half_an_entity() -> None:
    for text in ("&" * 500, "<" * 43, ">" * 22):
        for said in (label(text), beside(text), hover(text)):
            assert not re.sub(r"&(amp|lt|gt);|<br>|…", "", said)


def test_numbers_are_rounded_and_never_invented() -> None:
    assert near(123.456789) == 123.5
    assert near(None) is None
    assert near(float("nan")) is None
    assert near(float("inf")) is None


@pytest.mark.parametrize("made", [nothing, hollow])
def test_without_data_there_is_no_figure(made: Any) -> None:
    assert every(made()) == {}


def test_verdict_draws_each_bound_from_low_to_high() -> None:
    first = bounded("next_bottleneck.idle", 0.5)
    second = replace(
        bounded("shapes.starved.decode", 0.2), bound=Bound(0.05, 0.2, "", "decode step time"), confidence="medium"
    )
    third = replace(bounded("bytes.copies", 0.1), trusted=False)
    figure = drawn("verdict", of_report(report_of([first, second, third])))["verdict"]
    assert labels(figure) == ["1 idle", "2 starved decode", "3 copies"]
    medium = trace(figure, "medium confidence")
    assert (medium["y"], medium["base"], medium["x"], medium["text"]) == ([1], [5.0], [15.0], ["20.0 %"])
    assert medium["customdata"] == ["finding/shapes.starved.decode"]
    assert trace(figure, "high confidence")["y"] == [0]
    assert trace(figure, "untrusted")["y"] == [2]
    assert figure.layout["xaxis"]["title"]["text"] == "at most, % of decode step time"
    assert column(figure, "at most %") == [0.5, 0.2, 0.1]


def test_verdict_marks_shares_of_another_time_and_counts_what_has_no_room() -> None:
    found = [bounded(f"q.f{at}", 0.5 - at / 100) for at in range(14)]
    report = report_of(found)
    section = report.answer.sections[-1]
    other = replace(
        section,
        ranking=tuple(replace(row, basis="host time" if row.place == 2 else row.basis) for row in section.ranking),
    )
    figure = drawn("verdict", of_report(replace(report, answer=replace(report.answer, sections=(other,)))))["verdict"]
    assert len(labels(figure)) == 12
    assert "2 more in the table" in figure.says
    assert trace(figure, "high confidence")["text"][:3] == ["50.0 %", "49.0 % †", "48.0 %"]


def shape(m: int, count: int, evidence: str = "kernels", **more: Any) -> ShapeRow:
    words: dict[str, Any] = {
        "phase": "decode", "op": "aten::mm", "N": 2560, "K": 6144, "predicted": True, "module": "qkv_proj", "dtype": "bf16",
        "tile": "16x64x256; other would", "programs": 40, "units": 132, "k_loops": 24, "grid": None,
    }  # fmt: skip
    return ShapeRow(**words | {"M": m, "count": count, "evidence": evidence} | more)


def test_shapes_are_cells_of_calls_and_evidence_is_never_added_up() -> None:
    rows = (
        shape(8, 54),
        shape(8, 6, "census"),
        shape(8, 60, "ledger"),
        shape(4000, 1500, phase="prefill", predicted=False),
    )
    starved = replace(bounded("shapes.starved.decode", 0.1), question="shapes")
    figure = drawn("shapes", view(ShapesSection(rows, None), findings=(starved,)))["shapes"]
    cells = figure.data[0]
    assert labels(figure) == ["qkv_proj 2560\xa0x\xa06144"]
    assert figure.layout["xaxis"]["ticktext"] == ["8 dec", "4,000 pre"]
    # 54 + 6 = 60: the ledger's 60 are the same calls; log10(60) = 1.78, log10(1,500) = 3.18
    assert cells["text"] == [["60", "1.5k ✗"]]
    assert cells["z"] == [[1.78, 3.18]]
    assert cells["customdata"] == [["finding/shapes.starved.decode", ""]]
    assert "40 programs on 132 units" in cells["hovertext"][0][0]
    assert "1,560 calls" in figure.says
    assert "ledger" in figure.says


def test_shapes_of_the_ledger_alone_are_drawn() -> None:
    figure = drawn("shapes", view(ShapesSection((shape(8, 60, "ledger"),), None)))["shapes"]
    assert figure.data[0]["text"] == [["60"]]
    assert figure.layout["xaxis"]["title"]["text"] == "M, rows (decode)"


def test_many_shapes_are_bounded_and_what_is_left_is_said() -> None:
    rows = tuple(shape(m, 1, N=64 * (m % 40 + 1)) for m in range(1, 1001))
    figure = drawn("shapes", view(ShapesSection(rows, None)))["shapes"]
    shown = sum(int(text) for line in figure.data[0]["text"] for text in line if text)
    assert len(figure.data[0]["z"]) <= 24
    assert len(figure.data[0]["z"][0]) <= 24
    assert f"{1000 - shown:,} calls of rarer shapes" in figure.says


def repeat(family: str, per_layer: float | None, evidence: str = "kernels", ns: float | None = 1000.0) -> RepeatRow:
    return RepeatRow("decode", family, 12.0, per_layer, None, ns, evidence)


def test_repeats_count_by_layer_and_each_family_once() -> None:
    rows = (repeat("gemm", 5.0, "ledger"), repeat("gemm", 4.0), repeat("sampling", None))
    costs = Costs(None, None, None, None, None, None)
    figure = drawn("repeats", view(RepeatsSection(rows, (), costs)))["repeats"]
    assert labels(figure) == ["gemm"]
    assert trace(figure, "decode")["x"] == [4.0]
    assert "1 more" in figure.says
    steps = drawn("repeats", view(RepeatsSection((repeat("gemm", None),), (), costs)))["repeats"]
    assert trace(steps, "decode")["x"] == [12.0]
    assert steps.layout["xaxis"]["title"]["text"] == "kernels a step, mean"


def test_a_steps_time_is_told_in_shares_of_the_step() -> None:
    # 12,000,000 ns of 2 decode steps: 1,200,000 ns are 20 % of one, 98,000 are 1.633 %, half is idle
    figure = drawn("repeats", full())["repeats-time"]
    assert trace(figure, "moe_gemm")["x"] == [20.0]
    assert trace(figure, "sparse_attention")["x"] == [1.633]
    assert trace(figure, "device idle")["x"] == [50.0]


def test_idle_time_stands_by_its_place_and_opens_its_finding() -> None:
    parts = (
        IdlePart("in_graph", "inside the graph", "launch", 1_000, 0.01, 2),
        IdlePart("between_steps", "between steps", "queue", 40_000, 0.4, 1),
    )
    found = replace(bounded("next_bottleneck.idle", 0.41), question="next_bottleneck")
    figure = drawn("repeats", view(IdleSection("decode step time", parts), findings=(found,)))["idle"]
    assert labels(figure) == ["between steps", "inside the graph"]
    assert figure.data[0]["x"] == [40.0, 1.0]
    assert figure.data[0]["customdata"] == ["finding/next_bottleneck.idle"] * 2
    assert "41.0 % of decode step time" in figure.says
    assert column(figure, "µs a step") == [40.0, 0.5]


def test_a_hosts_step_leaves_out_what_no_hook_took() -> None:
    row = StepTimeRow("decode", "FULL", 10.0, 8.0, 8.0, None, 2e6, 1e6, 0.0, None, 3e6)
    figure = drawn("repeats", view(LiveSection((), (row,), 1.0)))["host-steps"]
    assert trace(figure, "prepare")["x"] == [2.0]
    assert trace(figure, "wait")["x"] == [0.0]
    assert trace(figure, "schedule")["x"] == []
    assert "schedule, output not taken" in figure.says


def plane(what: str, size: int | None, ns: int | None = None, dtype: str = "bf16") -> PlaneRow:
    return PlaneRow(what, 2, size, ns, dtype, "", "kernels")


def test_what_is_not_proven_is_a_word_and_no_bar() -> None:
    rows = (plane("write", 3 << 20, 40_000), plane("write", 1 << 20, 10_000, "fp8"), plane("read", None, 5_000))
    figures = drawn("planes", view(BytesSection(BytePlanes(state=rows, not_provable=("useful bytes: no counter",)))))
    figure = figures["planes"]
    assert labels(figure) == ["state: write", "state: read", "useful bytes"]
    assert trace(figure, "persistent state")["x"] == [4.0]
    bare = trace(figure, "unproven")
    assert (bare["y"], bare["text"]) == ([1, 2], ["? unproven", "? no counter"])
    assert column(figure, "MiB") == [4 << 20, None, None]
    assert trace(figures["plane-times"], "persistent state")["x"] == [0.05, 0.005]
    assert "1 of 2 kinds" in figure.says


def test_where_no_bytes_are_proven_there_is_no_scale_of_bytes_but_the_time_stays() -> None:
    planes = BytePlanes(comm=(plane("collective", None, 40_000),), not_provable=("payloads: no launch",))
    assert set(drawn("planes", view(BytesSection(planes)))) == {"plane-times"}


def test_bytes_known_in_part_are_a_lower_bound() -> None:
    figure = drawn("planes", view(BytesSection(BytePlanes(comm=(plane("x", 1 << 10), plane("x", None))))))["planes"]
    assert trace(figure, "communication")["text"] == ["≥ 1.00 KiB"]


@pytest.mark.parametrize(("small", "scale"), [(1 << 20, None), (1 << 10, "log")])
def test_a_scale_is_logarithmic_from_a_hundred_times_on(small: int, scale: str | None) -> None:
    figure = drawn("planes", view(BytesSection(BytePlanes(comm=(plane("a", 64 << 20), plane("b", small))))))["planes"]
    assert figure.layout["xaxis"].get("type") == scale


def test_paths_stand_by_what_needs_a_look_and_every_cell_has_its_word() -> None:
    cells = (
        PathCell(0, "decode", "executed", "Triton", 9, 9, 54, 0, decides=True),
        PathCell(1, "decode", "missed", "", 9, 0, 0, 9, decides=True),
    )
    row = build.paths().paths[0]
    rows = (
        replace(row, id="good", title="Good", by_phase={"decode": "executed"}, cells=cells[:1]),
        replace(
            row,
            id="bad",
            title="Bad",
            verdict="missed",
            by_phase={"decode": "missed"},
            cells=cells,
            reasons=("64 > 32 rows",),
        ),
    )
    figure = drawn("paths", view(PathsSection(rows)))["paths"]
    heat, *texts = figure.data
    assert labels(figure) == ["Bad", "Good"]
    assert figure.layout["xaxis"]["ticktext"] == ["all", "decode 0", "decode 1"]
    told = {(x, y): text for some in texts for x, y, text in zip(some["x"], some["y"], some["text"], strict=True)}
    assert told == {
        (0, 0): "✗ missed",
        (1, 0): "● executed",
        (2, 0): "✗ missed",
        (0, 1): "● executed",
        (1, 1): "● executed",
    }
    assert heat["z"][1][2] is None
    assert "64 &gt; 32 rows" in heat["hovertext"][0][2]
    assert "0 of 9 steps" in heat["hovertext"][0][2]
    assert heat["customdata"][0] == ["path/bad"] * 3
    assert "first Bad: 64 > 32 rows" in figure.says


def test_paths_of_which_nothing_is_known_are_no_figure() -> None:
    rows = tuple(row for row in build.paths().paths if row.verdict == "unproven")
    assert drawn("paths", view(PathsSection(rows))) == {}


def test_a_roofline_point_stands_where_its_operations_bytes_and_time_say() -> None:
    figure = drawn("roofline", full())["roofline"]
    decode = trace(figure, "decode")
    # 4.8e9 operations over 4.8e9 bytes in 1.25 ms; 2.5e8 over 3.2e7 in 3.3 us; most time first
    assert decode["x"] == [1.0, 7.812]
    assert decode["y"] == [3.84, 75.76]
    assert decode["marker"]["symbol"] == ["circle-open", "circle"]
    assert decode["marker"]["size"][0] == 34.0
    # 4.8e12 bytes/s reach 1,978.9 TFLOP/s at 412.3 operations a byte, 989.4 at 206.1
    assert trace(figure, "memory, 4.8 TB/s")["x"][1] == 412.3
    assert trace(figure, "bf16, 989 TFLOP/s")["x"][0] == 206.1
    assert "1 more have no operations" in figure.says
    step = drawn("roofline", full())["decode-floor"]
    assert trace(step, "measured")["x"] == [6.0, 3.0]
    assert trace(step, "moe_w13")["x"] == [1.0]


def test_a_device_without_known_peaks_has_no_roofline() -> None:
    section = build.roofline()
    unknown = replace(section.roofline, device=None, bytes_per_s=None, peak_tflops={}, decode=None)
    assert drawn("roofline", view(replace(section, roofline=unknown))) == {}


def test_names_from_files_are_no_markup_in_any_figure() -> None:
    row = replace(build.paths().paths[0], title=HOSTILE, reasons=(HOSTILE,), by_phase={HOSTILE: "executed"})
    planes = BytesSection(BytePlanes((plane(HOSTILE, 1),), not_provable=(HOSTILE,)))
    shapes = ShapesSection((shape(8, 1, module=HOSTILE, dtype=HOSTILE, tile=HOSTILE, phase=HOSTILE),), None)
    repeats = RepeatsSection((repeat(HOSTILE, 1.0),), (), Costs(None, None, None, None, None, None))
    ranked = report_of(
        [replace(bounded(f"q.{HOSTILE}", 0.1), claim=HOSTILE)], PathsSection((row,)), planes, shapes, repeats
    )
    figures = every(of_report(ranked))
    assert {"verdict", "paths", "planes", "shapes", "repeats"} <= figures.keys()
    for figure in figures.values():
        for text in strings([figure.data, figure.layout]):
            assert not re.search("[\x00-\x1f\u202e]", text)
            assert "<b>" not in text


def strings(value: Any) -> list[str]:
    """Every text of a figure but the targets, which are no text."""
    if isinstance(value, str):
        return [value]
    items = [v for k, v in value.items() if k != "customdata"] if isinstance(value, dict) else value
    return [text for item in items for text in strings(item)] if isinstance(items, list | tuple) else []


def test_a_path_without_cells_has_its_phases_all_the_same() -> None:
    row: PathRow = replace(build.paths().paths[0], by_phase={"prefill": "unproven", "decode": "executed"}, cells=())
    figure = drawn("paths", view(PathsSection((row,))))["paths"]
    assert sorted(text for some in figure.data[1:] for text in some["text"]) == [
        "? unproven",
        "● executed",
        "● executed",
    ]
