"""Findings and one finding as sheets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_builder import empty_report, full_report
from sheet_kit import bounded, column, grid, report_of, said, texts, view_of

from m3probe.model.findings import Bound, Evidence
from m3probe.present.sheets.findings import finding, findings
from m3probe.present.sheets.sheet import Lens
from m3probe.present.sheets.targets import sheet_of, target

BIG = bounded(
    "shapes.starved.qkv",
    0.12,
    verdict="missed",
    claim="The QKV GEMM starts 40 programs",
    advice="Take a tile with smaller N.",
    bound=Bound(
        0.05, 0.12, "share x (1 - 40/132)", "decode step time", ("0.0717 * (1 - 40 / 132)", "0.1722 * (1 - 40 / 132)")
    ),
    evidence=(
        Evidence("kernels", (12, 15), 54, "6 launches per step", "3"),
        Evidence("steps", (), 2, "two steps"),
    ),
)
SMALL = bounded("repeats.relayout", 0.02, where="prefill", verdict="executed")
UNBOUND = bounded("bytes.copies", 0.0, where="", verdict="executed", bound=None)


def test_ranked_findings_stand_first_and_the_others_show_a_dash() -> None:
    report = report_of([BIG, SMALL])
    answer = replace(report.answer, findings=(UNBOUND, SMALL, BIG))
    shown = grid(findings(view_of(replace(report, answer=answer)), Lens()), "Findings")
    assert column(shown, "#") == ["1", "2", "—"]
    assert column(shown, "at most %") == ["12.0", "2.0", "—"]
    assert [line.key for line in shown.lines] == ["shapes.starved.qkv", "repeats.relayout", "bytes.copies"]
    assert [line.cells[1].raw for line in shown.lines] == [0.12, 0.02, None], "sorted on raw values, none last"
    assert shown.lines[0].cells[3].mark == "missed"


def test_the_lens_chooses_by_verdict_and_by_phase_and_keeps_what_names_none() -> None:
    view = view_of(report_of([BIG, SMALL, UNBOUND]))
    assert grid(findings(view, Lens(phase="prefill")), "Findings").title == "Findings, computed; 3 without the filter"
    assert grid(findings(view, Lens()), "Findings").title == "Findings, computed"
    assert column(grid(findings(view, Lens(verdict="missed")), "Findings"), "what") == ["starved qkv"]
    assert column(grid(findings(view, Lens(phase="prefill")), "Findings"), "what") == ["relayout", "copies"]


def test_an_empty_list_says_why_and_which_key_changes_it() -> None:
    view = view_of(report_of([BIG]))
    shown = grid(findings(view, Lens(verdict="off", phase="decode")), "Findings")
    assert shown.empty == "No findings with verdict off and phase decode. Press v or p to change the filter."
    assert grid(findings(view_of(empty_report()), Lens()), "Findings").empty.startswith("No findings: no analyzer")
    assert said(findings(view_of(None, detail="Reading rank 3"), Lens())) == ["Reading rank 3"]


def test_a_finding_has_its_claim_place_arithmetic_evidence_and_what_would_prove_it_wrong() -> None:
    page = finding(view_of(report_of([BIG])), Lens(), "shapes.starved.qkv")
    assert said(page) == [
        "The QKV GEMM starts 40 programs",
        "missed · shapes · decode · high confidence · shapes.starved.qkv",
        "Place 1: by size.",
        "Bound: 5.0–12.0 % of decode step time, computed.",
        "Formula: share x (1 - 40/132)",
        "= 0.0717 * (1 - 40 / 132) = 0.05 = 5.0 %",
        "= 0.1722 * (1 - 40 / 132) = 0.12 = 12.0 %",
        "Wrong if: not shapes.starved.qkv.",
        "Do: Take a tile with smaller N.",
    ]
    shown = grid(page, "Evidence")
    assert texts(shown.lines[0]) == ["kernels", "54", "2", "6 launches per step", "3"]
    assert [line.opens for line in shown.lines] == ["evidence/shapes.starved.qkv/0", "evidence/shapes.starved.qkv/1"]


def test_an_untrusted_finding_without_place_and_bound_says_all_three() -> None:
    view = view_of(full_report())
    page = finding(view, Lens(), "paths.unproven")
    assert any("not trusted: kernels may be hidden" in text for text in said(page))
    assert any(text.startswith("Place: not ranked") for text in said(page))
    assert "Bound: up to 90.0 % of a time that is not named, computed." in said(page)
    assert grid(page, "Evidence").empty.startswith("No table row shows it")
    page = finding(view, Lens(), "bytes.copies")
    assert any(text.startswith("Bound: none: nothing was measured") for text in said(page))
    assert any(text.startswith("Wrong if: The same workload without what it names") for text in said(page))


def test_the_copy_is_markdown_with_arithmetic_as_code_and_no_control_characters() -> None:
    hostile = replace(BIG, claim="name \x1b]52;c;evil\x07 [b]")
    copied = finding(view_of(report_of([hostile])), Lens(), BIG.id).copy
    assert copied.splitlines()[0] == "### name \\x1b]52;c;evil\\x07 [b]"
    assert "- `0.1722 * (1 - 40 / 132)`" in copied
    assert "- Evidence: kernels, 54 times: 6 launches per step; expected 3" in copied
    assert "- Wrong if: not shapes.starved.qkv" in copied


def test_a_finding_that_left_the_report_is_a_key_error_that_names_it() -> None:
    with pytest.raises(KeyError, match=r"finding gone\.x is not in this report"):
        finding(view_of(report_of([BIG])), Lens(), "gone.x")
    with pytest.raises(KeyError):
        finding(view_of(None), Lens(), "gone.x")


def test_an_id_with_slashes_and_spaces_opens_its_own_page() -> None:
    odd = bounded("paths.a/b c%.x", 0.1)
    view = view_of(report_of([odd]))
    opened = grid(findings(view, Lens()), "Findings").lines[0].opens
    assert opened == target("finding", "paths.a/b c%.x")
    assert said(sheet_of(opened, view, Lens()))[0] == "claim of paths.a/b c%.x"
