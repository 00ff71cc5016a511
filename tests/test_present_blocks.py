"""The blocks of the terminal report: what ran, shapes, paths, findings."""

from __future__ import annotations

import re

import pytest
import report_builder as build
from report_text_kit import finding, line_with, only

from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.report import (
    FamilyRow,
    ModelMatch,
    ShapesSection,
    Summary,
    SummarySection,
)
from m3probe.present.text import report_text


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
