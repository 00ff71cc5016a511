"""Hardware counters are read: rocprofiler-compute's real tables against a recount by csv, rocprofv3's rows, damage."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from counter_kit import HEADER_62, counted, record, recount, results, row, write
from tree import shared_or_skip

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.readers import _counter_rows
from m3probe.sources import open_recording

MI350 = Path(__file__).parent / "data" / "counters" / "mi350"
BLOCKS = ("CPC", "CPF", "GRBM", "SPI", "SQ", "TA", "TCC", "TCP", "TD")


def facts(*paths: Path) -> dict[str, object]:
    return pipeline.inspect(open_recording(paths)).facts


def test_the_tables_of_a_real_mi350_are_one_run_and_each_counter_counts_once() -> None:
    found = facts(MI350)
    with (MI350 / "pmc_perf.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    plain = [n for n in rows[0] if n.startswith(BLOCKS) and "[" not in n]
    assert found["counters"] == {n: sum(float(one[n]) for one in rows) for n in plain}
    assert found["counters"] == recount(MI350, BLOCKS)
    assert len(plain) == 251
    assert (found["dispatches"], found["distinct_kernel_names"]) == (3, 1)
    assert found["table_rows"] == 6 * 3 + 1  # three rows in six tables, one in sysinfo.csv
    assert (found["gfx"], found["units"], found["wave_size"], found["rocm"]) == ("gfx950", 128, 64, "6.5.0-831")
    assert (found["compute_partition"], found["memory_partition"]) == ("SPX", "NPS1")


def test_the_whole_real_folder_gives_the_same_sums() -> None:
    whole = shared_or_skip("traces/mi350-counters")
    assert facts(whole)["counters"] == facts(MI350)["counters"] == recount(whole, BLOCKS)


def test_a_value_has_the_time_of_the_run_that_counted_it() -> None:
    rec = open_recording([MI350])
    values, rows = rec.tables["counter_values"].df(), rec.tables["counted"].df()
    with (MI350 / "pmc_perf_5.csv").open(newline="") as file:
        wanted = [
            (float(r["TCC_EA0_RDREQ_sum"]), int(r["End_Timestamp"]) - int(r["Start_Timestamp"]))
            for r in csv.DictReader(file)
        ]
    reads = values[values.counter == "TCC_EA0_RDREQ_sum"].sort_values("counted")
    assert list(zip(reads.value, reads.time_ns, strict=True)) == wanted
    assert (rows.groups.tolist(), rows.group_items.tolist(), rows.vgprs.tolist()) == ([4096] * 3, [256] * 3, [4] * 3)


def test_a_column_that_stands_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "pmc_perf.csv").write_text(
        "Dispatch_ID,GPU_ID,Kernel_Name,Wave_Size,TCC_HIT_sum,TCC_HIT_sum\n0,0,gemm,64,5,5\n1,0,gemm,64,7,7\n"
    )
    assert facts(tmp_path / "pmc_perf.csv")["counters"] == {"TCC_HIT_sum": 12}


def test_one_table_of_a_run_can_be_given_alone() -> None:
    assert facts(MI350 / "pmc_perf_5.csv")["kernel_time_ns"] == 21_679 + 16_719 + 16_920
    # the merged table has mean times of the passes, with fractions: 21762.0, 16919.8, 16864.2
    assert facts(MI350 / "pmc_perf.csv")["kernel_time_ns"] == 21_762 + 16_920 + 16_864
    assert facts(MI350 / "pmc_dispatch_info.csv")["dispatches"] == 3


def test_a_dispatch_and_its_time_count_once_however_many_counters_it_has(tmp_path: Path) -> None:
    rows = [
        row(d, name, d * n) for d in (1, 2, 3) for n, name in enumerate(("SQ_WAVES", "GRBM_COUNT", "TCC_HIT_sum"), 1)
    ]
    found = facts(write(tmp_path / "1_counter_collection.csv", rows))
    assert (found["dispatches"], found["table_rows"], found["kernel_time_ns"]) == (3, 9, 60_000)
    assert found["counters"] == {"SQ_WAVES": 6, "GRBM_COUNT": 12, "TCC_HIT_sum": 18}
    assert found["agents"] == ["1"]


def test_the_rows_of_rocm_62_have_no_times_and_none_is_made_up(tmp_path: Path) -> None:
    rows = [row(1, "SQ_WAVES", 16384, Agent_Id=4), row(1, "SQ_INSTS_VALU", 0.5, Agent_Id=4)]
    path = write(tmp_path / "counter_collection.csv", rows, HEADER_62)
    found = pipeline.inspect(open_recording([path]))
    assert (found.kind, found.outcome, found.warnings) == ("rocprofv3-csv", "ok", ())
    assert found.facts["counters"] == {"SQ_WAVES": 16384, "SQ_INSTS_VALU": 0.5}
    assert "kernel_time_ns" not in found.facts


def test_dispatch_ids_are_unique_in_one_process_only(tmp_path: Path) -> None:
    rows = [row(1, "SQ_WAVES", 1, Process_Id=pid) for pid in (1, 2)]
    assert facts(write(tmp_path / "counter_collection.csv", rows))["dispatches"] == 2


def test_a_table_is_read_gzipped_and_in_a_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "x_counter_collection.csv", [row(1, "SQ_WAVES", 2)])
    (tmp_path / "y_counter_collection.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert facts(tmp_path)["counters"] == {"SQ_WAVES": 4}


def test_values_that_are_no_numbers_are_lost_and_told(tmp_path: Path) -> None:
    values = ["3", "nan", "inf", "x", "", "1e300", "\u202e7"]
    path = write(tmp_path / "counter_collection.csv", [row(i, "SQ_WAVES", v) for i, v in enumerate(values)])
    rec = open_recording([path])
    assert facts(path)["counters"] == {"SQ_WAVES": 3}
    assert [(n.word, n.count, n.lossy) for n in rec.notes] == [("bad_values", 5, True)]  # an empty cell is not known
    assert len(rec.tables["counted"]) == 7


@pytest.mark.parametrize("cell", ["9" * 30, "-5", "x", "1e5", ""])
def test_a_size_or_id_that_is_none_is_not_known(tmp_path: Path, cell: str) -> None:
    one = row(1, "SQ_WAVES", 1, Grid_Size=cell, VGPR_Count=cell, Start_Timestamp=cell, End_Timestamp=2**63)
    rec = open_recording([write(tmp_path / "counter_collection.csv", [one])])
    table = rec.tables["counted"]
    assert (table["groups"].tolist(), table["time_ns"].tolist()) == ([-1], [-1])
    pipeline.report(rec)


def test_rows_of_another_width_are_lost_and_told(tmp_path: Path) -> None:
    path = write(tmp_path / "counter_collection.csv", [row(1, "SQ_WAVES", 1), row(2, "SQ_WAVES", 5)])
    path.write_text(path.read_text() + "1,2,3\n")
    rec = open_recording([path])
    assert [(n.word, n.count) for n in rec.notes if n.lossy] == [("lost_rows", 1)]
    assert facts(path)["counters"] == {"SQ_WAVES": 6}


def test_a_table_of_damaged_rows_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "counter_collection.csv"
    path.write_text(",".join(HEADER_62) + "\n1,2,3\n")
    with pytest.raises(UnreadableInput, match="column count mismatch"):
        open_recording([path])


def test_more_dispatches_and_values_than_are_kept_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_counter_rows, "MOST_VALUES", 5)
    monkeypatch.setattr(_counter_rows, "MOST_DISPATCHES", 3)
    rows = [row(d, name, 1) for d in range(4) for name in ("SQ_WAVES", "GRBM_COUNT")]
    rec = open_recording([write(tmp_path / "counter_collection.csv", rows)])
    assert (len(rec.tables["counted"]), len(rec.tables["counter_values"])) == (3, 5)
    assert [(n.word, n.count, n.lossy) for n in rec.notes] == [("many_values", 3, True)]


def test_counters_of_the_json_are_named_by_handle_and_instances_added_up(tmp_path: Path) -> None:
    names = {333: "TCC_EA0_RDREQ_sum", 334: "SQ_WAVES"}
    path = results(tmp_path / "r_results.json", [record(3, [(333, 10.0), (333, 12.0), (334, 128.0), (9, 1.0)])], names)
    found = pipeline.inspect(open_recording([path]))
    assert found.facts["counters"] == {"TCC_EA0_RDREQ_sum": 22, "SQ_WAVES": 128, "counter 9": 1}
    assert (found.facts["dispatches"], found.facts["table_rows"], found.facts["kernel_time_ns"]) == (1, 4, 800)
    rec = open_recording([path])
    table = rec.tables["counted"]
    assert (table["groups"].tolist(), table["vgprs"].tolist(), rec.names("counted")) == ([128], [8], ["gemm"])
    assert [(host.gfx, host.units) for host in rec.meta.counter_hosts] == [("gfx950", 256)]


def test_a_damaged_record_of_the_json_is_lost_alone(tmp_path: Path) -> None:
    bad = record(2, [(334, "many")])
    path = results(tmp_path / "r_results.json", [record(1, [(334, 5.0)]), bad, {}], {334: "SQ_WAVES"})
    rec = open_recording([path])
    assert facts(path)["counters"] == {"SQ_WAVES": 5}
    assert [(n.word, n.count) for n in rec.notes if n.lossy] == [("lost_events", 2)]


def test_nothing_else_is_taken_for_a_table_of_counters(tmp_path: Path) -> None:
    for name, text in (
        ("a", "Dispatch_ID,Kernel_Name,Something\n1,k,2\n"),
        ("b", "gpu_arch\ngfx950\n"),
        ("c", "x,y\n1,2\n"),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text(text)
        with pytest.raises(UnreadableInput):
            open_recording([path])


def test_a_table_beside_that_is_damaged_costs_its_own_counters_alone(tmp_path: Path) -> None:
    for path in MI350.glob("pmc_perf_?.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "pmc_perf_9.csv").write_bytes((MI350 / "pmc_perf_4.csv").read_bytes().split(b"\n", 1)[0] + b"\n1,2\n")
    rec = open_recording([tmp_path])
    assert [(n.word, n.lossy) for n in rec.notes] == [("unread", True)]
    assert facts(tmp_path)["counters"] == recount_of_two()


def recount_of_two() -> dict[str, float]:
    sums: dict[str, float] = {}
    for name in ("pmc_perf_4.csv", "pmc_perf_5.csv"):
        with (MI350 / name).open(newline="") as file:
            for one in csv.DictReader(file):
                for key in (key for key in one if key.startswith(BLOCKS)):
                    sums[key] = sums.get(key, 0) + float(one[key])
    return sums


def test_what_the_agents_say_reaches_the_facts(tmp_path: Path) -> None:
    found = facts(counted(tmp_path, {"SQ_WAVES": 1}, gfx="gfx942", units=304))
    assert (found["gfx"], found["units"], found["wave_size"]) == ("gfx942", 304, 64)
