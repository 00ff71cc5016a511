"""Tables: what is shown at a width, in what order, and that only what is seen is ever made."""

from __future__ import annotations

import time

import pytest
from tui_kit import COLUMNS, LONG, Many, line

from m3probe.present._page import cells
from m3probe.present.sheets.sheet import Cell, Column, Grid, Line
from m3probe.tui.ordering import Order, find, ordered
from m3probe.tui.widgets.grid import GridPart, fitted
from m3probe.tui.widgets.ink import padded, width_of


def grid(*shares: float | None) -> Grid:
    lines = tuple(
        Line(f"k{at}", (Cell(f"name {at}"), Cell("—" if s is None else f"{s:g}", s))) for at, s in enumerate(shares)
    )
    return Grid("Shares", (Column("name"), Column("share", right=True)), lines)


def text(part: GridPart, at: int, width: int) -> str:
    return "".join(piece for piece, _ in part.row(at, width))


def test_columns_that_matter_least_go_first() -> None:
    columns = (Column("a", keep=2), Column("b", wide=True), Column("c", keep=1), Column("d", right=True))
    need = (10, 24, 10, 10)
    assert [at for at, _ in fitted(columns, need, 60)] == [0, 1, 2, 3]
    assert [at for at, _ in fitted(columns, need, 59)] == [1, 2, 3]
    assert [at for at, _ in fitted(columns, need, 47)] == [1, 3]


def test_a_wide_column_takes_what_is_left_and_no_more_than_it_needs() -> None:
    columns = (Column("a", wide=True), Column("b", right=True))
    assert fitted(columns, (50, 5), 40) == ((0, 33), (1, 5))
    assert fitted(columns, (30, 5), 80) == ((0, 30), (1, 5))


@pytest.mark.parametrize("width", [20, 38, 58, 78, 118, 198])
def test_no_row_is_wider_than_its_room(width: int) -> None:
    part = GridPart(Grid("Kernels", COLUMNS, tuple(line(at, LONG) for at in range(40))))
    assert {width_of(part.row(at, width)) <= width for at in range(42)} == {True}


def test_a_name_is_cut_in_its_middle_and_a_sentence_at_its_end() -> None:
    assert padded("vllm::moe::topkGatingSoftmax<float>", 12) == "vllm::m…oat>"
    assert padded("The device is idle for most of it", 12) == "The device …"


def test_a_figure_that_is_seen_later_widens_its_column_instead_of_being_cut() -> None:
    lines = tuple(Line(str(at), (Cell("n"), Cell("123,456,789" if at == 500 else "1", at))) for at in range(600))
    part = GridPart(Grid("Calls", (Column("name", wide=True), Column("calls", right=True)), lines))
    assert "123,456,789" not in text(part, 2, 40)
    part.prepare(495, 10)
    assert text(part, 502, 40).endswith("123,456,789")


def test_a_foreign_name_cannot_steer_the_terminal() -> None:
    part = GridPart(Grid("K", (Column("name"),), (Line("a", (Cell("evil\x1b[2J\u202ename"),)),)))
    assert text(part, 2, 60) == "evil\\x1b[2J\\u202ename"


def test_wide_characters_keep_the_columns_straight() -> None:
    names = ("コア核", "abc")
    columns = (Column("name"), Column("n", right=True))
    part = GridPart(Grid("K", columns, tuple(Line(n, (Cell(n), Cell("7", 7))) for n in names)))
    assert {cells(text(part, at, 60)) for at in (2, 3)} == {6 + 2 + 1}


def test_sorting_goes_by_values_and_leaves_unknown_ones_last_both_ways() -> None:
    it = grid(9.0, None, 100.0, float("nan"), 20.0)
    assert ordered(it, Order(1)) == [0, 4, 2, 1, 3]
    assert ordered(it, Order(1, falling=True)) == [2, 4, 0, 1, 3]


def test_sorting_by_a_text_ignores_case() -> None:
    lines = tuple(Line(n, (Cell(n, n),)) for n in ("beta", "Alpha", "gamma"))
    assert ordered(Grid("g", (Column("n"),), lines), Order(0)) == [1, 0, 2]


def test_a_filter_looks_into_every_cell_whatever_the_case() -> None:
    assert ordered(grid(1.0, 2.0, 12.0), Order(needle="NAME 1")) == [1]
    assert ordered(grid(1.0, 2.0, 12.0), Order(needle="2")) == [1, 2]


def test_nothing_asked_is_no_order_at_all() -> None:
    assert ordered(grid(1.0), Order()) is None


def test_an_order_that_nobody_waits_for_any_more_ends() -> None:
    assert ordered(Grid("K", COLUMNS, Many(4_000_000)), Order(0), lambda: True) is None


def test_the_title_says_how_many_of_how_many_and_in_what_order() -> None:
    part = GridPart(grid(1.0, 2.0, 3.0), Order(1, falling=True, needle="name"))
    part.indices = [2, 1]
    assert text(part, 0, 60).startswith("Shares · 2 of 3  /name  by share ▼ ─")


def test_a_count_that_the_title_says_is_not_said_twice() -> None:
    lines = tuple(line(at) for at in range(3))
    assert text(GridPart(Grid("Findings 3 of 41", COLUMNS, lines)), 0, 40).startswith("Findings 3 of 41 ─")


def test_an_empty_table_says_why_and_a_filter_how_to_see_all_again() -> None:
    part = GridPart(Grid("Findings", COLUMNS, (), "No finding is missed. Press v."))
    assert [text(part, at, 60).strip(" ─") for at in range(part.height(60))] == [
        "Findings",
        "No finding is missed. Press v.",
    ]
    hidden = GridPart(grid(1.0), Order(needle="zzz"))
    hidden.indices = []
    assert "No line holds 'zzz'" in text(hidden, 1, 80)


def test_an_item_is_found_where_it_moved_to() -> None:
    lines = [line(at) for at in range(100)]
    assert find(lines, "item-90", 5) == 90
    assert find(lines, "gone", 5) == 5
    assert find(Many(4_000_000), "item-2000500", 2_000_000) == 2_000_500
    assert find((), "item-1", 3) == 0


def test_four_million_lines_cost_what_is_seen_of_them() -> None:
    lines = Many(4_000_000)
    begun = time.perf_counter()
    part = GridPart(Grid("Kernels", COLUMNS, lines))
    part.prepare(2_000_000, 40)
    rows = [part.row(at, 100) for at in range(2_000_000, 2_000_040)]
    assert len(rows) == 40
    assert lines.made < 200
    assert time.perf_counter() - begun < 0.5
