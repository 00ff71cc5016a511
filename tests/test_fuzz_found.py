"""What the fuzzers found, by hand: one small input each that once ended in a failed analyzer, a crash or false output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import counter_kit
import pytest
import recording_kit as kit
from builders import kernel, write_trace

from m3probe import exporting, pipeline
from m3probe.errors import UnreadableInput
from m3probe.model.report import Report
from m3probe.present.json import report_json
from m3probe.present.text import report_text
from m3probe.readers.tuned_tables import read_tuned_table
from m3probe.schema import records
from m3probe.sources import open_recording


def whole(found: Report) -> dict[str, Any]:
    """The report as JSON; no analyzer failed."""
    failed = [finding.claim for finding in found.answer.findings if finding.id.endswith(".failed")]
    assert failed == []
    document: dict[str, Any] = json.loads(report_json(found))
    return document


@pytest.mark.parametrize(("rank", "known"), [(2**53 + 1, None), (-5, None), (2**20, None), (2**20 - 1, 2**20 - 1)])
def test_a_guest_of_a_rank_that_cannot_be(tmp_path: Path, rank: int, known: int | None) -> None:
    rec = kit.read(tmp_path, kit.steps(kit.count(steps=3)), rank=rank, world=2**53)
    assert (rec.files[0].rank, rec.files[0].world_size) == (known, None)
    whole(pipeline.report(rec))


def test_a_guest_whose_clocks_cannot_be(tmp_path: Path) -> None:
    sample = records.Sample(mono_ns=2**63 - 1, source="metrics", values={"vllm:num_requests_running": 1.0})
    rec = kit.read(tmp_path, records.Clock(mono_ns=0, wall_ns=2**63 - 1), sample, kit.steps(kit.count()))
    assert rec.files[0].base_time_ns is None
    assert rec.tables["samples"]["mono_ns"].tolist() == [-1]
    whole(pipeline.report(rec))


@pytest.mark.parametrize("base", [2**62, 10**30, -(2**63)])
def test_a_trace_that_begins_when_no_trace_can(tmp_path: Path, base: int) -> None:
    rec = open_recording([write_trace(tmp_path / "t.json", [kernel(1.0, 2.0, 0, "k")], baseTimeNanoseconds=base)])
    assert rec.files[0].base_time_ns is None
    whole(pipeline.report(rec))


def test_a_verdict_that_is_no_word_of_ours(tmp_path: Path) -> None:
    one = records.Verified(module="m.mlp", state="fine, trust me", cosine=0.5)
    found = kit.judged(tmp_path, one, kit.steps(kit.count()))
    (row,) = whole(found)["live"]["verified"]
    assert (row["state"], row["cosine"], row["max_error"]) == ("cannot verify", 0.5, None)
    assert "m.mlp on rank 0 cannot verify: cosine 0.500000 (" in report_text(found, 200, color=False)


def test_a_record_that_counts_what_cannot_be_stands_for_itself(tmp_path: Path) -> None:
    moved = [records.KvTransfer(connector="c", direction="load", seam="s", count=n) for n in (2**60, -3, 2)]
    found = kit.judged(tmp_path, *moved, kit.steps(kit.count()))
    (row,) = [row for row in whole(found)["bytes"]["state"] if row["what"] == "KV load by c"]
    assert row["count"] == 1 + 1 + 2


def test_losses_that_are_counted_below_zero_are_losses(tmp_path: Path) -> None:
    ended = kit.end(dropped={"steps": -7})
    said = records.Note(word="queue_full", text="x", count=-1, lossy=True)
    found = kit.judged(tmp_path, said, kit.steps(kit.count()), ended)
    notes = {note["word"]: note["count"] for note in whole(found)["notes"]}
    assert (notes["dropped"], notes["queue_full"]) == (1, 1)


def test_a_pool_of_unknown_size_is_no_row(tmp_path: Path) -> None:
    found = kit.judged(tmp_path, records.KvPool(bytes=5, blocks=-1), kit.steps(kit.count()))
    assert not [row for row in whole(found)["bytes"]["state"] if row["what"] == "cache pool"]


def test_a_table_of_kernels_that_took_no_time_has_no_shares(tmp_path: Path) -> None:
    path = tmp_path / "501_kernel_stats.csv"
    path.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n"Cijk_a",2,0,0,0,0,0,0\n'
    )
    found = pipeline.report(open_recording([path]))
    whole(found)
    claims = [finding.claim for finding in found.answer.findings if finding.id.startswith("kernel_tables.largest")]
    assert all("%" not in claim for claim in claims)


def test_findings_on_counters_have_no_place_on_a_time_line(tmp_path: Path) -> None:
    values = {"TCC_EA0_RDREQ_sum": 2**21, "TCC_EA0_RDREQ_32B_sum": 0, "SQ_WAVES": 5}
    folder = tmp_path / "in"
    folder.mkdir()
    path = counter_kit.counted(folder, values, "gfx950")
    rec = open_recording([path])
    report = pipeline.report(rec)
    assert {one.table for finding in report.answer.findings for one in finding.evidence} & {"counter_values"}
    with pytest.raises(UnreadableInput, match="nothing to export"):
        exporting.asked("chrome", [path], tmp_path / "out").write(rec, report)


def test_a_cell_of_a_tuned_table_is_not_told_at_length() -> None:
    with pytest.raises(UnreadableInput, match=r"column cu_num: 'a{80}' is no whole number") as caught:
        read_tuned_table(b"cu_num,M,N,K,us\n" + b"a" * 9_000 + b",1,1,1,5.5\n", "gemm.csv")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("date", "seconds", "span_s"),
    [
        ("20261120-101500", 1e18, 0),
        ("20261120-101500", float("inf"), 0),
        ("20261120-101500", 90.0, 90),
        ("00010101-000000", 90.0, None),
        ("99991231-235959", 90.0, None),
    ],
)
def test_a_run_of_a_length_or_date_that_cannot_be_is_on_a_clock_that_can(
    tmp_path: Path, date: str, seconds: float, span_s: int | None
) -> None:
    run = {"date": date, "backend": "vllm", "model_id": "m3", "duration": seconds, "completed": 10, "failed": 0}
    run |= {"total_output_tokens": 100, "request_throughput": 2.0, "output_throughput": 20.0, "mean_ttft_ms": 1.0}
    (tmp_path / "bench.json").write_text(json.dumps(run))
    rec = pipeline.read([tmp_path / "bench.json"])
    told = pipeline.report(rec)
    (row,) = whole(told)["clocks"]
    length = None if row["first_ns"] is None else row["last_ns"] - row["first_ns"]
    assert length == (None if span_s is None else span_s * 10**9)
    with pytest.raises(UnreadableInput, match="none of its rows has a place on a clock"):
        exporting.asked("chrome", [tmp_path / "bench.json"], tmp_path / "out.json.gz").write(rec, told)
