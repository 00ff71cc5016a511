"""RPD's real files against plain sqlite3, and the export of nsys: figures equal an independent recount."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlite_kit import PID, STEP, global_id, nsys, write

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.sources import open_recording

SHARED = Path(os.environ.get("M3PROBE_SHARED") or Path(__file__).parents[2] / "shared")
RPD = SHARED / "traces" / "rpd"
needs_files = pytest.mark.skipif(not RPD.exists(), reason="the real .rpd files are not here (set M3PROBE_SHARED)")


def asked(path: Path, query: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


@needs_files
@pytest.mark.parametrize("name", ["matmul_result_large.rpd", "mytrace.rpd.gz"])
def test_real_rpd_files_equal_a_recount_by_sqlite(tmp_path: Path, name: str) -> None:
    plain = tmp_path / "plain.rpd"
    with (gzip.open if name.endswith(".gz") else open)(RPD / name, "rb") as source, plain.open("wb") as copy:
        shutil.copyfileobj(source, copy)
    rec = open_recording([RPD / name])
    kinds = "SELECT t.string, count(*), sum(o.end - o.start) FROM rocpd_op o JOIN rocpd_string t ON t.id = o.opType_id GROUP BY 1"
    ops = {kind: (count, ns) for kind, count, ns in asked(plain, kinds)}
    facts = pipeline.inspect(rec).facts
    assert (facts["kernels"], facts["kernel_time_ns"]) == ops["KernelExecution"]
    copies = [figures for kind, figures in ops.items() if kind.startswith("Copy")]
    assert (facts["memcpys"], facts["memcpy_time_ns"]) == tuple(map(sum, zip(*copies, strict=True)))
    assert facts["memsets"] == ops.get("FillBuffer", (0, 0))[0]
    named = (
        "SELECT d.string, count(*) FROM rocpd_op o JOIN rocpd_string t ON t.id = o.opType_id JOIN rocpd_string d "
        "ON d.id = o.description_id WHERE t.string = 'KernelExecution' GROUP BY 1"
    )
    assert Counter(rec.names("kernels")) == dict(asked(plain, named))
    linked = (
        "SELECT o.start, a.start FROM rocpd_op o JOIN rocpd_string t ON t.id = o.opType_id JOIN rocpd_api_ops l "
        "ON l.op_id = o.id JOIN rocpd_api a ON a.id = l.api_id WHERE t.string = 'KernelExecution' ORDER BY 1, 2"
    )
    launches = rec.launches["start_ns"][rec.kernels["launch"]].tolist()
    assert sorted(zip(rec.kernels["start_ns"].tolist(), launches, strict=True)) == asked(plain, linked)
    api = dict(
        asked(plain, "SELECT s.string, count(*) FROM rocpd_api a JOIN rocpd_string s ON s.id = a.apiName_id GROUP BY 1")
    )
    assert facts["graph_launches"] == api.get("hipGraphLaunch", 0)
    assert len(rec.launches) == sum(api.values()) - api.get("UserMarker", 0)
    moved = asked(
        plain, "SELECT sum(size) FROM rocpd_copyapi c JOIN rocpd_api_ops l ON l.api_id = c.api_ptr_id WHERE size != ''"
    )
    payload = rec.transfers["payload_bytes"]
    assert int(payload[payload >= 0].sum()) == moved[0][0]
    told = {note.word: note.count for note in rec.notes}
    assert told.get("other_operations", 0) == ops.get("Task", (0, 0))[0]
    watched = asked(plain, "SELECT value FROM rocpd_monitor WHERE monitorType = 'sclk' ORDER BY id")
    assert rec.tables["device_samples"]["clock_mhz"].tolist() == [float(value) for (value,) in watched]


@needs_files
def test_grids_of_rpd_are_what_the_calls_were_given() -> None:
    """hipExtModuleLaunchKernel counts work-items: 3,328 x 1,563 in blocks of 256 are 13 x 1,563 workgroups."""
    rec = open_recording([RPD / "matmul_result_large.rpd"])
    (row,) = [i for i, name in enumerate(rec.names("kernels")) if name.startswith("Cijk_")]
    assert rec.dims[rec.kernels["grid"][row]] == (13, 1_563, 1)
    others = {
        rec.dims[g] for g, n in zip(rec.kernels["grid"].tolist(), rec.names("kernels"), strict=True) if "CatArray" in n
    }
    assert (1, 2, 1) in others, "hipLaunchKernel counts workgroups"


def test_ranges_of_rpd_are_steps_and_operators_and_arguments_may_stand_elsewhere(tmp_path: Path) -> None:
    """A later schema: arguments are ids of ``rocpd_ustring``; grids count work-items whatever the call."""
    session = 2 << 32
    strings = [
        (1, ""),
        (2, "UserMarker"),
        (3, "hipLaunchKernel"),
        (4, "gemm"),
        (5, "KernelExecution"),
        (6, "ncclAllReduce"),
    ]
    tables = {
        "rocpd_metadata": ("id, tag, value", [(1, "schema_version", "4")]),
        "rocpd_string": ("id INTEGER PRIMARY KEY, string", strings),
        "rocpd_ustring": ("id INTEGER PRIMARY KEY, string", [(1, STEP), (2, "aten::mm"), (3, "note")]),
        "rocpd_api": (
            'id INTEGER PRIMARY KEY, pid, tid, start, "end", apiName_id, args_id',
            [
                (session + 1, 9, 10, 1_000, 5_000, 2, 1),
                (session + 2, 9, 10, 1_100, 1_900, 2, 2),
                (session + 3, 9, 10, 1_200, 1_300, 3, 3),
                (session + 4, 9, 10, 2_000, 2_100, 6, 3),
            ],
        ),
        "rocpd_op": (
            'id INTEGER PRIMARY KEY, gpuId, queueId, start, "end", description_id, opType_id',
            [(session + 1, 3, 0, 1_400, 2_400, 4, 5), (session + 2, 3, 0, 2_500, 2_600, 4, 5)],
        ),
        "rocpd_api_ops": ("id, api_id, op_id", [(1, session + 3, session + 1)]),
        "rocpd_kernelapi": (
            "api_ptr_id, gridX, gridY, gridZ, workgroupX, workgroupY, workgroupZ",
            [(session + 3, 1_024, 1, 1, 256, 1, 1)],
        ),
    }
    rec = open_recording([write(tmp_path / "x.rpd", tables)])
    assert (rec.names("steps"), rec.names("ops")) == ([STEP], ["aten::mm", "ncclAllReduce"])
    assert rec.names("launches") == ["hipLaunchKernel"]
    assert (rec.kernels["step"].tolist(), rec.kernels["op"].tolist()) == ([0, -1], [0, -1])
    assert [rec.dims[row] for row in rec.kernels["grid"].tolist()[:1]] == [(4, 1, 1)]
    assert [(f.rank, f.pid, f.device) for f in rec.files] == [(3, 9, "GPU 3")]


# --- nsys ----------------------------------------------------------------------------------------------------


def test_nsys_gives_each_device_as_a_rank(tmp_path: Path) -> None:
    rec = open_recording([write(tmp_path / "x.sqlite", nsys())])
    facts = pipeline.inspect(rec).facts
    assert facts["kernel_time_ns_by_device"] == {"0": 3_000, "1": 500}
    assert facts["calls"] == {"void gemm<float>(float*)": 2, "red(int)": 1}
    assert (facts["kernel_detail"], facts["graph_kernels"], facts["linked_kernels"]) == (True, 1, 3)
    assert [(f.rank, f.pid, f.device) for f in rec.files] == [(0, PID, "GPU 0"), (1, PID, "GPU 1")]
    assert rec.names("launches") == ["cudaLaunchKernel", "cudaGraphLaunch", "cudaLaunchKernel"]
    assert set(rec.launches["tid"].tolist()) == {77}
    assert (rec.names("steps"), set(rec.kernels["step"].tolist())) == ([STEP, STEP], {0, 1})
    assert [rec.dims[row] for row in rec.kernels["grid"].tolist()] == [(8, 1, 1), (4, 2, 1), (8, 1, 1)]
    assert (rec.names("transfers"), rec.transfers["payload_bytes"].tolist()) == (["Memcpy DtoH"], [64])
    assert len(set(rec.kernels["stream"].tolist())) == 2, "stream 7 of one context is not stream 7 of another"
    (warned,) = [note for note in rec.notes if note.word == "nsys_says"]
    assert "some events were lost" in warned.text
    assert warned.lossy, "nsys itself says that records are missing"
    assert "\x1b" not in warned.text
    assert [(d.index, d.name, d.units) for d in rec.meta.devices] == [(0, "NVIDIA H200", 132), (1, "NVIDIA H200", 132)]


@pytest.mark.parametrize(
    ("said", "lossy"),
    [
        ("Not all CUDA events might have been collected.", False),
        ("12 CUDA events were dropped", True),
        ("CUDA events lost", True),
    ],
)
def test_a_warning_of_lost_records_is_a_loss_and_another_is_told(tmp_path: Path, said: str, lossy: bool) -> None:
    tables = nsys() | {"DIAGNOSTIC_EVENT": ("timestamp, severity, text", [(1, 50, said)])}
    (warned,) = [n for n in open_recording([write(tmp_path / "run.sqlite", tables)]).notes if n.word == "nsys_says"]
    assert (warned.lossy, warned.text.endswith(said)) == (lossy, True)


def test_the_same_correlation_in_two_processes_links_inside_each(tmp_path: Path) -> None:
    tables = nsys()
    columns, rows = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    other = global_id(0x777)
    both = [rows[0], (*rows[0][:2], 1, 1, 7, 21, other, 4, 3, *rows[0][9:])]
    calls, called = tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
    late = (10_060, 10_070, global_id(0x777, 5), 21, 9)
    more = {"CUPTI_ACTIVITY_KIND_KERNEL": (columns, both), "CUPTI_ACTIVITY_KIND_RUNTIME": (calls, [called[0], late])}
    rec = open_recording([write(tmp_path / "x.sqlite", tables | more)])
    found = zip(rec.names("kernels"), rec.launches["start_ns"][rec.kernels["launch"]].tolist(), strict=True)
    assert sorted(found) == [("red(int)", 10_060), ("void gemm<float>(float*)", 10_000)]


def test_rows_without_their_process_are_those_of_the_only_one(tmp_path: Path) -> None:
    tables = nsys()
    columns, rows = tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
    nobody = global_id(0, 78)
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"] = (columns, [*rows, (10_060, 10_070, nobody, 24, 10)])
    rec = open_recording([write(tmp_path / "x.sqlite", tables)])
    assert rec.names("launches").count("cudaLaunchKernel") == 3
    assert rec.launches["tid"].tolist().count(78) == 1
    assert rec.strings.of(rec.launches["name"][rec.transfers["launch"]].tolist()) == ["cudaLaunchKernel"]
    columns, rows = tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
    other = (10_080, 10_090, global_id(PID + 1, 79), 25, 10)  # two processes: nobody's call is its own
    tables["CUPTI_ACTIVITY_KIND_RUNTIME"] = (columns, [*rows, other])
    rec = open_recording([write(tmp_path / "y.sqlite", tables)])
    assert sorted(file.pid or 0 for file in rec.files) == [0, PID, PID, PID + 1]


def test_whole_graphs_without_a_time_are_counted_and_in_no_sum(tmp_path: Path) -> None:
    tables = nsys()
    del tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    rows = [(0, 0, 0, 1, 7, 22, global_id(PID), 3), (10_000, 10_400, 0, 1, 7, 25, global_id(PID), 3)]
    columns = "start, end, deviceId, contextId, streamId, correlationId, globalPid, graphId"
    rec = open_recording([write(tmp_path / "x.sqlite", tables | {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (columns, rows)})])
    facts = pipeline.inspect(rec).facts
    assert (facts["graph_time_ns"], facts["kernel_detail"], facts["fast_path_verdict"]) == (400, False, "inconclusive")
    assert rec.tables["whole_graphs"]["graph"].tolist() == [3, 3]


def test_an_export_of_nothing_is_refused(tmp_path: Path) -> None:
    tables = {"StringIds": nsys()["StringIds"], "TARGET_INFO_GPU": nsys()["TARGET_INFO_GPU"]}
    with pytest.raises(UnreadableInput, match="without a kernel, call or range"):
        open_recording([write(tmp_path / "x.sqlite", tables)])


@pytest.mark.parametrize(
    ("name", "words"),
    [("a.nsys-rep", "nsys export --type sqlite"), ("a.qdstrm", "QdstrmImporter"), ("a.ncu-rep", "Nsight Compute")],
)
def test_reports_of_nsight_are_refused_with_the_way_out(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_bytes(b"\x01\x02" * 64)
    with pytest.raises(UnreadableInput) as caught:
        open_recording([tmp_path / name])
    assert words in caught.value.sentence()
