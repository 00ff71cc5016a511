"""rocprofv3's CSV tables: those of one process are one recording, and damage is counted."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rocprof_kit import AGENTS, CALLS, KERNELS, RCCL, STEP, TWO_CPUS, call, kernel, of, table, told, worker

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.readers.rocprofv3_csv import sniff
from m3probe.schema.verdicts import FAMILIES, Family, Outcome, Phase

COMM = FAMILIES.index(Family.COMM)


def header(*names: str) -> bytes:
    return (",".join(f'"{name}"' for name in names) + "\n").encode()


def test_the_tables_of_a_process_are_one(tmp_path: Path) -> None:
    worker(tmp_path / "node1", 501)
    rec = of(tmp_path)
    (file,) = rec.files
    assert (file.pid, file.device, file.gpu, file.rank) == (501, "Agent 4", 2, 2)  # two CPUs stand before the GPUs
    assert rec.names("kernels") == ["Cijk_gemm", RCCL]
    assert rec.kernels["launch"].tolist() == [0, 1]
    assert rec.kernels["step"].tolist() == [0, 0]
    assert rec.names("ops") == ["ncclAllReduce"]
    assert rec.strings.of(rec.ops["collective"].tolist()) == ["allreduce"]
    assert rec.kernels["op"].tolist() == [-1, 0]  # the launch at 1,210 lies in the call from 1,200 to 1,250
    assert rec.kernels["family"][1] == COMM
    assert rec.dims[int(rec.kernels["grid"][0])] == (4, 1, 1)  # 256 work-items in groups of 64
    assert rec.names("steps") == [STEP]
    assert (rec.steps["requests"].tolist(), rec.steps["rows"].tolist()) == ([8], [8])
    assert rec.names("transfers") == ["MEMORY_COPY_DEVICE_TO_HOST"]
    assert (rec.transfers["device"].tolist(), rec.transfers["launch"].tolist()) == ([4], [2])
    assert rec.outcome is Outcome.OK


def test_the_report_tells_steps_and_shares(tmp_path: Path) -> None:
    worker(tmp_path, 501)
    facts = pipeline.inspect(of(tmp_path)).facts
    assert (facts["kernel_time_ns"], facts["linked_kernels"], facts["steps"]) == (800, 2, 1)
    assert facts["step_list"][0]["phase"] == Phase.DECODE
    assert facts["kernels_by_pid"] == {"501": 2}
    assert facts["ranks"] == [2]


def test_one_process_for_each_gpu_is_one_rank_each(tmp_path: Path) -> None:
    for n in range(3):
        worker(tmp_path / "node1", 501 + n, f"Agent {2 + n}")
    rec = of(tmp_path)
    assert [(f.pid, f.rank) for f in rec.files] == [(501, 0), (502, 1), (503, 2)]
    assert "rank of each process: the number of its GPU" in told(rec)
    assert len(rec.steps) == 3
    assert rec.file_ranks[rec.kernels["file"]].tolist() == [0, 0, 1, 1, 2, 2]


def test_a_process_on_several_gpus_is_several_ranks(tmp_path: Path) -> None:
    rows = [kernel("a", 100, 200, 1, "GPU 0"), kernel("b", 100, 400, 2, "GPU 1"), kernel("b", 500, 600, 3, "GPU 1")]
    table(tmp_path / "9_kernel_trace.csv", KERNELS, rows)
    calls = [call("HIP_RUNTIME_API", "hipLaunchKernel", link, link, link + 1, 9) for link in (1, 2, 3)]
    table(tmp_path / "9_hip_api_trace.csv", CALLS, calls)
    rec = of(tmp_path)
    assert [(f.device, f.rank, f.pid) for f in rec.files] == [("GPU 0", 0, 9), ("GPU 1", 1, 9)]
    assert Counter(rec.kernels["file"].tolist()) == {0: 1, 1: 2}
    assert rec.launches["file"].tolist() == [0, 1, 1]
    assert (rec.kernels["launch"] >= 0).all()
    assert sum(f.counts.events_x for f in rec.files) == 6


def test_without_agent_info_order_tells_and_one_alone_is_not_told(tmp_path: Path) -> None:
    one = table(tmp_path / "1_kernel_trace.csv", KERNELS, [kernel("a", 1, 2, agent="Agent 7")])
    assert of(one).files[0].rank is None
    table(tmp_path / "2_kernel_trace.csv", KERNELS, [kernel("a", 1, 2, agent="Agent 4")])
    rec = of(tmp_path)
    assert [(f.device, f.rank) for f in rec.files] == [("Agent 7", 1), ("Agent 4", 0)]
    assert "the place of its agent" in told(rec)


def test_processes_that_see_one_gpu_each_are_ranked_by_node(tmp_path: Path) -> None:
    """ROCR_VISIBLE_DEVICES=1 and =0: each process has two CPUs and one GPU, agent 2 of its own."""
    for pid, node in ((501, 3), (502, 2)):
        worker(tmp_path, pid, "Agent 2")
        own = [*TWO_CPUS[:2], [node, 2, "GPU", 256, "gfx950"]]
        table(tmp_path / f"{pid}_agent_info.csv", AGENTS, own)
    rec = of(tmp_path)
    assert [(f.pid, f.gpu, f.node, f.rank) for f in rec.files] == [(501, 0, 3, 1), (502, 0, 2, 0)]
    assert "the processes number them unlike" in told(rec)


def test_gpus_of_two_hosts_are_not_ranked_by_node(tmp_path: Path) -> None:
    for host, node in (("a", 2), ("b", 4)):
        (tmp_path / host).mkdir()
        worker(tmp_path / host, 501, "Agent 2")
        table(tmp_path / host / "501_agent_info.csv", AGENTS, [*TWO_CPUS[:2], [node, 2, "GPU", 256, "gfx950"]])
    assert [(f.gpu, f.rank) for f in of(tmp_path).files] == [(0, None), (0, None)]


def test_two_processes_of_one_gpu_stay_one_rank(tmp_path: Path) -> None:
    for pid in (501, 502):
        worker(tmp_path, pid, "Agent 3")
    assert [(f.gpu, f.node, f.rank) for f in of(tmp_path).files] == [(1, 3, 1)] * 2


def test_two_hosts_with_the_same_gpus_have_no_ranks(tmp_path: Path) -> None:
    worker(tmp_path / "node1", 501)
    worker(tmp_path / "node2", 501)
    rec = of(tmp_path)
    assert [f.rank for f in rec.files] == [None, None]
    assert "ranks are not told" in told(rec)
    assert len(rec.kernels) == 4


def test_a_table_that_is_named_alone_is_read_alone(tmp_path: Path) -> None:
    worker(tmp_path, 501)
    alone = of(tmp_path / "501_kernel_trace.csv")
    assert (len(alone.kernels), len(alone.launches), len(alone.steps)) == (2, 0, 0)
    both = of(tmp_path / "501_kernel_trace.csv", tmp_path / "501_hip_api_trace.csv")
    assert (len(both.files), len(both.launches)) == (1, 3)
    assert not [note for note in both.notes if note.word == "repeated"]
    again = of(tmp_path, tmp_path / "501_hip_api_trace.csv")
    assert len(again.launches) == 3
    assert [note.count for note in again.notes if note.word == "repeated"] == [1]


def test_a_prefix_before_the_pid_keeps_runs_apart(tmp_path: Path) -> None:
    for name, ns in (("a_12", 100), ("b_12", 300)):
        table(tmp_path / f"{name}_kernel_trace.csv", KERNELS, [kernel("k", 1_000, 1_000 + ns, 1)])
        table(tmp_path / f"{name}_hip_api_trace.csv", CALLS, [call("HIP_RUNTIME_API", "hipLaunchKernel", 1, 5, 6)])
    rec = of(tmp_path)
    assert [(f.pid, Path(f.path).name) for f in rec.files] == [
        (12, "a_12_kernel_trace.csv"),
        (12, "b_12_kernel_trace.csv"),
    ]
    assert rec.kernels["launch"].tolist() == [0, 1]


def test_processes_in_one_converted_table_are_kept_apart(tmp_path: Path) -> None:
    """Correlation 1 stands for another call in each Guid."""
    capitals = [name.replace("SGPR", "Sgpr") for name in KERNELS]
    rows = [["g1", *kernel("a", 10, 30, 1, "Agent 4")], ["g2", *kernel("b", 10, 50, 1, "Agent 5")]]
    table(tmp_path / "out_kernel_trace.csv", ["Guid", *capitals], rows)
    hip = "HIP_RUNTIME_API_EXT"
    calls = [
        ["g2", *call(hip, "hipModuleLaunchKernel", 1, 2, 3, 88)],
        ["g1", *call(hip, "hipLaunchKernel", 1, 1, 2, 77)],
    ]
    table(tmp_path / "out_hip_api_trace.csv", ["Guid", *CALLS], calls)
    rec = of(tmp_path)
    calls_of = dict(
        zip(rec.names("kernels"), rec.strings.of(rec.launches["name"][rec.kernels["launch"]].tolist()), strict=True)
    )
    assert calls_of == {"a": "hipLaunchKernel", "b": "hipModuleLaunchKernel"}
    assert {f.device: f.pid for f in rec.files} == {"Agent 4": 77, "Agent 5": 88}
    assert pipeline.inspect(rec).facts["guids"] == 2


def test_a_duration_column_moves_nothing(tmp_path: Path) -> None:
    at = KERNELS.index("End_Timestamp") + 1
    row = kernel("a", 10, 30, 1)
    rec = of(
        table(tmp_path / "x_kernel_trace.csv", [*KERNELS[:at], "Duration", *KERNELS[at:]], [[*row[:at], 20, *row[at:]]])
    )
    assert rec.kernels["dur_ns"].tolist() == [20]
    assert rec.dims[int(rec.kernels["grid"][0])] == (4, 1, 1)


def test_gzip_is_read_the_same(tmp_path: Path) -> None:
    path = table(tmp_path / "5_kernel_trace.csv", KERNELS, [kernel("a", 10, 30)])
    packed = tmp_path / "5_kernel_trace.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert of(packed).kernels["dur_ns"].tolist() == [20]


def test_ranges_that_are_no_step_are_told(tmp_path: Path) -> None:
    table(tmp_path / "5_kernel_trace.csv", KERNELS, [kernel("a", 10, 30)])
    table(tmp_path / "5_marker_api_trace.csv", CALLS, [call("MARKER_CORE_API", "my range", 1, 5, 6)])
    rec = of(tmp_path)
    assert "1 ROCTX range(s), none names a step" in told(rec)
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


@pytest.mark.parametrize("row", ["only,three,cells", '"lone \r return"', ",".join("x" * 30)])
def test_a_row_of_another_width_is_lost_and_counted(tmp_path: Path, row: str) -> None:
    path = table(tmp_path / "5_kernel_trace.csv", KERNELS, [kernel("a", 10, 30), kernel("b", 40, 50)])
    lines = path.read_text().split("\n")
    path.write_text("\n".join([*lines[:2], row, *lines[2:]]))
    rec = of(path)
    assert rec.names("kernels") == ["a", "b"]
    assert "1 row(s) left out, the first at line 3: 17 columns expected" in told(rec)
    assert rec.outcome is Outcome.PARTIAL


def test_a_cut_last_row_is_a_cut_file(tmp_path: Path) -> None:
    path = table(tmp_path / "5_kernel_trace.csv", KERNELS, [kernel("a", 10, 30), kernel("b", 40, 50)])
    path.write_text(path.read_text()[:-20])
    rec = of(path)
    assert rec.names("kernels") == ["a"]
    assert rec.files[0].counts.truncated
    assert "truncated file" in told(rec)


@pytest.mark.parametrize("bad", ["nan", "soon", "1e9", str(2**63), str(10**30)])
def test_a_time_that_is_no_time_is_not_known(tmp_path: Path, bad: str) -> None:
    row = kernel("b", 40, 50)
    row[KERNELS.index("End_Timestamp")] = bad
    rec = of(table(tmp_path / "5_kernel_trace.csv", KERNELS, [kernel("a", 10, 30), row]))
    assert (len(rec.kernels), rec.kernels["timed"].tolist()) == (2, [True, False])
    facts = pipeline.inspect(rec)
    assert facts.facts["kernel_time_ns"] == 20
    assert facts.outcome != Outcome.OK


def test_ids_of_64_bits_stay_apart(tmp_path: Path) -> None:
    rows = [kernel("a", 10, 30, stream=2**64 - 16), kernel("a", 10, 30, stream=2**64 - 32)]
    rec = of(table(tmp_path / "5_kernel_trace.csv", KERNELS, rows))
    assert len(np.unique(rec.kernels["stream"])) == 2
    assert rec.outcome is Outcome.OK


def test_bytes_that_are_no_text_are_written(tmp_path: Path) -> None:
    path = table(tmp_path / "5_kernel_trace.csv", KERNELS, [kernel("a?", 10, 30), kernel("a\x00\x1b[1m", 40, 50)])
    path.write_bytes(path.read_bytes().replace(b"a?", b"a\xff"))
    rec = of(path)
    assert rec.names("kernels") == ["a\\xff", "a\x00\x1b[1m"]
    assert rec.outcome is Outcome.OK_WITH_WARNINGS


def test_a_broken_sibling_costs_itself_alone(tmp_path: Path) -> None:
    worker(tmp_path, 501)
    broken = tmp_path / "501_hip_api_trace.csv"
    broken.write_text(
        broken.read_text()
        .replace(',"hipLaunchKernel"', "")
        .replace(',"hipExtLaunchKernel"', "")
        .replace(',"hipMemcpyAsync"', "")
    )
    rec = of(tmp_path)
    assert (len(rec.kernels), len(rec.launches), len(rec.files)) == (2, 0, 1)
    assert "column count mismatch at line 2: 7 columns expected, 6 found" in told(rec)
    assert rec.outcome is Outcome.PARTIAL


def test_a_broken_kernel_trace_of_a_folder_is_a_loss(tmp_path: Path) -> None:
    table(tmp_path / "1_kernel_trace.csv", KERNELS, [kernel("a", 10, 30)])
    (tmp_path / "2_kernel_trace.csv").write_bytes(header(*KERNELS) + b"1,2,3\n")
    rec = of(tmp_path)
    assert rec.outcome is Outcome.PARTIAL
    assert pipeline.inspect(rec).facts["trust"] == "degraded"


def test_more_agents_than_a_host_has_are_refused(tmp_path: Path) -> None:
    rows = [kernel("a", 10, 30, agent=f"Agent {n}") for n in range(1_100)]
    with pytest.raises(UnreadableInput, match="more than 1,024 devices"):
        of(table(tmp_path / "5_kernel_trace.csv", KERNELS, rows))


@pytest.mark.parametrize(
    ("names", "ours"),
    [
        (KERNELS, True),
        (CALLS, True),
        (AGENTS, True),
        (["Name", "Calls", "TotalDurationNs"], True),
        (["Kind", "Operation", "Agent_Id", "Allocation_Size", "Address", "Correlation_Id", "Start_Timestamp", "End_Timestamp"], True),
        (["Correlation_Id", "Dispatch_Id", "Kernel_Name", "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp"], False),
        (["Dispatch_ID", "GPU_ID", "Arch_VGPR", "Kernel_Name", "Correlation_ID", "Start_Timestamp", "End_Timestamp"], False),
        (["Parent op category", "Parent cpu_op", "Kernel name", "Kernel stream"], False),
        (["type", "time ms", "percent"], False),
    ],
)  # fmt: skip
def test_headers_tell_ours_from_others(tmp_path: Path, names: list[str], ours: bool) -> None:
    assert sniff(tmp_path, header(*names)) is ours


def test_totals_of_calls_are_no_kernels(tmp_path: Path) -> None:
    names = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev"]
    rows = [["hipFree", 3, 300, 100.0, 60.0, 1, 1, 0], ["hipMalloc", 2, 200, 100.0, 40.0, 1, 1, 0]]
    for name in ("7_hip_api_stats.csv", "renamed.csv"):
        (found,) = of(table(tmp_path / name, names, rows)).meta.kernel_tables
        assert (found.kernels, found.percent_sum, sum(row.calls for row in found.rows)) == ((), 100.0, 5)


def test_totals_beside_their_trace_agree_or_are_told(tmp_path: Path) -> None:
    names = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev"]
    table(tmp_path / "7_kernel_trace.csv", KERNELS, [kernel("a", 10, 30)])
    stats = table(tmp_path / "7_kernel_stats.csv", names, [["a", 1, 20, 20.0, 100.0, 20, 20, 0]])
    assert pipeline.inspect(of(tmp_path)).facts["table_differs_from_trace"] == 0
    stats.write_text(stats.read_text().replace("1,20,", "4,80,"))
    rec = of(tmp_path)
    assert pipeline.inspect(rec).facts["table_differs_from_trace"] == 1
    assert any(f.id.startswith("kernel_tables.differs") for f in pipeline.report(rec).answer.findings)


def test_figures_equal_a_plain_recount(tmp_path: Path) -> None:
    """40,000 rows: more than one block."""
    names = [f"k{n % 37}" for n in range(40_000)]
    rows = [kernel(name, 10 * n + 1, 10 * n + 1 + n % 7, n, f"Agent {4 + n % 2}") for n, name in enumerate(names)]
    path = table(tmp_path / "7_kernel_trace.csv", KERNELS, rows)
    count, ns = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["Agent_Id"], row["Kernel_Name"])
            count[key] += 1
            ns[key] += int(row["End_Timestamp"]) - int(row["Start_Timestamp"])
    rec = of(path)
    keys = list(zip([rec.files[i].device for i in rec.kernels["file"].tolist()], rec.names("kernels"), strict=True))
    assert Counter(keys) == count
    found = Counter[tuple[str, str]]()
    for key, dur in zip(keys, rec.kernels["dur_ns"].tolist(), strict=True):
        found[key] += dur
    assert found == ns


def test_agents_alone_are_no_trace(tmp_path: Path) -> None:
    table(tmp_path / "7_agent_info.csv", AGENTS, TWO_CPUS)
    assert pipeline.inspect(of(tmp_path)).facts["trust"] == "unusable"
