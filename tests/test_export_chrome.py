"""``export --to chrome``, read back by our own reader: the same rows, and the same report of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, step, write_trace
from export_kit import GRAPH, export, ns, raw_events
from tree import ROOT, shared_or_skip

from m3probe import exporting, pipeline
from m3probe.errors import UsageError
from m3probe.model.recording import Recording
from m3probe.model.tables import TABLES
from m3probe.present.json import report_json

CASES = sorted(
    path.name
    for path in (ROOT / "tests" / "data" / "cases").glob("k*")
    if not path.name.endswith(".expected.json") and not path.name.startswith("k17")  # two writers: no recording
)
ANSWERS = ("summary", "steps", "shapes", "repeats", "bytes", "paths", "findings", "next_bottleneck", "ranking", "trust")


def columns(rec: Recording, table: str) -> dict[str, list[Any]]:
    """A table as plain values, ids resolved."""
    found: dict[str, list[Any]] = {}
    for column in TABLES[table]:
        values = rec.tables[table][column.name].tolist()
        if column.unit == "string id":
            values = rec.strings.of(values)
        elif column.unit == "row of dims":
            values = [rec.dims[value] if value >= 0 else None for value in values]
        found[column.name] = values
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_row_of_a_case_comes_back(tmp_path: Path, case: str) -> None:
    source = shared_or_skip(f"cases/{case}")
    out = tmp_path / ("out" if source.is_dir() else "out.json")
    export(source, "chrome", out, judged=False)
    before, after = pipeline.read([source]), pipeline.read([out])
    for table in ("steps", "kernels", "launches", "ops", "transfers"):
        told = columns(before, table)
        if source.is_dir():  # of a folder, files without kernels are left out
            del told["file"], (again := columns(after, table))["file"]
            assert again == told, table
        else:
            assert columns(after, table) == told, table
    losses = [note for note in before.notes if note.lossy]
    assert bool([note for note in after.notes if note.lossy]) is bool(losses)
    assert [f.rank for f in after.files] == [f.rank for f in before.files if f.role == "rank"]


@pytest.mark.parametrize("sample", ["graph", "eager"])
def test_a_real_trace_gives_the_same_report(tmp_path: Path, sample: str) -> None:
    source = GRAPH.with_name(f"h200-m3-tp4rank-{sample}.pt.trace.json.gz")
    export(source, "chrome", tmp_path / "out.json.gz")
    before = json.loads(report_json(pipeline.analyze([source])))
    after = json.loads(report_json(pipeline.analyze([tmp_path / "out.json.gz"])))
    for key in ANSWERS:
        assert after[key] == before[key], key
    kernels = [
        [(e["name"], ns(e["ts"]), ns(e["dur"])) for e in of if e.get("cat") == "kernel"]
        for of in events(source, tmp_path)
    ]
    assert sorted(kernels[0]) == sorted(kernels[1])


def events(source: Path, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return raw_events(source), raw_events(folder / "out.json.gz")


def test_what_was_judged_stands_beside_the_kernels(tmp_path: Path) -> None:
    decode = "execute_context_0(0)_generation_2(2)"
    traced = write_trace(
        tmp_path / "t.json", [step(100.0, 50.0, decode), launch(102.0, 1), kernel(110.5, 20.25, 1, "Cijk_a")]
    )
    export(traced, "chrome", tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text()
    own = [event for event in json.loads(text)["traceEvents"] if event.get("cat") == "m3probe"]
    phase = [event for event in own if event["name"] == "decode"]
    assert [(event["ts"], event["dur"]) for event in phase] == [(110.5, 20.25)]
    assert {event["ph"] for event in own} == {"X", "i"}
    assert '"ts":110.500,"dur":20.250' in text
    names = {e["args"]["name"] for e in json.loads(text)["traceEvents"] if e["ph"] == "M" and "name" in e["args"]}
    assert {"m3probe: rank 0", "phases (GPU)", "families GPU 0", "findings"} <= names


def test_several_ranks_are_a_folder_of_files(tmp_path: Path) -> None:
    source = shared_or_skip("cases/k23_rank_set")
    done = export(source, "chrome", tmp_path / "out", judged=False)
    ranks = [file.rank for file in pipeline.read([source]).files if file.role == "rank"]
    assert sorted(row.path for row in done.files) == sorted(f"rank{rank}.trace.json.gz" for rank in ranks)
    with gzip.open(tmp_path / "out" / done.files[0].path) as file:
        assert json.load(file)["traceEvents"]
    with pytest.raises(UsageError, match="a Chrome file holds one"):
        export(source, "chrome", tmp_path / "one.json")
    assert not (tmp_path / "one.json").exists()


def test_a_loss_stays_a_loss(tmp_path: Path) -> None:
    source = shared_or_skip("cases/k15_truncated.json")
    done = export(source, "chrome", tmp_path / "out.json")
    assert any("truncated file" in sentence for sentence in done.lost)
    before, after = pipeline.analyze([source]), pipeline.analyze([tmp_path / "out.json"])
    assert (after.outcome, before.outcome) == ("partial", "partial")
    assert "exported from a recording that was not whole" in after.notes[0].text
    said = [json.loads(report_json(report))["trust"]["verdict"] for report in (before, after)]
    assert said == ["degraded", "degraded"]
    export(tmp_path / "out.json", "chrome", tmp_path / "again.json")
    assert pipeline.analyze([tmp_path / "again.json"]).outcome == "partial"


def test_a_header_of_somebody_else_is_no_loss(tmp_path: Path) -> None:
    for said in ("x", {"made_by": "another"}, {"made_by": "m3probe export", "outcome": "ok"}, None):
        traced = write_trace(tmp_path / "t.json", [kernel(1.0, 1.0, 0, "a")], m3probe=said)
        assert pipeline.read([traced]).outcome != "partial"
    odd = {"made_by": "m3probe export", "outcome": "partial", "lost": 3, "events_lost": "many", "truncated": 1}
    traced = write_trace(tmp_path / "t.json", [kernel(1.0, 1.0, 0, "a")], m3probe=odd)
    assert pipeline.read([traced]).outcome == "partial"


def test_times_survive_to_the_nanosecond_at_every_size(tmp_path: Path) -> None:
    starts = [-1_500, -1, 1, 999, 1_000, 2**53 + 1, 1_764_000_000 * 10**9 + 1, 2**60 + 7]
    names = [f"k{n}" for n in range(len(starts))]
    text = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":0,"ts":{"-" if s < 0 else ""}{abs(s) // 1000}.'
        f'{abs(s) % 1000:03d},"dur":1.001,"args":{{"device":0,"stream":0}}}}'
        for name, s in zip(names, starts, strict=True)
    )
    (tmp_path / "t.json").write_text(f'{{"schemaVersion":1,"traceEvents":[{text}]}}')
    export(tmp_path / "t.json", "chrome", tmp_path / "out.json", judged=False)
    after = pipeline.read([tmp_path / "out.json"])
    assert after.kernels["start_ns"].tolist() == starts
    assert after.kernels["dur_ns"].tolist() == [1_001] * len(starts)


def test_names_survive_as_they_were(tmp_path: Path) -> None:
    names = ["nul\x00", "\x1b[2J", 'quote " back \\', "名前", "_Z3fooIiEvT_.kd"]
    export(
        write_trace(tmp_path / "t.json", [kernel(10.0 * n, 1.0, 0, name) for n, name in enumerate(names, 1)]),
        "chrome",
        tmp_path / "out.json",
        judged=False,
    )
    assert pipeline.read([tmp_path / "out.json"]).names("kernels") == names


def test_a_name_of_a_file_or_a_folder_says_which_it_is() -> None:
    one, several = [GRAPH], [GRAPH, GRAPH]
    assert exporting.asked("chrome", one, None).place.target.name == "h200-m3-tp4rank-graph.m3probe.json.gz"
    assert exporting.asked("chrome", several, None).place.folder
    assert exporting.asked("chrome", several, Path("x.json")).place.folder is False
