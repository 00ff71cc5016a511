"""Sentences, bars, curves and time lines as rows: every cell by hand."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from m3probe.present.looks import LOOKS, look
from m3probe.present.sheets.sheet import Bar, Bars, Curve, Said, Strip
from m3probe.tui.looks import to_ascii
from m3probe.tui.widgets.bars import BarsPart, aligned, drawn
from m3probe.tui.widgets.curve import CurvePart, plotted
from m3probe.tui.widgets.heading import aged
from m3probe.tui.widgets.ink import Part, clean, tick, titled, width_of, wrapped
from m3probe.tui.widgets.said import SaidPart
from m3probe.tui.widgets.strip import StripPart


def rows(part: Part, width: int) -> list[str]:
    return ["".join(text for text, _ in part.row(at, width)).rstrip() for at in range(part.height(width))]


def test_a_sentence_is_wrapped_and_hangs_below_its_glyph() -> None:
    assert rows(SaidPart(Said("one two three four", mark="missed")), 12) == ["✗ one two", "  three four"]


def test_a_word_longer_than_the_line_is_broken_anywhere() -> None:
    assert wrapped("abcdefghij k", 4) == ["abcd", "efgh", "ij k"]


def test_an_empty_sentence_is_an_empty_line() -> None:
    assert rows(SaidPart(Said("")), 20) == [""]


@pytest.mark.parametrize(
    ("value", "high", "bar"),
    [
        (0.0, 10.0, "        "),
        (5.0, 10.0, "████    "),
        (10.0, 10.0, "████████"),
        (99.0, 10.0, "████████"),
        (0.001, 10.0, "▏       "),
        (1.25, 10.0, "█       "),
        (0.625, 10.0, "▌       "),
        (1.0, 0.0, "        "),
    ],
)
def test_a_bar_fills_its_share_of_a_scale_that_begins_at_zero(value: float, high: float, bar: str) -> None:
    assert drawn(value, high, 8) == bar


def test_bars_say_their_scale_and_their_figures() -> None:
    bars = Bars("Time", (Bar("gemm", 5.0, "5 µs"), Bar("norm", 10.0, "10 µs", "missed")), 10.0, "µs")
    assert rows(BarsPart(bars), 30) == [
        "Time · 0 to 10 µs " + "─" * 12,
        "gemm    ███████▌          5 µs",
        "✗ norm  ███████████████  10 µs",
    ]
    assert all(width_of(BarsPart(bars).row(at, 30)) <= 30 for at in range(3))


def test_bars_give_up_the_bar_before_the_figure() -> None:
    bars = Bars("Time", (Bar("a label of some length", 5.0, "5.00 ms, x 1.46, bound by memory"),), 10.0, "ms")
    assert "5.00 ms, x 1.46, bound by memory" in rows(BarsPart(bars), 50)[1]


def test_a_curve_stands_on_its_own_scale_and_not_on_its_own_range() -> None:
    flat = Curve("KV", ((0.0, 50.0), (1.0, 50.0)), 0.0, 100.0, "%")
    top, upper, lower, bottom = plotted(flat, 4, 4)
    assert (top, bottom) == ("    ", "    ")
    assert (upper + lower).strip()


def test_neighbours_are_joined_by_a_line() -> None:
    curve = Curve("q", ((0.0, 0.0), (1.0, 1.0)), 0.0, 1.0, "requests")
    # eight dots wide and eight high, one in each column: left and right dots of a cell are 0x40 0x20, then 0x02 0x08
    cell = chr(0x2800 + 0x40 + 0x20), chr(0x2800 + 0x02 + 0x08)
    assert plotted(curve, 4, 2) == ["  " + "".join(cell), "".join(cell) + "  "]


def test_a_gap_in_a_curve_is_empty_and_never_a_zero() -> None:
    gap = Curve("q", tuple((float(x), None if 2 <= x <= 7 else 0.0) for x in range(10)), 0.0, 1.0, "requests")
    assert plotted(gap, 10, 2)[1][3:7] == "    "
    assert plotted(gap, 10, 2)[1][0] != " "


def test_a_restart_is_marked_in_every_row_that_is_free_and_named() -> None:
    curve = Curve("q", ((0.0, 0.0), (10.0, 0.0)), 0.0, 1.0, "requests", marks=(5.0,))
    # and no line is drawn across it
    assert plotted(curve, 11, 3) == ["     ┊     ", "     ┊     ", chr(0x2840) + "    ┊    " + chr(0x2880)]
    assert "counters began anew" in rows(CurvePart(curve), 60)[-1]


def test_a_curve_without_a_value_says_so() -> None:
    assert rows(CurvePart(Curve("q", ((0.0, None),), 0.0, 1.0, "requests")), 40)[-1].strip() == "no value yet"
    assert rows(CurvePart(Curve("q", (), 0.0, 1.0, "requests")), 40)[-1].strip() == "no value yet"


def test_a_time_line_tells_kinds_apart_without_colour() -> None:
    strip = Strip("Steps", ((0.0, 5.0, "a"), (5.0, 8.0, "b")), 10.0, "ms", (("a", "decode"), ("b", "prefill")))
    title, line, legend = rows(StripPart(strip), 20)
    assert title.startswith("Steps · 0 to 10 ms ─")
    assert line == "█" * 10 + "▒" * 6
    assert legend == "█ decode   ▒ prefill"


def test_a_cell_of_a_time_line_shows_what_filled_most_of_it() -> None:
    strip = Strip("Steps", ((0.0, 0.2, "a"), (0.2, 1.0, "b")), 1.0, "ms", (("a", "a"), ("b", "b")))
    assert rows(StripPart(strip), 1)[1] == "▒"


def test_a_chart_keeps_its_scale_where_its_title_has_to_be_cut() -> None:
    bars = Bars("Time above the least, computed and long", (Bar("gemm", 3.0, "3 ms"),), 3.0, "ms")
    assert rows(BarsPart(bars), 30)[0] == "Time above the le… · 0 to 3 ms"


def test_figures_behind_bars_stand_below_one_another() -> None:
    told = ["3.00 ms, x 1.46, bound by memory", "12.73 ms, x 16.10, bound by compute"]
    assert aligned(told) == [" 3.00 ms,  x 1.46, bound by memory", "12.73 ms, x 16.10, bound by compute"]
    assert aligned(["568.61 MiB (kernels)", "1.28 MiB (transfers)"]) == [
        "568.61 MiB (kernels)",
        "  1.28 MiB (transfers)",
    ]


def test_a_title_gives_up_its_aside_before_itself() -> None:
    assert "".join(t for t, _ in titled("A long title", "and an aside", 16)) == "A long title ───"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.2, "0 s"), (119.0, "119 s"), (514.0, "9 min"), (7_300.0, "2 h"), (200_000.0, "2 d")],
)
def test_an_age_has_the_unit_that_fits_it(seconds: float | None, text: str) -> None:
    assert aged(seconds) == text


def test_every_look_has_a_glyph_and_an_ascii_spelling_of_one_cell() -> None:
    assert {len(to_ascii(glyph)) for glyph, _ in LOOKS.values()} == {1}
    assert all(to_ascii(glyph).isascii() for glyph, _ in LOOKS.values())


def test_a_word_that_is_not_known_is_no_pass() -> None:
    assert look("brand new") == ("?", "dim")
    assert look("refused at start")[0] == look("refused_at_start")[0] == "⊘"


def test_ascii_keeps_every_cell_in_its_place() -> None:
    assert to_ascii("● 5 µs › ⣿ 核") == "* 5 us > * ??"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (50.0, "50"),
        (98.6806, "98.68"),
        (-14.1511, "-14.15"),
        (1234567.0, "1,234,567"),
        (0.0005, "0.0005"),
        (0.5, "0.5"),
    ],
)
def test_an_end_of_a_scale_has_no_more_digits_than_tell_it_apart(value: float, text: str) -> None:
    assert tick(value) == text


@pytest.mark.parametrize(
    ("foreign", "drawn"),
    [
        ("\u6f22\u5b57 gemm", "\u6f22\u5b57 gemm"),  # wide, and everybody says so
        ("e\u0301", "e\u0301"),  # a combining accent takes no cell anywhere
        ("\u2764\ufe0f", "\u2764\\ufe0f"),  # a heart, and the wish that it be wide
        ("\U0001f44d\U0001f3fd", "\U0001f44d\\U0001f3fd"),  # a thumb and its skin: two cells or four
        ("\u1100\u1161\u11a8", "\u1100\\u1161\\u11a8"),  # a syllable in parts: two cells or four
        ("\u0915\u093e", "\u0915\\u093e"),  # a vowel sign of Devanagari: one cell or none
        ("\u0378", "\\u0378"),  # no character yet
    ],
)
def test_what_terminals_disagree_about_is_spelt(foreign: str, drawn: str) -> None:
    assert clean(foreign) == drawn
    assert width_of([(clean(foreign), "")]) == cell_len(clean(foreign))
