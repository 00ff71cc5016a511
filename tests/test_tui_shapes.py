"""Question 1 as a page: shapes with their floors; values by hand, and those of ``analyze --json``."""

from dataclasses import replace

import pytest
from page_kit import (
    ALL,
    GRAPH,
    HOSTILE,
    LIVE,
    bars,
    chart,
    column,
    full,
    grid,
    hollow,
    line,
    marks,
    nothing,
    page,
    said,
    sample,
    texts,
    view,
)
from report_builder import roofline, shapes

from m3probe.model.report import ShapesSection
from m3probe.present.sheets.sheet import Lens, Said


def test_each_shape_is_a_line_with_its_sizes_and_count() -> None:
    table = grid(page("shapes", full()), "Local GEMM shapes")
    assert table.title == "Local GEMM shapes: census 6 calls, kernels 357 calls"  # 54+53+52+51+50+49+48 and 6
    assert column(table, "M") == [4000, 8, 8, 8, 8, 8, 8, 8]
    assert column(table, "count") == [6, 54, 53, 52, 51, 50, 49, 48]


def test_floor_is_the_rooflines_and_unknown_without_one() -> None:
    table = grid(page("shapes", full()), "Local GEMM shapes")
    ratios = dict(zip(column(table, "N"), column(table, "x least"), strict=True))
    assert ratios[2560] == 0.5  # the roofline builder's row of 8 x 2560 x 6144
    assert ratios[2304] is None
    assert texts(table, "x least")[2] == "—"


def test_observed_below_its_floor_is_marked_as_wrong() -> None:
    table = grid(page("shapes", full()), "Local GEMM shapes")
    assert marks(table, "x least")[1] == "missed"


def test_chart_shows_time_above_the_floor_of_all_calls() -> None:
    # moe_gemm: (1,250,000 - 1,000,000) ns x 2 = 0.5 ms; the row below its floor is no time above it
    sheet = page("shapes", full())
    assert bars(sheet) == {"decode moe_gemm": 0.5}
    assert chart(sheet).unit == "ms"


def test_without_floors_the_chart_counts_calls_by_rows() -> None:
    sheet = page("shapes", view(shapes()))
    assert bars(sheet) == {"M 8": 357.0, "M 4,000": 6.0}


def test_starved_launch_is_marked_and_a_filled_one_is_not() -> None:
    table = grid(page("shapes", full()), "Local GEMM shapes")
    assert texts(table, "programs/units")[1] == "40/132"
    assert marks(table, "programs/units")[1] == "unexpected"
    row = replace(shapes().shapes[0], grid=(132, 1, 1))
    table = grid(page("shapes", view(ShapesSection((row,), None))), "Local GEMM shapes")
    assert (texts(table, "programs/units"), marks(table, "programs/units")) == (["132/132"], [""])


def test_what_ran_and_what_the_selector_would_take_stand_apart() -> None:
    row = replace(shapes().shapes[0], tile="16x64x256, name; 128x128x256 (MXFP8 selector would)")
    table = grid(page("shapes", view(ShapesSection((row,), None))), "Local GEMM shapes")
    assert column(table, "tile") == ["16x64x256, name"]
    assert column(table, "selector") == ["128x128x256 (MXFP8 selector would)"]


def test_phase_filter_leaves_its_own_lines_and_says_so_when_there_are_none() -> None:
    table = grid(page("shapes", full(), Lens(phase="prefill")), "Local GEMM shapes")
    assert column(table, "phase") == ["prefill"]
    empty = grid(page("shapes", full(), Lens(phase="mixed")), "Local GEMM shapes")
    assert len(empty.lines) == 0
    assert empty.empty.startswith("No GEMM shape in phase mixed. Press p to change the filter.")


def test_two_rows_of_one_shape_keep_keys_of_their_own() -> None:
    row = shapes().shapes[0]
    table = grid(page("shapes", view(ShapesSection((row, row), None))), "Local GEMM shapes")
    assert len({one.key for one in table.lines}) == 2


def test_ambiguous_floor_is_none() -> None:
    found = roofline()
    twice = replace(found, roofline=replace(found.roofline, rows=(found.roofline.rows[1], found.roofline.rows[1])))
    table = grid(page("shapes", view(shapes(), twice)), "Local GEMM shapes")
    assert set(column(table, "x least")) == {None}


def test_answer_is_the_worst_finding_with_the_layout() -> None:
    first = page("shapes", full()).blocks[0]
    assert isinstance(first, Said)
    assert first.mark == "missed"
    assert first.text.startswith(
        "missed: 8 local shapes in 2 phases, those of MiniMax-M3 at TP4. The QKV GEMM starts 40"
    )


def test_what_hides_kernels_is_said_before_any_figure() -> None:
    assert said(page("shapes", full()))[1] == "PARTIAL: 3 event(s) lost: kernels may be among them"


@pytest.mark.parametrize("shown", [hollow(), nothing()])
def test_without_shapes_the_answer_is_unproven(shown: object) -> None:
    first = page("shapes", shown).blocks[0]  # type: ignore[arg-type]
    assert isinstance(first, Said)
    assert (first.mark, first.text.partition(":")[0]) == ("unproven", "unproven")


def test_foreign_names_stand_as_they_are() -> None:
    row = replace(shapes().shapes[0], op=HOSTILE, module=HOSTILE)
    table = grid(page("shapes", view(ShapesSection((row,), None))), "Local GEMM shapes")
    assert column(table, "op") == [HOSTILE]


@pytest.mark.parametrize("path", [GRAPH, LIVE], ids=["trace", "live"])
def test_sample_has_the_shapes_and_figures_of_its_json(path: object) -> None:
    shown, told = sample(path)  # type: ignore[arg-type]
    table = grid(page("shapes", shown, ALL), "Local GEMM shapes")
    keys = ("phase", "M", "N", "K", "count", "evidence")
    mine = sorted(zip(*(column(table, key) for key in keys), strict=True))
    assert mine == sorted(tuple(row[key] for key in keys) for row in told["shapes"])


def test_samples_lm_head_has_the_ratio_of_the_roofline() -> None:
    shown, told = sample(GRAPH)
    table = grid(page("shapes", shown), "Local GEMM shapes")
    theirs = next(
        r for r in told["roofline"]["rows"] if r["phase"] == "decode" and r["shape"].startswith("8 x 200064 x 6144")
    )
    mine = line(table, "decode aten::mm 8 x 200064 x 6144 bf16 lm_head kernels")
    assert mine.cells[[c.name for c in table.columns].index("x least")].raw == pytest.approx(theirs["ratio"])


def test_twenty_thousand_shapes_are_lines_when_they_are_looked_at() -> None:
    known = shapes().shapes[1]
    rows = tuple(replace(known, M=at // 2) for at in range(20_000))
    table = grid(page("shapes", view(replace(shapes(), shapes=rows))), "Local GEMM shapes")
    assert not isinstance(table.lines, tuple)
    assert len(table.lines) == 20_000
    assert table.lines[19_999].key == f"{table.lines[19_998].key} #2"  # two rows that are alike in all
    assert table.lines[7] is table.lines[7]
