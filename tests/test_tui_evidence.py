"""Evidence rows as they can be read, each opening its step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sheet_kit import bounded, column, grid, report_of, said, texts, view_of
from tree import ROOT
from two_ranks import DECODE, HOSTILE, two_ranks

from m3probe.model.bench import BenchRun, Latency
from m3probe.model.findings import Evidence
from m3probe.model.recording import Recording, RecordingBuilder
from m3probe.model.tables import TABLES
from m3probe.pipeline import open_recording, report
from m3probe.present.sheets._cells import LONGEST_NAME, UNNAMED, bare_name, kernel
from m3probe.present.sheets.evidence import rows
from m3probe.present.sheets.sheet import Grid, Lens, Sheet
from m3probe.present.sheets.targets import sheet_of


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return two_ranks(tmp_path_factory.mktemp("two"))


def page(rec: Recording | None, table: str, kept: tuple[int, ...], count: int = 54) -> Sheet:
    found = bounded("shapes.x", 0.1, evidence=(Evidence(table, kept, count, "6 per step", "3"),))
    return rows(view_of(report_of([found]), rec), Lens(), "shapes.x", "0")


def test_what_was_seen_and_expected_stands_above_with_how_many_rows_are_kept(rec: Recording) -> None:
    assert said(page(rec, "kernels", (0, 3))) == [
        "claim of shapes.x",
        "Observed: 6 per step.",
        "Expected: 3.",
        "Seen 54 times in all, recorded; the first 2 rows are kept.",
    ]


def test_kernels_have_name_family_step_start_duration_and_grid(rec: Recording) -> None:
    names = rec.names("kernels")
    place = names.index(HOSTILE)
    shown = grid(page(rec, "kernels", (0, place)), "Rows of kernels, recorded")
    assert [each.name for each in shown.columns] == [
        "row", "kernel", "family", "step", "start µs", "µs", "grid", "stream", "full name",
    ]  # fmt: skip
    assert texts(shown.lines[0]) == [
        "0",
        "nvjet_sm90_tst_64x8_TNT",
        "gemm",
        "0",
        "30.0",
        "20.00",
        "4 x 27 x 1",
        "7",
        "nvjet_sm90_tst_64x8_TNT",
    ]
    assert texts(shown.lines[1])[1:6] == [HOSTILE, "unknown", "1", "40.0", "5.00"]
    assert [line.opens for line in shown.lines] == ["step/0", "step/1"]


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void at::native::elementwise_kernel<128, 4, f<g>::{lambda(int)#1}>(int, f<g>)", "elementwise_kernel"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 8>(P)", "gemvx::kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
        ("Cijk_Ailk_Bljk_BBS_BH", "Cijk_Ailk_Bljk_BBS_BH"),
        ("a<b<c", "a<b<c"),
        ("<>()", "<>()"),
        ("", ""),
    ],
)
def test_the_bare_name_of_a_kernel_and_names_that_have_none(name: str, bare: str) -> None:
    assert bare_name(name) == bare


def test_a_name_of_megabytes_is_not_looked_through() -> None:
    assert bare_name("<" * 5_000_000) == "<" * 5_000_000
    assert bare_name("k" * 5_000_000) == "k" * LONGEST_NAME


def test_steps_open_themselves_and_launches_the_step_they_lie_in(rec: Recording) -> None:
    shown = grid(page(rec, "steps", (1,)), "Rows of steps, recorded")
    assert texts(shown.lines[0]) == ["1", DECODE, "decode", "8", "8", "50.0", "NONE", "rank0.pt.trace.json"]
    assert shown.lines[0].opens == "step/1"
    shown = grid(page(rec, "launches", (2,)), "Rows of launches, recorded")
    assert texts(shown.lines[0]) == ["2", "hipLaunchKernel", "launch", "1", "10.0", "2.0", "1", "1"]
    assert shown.lines[0].opens == "step/1"


def test_a_transfer_whose_size_is_not_told_shows_a_dash() -> None:
    builder = RecordingBuilder()
    builder.strings.intern("Memcpy HtoD")
    columns = {each.name: np.zeros(2, dtype=each.dtype) for each in TABLES["transfers"]}
    columns["step"][:] = -1
    columns["dur_ns"][:] = 2_500
    columns["payload_bytes"][:] = (4_096, -1)
    columns["kind"][:] = (0, 1)
    builder.add("transfers", columns)
    shown = grid(page(builder.build(), "transfers", (0, 1)), "Rows of transfers")
    assert [texts(line)[1:] for line in shown.lines] == [
        ["Memcpy HtoD", "memcpy", "—", "—", "2.50", "4,096"],
        ["Memcpy HtoD", "memset", "—", "—", "2.50", "—"],
    ]
    assert [line.opens for line in shown.lines] == ["", ""]


def test_any_other_table_is_shown_as_declared_with_texts_for_ids_and_dashes_for_nothing(rec: Recording) -> None:
    builder = RecordingBuilder()
    builder.files = [*rec.files]
    texts_of = {name: builder.strings.intern(name) for name in ("metrics", "vllm:num_requests_waiting")}
    columns = {each.name: np.zeros(2, dtype=each.dtype) for each in TABLES["samples"]}
    columns["file"][:] = (1, -1)
    columns["mono_ns"][:] = 2_500_000_000
    columns["source"][:] = texts_of["metrics"]
    columns["name"][:] = texts_of["vllm:num_requests_waiting"]
    columns["value"][:] = (900.0, np.nan)
    builder.add("samples", columns)
    shown = grid(page(builder.build(), "samples", (0, 1)), "Rows of samples, recorded")
    assert [each.name for each in shown.columns] == ["row", "file", "mono s", "source", "name", "value"]
    assert texts(shown.lines[0]) == ["0", "rank1.pt.trace.json", "2.500", "metrics", "vllm:num_requests_waiting", "900"]
    assert texts(shown.lines[1])[1] == "—"
    assert texts(shown.lines[1])[5] == "—"


def test_runs_of_a_benchmark_are_rows_though_they_are_no_table(rec: Recording) -> None:
    run = BenchRun(0, "a/sweep.json", max_concurrency=32, completed=640, failed=0, latencies={"ttft": Latency(412.0)})
    with_bench = replace(rec, meta=replace(rec.meta, bench=(run,)))
    shown = grid(page(with_bench, "bench.runs", (0, 9), 1), "Runs, recorded")
    assert texts(shown.lines[0])[:4] == ["sweep.json", "32", "640", "0"]
    assert texts(shown.lines[0])[4] == "—"
    assert texts(shown.lines[0])[7] == "—", "a time that no run tells"


def test_rows_that_are_not_there_any_more_are_counted_and_not_made_up(rec: Recording) -> None:
    shown = grid(page(rec, "kernels", (0, 10_000)), "Rows of kernels, recorded; 1 more that were not read")
    assert column(shown, "row") == ["0"]
    assert grid(page(rec, "kernels", ()), "Rows of kernels").empty == "No row was kept for this evidence."


@pytest.mark.parametrize(
    ("table", "recorded", "words"),
    [
        ("kernels", False, "The rows cannot be shown: no recording is open"),
        ("no.such", True, "no.such is no table of a recording"),
    ],
)
def test_what_cannot_be_shown_says_why(rec: Recording, table: str, recorded: bool, words: str) -> None:
    sheet = page(rec if recorded else None, table, (0,))
    assert said(sheet)[-1].startswith(words)
    assert not [block for block in sheet.blocks if isinstance(block, Grid)]


@pytest.mark.parametrize("which", ["1", "-1", "x", ""])
def test_evidence_that_is_gone_is_a_key_error(rec: Recording, which: str) -> None:
    view = view_of(report_of([bounded("shapes.x", 0.1)]), rec)
    with pytest.raises(KeyError, match=r"has no evidence|is not in this report"):
        rows(view, Lens(), "shapes.x", which)


@pytest.mark.parametrize(
    "sample",
    ["h200-m3-tp4rank-graph.pt.trace.json.gz", "live-h200-m3-attach", "compare-h200/nested", "live-cpu-moe-tp2"],
)
def test_every_piece_of_evidence_of_a_sample_opens_with_its_rows(sample: str) -> None:
    path = Path(ROOT / "samples" / sample)
    read = open_recording([path])
    view = view_of(report(read), read)
    assert view.report is not None
    for found in view.report.answer.findings:
        opened = sheet_of(f"finding/{found.id}", view, Lens())
        for line, seen in zip(grid(opened, "Evidence").lines, found.evidence, strict=True):
            sheet = sheet_of(line.opens, view, Lens())
            shown = next(block for block in sheet.blocks if isinstance(block, Grid))
            assert len(shown.lines) == len(seen.rows), found.id
            for row in shown.lines:
                assert len(row.cells) == len(shown.columns)
                if row.opens:
                    assert sheet_of(row.opens, view, Lens()).title.startswith("step ")


@pytest.mark.parametrize("name", ["", "   "])
def test_a_kernel_without_a_name_says_so_instead_of_being_blank(rec: Recording, name: str) -> None:
    row = int((rec.kernels["name"] >= 0).nonzero()[0][0])
    strings = {int(rec.kernels["name"][row]): name}

    class Named:
        def __getattr__(self, what: str) -> object:
            return strings if what == "strings" else getattr(rec, what)

    assert kernel(Named(), row)[0].text == UNNAMED
