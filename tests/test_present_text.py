"""The terminal report: order, widths, colours, unknown figures, foreign text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import report_builder as build
from report_text_kit import line_with, only
from rich.cells import cell_len

from m3probe.model.findings import Bound
from m3probe.model.report import (
    Answer,
    BottleneckSection,
    NextBottleneck,
    ReadNote,
    Reason,
    Report,
    SummarySection,
    TrustRow,
    TrustSection,
)
from m3probe.present.text import report_text, wants_ascii

SGR = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = (20, 33, 60, 80, 100, 120, 200)
REPORTS = {"full": build.full_report(), "hollow": build.hollow_report(), "empty": build.empty_report()}


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
