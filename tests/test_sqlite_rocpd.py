"""rocprofv3's database in its layouts: rows, links and ranks equal what the tables of ``sqlite_kit`` were made of."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from sqlite_kit import GUID, STEP, layout_a, layout_b, rocpd_a, write
from tree import ROOT

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.model.recording import Recording
from m3probe.sources import open_recording

CASES = Path(__file__).parent / "data" / "cases"


@pytest.mark.parametrize("case", ["r10_rocpd_flat.db", "n01_graph_level_only.sqlite"])
def test_a_known_case_gives_its_facts(case: str) -> None:
    wanted = json.loads((CASES / f"{case}.expected.json").read_text())
    found = pipeline.inspect(open_recording([CASES / case]))
    assert (found.kind, found.outcome) == (wanted["kind"], wanted["outcome"])
    assert {key: found.facts[key] for key in wanted["facts"]} == wanted["facts"]
    told = " | ".join(note.text for note in found.warnings)
    assert all(matter in told for matter in wanted["warn"])
    assert bool(told) == bool(wanted["warn"])


def kernels(rec: Recording) -> list[tuple[Any, ...]]:
    """(name, start, dur, device, stream, correlation, in a step, in a graph) of each kernel."""
    table = rec.kernels
    columns = [
        table[name].tolist() for name in ("start_ns", "dur_ns", "device", "stream", "correlation", "step", "in_graph")
    ]
    return list(zip(rec.names("kernels"), *columns, strict=True))


KERNELS = [
    ("gemm(void)", 2_000, 3_000, 0, 3, 71, 0, False),
    ("norm", 5_100, 500, 0, 3, 72, 0, True),
    ("gemm(void)", 5_700, 700, 0, 3, 72, 0, True),
]
LAYOUTS = {"times in the row": layout_a, "times in a table": layout_b}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("suffix", ["", f"_{GUID.replace('-', '_')}"], ids=["plain", "uuid"])
def test_both_layouts_give_the_same_rows(tmp_path: Path, layout: Any, suffix: str) -> None:
    rec = open_recording([write(tmp_path / "x.db", {name + suffix: table for name, table in layout().items()})])
    assert kernels(rec) == KERNELS
    assert [rec.dims[row] for row in rec.kernels["grid"].tolist()] == [(4, 2, 1)] * 3
    assert rec.names("steps") == [STEP]
    assert (rec.steps["gen_reqs"].tolist(), rec.steps["graph_launches"].tolist()) == ([2], [1])
    calls = sorted(zip(rec.launches["correlation"].tolist(), rec.names("launches"), strict=True))
    assert calls == [(71, "hipLaunchKernel"), (72, "hipGraphLaunch"), (74, "hipLaunchKernel")]
    assert (set(rec.launches["pid"].tolist()), set(rec.launches["tid"].tolist())) == ({4050}, {4051})
    assert (rec.names("ops"), rec.strings[rec.ops["collective"][0]]) == (["ncclAllReduce"], "allreduce")
    (file,) = rec.files
    assert (file.rank, file.pid, file.device, file.kind) == (0, 4050, "Agent 4", "rocpd-sqlite")
    assert rec.outcome == "ok"


def test_a_copy_has_its_bytes_its_gpu_and_its_call(tmp_path: Path) -> None:
    rec = open_recording([rocpd_a(tmp_path / "x.db")])
    copy = {name: rec.transfers[name].tolist() for name in ("start_ns", "dur_ns", "payload_bytes", "device", "step")}
    assert copy == {"start_ns": [6_500], "dur_ns": [400], "payload_bytes": [4_096], "device": [0], "step": [0]}
    assert rec.names("transfers") == ["MEMORY_COPY_DEVICE_TO_HOST"]
    facts = pipeline.inspect(rec).facts
    assert (facts["gpus"], facts["calls"], facts["gpu_span_ns"]) == (2, {"gemm(void)": 2, "norm": 1}, 4_900)


def dispatches(*rows: tuple[Any, ...]) -> Any:
    """The dispatch table of layout A with other rows: (id, pid, agent, kernel, start, end, event)."""
    columns, _ = layout_a()["rocpd_kernel_dispatch"]
    return columns, [(i, GUID, 1, p, 51, a, k, 3, 0, s, e, 256, 1, 1, 1024, 2, 1, v) for i, p, a, k, s, e, v in rows]


def test_two_processes_on_two_gpus_are_two_ranks(tmp_path: Path) -> None:
    table = dispatches((1, 50, 4, 7, 2_000, 5_000, 3), (2, 60, 5, 8, 2_500, 2_600, None))
    rec = open_recording([rocpd_a(tmp_path / "x.db", rocpd_kernel_dispatch=table)])
    assert [(f.rank, f.pid, f.device) for f in rec.files] == [(0, 4050, "Agent 4"), (1, 60, "Agent 5")]
    assert pipeline.inspect(rec).facts["kernel_time_ns_by_rank"] == {"0": 3_000, "1": 100}


def test_two_processes_on_one_gpu_are_numbered_in_order(tmp_path: Path) -> None:
    table = dispatches((1, 50, 4, 7, 2_000, 5_000, 3), (2, 60, 4, 8, 2_500, 2_600, None))
    rec = open_recording([rocpd_a(tmp_path / "x.db", rocpd_kernel_dispatch=table)])
    assert [(f.rank, f.pid) for f in rec.files] == [(0, 4050), (1, 60)]


def test_ids_that_repeat_between_guids_are_kept_apart(tmp_path: Path) -> None:
    """Two runs put into one set of tables without keys: kernel 7 is another kernel in each."""
    other = GUID.replace("bb02", "cc03")
    tables = {}
    for name, (columns, rows) in layout_a().items():
        both = list(rows) + [
            tuple(other if cell == GUID else cell for cell in row) for row in rows if name != "rocpd_metadata"
        ]
        tables[name] = (columns.replace("id INTEGER PRIMARY KEY", "id"), both)
    columns, rows = tables["rocpd_info_kernel_symbol"]
    renamed = [(i, guid, raw, f"other {shown}" if guid == other else shown) for i, guid, raw, shown in rows]
    rec = open_recording([write(tmp_path / "x.db", tables | {"rocpd_info_kernel_symbol": (columns, renamed)})])
    assert rec.names("kernels") == [
        "gemm(void)",
        "norm",
        "gemm(void)",
        "other gemm(void)",
        "other norm",
        "other gemm(void)",
    ]
    assert len(rec.files) == 2


def test_a_dispatch_whose_rows_are_missing_keeps_its_time(tmp_path: Path) -> None:
    table = dispatches((1, 50, 99, 98, 2_000, 5_000, 97))
    rec = open_recording([rocpd_a(tmp_path / "x.db", rocpd_kernel_dispatch=table)])
    assert (rec.kernels["name"].tolist(), rec.kernels["dur_ns"].tolist(), rec.kernels["launch"].tolist()) == (
        [-1],
        [3_000],
        [-1],
    )
    assert [(n.word, n.count, n.lossy) for n in rec.notes if not n.quiet] == [("unnamed_kernels", 1, False)]


def test_a_database_without_a_row_is_refused(tmp_path: Path) -> None:
    tables = {name: (columns, []) for name, (columns, _) in layout_a().items()}
    with pytest.raises(UnreadableInput, match="without a kernel, copy or API call"):
        open_recording([write(tmp_path / "x.db", tables)])


def test_the_layout_with_tracks_and_times_in_the_row(tmp_path: Path) -> None:
    """Version 4.1: ``track_id`` as in layout B, ``start`` and ``end`` as in A, categories in a table of their own."""
    tables = layout_b()
    columns, rows = tables["rocpd_kernel_dispatch"]
    times = {row[0]: row[2] for row in tables.pop("rocpd_timestamp")[1]}
    tables["rocpd_kernel_dispatch"] = (
        columns.replace("start_id, end_id", 'start, "end"'),
        [(*row[:5], times[row[5]], times[row[6]], *row[7:]) for row in rows],
    )
    columns, rows = tables["rocpd_region"]
    placed = [(*row[:4], times[row[4]], times[row[5]], row[6]) for row in rows]
    tables["rocpd_region"] = (columns.replace("start_id, end_id", 'start, "end"'), placed)
    words = [(1, GUID, "HIP_RUNTIME_API_EXT"), (2, GUID, "MARKER_CORE_RANGE_API"), (4, GUID, "RCCL_API")]
    tables["rocpd_info_category"] = ("id INTEGER PRIMARY KEY, guid TEXT, name TEXT", words)
    rec = open_recording([write(tmp_path / "x.db", tables)])
    assert kernels(rec) == KERNELS
    assert (rec.names("steps"), rec.names("ops")) == ([STEP], ["ncclAllReduce"])


def test_the_maker_of_large_databases_makes_what_it_says(tmp_path: Path) -> None:
    """50 steps of 40 kernels, each as long as its number says, launched inside the step's range."""
    found = runpy.run_path(str(ROOT / "benchmarks" / "make_rocpd.py"))
    said = found["make_rocpd"](tmp_path / "x.db", 0.1)
    rec = open_recording([tmp_path / "x.db"])
    facts = pipeline.inspect(rec).facts
    assert (said["steps"], said["kernels"]) == (50, 2_000)
    assert facts["kernel_time_ns"] == said["kernel_time_ns"] == sum(1_000 + i * 7_919 % 39_001 for i in range(2_000))
    assert (facts["step_kernels"], facts["memcpys"], facts["linked_kernels"]) == ([40] * 50, 50, 2_000)
    assert (rec.outcome, rec.files[0].device) == ("ok", "Agent 4")
