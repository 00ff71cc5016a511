"""The terminal report: order, widths, colours, unknown figures, foreign text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import report_builder as build
from hypothesis import given, settings
from hypothesis import strategies as some
from rich.cells import cell_len
from tree import shared_or_skip

from m3probe.model.findings import Bound, Finding
from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.report import (
    Answer,
    BottleneckSection,
    FamilyRow,
    ModelMatch,
    NextBottleneck,
    ReadNote,
    Reason,
    Report,
    ShapeRow,
    ShapesSection,
    Summary,
    SummarySection,
    TrustRow,
    TrustSection,
)
from m3probe.present import _numbers as numbers
from m3probe.present._page import Page, cells, middle_cut
from m3probe.present._ran import bar
from m3probe.present._table import Column, number, table
from m3probe.present.text import report_text, wants_ascii

SGR = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = (20, 33, 60, 80, 100, 120, 200)
REPORTS = {"full": build.full_report(), "hollow": build.hollow_report(), "empty": build.empty_report()}
HOSTILE = "evil\x1b[2J\x9b31m\u202etxt\ud800\x07name"


def only(*sections: object, findings: tuple[Finding, ...] = ()) -> Report:
    return Report("ok", (), Answer(sections, findings))  # type: ignore[arg-type]


def finding(place: int, high: float | None = None, *, trusted: bool = True) -> Finding:
    bound = None if high is None else Bound(0.0, high, "made up")
    return Finding(f"x.f{place}", "bytes", "", f"Claim {place} holds.", "", (), "", bound, trusted=trusted)


def failed(question: str) -> Finding:
    """What the pipeline says of an analyzer that raised."""
    claim = f"the analyzer {question!r} failed: TypeError: object of type 'int' has no len()"
    return Finding(f"{question}.failed", question, "unproven", claim, "_x.py:7", (), "Report this.", trusted=False)


def line_with(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_exceeds_the_width(name: str, ascii_only: bool, width: int) -> None:
    text = report_text(REPORTS[name], width, color=False, ascii_only=ascii_only)
    assert [line for line in text.splitlines() if cell_len(line) > width] == []


@pytest.mark.parametrize("width", [80, 120])
def test_colour_adds_codes_and_changes_nothing_else(width: int) -> None:
    plain, colored = (report_text(build.full_report(), width, color) for color in (False, True))
    assert "\x1b" not in plain
    assert "\x1b" in colored
    assert SGR.sub("", colored) == plain


@pytest.mark.parametrize("name", REPORTS)
def test_ascii_report_is_ascii(name: str) -> None:
    assert report_text(REPORTS[name], 80, color=False, ascii_only=True).isascii()


def test_the_report_ends_without_a_newline_and_has_no_trailing_spaces() -> None:
    text = report_text(build.full_report(), 80, color=False)
    assert not text.endswith("\n")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    assert "\n\n\n" not in text


@pytest.mark.parametrize(
    ("encoding", "wanted"), [("utf-8", False), ("ascii", True), ("latin-1", True), ("nonsense", True), (None, False)]
)
def test_ascii_is_wanted_where_the_glyphs_cannot_be_written(encoding: str | None, wanted: bool) -> None:
    assert wants_ascii(encoding) is wanted


def test_blocks_stand_in_order_with_losses_first() -> None:
    text = report_text(build.full_report(), 80, color=False)
    words = ("✗ partial", "3 event(s) lost", "Trust", "Next", "What ran", "family", "phase", "1 shapes", "2 repeats")
    words = (*words, "3 bytes", "4 paths", "5 queues", "Findings")
    places = [text.index(word) for word in words]
    assert places == sorted(places)
    assert text.startswith("✗ partial")


def test_a_clean_report_starts_with_trust() -> None:
    text = report_text(only(TrustSection(TrustRow("complete", ()), {})), 80, color=False)
    assert text.startswith("Trust  ● complete: nothing seen that could hide kernels")


def test_warnings_without_loss_are_not_called_losses() -> None:
    report = Report("ok_with_warnings", (ReadNote("overlap", "276 pairs overlap", "", 276),), Answer())
    text = report_text(report, 80, color=False)
    assert text.startswith("! read without loss")
    assert "  276 pairs overlap\n" in text
    assert "partial" not in text


def test_trust_gives_verdict_and_reasons_in_one_line() -> None:
    reasons = (Reason("missing_rank", "rank 3 missing"), Reason("truncated", "1 file cut"))
    text = report_text(only(TrustSection(TrustRow("degraded", reasons), {})), 80, color=False)
    assert text.startswith("Trust  ! degraded: rank 3 missing; 1 file cut\n")


def test_only_so_many_notes_are_told() -> None:
    notes = tuple(ReadNote("word", f"note {n}", "", 1) for n in range(11))
    text = report_text(Report("partial", notes, Answer()), 80, color=False)
    assert "note 7" in text
    assert "note 8" not in text
    assert "3 more in --json" in text


def test_next_bottleneck_is_one_bold_sentence_with_bound_and_reason() -> None:
    text = report_text(build.full_report(), 200, color=True)
    sentence = "The QKV GEMM starts 40 programs on 132 units — 5.0–12.0 % to win: it has the largest trusted bound."
    assert f"\x1b[1m{sentence}\x1b[0m\n" in text


def test_a_bottleneck_without_its_finding_is_named_by_id() -> None:
    found = NextBottleneck("idle.decode", None, "the GPU waits")
    text = report_text(only(BottleneckSection(found)), 120, color=False)
    assert "idle.decode — what it could win is not known: the GPU waits." in text


def test_a_reason_that_names_the_bound_is_not_told_it_twice() -> None:
    found = NextBottleneck("idle.decode", Bound(0.0, 0.647, "idle share"), "up to 64.7 % of decode step time")
    text = report_text(only(BottleneckSection(found)), 120, color=False)
    assert "Next   idle.decode — up to 64.7 % of decode step time.\n" in text


def test_no_bottleneck_says_why() -> None:
    assert "Next   — nothing trusted bounds" in report_text(build.hollow_report(), 80, color=False)
    assert "Next   — the ranking did not run" in report_text(build.empty_report(), 80, color=False)


def test_every_missing_section_is_one_sentence() -> None:
    text = report_text(build.empty_report(), 120, color=False)
    for word in ("shapes", "repeats", "bytes", "paths", "queues"):
        assert f"Not answered: the {word} analyzer did not run." in text
    assert "Totals are missing: the summary did not run." in text
    assert "No findings" in text


def test_every_empty_section_says_why() -> None:
    text = report_text(build.hollow_report(), 200, color=False)
    for words in (
        "No steps:",
        "No GEMM shape is proven:",
        "Nothing repeats",
        "Graph coverage is unknown",
        "nothing seen on this plane",
    ):
        assert words in text
    assert "No fast path is known" in text
    assert "Nothing in this input speaks of a queue." in text


def test_unknown_is_a_dash_and_never_zero() -> None:
    text = report_text(build.hollow_report(), 120, color=False)
    assert "0 kernels · 0 graph launches" in text, "of no kernel there is no time, and no row of dashes"
    assert "Cost per token unproven: decode steps have no proven kernel times." in text
    full = report_text(build.full_report(), 120, color=False)
    assert line_with(full, "sparse_attention").split() == ["sparse_attention", "12.50", "—", "98.0", "—", "census"]
    assert line_with(full, "index write").split() == ["index", "write", "6", "—", "—", "fp8"]
    assert "persistent state (kernels)  count   MiB" in full
    assert "nan" not in full.lower().split()


def test_no_graph_launch_is_no_zero_where_no_launch_was_recorded() -> None:
    found = build.summary()
    ran = replace(found, summary=replace(found.summary, graph_launches=0))
    bare, linked = (
        report_text(
            only(ran, TrustSection(TrustRow("complete", ()), {"kernels": 9, "kernels_linked": n})), 120, color=False
        )
        for n in (0, 9)
    )
    assert "graph launches unknown, no launch of a kernel was recorded" in bare
    assert "complete: nothing seen that could hide kernels; no launch was recorded" in bare
    assert "0 graph launches" in linked
    assert "no launch was recorded" not in linked


def test_summary_gives_totals_ranks_devices_and_versions() -> None:
    text = report_text(build.full_report(), 200, color=False)
    assert "610 kernels · 10.00 ms kernel time · 9.00 ms busy (union) · 20.00 ms GPU span · 2 graph launches" in text
    assert "rank 0 of 4 · device 0 · NVIDIA H200, 132 units · model MiniMax-M3 · tp 4 · vllm 0.33.0" in text


@pytest.mark.parametrize(
    ("trace", "said"),
    [("0.25.1", "tp 4 · vllm 0.25.1\n"), ("0.25.0", "tp 4 · vllm 0.25.1 (server) · vllm 0.25.0 (trace)\n")],
)
def test_one_version_of_a_trace_and_a_server_is_said_once(trace: str, said: str) -> None:
    report = build.full_report()
    section = report.answer.section(SummarySection)
    assert section is not None
    section.meta["versions"] = {"vllm": "0.25.1", "vllm_version": trace}
    assert said in report_text(report, 200, color=False)


def test_families_are_bars_by_share() -> None:
    text = report_text(build.full_report(), 120, color=False)
    assert line_with(text, "  moe_gemm").split()[:4] == ["moe_gemm", "30", "6.00", "60.0"]
    longest, half = (line_with(text, f"  {family}").count("█") for family in ("moe_gemm", "gemm "))
    assert (longest, half) == (44, 22)


def test_unknown_family_is_shown_however_small_and_others_are_folded() -> None:
    text = report_text(build.full_report(), 80, color=False)
    assert line_with(text, "  unknown").split()[:4] == ["unknown", "4", "0.02", "0.2"]
    assert "below 0.5 % each: other 1" in text


def test_without_times_families_are_bars_by_count() -> None:
    families = (FamilyRow("gemm", 30, None, None), FamilyRow("norm", 10, None, None))
    summary = Summary(40, None, None, None, 0, (0,), families, ())
    text = report_text(only(SummarySection({}, summary, ())), 120, color=False)
    assert "no times" in text
    assert line_with(text, "  gemm").split()[:4] == ["gemm", "30", "—", "75.0"]
    assert (line_with(text, "  gemm").count("█"), line_with(text, "  norm").count("█")) == (44, 14)


def test_phases_are_means_per_step() -> None:
    text = report_text(build.full_report(), 80, color=False)
    assert line_with(text, "  decode   ").split() == ["decode", "2", "207", "3.00", "6.00", "50.0"]


def test_numbers_of_a_column_end_in_one_column() -> None:
    lines = report_text(build.full_report(), 80, color=False).splitlines()
    head = next(i for i, line in enumerate(lines) if line.lstrip().startswith("M "))
    ends = {re.match(r" +\S+ +\S+ +\S+ +\S+", line).end() for line in lines[head : head + 7]}  # type: ignore[union-attr]
    assert len(ends) == 1


def test_shapes_are_the_most_frequent_of_each_phase() -> None:
    text = report_text(build.full_report(), 120, color=False)
    assert "decode  7 shapes · 357 GEMMs · op aten::mm · dtype bf16 · evidence kernels" in text
    assert line_with(text, "2,560  6,144     54").split()[-3:] == ["16x64x256", "!", "40/132"]
    assert "1 more shape (48 GEMMs) in --json" in text
    assert "model match ● MiniMax-M3 at TP4" in text
    assert "not seen: lm_head, dense down" in text


def test_expert_parallel_match_is_named() -> None:
    text = report_text(only(ShapesSection((), ModelMatch("MiniMax-M3", 4, 4, (), ()))), 80, color=False)
    assert "MiniMax-M3 at TP4, EP4" in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_kernel_name_keeps_both_ends(width: int) -> None:
    line = line_with(report_text(build.full_report(), width, color=False), "void at")
    assert "…" in line
    assert "3ul>>" in line


@pytest.mark.parametrize(
    "look",
    ["● executed", "✗ missed", "– declined", "! unexpected", "? unproven", "· off", "⊘ refused at start"],
)
def test_every_path_verdict_has_glyph_and_word(look: str) -> None:
    assert f"  {look}" in report_text(build.full_report(), 80, color=False)


@pytest.mark.parametrize(
    "look",
    ["* executed", "x missed", "- declined", "! unexpected", "? unproven", ". off", "@ refused at start"],
)
def test_every_path_verdict_has_an_ascii_glyph(look: str) -> None:
    assert f"  {look}" in report_text(build.full_report(), 80, color=False, ascii_only=True)


def test_paths_say_counts_phases_and_refusals() -> None:
    text = report_text(build.full_report(), 120, color=False)
    assert "prefill ? unproven   decode ● executed" in text
    assert "refused: 1,572,864 < 16,777,216" in text
    assert "configured: yes · eligible: no" in text
    assert "kernel names known from source only" in text


def test_a_reason_of_all_paths_is_said_once() -> None:
    def row(name: str, *reasons: str) -> PathRow:
        counts = {"calls": 54, "steps": 10, "executed": 9, "steps_hidden": 0, "decode.steps": 9, "decode.executed": 9}
        return PathRow(
            name,
            name,
            "executed",
            "",
            counts,
            "unknown",
            "unknown",
            reasons,
            (),
            names_from_source=False,
            by_phase={"decode": "executed"},
        )

    text = report_text(only(PathsSection((row("a", "trace alone", "of a"), row("b", "trace alone")))), 80, color=False)
    assert text.count("trace alone") == 1
    assert "all: trace alone" in text
    assert text.count("of a") == 1
    assert "executed in 9 of 10 steps · calls 54\n" in text
    assert "decode ● executed 9/9" in text


def test_findings_are_ranked_by_bound_and_the_untrusted_come_last() -> None:
    text = report_text(build.full_report(), 120, color=False)
    claims = ("starts 40 programs", "A relayout kernel", "Copies move", "The path inside")
    places = [text.rindex(claim) for claim in claims]
    assert places == sorted(places)
    assert "untrusted: kernels may be hidden" in text
    assert "kernels 54 rows (12, 15, 17, 19, 23, …): 6 launches per step; expected 3" in text


def test_only_so_many_findings_are_shown() -> None:
    found = tuple(finding(n, 0.01 * n) for n in range(1, 13))
    text = report_text(only(findings=found), 80, color=False)
    assert "Claim 12 holds." in text
    assert "Claim 5 holds." in text
    assert "Claim 4 holds." not in text
    assert "4 more in --json" in text


def test_trust_goes_before_bound_in_the_ranking() -> None:
    text = report_text(only(findings=(finding(1, 0.9, trusted=False), finding(2))), 80, color=False)
    assert text.index("Claim 2") < text.index("Claim 1")


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
