"""torch's kernel tables: rows, units, totals, and the trace of the same folder beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bench_kit import CASES, told
from builders import kernel, launch, write_trace
from tree import shared_or_skip

from m3probe import pipeline
from m3probe.analyzers._kernel_tables import beside
from m3probe.analyzers.kernel_tables import ANALYZER
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.readers._key_table import time_ns
from m3probe.readers.key_averages import sniff
from m3probe.schema.verdicts import Outcome
from m3probe.sources import open_recording

LONG = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
SHOWN = LONG[:52] + "..."
COLUMNS = ("Name", "Self CPU", "CPU total", "Self CUDA", "CUDA total", "# of Calls")
ROWS = (
    ("execute_context_0(0)_generation_8(8)", "0.000us", "0.000us", "9.000us", "9.000us", "1"),
    ("gemm", "0.000us", "0.000us", "6.000us", "6.000us", "2"),
    ("aten::mm", "4.000us", "9.000us", "6.000us", "6.000us", "2"),
    (SHOWN, "0.000us", "0.000us", "1.500us", "1.500us", "1"),
    ("Memcpy DtoH (Device -> Pinned)", "0.000us", "0.000us", "0.500us", "0.500us", "1"),
    ("cudaLaunchKernel", "3.000us", "3.000us", "0.000us", "0.000us", "3"),
)


def table(*rows: tuple[str, ...], total: str = "8.000us") -> str:
    dashes = "  ".join(["-" * 55, *["-" * 12] * (len(COLUMNS) - 1)])
    lines = ["  ".join([name.rjust(55), *(cell.rjust(12) for cell in cells)]) for name, *cells in (COLUMNS, *rows)]
    return "\n".join(
        [dashes, lines[0], dashes, *lines[1:], dashes, "Self CPU time total: 7.000us", f"Self CUDA time total: {total}"]
    )


def of(folder: Path, text: str, *others: Path) -> Recording:
    path = folder / "profiler_out_0.txt"
    path.write_text(text + "\n")
    return open_recording([path, *others])


def trace(folder: Path, gemms: int = 2) -> Path:
    """Rank 0: gemms of 3 us and one long-named kernel of 1.5 us."""
    events = []
    for i in range(gemms):
        events += [launch(10 * i, i + 1), kernel(10 * i + 2, 3, i + 1, "gemm")]
    events += [launch(90, 99), kernel(92, 1.5, 99, LONG)]
    return write_trace(folder / "rank0.pt.trace.json", events, distributedInfo={"rank": 0, "world_size": 1})


@pytest.mark.parametrize(
    ("cell", "ns", "slack"),
    [("1.500s", 1_500_000_000, 500_000), ("250.250ms", 250_250_000, 500), ("75.500us", 75_500, 1), ("0.000us", 0, 1)],
)
def test_cells_have_their_unit(cell: str, ns: int, slack: int) -> None:
    assert time_ns(cell) == (ns, slack)


@pytest.mark.parametrize("cell", ["", "1.5", "nan", "-1.0us", "12", "1e3us", "1.0 h"])
def test_what_is_no_time_is_none(cell: str) -> None:
    assert time_ns(cell) is None


def test_kernels_are_told_from_the_rest(tmp_path: Path) -> None:
    (found,) = of(tmp_path, table(*ROWS)).meta.kernel_tables
    assert [row.name for row in found.kernels] == ["gemm", SHOWN]
    assert found.kernel_ns == 7_500
    assert found.device_total_ns == 8_000  # with the copy
    assert (found.host_total_ns, found.rank, found.device) == (7_000, 0, "CUDA")
    assert [row.cut for row in found.kernels] == [False, True]


def test_a_heading_wider_than_its_column_moves_nothing(tmp_path: Path) -> None:
    text = table(*ROWS).replace("  CUDA total", "CUDA time avg", 1)
    (found,) = of(tmp_path, text).meta.kernel_tables
    assert found.kernel_ns == 7_500


def test_a_table_in_a_log_is_read_without_its_prefixes() -> None:
    rec = open_recording([CASES / "l14_key_averages_in_log.log"])
    (found,) = rec.meta.kernel_tables
    assert found.rank == 0
    assert rec.outcome is Outcome.OK


def test_a_servers_log_with_a_table_is_a_log(tmp_path: Path) -> None:
    lines = "".join(f"(EngineCore pid=1) INFO 11-06 14:23:{i:02} [core.py:1] words\n" for i in range(9))
    assert sniff(tmp_path, table(*ROWS).encode())
    assert not sniff(tmp_path, (lines + table(*ROWS)).encode())


def test_the_trace_beside_it_agrees(tmp_path: Path) -> None:
    rec = of(tmp_path, table(*ROWS), trace(tmp_path))
    (pair,) = beside(rec)
    assert pair.differs == ()
    assert pair.names == 2
    assert ANALYZER.judge(rec, Answer()).findings == ()
    assert pipeline.inspect(rec).facts["table_differs_from_trace"] == 0


def test_a_trace_that_lost_kernels_is_told(tmp_path: Path) -> None:
    rec = of(tmp_path, table(*ROWS), trace(tmp_path, gemms=1))
    (one,) = ANALYZER.judge(rec, Answer()).findings
    assert one.verdict == "differs"
    assert "count 1 of 2 kernel names differently: gemm: table 2 calls, 0.006 ms, trace 1 calls, 0.003 ms" in one.claim


def test_a_time_that_is_not_rounding_is_told(tmp_path: Path) -> None:
    rows = (("gemm", "0.000us", "0.000us", "6.100us", "6.100us", "2"), ROWS[3])
    (pair,) = beside(of(tmp_path, table(*rows), trace(tmp_path)))
    assert [one.name for one in pair.differs] == ["gemm"]


def test_names_that_the_table_leaves_out_are_no_difference(tmp_path: Path) -> None:
    """torch prints the first 100 rows."""
    (pair,) = beside(of(tmp_path, table(ROWS[1]), trace(tmp_path)))
    assert pair.differs == ()
    assert (pair.beyond.calls, pair.beyond.time_ns) == (1, 1_500)


def test_of_two_traces_nobody_can_say_which(tmp_path: Path) -> None:
    first = trace(tmp_path)
    second = tmp_path / "again.pt.trace.json"
    shutil.copy(first, second)
    assert beside(of(tmp_path, table(*ROWS), first, second)) == []


def test_a_table_alone_names_its_largest_kernel(tmp_path: Path) -> None:
    (one,) = ANALYZER.judge(of(tmp_path, table(*ROWS)), Answer()).findings
    assert "gemm takes 0.006 ms in 2 calls, 75.0 % of the 0.008 ms on the device" in one.claim


def test_rows_that_are_none_are_counted(tmp_path: Path) -> None:
    text = table(*ROWS).replace("gemm ", "gemm x", 1)
    text = "\n".join([*text.split("\n")[:4], "[aiter] import [module_x]", *text.split("\n")[4:]])
    rec = of(tmp_path, text)
    assert "1 line(s) between the rows" in told(rec)
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


def test_a_table_that_is_cut_is_partial(tmp_path: Path) -> None:
    rec = of(tmp_path, "\n".join(table(*ROWS).split("\n")[:6]))
    assert rec.outcome is Outcome.PARTIAL
    assert len(rec.meta.kernel_tables[0].rows) == 3


def test_a_table_of_a_cpu_run_has_no_kernel() -> None:
    rec = open_recording([shared_or_skip("traces/cpu/tp2_moe/dp0_pp0_tp1_dcp0_ep1_rank1.profiler_out.txt")])
    (found,) = rec.meta.kernel_tables
    assert (found.rank, found.device, found.kernels) == (1, "", ())
    assert found.host_total_ns is not None


def test_the_real_table_and_its_trace_are_one() -> None:
    """43,118,401 ns are the sum of its kernel rows; copies and fills make it the 43.409 ms of its last line."""
    table_file = shared_or_skip("traces/h200-m3-vllm-folder/profiler_out_0.txt")
    rec = open_recording([table_file, *table_file.parent.glob("*.json.gz")])
    (found,) = rec.meta.kernel_tables
    assert found.kernel_ns == 43_118_401
    assert found.device_total_ns == 43_409_000
    (pair,) = beside(rec)
    assert (pair.differs, pair.beyond.calls) == ((), 0)
    assert sum(row.calls for row in found.kernels) == len(rec.kernels) == 2_059
