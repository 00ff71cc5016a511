"""The terminal report: whatever a name holds, lines fit and nothing acts on the terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import report_builder as build
from hypothesis import given, settings
from hypothesis import strategies as some
from report_text_kit import finding, line_with, only
from rich.cells import cell_len
from tree import shared_or_skip

from m3probe.model.findings import Finding
from m3probe.model.report import (
    Answer,
    ModelMatch,
    ReadNote,
    Report,
    ShapeRow,
    ShapesSection,
)
from m3probe.present import _numbers as numbers
from m3probe.present._page import Page, cells, middle_cut
from m3probe.present._ran import bar
from m3probe.present._table import Column, number, table
from m3probe.present.text import report_text

SGR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "evil\x1b[2J\x9b31m\u202etxt\ud800\x07name"


def failed(question: str) -> Finding:
    """What the pipeline says of an analyzer that raised."""
    claim = f"the analyzer {question!r} failed: TypeError: object of type 'int' has no len()"
    return Finding(f"{question}.failed", question, "unproven", claim, "_x.py:7", (), "Report this.", trusted=False)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_foreign_text_reaches_no_terminal_unescaped(ascii_only: bool) -> None:
    shape = ShapeRow("decode", HOSTILE, 1, 1, 1, 1, None, HOSTILE, HOSTILE, HOSTILE, None, None, None, None, "kernels")
    judged = Finding(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, (), HOSTILE)
    notes = (ReadNote(HOSTILE, HOSTILE, HOSTILE, 1),)
    answer = Answer((ShapesSection((shape,), ModelMatch(HOSTILE, 1, 1, (HOSTILE,), (HOSTILE,))),), (judged,))
    text = report_text(Report("partial", notes, answer), 100, color=False, ascii_only=ascii_only)
    assert not set(text) & set("\x1b\x9b\u202e\ud800\x07")
    assert r"evil\x1b[2J\x9b31m\u202etxt" in text
    colored = report_text(Report("partial", notes, answer), 100, color=True)
    assert "\x1b" not in SGR.sub("", colored)


def test_markup_is_text() -> None:
    assert "[red]x[/red]" in report_text(only(findings=(replace(finding(1), claim="[red]x[/red]"),)), 80, color=True)


@given(some.text(max_size=200), some.integers(20, 130), some.booleans())
@settings(max_examples=60, deadline=None)
def test_any_text_fits_and_is_harmless(foreign: str, width: int, ascii_only: bool) -> None:
    rows = (ShapeRow("decode", foreign, 1, 1, 1, 1, None, foreign, "", "", None, None, None, None, "kernels"),)
    judged = replace(finding(1), claim=foreign, advice=foreign, where=foreign)
    answer = Answer((ShapesSection(rows, None),), (judged,))
    text = report_text(
        Report("partial", (ReadNote("x", foreign, foreign, 1),), answer), width, color=False, ascii_only=ascii_only
    )
    assert max(cells(line) for line in text.split("\n")) <= width
    assert all(char == "\n" or (char.isprintable() or ord(char) > 0xA0) for char in text)


@pytest.mark.parametrize("width", range(30, 60))
def test_a_figure_is_not_torn_from_its_unit(width: int) -> None:
    judged = replace(finding(1), claim="12.5 % of 13.5 % of 14.5 % of 15.5 % of 16.5 % of 17.5 % of the step")
    assert not re.search(r"^ *%", report_text(only(findings=(judged,)), width, color=False), re.MULTILINE)


def test_wide_characters_take_two_cells() -> None:
    judged = replace(finding(1), claim="内核" * 60)
    text = report_text(only(findings=(judged,)), 60, color=False)
    assert max(cell_len(line) for line in text.splitlines()) <= 60
    assert cells("内核 e\u0301") == 6


@pytest.mark.parametrize(
    "name",
    ["h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz", "tracelens/inference/vllm_prefilldecode_piecewise"],
)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_real_traces_fit(name: str, width: int) -> None:
    trace = shared_or_skip(f"traces/{name}")
    from m3probe import pipeline

    text = report_text(pipeline.analyze([trace]), width, color=False)
    assert [line for line in text.splitlines() if cell_len(line) > width] == []
    if name.startswith("h200"):
        assert "2,059 kernels · 43.12 ms kernel time · 40.88 ms busy (union)" in text.replace("\n  ", " ")
        assert line_with(text, "  decode   ").split()[:3] == ["decode", "9", "207"]


@pytest.mark.parametrize(
    ("value", "decimals", "shown"),
    [
        (None, 2, "—"),
        (float("nan"), 2, "—"),
        (float("inf"), 0, "—"),
        (0, 2, "0.00"),
        (1234567, 0, "1,234,567"),
        (0.004, 2, "<0.01"),
        (0.006, 2, "0.01"),
        (-0.001, 2, ">-0.01"),
        (2.345, 1, "2.3"),
    ],
)
def test_fixed(value: float | None, decimals: int, shown: str) -> None:
    assert numbers.fixed(value, decimals) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(None, "—"), (0.0, "0.0"), (1.0, "100.0"), (0.9999, ">99.9"), (0.0001, "<0.1"), (0.5, "50.0"), (0.999, "99.9")],
)
def test_percent_rounds_neither_to_none_nor_to_all(share: float | None, shown: str) -> None:
    assert numbers.percent(share) == shown


def test_a_byte_column_has_the_unit_of_its_largest_value() -> None:
    assert numbers.bytes_unit([None, 12, 3 << 20]) == ("MiB", 1 << 20)
    assert numbers.bytes_unit([None, 1023]) == ("B", 1)
    assert numbers.bytes_unit([]) == ("B", 1)
    assert (numbers.in_unit(1536, 1024), numbers.in_unit(None, 1024), numbers.in_unit(7, 1)) == ("1.50", "—", "7")


def test_small_words() -> None:
    assert numbers.decimals_for([1.0, None, 2.0]) == 0
    assert numbers.decimals_for([1.5]) == 2
    assert (numbers.per(None, 2), numbers.per(4, 0), numbers.per(4, 2)) == (None, None, 2.0)
    assert (numbers.plural(1, "launch", "launches"), numbers.plural(2, "launch", "launches")) == (
        "1 launch",
        "2 launches",
    )
    assert numbers.listed(["a", "b", "c"], 2) == "a, b, 1 more"


def test_bars_grow_in_eighths_and_a_share_is_never_invisible() -> None:
    assert bar(1.0, 1.0, 4) == "████"
    assert bar(0.5625, 1.0, 2) == "█▏"
    assert bar(0.0001, 1.0, 10) == "▏"
    assert (bar(0.0, 1.0, 10), bar(None, 1.0, 10), bar(0.5, 0.0, 10), bar(0.5, 1.0, 0)) == ("", "", "", "")


def test_middle_cut() -> None:
    assert middle_cut("abcdefghij", 10) == "abcdefghij"
    assert middle_cut("abcdefghij", 7) == "abcd…ij"
    assert middle_cut("abcdefghij", 2) == "ab"


@pytest.mark.parametrize(
    ("width", "least", "shown"),
    [
        (40, 6, "  1  abcdefghijklmnop  more"),
        (22, 6, "  1  abcdef…nop  more"),
        (20, 6, "  1  abcd…nop  more"),
        # too narrow for 14 cells of text and the aside: the aside goes and the text is whole again
        (22, 14, "  1  abcdefghijklmnop"),
    ],
)
def test_narrow_tables_shorten_text_then_leave_columns_out(width: int, least: int, shown: str) -> None:
    page = Page(width)
    table(
        page, (number("n"), Column("text", least=least), Column("aside", drop=1)), [("1", "abcdefghijklmnop", "more")]
    )
    assert page.lines[1] == shown
    assert max(map(len, page.lines)) <= width


def test_a_column_without_text_is_left_out() -> None:
    page = Page(40)
    table(page, (Column("a"), Column("never"), Column("b")), [("x", "", "y")])
    assert page.lines == ["  a  b", "  x  y"]


def test_a_question_that_was_not_answered_is_the_first_thing_told() -> None:
    whole = build.full_report()
    others = tuple(finding(place, 0.9 - place / 100) for place in range(20))
    broken = replace(whole, answer=replace(whole.answer, findings=(*others, failed("bytes"), failed("paths"))))
    first, second, third = report_text(broken, 120, color=False).splitlines()[:3]
    assert first == "✗ not answered: bytes, paths"
    assert second.startswith(
        "  the analyzer 'bytes' failed: TypeError: object of type 'int' has no len() (_x.py:7). Report"
    )
    assert third.startswith("  the analyzer 'paths' failed")
    assert "not answered" not in report_text(whole, 120, color=False)
