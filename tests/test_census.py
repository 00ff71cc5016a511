"""The graph census: what a capture trace proves about replays whose kernels were lost."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, step, write_trace
from tree import shared_or_skip

from m3probe import pipeline
from m3probe.kernels.census import CensusGraph, match_step
from m3probe.model.executed import executed
from m3probe.model.path_report import PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, SummarySection, TrustSection
from m3probe.schema.verdicts import Evidence
from m3probe.sources import open_recording

PAIRS = {"vllm_decode_full": (421, 1), "vllm_prefilldecode_piecewise": (361, 25)}
"""Folder -> (kernels captured, graphs), counted in the files with plain json (formats.md, m3.md H2)."""


def call(ts: float, name: str, correlation: int = 0) -> dict[str, Any]:
    return launch(ts, correlation, name)


def captured(ts: float, kernels: list[str]) -> list[dict[str, Any]]:
    """One capture: begin, a launch per kernel inside an op with shapes, end."""
    found = [call(ts, "hipStreamBeginCapture")]
    for i, name in enumerate(kernels):
        at = ts + 1 + i
        args = {"Input Dims": [[8, 64], [64, 32]], "Input type": ["float", "float"]}
        found.append({**step(at, 0.75, "aten::mm"), "cat": "cpu_op", "args": args})
        found.append({**launch(at + 0.25, 0, kernel=name, grid=[i + 1, 1, 1]), "dur": 0.25})
    return [*found, call(ts + 1 + len(kernels), "hipStreamEndCapture")]


def folder(tmp_path: Path, replays: list[list[str]]) -> Path:
    """A vLLM profile folder: graphs of 8 rows (a b b) and 16 rows (a c) captured, decode steps replayed."""
    (tmp_path / "capture_traces").mkdir()
    capture = [
        {**step(0.0, 40.0, "capture_8_FULL")},
        *captured(1.0, ["a", "b", "b"]),
        {**step(50.0, 40.0, "capture_16_FULL")},
        *captured(51.0, ["a", "c"]),
    ]
    write_trace(tmp_path / "capture_traces" / "graph_capture_rank_0.1.pt.trace.json", capture)
    events: list[dict[str, Any]] = []
    for i, names in enumerate(replays):
        at = 1000.0 * (i + 1)
        events += [step(at, 100.0, "execute_context_0(0)_generation_6(6)"), call(at + 1, "hipGraphLaunch", i + 1)]
        events += [kernel(at + 200 + 10 * j, 5.0, i + 1, name) for j, name in enumerate(names)]
    write_trace(tmp_path / "dp0_pp0_tp0_dcp0_ep0_rank0.2.pt.trace.json", events)
    return tmp_path


def reasons(rec: Recording) -> dict[str, str]:
    section = pipeline.report(rec).answer.section(TrustSection)
    assert section is not None
    return {r.word: r.text for r in section.trust.reasons}


def test_whole_replays_take_op_dims_and_grid_from_the_census(tmp_path: Path) -> None:
    rec = open_recording([folder(tmp_path, [["a", "b", "b"], ["b", "a", "b"]])])
    ran = executed(rec)
    assert len(ran) == 6
    assert ran.evidence is Evidence.KERNELS
    assert {rec.strings[i] for i in ran.op.tolist()} == {"aten::mm"}
    # the second replay came in another order: its "a" is still the census's first launch
    grids = [(rec.strings[n], rec.dims[g]) for n, g in zip(ran.name.tolist(), ran.grid.tolist(), strict=True)]
    assert grids[3:] == [("b", (2, 1, 1)), ("a", (1, 1, 1)), ("b", (3, 1, 1))]
    assert reasons(rec) == {}


def test_replays_without_kernels_are_counted_from_the_census_and_have_no_time(tmp_path: Path) -> None:
    rec = open_recording([folder(tmp_path, [[], []])])
    ran = executed(rec)
    assert Counter(rec.strings[i] for i in ran.name.tolist()) == {"a": 2, "b": 4}
    assert ran.evidence is Evidence.CENSUS
    assert set(ran.dur_ns.tolist()) == {-1}
    assert reasons(rec) == {
        "fewer_kernels_than_census": "fewer kernels than the census: 0 recorded, 6 captured x replayed"
    }


def test_a_replay_that_lost_kernels_shows_both_numbers(tmp_path: Path) -> None:
    rec = open_recording([folder(tmp_path, [["a", "b"], ["a", "b", "b"]])])
    assert len(executed(rec)) == 6
    assert "5 recorded, 6 captured" in reasons(rec)["fewer_kernels_than_census"]


def test_a_foreign_replay_is_matched_to_nothing(tmp_path: Path) -> None:
    rec = open_recording([folder(tmp_path, [["a", "z"]])])
    assert (rec.launches["graph"] == -1).all()
    assert len(executed(rec)) == 2


def test_the_census_of_one_rank_says_nothing_of_another(tmp_path: Path) -> None:
    path = folder(tmp_path, [[]])
    only = path / "dp0_pp0_tp0_dcp0_ep0_rank0.2.pt.trace.json"
    document = json.loads(only.read_text())
    document["distributedInfo"] = {"rank": 1, "world_size": 2}
    (path / "dp0_pp0_tp1_dcp0_ep1_rank1.2.pt.trace.json").write_text(json.dumps(document))
    rec = open_recording([path])
    graph = rec.launches["graph"]
    assert [int(graph[i]) >= 0 for i in range(len(graph))] == [True, False]
    assert "graph_launches_without_kernels" in reasons(rec)


def test_a_piecewise_step_without_kernels_is_matched_by_place_in_the_smallest_batch_that_fits() -> None:
    graphs = [CensusGraph(10 * size + i, "PIECEWISE", size, (size, i)) for size in (8, 16) for i in range(3)]
    found = match_step([(), (), ()], 12, graphs)
    assert [m.graph for m in found if m] == [160, 161, 162]  # 12 rows do not fit the graphs of 8
    assert [m.short for m in found if m] == [2, 2, 2]
    assert match_step([()], 12, graphs) == [None]  # one launch is no three pieces


@pytest.mark.parametrize("name", PAIRS)
def test_both_mi300x_pairs_match_every_replay_in_order(name: str) -> None:
    rec = open_recording([shared_or_skip(f"traces/tracelens/inference/{name}")])
    kernels, graphs = PAIRS[name]
    launches = rec.launches
    replays = launches["kind"] == 2
    assert int(replays.sum()) == graphs
    assert (launches["graph"][replays] >= 0).all()
    assert len(rec.graphs) == kernels
    for key in ("op", "dims", "grid"):
        assert (rec.graphs[key] >= 0).all()
    ran = executed(rec)
    in_graph = ran.census >= 0
    assert int(in_graph.sum()) == kernels
    # in order: the census rows of the kernels by start are 0, 1, 2, ...
    starts = rec.kernels["start_ns"][ran.kernel[in_graph]]
    assert ran.census[in_graph][starts.argsort(kind="stable")].tolist() == list(range(kernels))


@pytest.mark.parametrize("name", PAIRS)
def test_with_all_graph_kernels_removed_counts_and_shapes_stay(tmp_path: Path, name: str) -> None:
    source = shared_or_skip(f"traces/tracelens/inference/{name}")
    document = json.loads(gzip.decompress((source / "graph_execution.json.gz").read_bytes()))
    replays = {
        e["args"]["correlation"] for e in document["traceEvents"] if e.get("name") == "hipGraphLaunch" and "args" in e
    }
    document["traceEvents"] = [
        e for e in document["traceEvents"] if not (e.get("cat") == "kernel" and e["args"]["correlation"] in replays)
    ]
    (tmp_path / "capture_traces").mkdir()
    capture = next((source / "capture_traces").glob("graph_capture*"))
    (tmp_path / "capture_traces" / capture.name).write_bytes(capture.read_bytes())
    (tmp_path / "graph_execution.json").write_text(json.dumps(document))
    whole, stripped = open_recording([source]), open_recording([tmp_path])

    def counted(rec: Recording) -> Counter[tuple[str, int, str, int]]:
        ran = executed(rec)
        texts = [*rec.strings.texts, ""]  # -1 is the empty text
        rows = zip(ran.name.tolist(), ran.family.tolist(), ran.dims.tolist(), ran.step.tolist(), strict=True)
        return Counter((texts[n], f, texts[d], s) for n, f, d, s in rows)

    assert counted(whole) == counted(stripped)
    assert executed(stripped).evidence is Evidence.CENSUS
    assert "fewer_kernels_than_census" in reasons(stripped)
    before, after = pipeline.report(whole).answer, pipeline.report(stripped).answer
    assert path_verdicts(before) == path_verdicts(after)
    assert by_family(before) == by_family(after)
    summary = after.section(SummarySection)
    assert summary is not None
    assert all(row.share is None for row in summary.summary.families)


def by_family(answer: Answer) -> dict[str, int]:
    section = answer.section(SummarySection)
    assert section is not None
    return {row.family: row.count for row in section.summary.families}


def path_verdicts(answer: Answer) -> list[tuple[str, str, str]]:
    section = answer.section(PathsSection)
    assert section is not None
    return [(row.id, row.verdict, row.variant) for row in section.paths]
