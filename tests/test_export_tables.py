"""``export --to parquet|arrow|csv``, opened by DuckDB, pandas and the csv module and held against plain JSON."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from builders import kernel, launch, op, recording, step, write_trace
from export_kit import GRAPH, export, ns, raw_events, unjudged
from pyarrow import parquet
from tree import shared_or_skip

from m3probe import exporting, pipeline
from m3probe.exporting import csv_tables
from m3probe.model.tables import TABLES
from m3probe.present.json import report_json

KERNELS = [event for event in raw_events(GRAPH) if event.get("ph") == "X" and event.get("cat") == "kernel"]
BY_NAME = Counter(event["name"] for event in KERNELS)
BY_NAME_NS = Counter[str]()
for _event in KERNELS:
    BY_NAME_NS[_event["name"]] += ns(_event["dur"])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph sample in each format of tables."""
    folder = tmp_path_factory.mktemp("exported")
    for to in ("parquet", "arrow", "csv"):
        export(GRAPH, to, folder / to)
    return folder


def test_duckdb_counts_what_plain_json_counts(exported: Path) -> None:
    found = duckdb.sql(
        f"select name, count(*), sum(dur_ns)::bigint from '{exported}/parquet/kernels.parquet' where timed group by name"
    ).fetchall()
    assert {name: count for name, count, _ in found} == BY_NAME
    assert {name: total for name, _, total in found} == BY_NAME_NS


def test_duckdb_joins_kernels_with_steps_and_operators(exported: Path) -> None:
    found = duckdb.sql(
        f"""select s.phase, count(distinct s.row), count(*) from '{exported}/parquet/kernels.parquet' k
        join '{exported}/parquet/steps.parquet' s on k.step = s.row group by all order by all"""
    ).fetchall()
    told = json.loads(report_json(pipeline.analyze([GRAPH])))["summary"]["phases"]
    with_kernels = sorted((row["phase"], row["kernel_count"]) for row in told if row["kernel_count"])
    assert [(phase, count) for phase, _, count in found] == with_kernels


def test_pandas_reads_each_format_alike(exported: Path) -> None:
    frames = (
        pd.read_parquet(exported / "parquet" / "kernels.parquet"),
        pd.read_feather(exported / "arrow" / "kernels.arrow"),
        pd.read_csv(exported / "csv" / "kernels.csv"),
    )
    for frame in frames:
        grouped = frame.groupby("name", observed=True)["dur_ns"].agg(["count", "sum"])
        assert grouped["count"].to_dict() == BY_NAME
        assert grouped["sum"].to_dict() == BY_NAME_NS


def test_duckdb_reads_arrow_and_csv_too(exported: Path) -> None:
    opened = pa.ipc.open_file(exported / "arrow" / "kernels.arrow").read_all()
    for source in ("opened", f"'{exported}/csv/kernels.csv'"):
        found = duckdb.sql(f"select count(*), sum(dur_ns)::bigint from {source}").fetchall()
        assert found == [(len(KERNELS), sum(BY_NAME_NS.values()))]
    assert len(opened) == len(KERNELS)


def test_text_is_a_dictionary_and_dims_are_lists(exported: Path) -> None:
    ops = parquet.read_table(exported / "parquet" / "ops.parquet")
    assert pa.types.is_dictionary(ops.schema.field("name").type)
    assert ops.schema.field("dims").type == pa.list_(pa.list_(pa.int64()))
    wanted = [e["args"].get("Input Dims") for e in raw_events(GRAPH) if e.get("ph") == "X" and e.get("cat") == "cpu_op"]
    plain = [dims if all(type(n) is int for shape in dims for n in shape) else None for dims in wanted]
    assert ops["dims"].to_pylist() == plain
    assert [json.loads(text) for text in ops["dims_json"].to_pylist()] == wanted
    grids = parquet.read_table(exported / "parquet" / "kernels.parquet")["grid"].to_pylist()
    assert grids == [event["args"]["grid"] for event in KERNELS]


def test_units_and_meanings_are_in_the_metadata(exported: Path) -> None:
    for read in (
        parquet.read_schema(exported / "parquet" / "kernels.parquet"),
        pa.ipc.open_file(exported / "arrow" / "kernels.arrow").schema,
    ):
        assert read.field("dur_ns").metadata == {b"unit": b"ns", b"meaning": b"duration"}
        assert read.field("grid").metadata[b"unit"] == b"workgroups"
    manifest = json.loads((exported / "csv" / "manifest.json").read_text())
    told = {table["name"]: {column["name"] for column in table["columns"]} for table in manifest["tables"]}
    for name in ("steps", "kernels", "launches", "ops", "transfers"):
        assert told[name] >= {column.name for column in TABLES[name]}


def test_the_report_is_the_report_of_json(exported: Path) -> None:
    told = json.loads(report_json(pipeline.analyze([GRAPH])))
    keys = {"devices": "device_time"} | {name: name for name in ("steps", "shapes", "repeats", "ranking")}
    for name, key in keys.items():
        rows = parquet.read_table(exported / "parquet" / f"report_{name}.parquet").to_pylist()
        plain = [{k: v for k, v in row.items() if k != "bound"} for row in told[key]]
        assert [{k: v for k, v in row.items() if not k.startswith("bound_")} for row in rows] == plain
    findings = parquet.read_table(exported / "parquet" / "report_findings.parquet").to_pylist()
    assert [row["id"] for row in findings] == [row["id"] for row in told["findings"]]
    highs = [None if row["bound"] is None else row["bound"]["high"] for row in told["findings"]]
    assert [row["bound_high"] for row in findings] == highs
    cells = parquet.read_table(exported / "parquet" / "report_path_cells.parquet").to_pylist()
    wanted = [{"path": path["id"], **cell} for path in told["paths"] for cell in path["cells"]]
    assert cells == wanted
    evidence = parquet.read_table(exported / "parquet" / "report_evidence.parquet").to_pylist()
    assert [row["rows"] for row in evidence] == [e["rows"] for row in told["findings"] for e in row["evidence"]]


def test_devices_and_what_is_unanswered_are_tables_too(tmp_path: Path) -> None:
    case = Path(__file__).parent / "data" / "cases" / "r08_results.json"
    export([case], "parquet", tmp_path / "out")
    told = json.loads(report_json(pipeline.analyze([case])))
    for name, key in (("devices", "device_time"), ("unanswered", "unanswered")):
        assert parquet.read_table(tmp_path / "out" / f"report_{name}.parquet").to_pylist() == told[key] != []


def test_counters_are_a_table_too(tmp_path: Path) -> None:
    counters = Path(__file__).parent / "data" / "counters" / "mi350"
    export([counters], "parquet", tmp_path / "out")
    told = json.loads(report_json(pipeline.analyze([counters])))
    rows = parquet.read_table(tmp_path / "out" / "report_counters.parquet").to_pylist()
    assert rows == told["counters"]["rows"] != []


def test_the_manifest_says_where_it_is_from(exported: Path) -> None:
    for to in ("parquet", "arrow", "csv"):
        said = json.loads((exported / to / "manifest.json").read_text())
        assert (said["to"], said["trust"], said["outcome"]) == (to, "complete", "ok_with_warnings")
        assert [source["path"] for source in said["sources"]] == [str(GRAPH)]
        files = {path.name for path in (exported / to).iterdir()} - {"manifest.json"}
        assert {table["file"] for table in said["tables"]} == files
        assert {table["bytes"] for table in said["tables"]} == {(exported / to / name).stat().st_size for name in files}
        assert "samples" in said["without_rows"]


HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "a,b",
    'say "hi"',
    "two\nlines",
    "\x00\x1b[2J",
    "＝1",
    "plain",
    "名前",
]


def hostile(folder: Path) -> list[dict[str, str]]:
    """Kernels of hostile names, out as CSV and in by the csv module."""
    rec = recording(folder, [kernel(10.0 * n, 1.0, 0, name) for n, name in enumerate(HOSTILE, 1)])
    exporting.asked("csv", [folder], folder / "out").write(rec, unjudged(rec))
    with (folder / "out" / "kernels.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def test_no_cell_begins_a_formula(tmp_path: Path) -> None:
    names = [row["name"] for row in hostile(tmp_path)]
    assert names[:4] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)"]
    assert names[4:] == ["\\t=1", "a,b", 'say "hi"', "two\\nlines", "\\x00\\x1b[2J", "'＝1", "plain", "名前"]
    for path in (tmp_path / "out").glob("*.csv"):
        for row in csv.reader(path.open(encoding="utf-8", newline="")):
            assert not [cell for cell in row if cell.startswith(("=", "+", "@", "\t", "\r"))], path.name
    frame = pd.read_csv(tmp_path / "out" / "kernels.csv")
    assert frame["name"].tolist() == names
    assert frame["start_ns"].tolist() == [10_000 * n for n in range(1, len(HOSTILE) + 1)]
    assert b"\r\n" in (tmp_path / "out" / "kernels.csv").read_bytes()


def test_negative_numbers_stay_numbers(tmp_path: Path) -> None:
    events = [kernel(10.0, -2.5, 0, "damaged"), kernel(20.0, 1.0, 0, "sound")]
    export(write_trace(tmp_path / "t.json", events), "csv", tmp_path / "out", judged=False)
    assert pd.read_csv(tmp_path / "out" / "kernels.csv")["dur_ns"].tolist() == [-2_500, 1_000]
    assert csv_tables.inert("-2500") == "'-2500"  # a text is one, whatever it looks like


def test_unknown_is_null_and_never_a_number(tmp_path: Path) -> None:
    events = [step(5.0, 10.0, "execute_new"), launch(6.0, 1), kernel(10.0, 1.0, 1, "a"), kernel(20.0, 1.0, 0, "b")]
    del (untimed := kernel(0.0, 0.0, 0, "c"))["ts"]
    traced = write_trace(tmp_path / "t.json", [*events, untimed, op(1.0, 2.0, "no_shape")])
    for to in ("parquet", "csv"):
        export(traced, to, tmp_path / to, judged=False)
    rows = parquet.read_table(tmp_path / "parquet" / "kernels.parquet").to_pylist()
    assert [row["step"] for row in rows] == [0, None, None]
    assert [row["grid"] for row in rows] == [None, None, None]
    assert [(row["start_ns"], row["timed"]) for row in rows] == [(10_000, True), (20_000, True), (None, False)]
    steps = parquet.read_table(tmp_path / "parquet" / "steps.parquet").to_pylist()
    assert (steps[0]["rows"], steps[0]["phase"]) == (None, "unknown")
    assert parquet.read_table(tmp_path / "parquet" / "ops.parquet").to_pylist()[0]["dims"] is None
    with (tmp_path / "csv" / "kernels.csv").open(newline="") as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["0", "", ""]


def test_extreme_numbers_survive(tmp_path: Path) -> None:
    largest = 2**63 - 1
    events = [kernel(10.0, 1.0, largest, "a", stream=-(2**63)), kernel(20.0, 1.0, 0, "b", stream=largest)]
    traced = write_trace(tmp_path / "t.json", events)
    for to in ("parquet", "arrow", "csv"):
        export(traced, to, tmp_path / to, judged=False)
    frames: list[Any] = [
        pd.read_parquet(tmp_path / "parquet" / "kernels.parquet"),
        pd.read_feather(tmp_path / "arrow" / "kernels.arrow"),
        pd.read_csv(tmp_path / "csv" / "kernels.csv"),
    ]
    for frame in frames:
        assert frame["stream"].tolist() == [-(2**63), largest]
        assert frame["correlation"].tolist() == [largest, 0]


def test_a_live_recording_has_its_tables(tmp_path: Path) -> None:
    live = GRAPH.parent / "live-cpu-moe-tp2"
    done = export(live, "parquet", tmp_path / "out")
    rec = pipeline.read([live])
    wrote = {row.path.removesuffix(".parquet"): row.rows for row in done.files}
    for name, table in rec.tables.items():
        assert wrote.get(name, 0) == len(table), name
    samples = duckdb.sql(f"select name, avg(value) from '{tmp_path}/out/samples.parquet' group by name").fetchall()
    assert len(samples) > 3


def test_a_benchmark_alone_has_tables(tmp_path: Path) -> None:
    done = export(shared_or_skip("cases/b01_serve_v033.json"), "csv", tmp_path / "out")
    assert "report_bench.csv" in {row.path for row in done.files}
