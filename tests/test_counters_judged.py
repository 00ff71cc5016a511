"""What counters say of bytes: formulas by architecture worked out by hand, what is fetched again, what cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import kernel, launch, op, write_trace
from counter_kit import counted, record, results, row, write

from m3probe import pipeline
from m3probe.analyzers._counter_bytes import local_share, read_bytes, written_bytes
from m3probe.model.counter_report import CounterRow, CountersSection
from m3probe.model.findings import Finding
from m3probe.model.report import Report
from m3probe.model.view import View, Word
from m3probe.present.sheets._counters import counter_blocks
from m3probe.present.sheets.sheet import Grid
from m3probe.present.text import report_text

MI350 = Path(__file__).parent / "data" / "counters" / "mi350"
SIZES = "TCC_EA0_RDREQ_32B_sum", "TCC_EA0_RDREQ_64B_sum", "TCC_EA0_RDREQ_128B_sum"
M, N, K = 8, 2560, 6144
LEAST = (M * K + N * K) * 2
"""Bytes of both operands of this GEMM in BF16: 31,555,584."""


def reads(values: dict[str, float], gfx: str) -> tuple[float, float]:
    found = read_bytes(values, gfx)
    assert found is not None
    return found.low, found.high


@pytest.mark.parametrize(
    ("values", "gfx", "low", "high"),
    [
        # sizes counted one by one: 32 x 10 + 64 x 20 + 128 x 30
        (dict(zip(SIZES, (10, 20, 30), strict=True)), "gfx950", 5440, 5440),
        # gfx942: 128 x 40 + 64 x (100 - 40 - 10) + 32 x 10
        ({"TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_32B_sum": 10, "TCC_BUBBLE_sum": 40}, "gfx942", 8640, 8640),
        # the same counters on gfx950, where a bubble is no 128-byte read: 64 x 90 + 320 to 128 x 90 + 320
        ({"TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_32B_sum": 10, "TCC_BUBBLE_sum": 40}, "gfx950", 6080, 11840),
        ({"TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_32B_sum": 10, "TCC_BUBBLE_sum": 40}, "", 6080, 11840),
        ({"TCC_EA0_RDREQ_sum": 100}, "gfx950", 3200, 12800),
        ({"TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_32B_sum": 10}, "gfx942", 6080, 11840),
        # gfx90a: 64 x 90 + 32 x 10
        ({"TCC_EA_RDREQ_sum": 100, "TCC_EA_RDREQ_32B_sum": 10}, "gfx90a", 6080, 6080),
        ({"TCC_EA_RDREQ_sum": 100}, "gfx90a", 3200, 6400),
        ({"FETCH_SIZE": 3}, "gfx942", 3072, 3072),
        ({"FetchSize": 3}, "gfx950", 3072, 6144),
        # passes of one kernel may differ by a few requests: never below 0
        ({"TCC_EA0_RDREQ_sum": 9, "TCC_EA0_RDREQ_32B_sum": 10, "TCC_BUBBLE_sum": 0}, "gfx942", 320, 320),
    ],
)
def test_bytes_read_by_architecture(values: dict[str, float], gfx: str, low: float, high: float) -> None:
    assert reads(values, gfx) == (low, high)


def test_bytes_written_and_what_nothing_tells() -> None:
    found = written_bytes({"TCC_EA0_WRREQ_sum": 100, "TCC_EA0_WRREQ_64B_sum": 60})
    assert found is not None
    assert (found.low, found.high) == (64 * 60 + 32 * 40, 64 * 60 + 32 * 40)
    assert written_bytes({"TCC_EA_WRREQ_sum": 10}) is not None
    assert written_bytes({"WRITE_SIZE": 2}).low == 2048  # type: ignore[union-attr]
    assert read_bytes({"SQ_WAVES": 1}, "gfx950") is None
    assert written_bytes({"SQ_WAVES": 1}) is None
    assert local_share({"TCC_EA0_RDREQ_sum": 100, "TCC_EA0_RDREQ_DRAM_sum": 75}) == 0.75
    assert local_share({"TCC_EA0_RDREQ_sum": 100}) is None


def gemm_trace(folder: Path, *grids: tuple[int, int, int], n: tuple[int, ...] = (N,), name: str = "gemm") -> Path:
    """A kernel of this name in an ``aten::mm`` with its shape, once for each grid and N."""
    events = []
    for i, (grid, wide) in enumerate((grid, wide) for grid in grids for wide in n):
        dims, types = [[M, K], [K, wide]], ["c10::BFloat16", "c10::BFloat16"]
        events += [op(100 * i, 50, "aten::mm", dims, types), launch(100 * i + 10, i + 1)]
        events.append(kernel(100 * i + 20, 20, i + 1, name, grid=list(grid), block=[256, 1, 1]))
    return write_trace(folder / "rank0.pt.trace.json", events)


def judged(*paths: Path) -> tuple[Report, CounterRow, list[Finding]]:
    report = pipeline.analyze(paths)
    section = report.section(CountersSection)
    assert section is not None
    return report, section.counters.rows[0], [f for f in report.findings if f.id.startswith("counters.")]


def sized(total: float) -> dict[str, float]:
    """Reads of so many bytes in 128-byte requests."""
    return dict(zip(SIZES, (0, 0, total / 128), strict=True))


def test_a_gemm_that_reads_more_than_13_times_its_operands_is_told_with_both_numbers(tmp_path: Path) -> None:
    (counters := tmp_path / "c").mkdir()
    counted(counters, {**sized(1.5 * LEAST), "TCC_EA0_WRREQ_sum": 640, "TCC_EA0_WRREQ_64B_sum": 640}, gfx="gfx950")
    report, line, found = judged(counters, gemm_trace(tmp_path, (320, 1, 1)))
    assert [f.verdict for f in found] == ["refetched"]
    assert (found[0].id, found[0].question, found[0].confidence) == ("counters.refetch.gemm.320", "bytes", "high")
    assert "47,333,376 B a dispatch, 1.50 times the 31,555,584 B" in found[0].claim
    assert found[0].bound is None
    assert (line.shape, line.least_read_bytes, line.refetch_low) == (f"{M} x {N} x {K}", LEAST, 1.5)
    # 47,333,376 read and 40,960 written in 20 us, of 8 TB/s
    assert line.bytes_per_s_low == pytest.approx((47_333_376 + 40_960) / 20e-6)
    assert line.peak_share_low == pytest.approx(47_374_336 / 20e-6 / 8e12)
    assert report.summary is not None
    assert report.summary.kernel_count == 1  # the counted dispatch is none of them


@pytest.mark.parametrize(("times", "verdicts"), [(1.29, []), (0.4, []), (1.31, ["refetched"])])
def test_reads_up_to_13_times_the_least_are_no_finding(tmp_path: Path, times: float, verdicts: list[str]) -> None:
    (counters := tmp_path / "c").mkdir()
    counted(counters, sized(times * LEAST), gfx="gfx950")
    found = judged(counters, gemm_trace(tmp_path, (20, 16, 1)))[2]  # 320 workgroups in another form
    assert [f.verdict for f in found] == verdicts


def test_where_sizes_were_not_counted_a_ratio_that_only_the_upper_end_exceeds_is_unproven(tmp_path: Path) -> None:
    (counters := tmp_path / "c").mkdir()
    counted(counters, {"TCC_EA0_RDREQ_sum": LEAST / 80, "TCC_EA0_RDREQ_32B_sum": 0}, gfx="gfx950")  # 0.8 to 1.6
    _, line, found = judged(counters, gemm_trace(tmp_path, (320, 1, 1)))
    assert (line.refetch_low, line.refetch_high) == (pytest.approx(0.8), pytest.approx(1.6))
    assert [(f.verdict, f.confidence) for f in found] == [("unproven", "low")]
    assert "TCC_EA0_RDREQ_128B_sum" in found[0].advice


def test_without_a_trace_bytes_stand_and_no_ratio_is_made_up(tmp_path: Path) -> None:
    report, line, found = judged(counted(tmp_path, sized(5e7), gfx="gfx950"))
    assert (line.read_bytes_low, line.least_read_bytes, line.refetch_low) == (5e7, None, None)
    assert [(f.id, f.verdict) for f in found] == [("counters.least_unknown", "unproven")]
    assert report.trust is not None
    assert [reason.word for reason in report.trust.reasons] == ["counters_only"]
    assert report.next_bottleneck is None


@pytest.mark.parametrize(
    ("grids", "n", "name", "why"),
    [
        (((64, 1, 1),), (N,), "gemm", "at other grids"),
        (((320, 1, 1),), (N,), "another", "no trace of the same program"),
        (((320, 1, 1),), (N, 2 * N), "gemm", "2 shapes"),
    ],
)
def test_a_trace_that_does_not_tell_the_shape_says_why(
    tmp_path: Path, grids: tuple[tuple[int, int, int], ...], n: tuple[int, ...], name: str, why: str
) -> None:
    (counters := tmp_path / "c").mkdir()
    counted(counters, sized(5e7), gfx="gfx950")
    _, line, found = judged(counters, gemm_trace(tmp_path, *grids, n=n, name=name))
    assert line.refetch_low is None
    assert why in line.note
    assert [f.verdict for f in found] == ["unproven"]


def test_passes_in_files_of_their_own_are_joined_by_kernel_and_grid(tmp_path: Path) -> None:
    for i, (name, value) in enumerate(
        {**sized(1000 * 128), "TCC_EA0_WRREQ_sum": 10, "TCC_EA0_WRREQ_64B_sum": 0}.items()
    ):
        (folder := tmp_path / f"pmc_{i}").mkdir()
        rows = [row(d, name, value, Process_Id=200 + i) for d in (1, 2)]
        write(folder / f"{200 + i}_counter_collection.csv", rows)
    _, line, _ = judged(tmp_path)
    assert (line.read_bytes_low, line.read_bytes_high, line.written_bytes_low) == (128_000, 128_000, 320)
    assert line.how == "128 B x 1,000 + 64 B x 0 + 32 B x 0"


def test_amds_own_copy_on_an_mi350_must_have_read_in_128_byte_requests(tmp_path: Path) -> None:
    """vcopy -n 1048576 reads 8 MiB: gfx942's formula would say half of that, so the file leaves both ends open."""
    _, line, _ = judged(MI350)
    requests = (65_640 + 65_612 + 65_612) / 3
    assert (line.read_bytes_low, line.read_bytes_high) == (pytest.approx(64 * requests), pytest.approx(128 * requests))
    assert line.read_bytes_low < 8 * 1_048_576 < line.read_bytes_high  # type: ignore[operator]
    assert line.written_bytes_low == line.written_bytes_high == 8 * 1_048_576
    assert line.peak_share_low is None  # 128 units: no device of which peaks are known
    assert line.time_ns == pytest.approx((21_679 + 16_719 + 16_920) / 3)


def test_a_trace_of_the_process_that_counted_is_not_trusted(tmp_path: Path) -> None:
    records = [record(1, [(333, 10.0)])]
    info = records[0]["dispatch_data"]["dispatch_info"]
    dispatch = {
        "start_timestamp": 1000,
        "end_timestamp": 1800,
        "dispatch_info": info,
        "correlation_id": {"internal": 1},
    }
    traced = {"buffer_records": {"kernel_dispatch": [dispatch]}}
    report, _, _ = judged(results(tmp_path / "a_results.json", records, {333: "TCC_EA0_RDREQ_sum"}, **traced))
    assert report.trust is not None
    assert "counted_while_traced" in [reason.word for reason in report.trust.reasons]
    apart = results(tmp_path / "b_results.json", [], {}, **traced)
    alone = pipeline.analyze([apart])
    assert alone.trust is not None
    assert "counted_while_traced" not in [reason.word for reason in alone.trust.reasons]


@pytest.mark.parametrize(("pid", "degraded"), [(100, True), (101, False)])
def test_so_is_a_kernel_trace_of_the_same_process_and_no_other(tmp_path: Path, pid: int, degraded: bool) -> None:
    counted(tmp_path, sized(5e7), gfx="gfx950")
    header = "Kind,Agent_Id,Queue_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp"
    line = 'KERNEL_DISPATCH,"Agent 1",1,100,1,7,"gemm",1,1000,21000'
    (tmp_path / f"{pid}_kernel_trace.csv").write_text(f"{header}\n{line}\n")
    report, _, _ = judged(tmp_path)
    assert report.trust is not None
    assert report.summary is not None
    assert report.summary.kernel_count == 1
    assert ("counted_while_traced" in [reason.word for reason in report.trust.reasons]) is degraded


def test_the_text_and_the_bytes_page_show_the_rows_and_say_that_no_time_is_one_of_serving(tmp_path: Path) -> None:
    (counters := tmp_path / "c").mkdir()
    hostile = "gemm\x1b[31m\u202e<b>"
    counted(counters, sized(1.5 * LEAST), gfx="gfx950", kernel=hostile)
    report, _, found = judged(counters, gemm_trace(tmp_path, (320, 1, 1), name=hostile))
    assert [f.id for f in found] == ["counters.refetch.gemm_31m_b.320"]
    shown = report_text(report, 110, color=False)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "47.33" in shown
    assert "31.56" in shown
    assert "these times are in no step, share or bound" in " ".join(shown.split())
    grid, aside, *_ = counter_blocks(View("", Word.READ, at_s=0.0, report=report))
    assert isinstance(grid, Grid)
    assert [(cell.text, cell.raw) for cell in grid.lines[0].cells[3:7]] == [
        ("47.33", 1.5 * LEAST),
        ("—", None),
        ("31.56", LEAST),
        ("1.50", 1.5),
    ]
    assert "one at a time" in aside.text  # type: ignore[union-attr]
    assert counter_blocks(View("", Word.READ, at_s=0.0)) == []
