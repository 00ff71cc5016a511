"""Question 1 on traces written by hand and on the real ones: which M, N, K ran, how often, and what they prove: layout; real traces."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording
from shapes_kit import DECODE, H200_STEP, M3_KERNEL, answer, linears
from tree import shared_or_skip

from m3probe.model.m3_shapes import local_shapes
from m3probe.model.model_config import minimax_m3
from m3probe.model.recording import Recording
from m3probe.sources import open_recording

# --- layout ----------------------------------------------------------------------------------------------


def m3_pairs(tp: int) -> list[tuple[int, int]]:
    return [g.pair for g in local_shapes(minimax_m3(), tp) if g.kind == "linear"]


def m3(tmp_path: Path, pairs: list[tuple[int, int]], **meta: Any) -> Recording:
    """A decode step with these linears, and one kernel whose name gives M3 away."""
    events = [*linears(pairs), launch(0.5, 9000), kernel(30.0, 1.0, 9000, M3_KERNEL)]
    rec = recording(tmp_path, events)
    return replace(rec, meta=replace(rec.meta, **meta))


def test_whole_set_of_shapes_proves_the_layout(tmp_path: Path) -> None:
    rows, match, findings = answer(m3(tmp_path, m3_pairs(8)))
    assert match is not None
    assert (match.model, match.tp, match.ep, match.missing) == ("MiniMax M3", 8, None, ())
    assert [row.module for row in rows if (row.N, row.K) == (1536, 6144)] == ["qkv_sparse"]
    assert all(row.predicted for row in rows)
    assert findings["shapes.layout"].verdict == "proven"
    assert not {"shapes.layout_differs", "shapes.unpredicted"} & findings.keys()


def test_one_missing_shape_leaves_the_layout_unproven(tmp_path: Path) -> None:
    pairs = [pair for pair in m3_pairs(4) if pair != (2304, 6144)]
    rows, match, findings = answer(m3(tmp_path, pairs))
    assert match is None
    assert {row.predicted for row in rows} == {None}
    assert findings["shapes.layout"].verdict == "unproven"
    assert findings["shapes.layout"].evidence[0].expected == "not seen: qkv_dense [2304, 6144]"


def test_other_layout_than_given_shows_both_numbers(tmp_path: Path) -> None:
    rows, match, findings = answer(m3(tmp_path, m3_pairs(4), tp=8))
    assert match is not None
    assert match.tp == 4
    finding = findings["shapes.layout_differs"]
    assert finding.claim == "TP8 was given, but the shapes that ran are those of TP4"
    assert "qkv_sparse [2560, 6144]" in finding.evidence[0].observed
    assert "qkv_sparse [1536, 6144]" in finding.evidence[0].expected
    assert all(row.predicted for row in rows)


def test_foreign_shape_is_not_predicted_and_named(tmp_path: Path) -> None:
    rows, _, findings = answer(m3(tmp_path, [*m3_pairs(4), (777, 6144)]))
    assert [row.N for row in rows if row.predicted is False] == [777]
    assert "[777, 6144] x 1" in findings["shapes.unpredicted"].evidence[0].observed


def test_model_and_tp_given_by_the_user_predict_without_proof(tmp_path: Path) -> None:
    rec = recording(tmp_path, linears([(2560, 6144), (6144, 2048), (5, 7)]))
    rec = replace(rec, meta=replace(rec.meta, model=minimax_m3(), tp=4))
    rows, match, findings = answer(rec)
    assert match is None
    assert {row.N: row.predicted for row in rows} == {2560: True, 6144: True, 5: False}
    assert findings["shapes.layout"].verdict == "unproven"


def test_another_model_is_matched_with_nothing(tmp_path: Path) -> None:
    rows, match, findings = answer(recording(tmp_path, linears(m3_pairs(4))))
    assert match is None
    assert {row.predicted for row in rows} == {None}
    assert not any(name.startswith("shapes.layout") for name in findings)


def test_sparse_layers_of_another_model_prove_nothing_until_the_shapes_do(tmp_path: Path) -> None:
    names = ["_gqa_sparse_decode_kernel", "_decode_index_score_kernel"]
    sparse = [launch(0.1, 9001), launch(0.4, 9002)]
    sparse += [kernel(30.0 + i, 1.0, 9001 + i, name) for i, name in enumerate(names)]
    part = answer(recording(tmp_path, [*linears(m3_pairs(4)[:3]), *sparse]))
    assert part[1] is None
    assert "shapes.layout" not in part[2]
    whole = answer(recording(tmp_path, [*linears(m3_pairs(4)), *sparse]))
    assert whole[1] is not None
    assert whole[1].tp == 4


# --- real traces -------------------------------------------------------------------------------------------


def h200(kind: str) -> Path:
    return shared_or_skip(f"traces/h200-m3/h200-m3-tp4rank-{kind}.pt.trace.json.gz")


def test_h200_eager_decode_has_the_models_calls_per_step() -> None:
    rows, match, _ = answer(open_recording([h200("eager")]))
    decode = {(row.N, row.K): row.count for row in rows if row.phase == "decode"}
    assert decode == {pair: 9 * count for pair, count in H200_STEP.items()}
    assert {row.M for row in rows if row.phase == "decode"} == {8}
    prefill = {(row.N, row.K): row.count for row in rows if row.phase == "prefill"}
    assert prefill == H200_STEP
    # the lm_head multiplies the last row of each of the 8 requests only
    assert {(row.M, row.N == 200064) for row in rows if row.phase == "prefill"} == {(4000, False), (8, True)}
    assert all(row.predicted for row in rows)
    assert match is not None
    assert (match.tp, match.ep) == (4, None)
    assert any("shared expert runs as its own" in note for note in match.notes)
    assert any("lm_head not divided [200064, 6144]" in note for note in match.notes)


def test_h200_eager_histogram_is_what_plain_json_counts() -> None:
    path = h200("eager")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    ran = {e["args"]["correlation"] for e in events if e.get("cat") == "kernel"}
    calls = [
        e for e in events if e.get("cat") in {"cuda_runtime", "cuda_driver"} and e["args"].get("correlation") in ran
    ]
    times = sorted(e["ts"] for e in calls)
    expected: Counter[tuple[int, int, int]] = Counter()
    for e in events:
        if e.get("cat") == "cpu_op" and e["name"] in {"aten::mm", "_C::fp32_router_gemm"}:
            *_, (rows, depth), weight = e["args"]["Input Dims"]
            if any(e["ts"] <= t <= e["ts"] + e["dur"] for t in times):
                expected[rows, weight[0] if e["name"] != "aten::mm" else weight[1], depth] += 1
    got: Counter[tuple[int, int, int]] = Counter()
    for row in answer(open_recording([path]))[0]:
        got[row.M, row.N, row.K] += row.count
    assert got == expected


def test_h200_graph_lists_no_shape_of_the_replays() -> None:
    rows, match, findings = answer(open_recording([h200("graph")]))
    assert {(row.N, row.K): row.count for row in rows if row.phase == "decode"} == {(200064, 6144): 9}
    # 9 replays of 42 calls: 36 linears and 6 routers
    assert findings["shapes.unproven"].claim.startswith("378 of 430 GEMM calls")
    assert match is not None
    assert match.tp == 4  # by the prefill, which ran eager


@pytest.mark.parametrize("name", ["vllm_decode_full", "vllm_prefilldecode_piecewise"])
def test_census_alone_gives_the_same_histogram(tmp_path: Path, name: str) -> None:
    source = shared_or_skip(f"traces/tracelens/inference/{name}")
    document = json.loads(gzip.decompress((source / "graph_execution.json.gz").read_bytes()))
    events = document["traceEvents"]
    replays = {e["args"]["correlation"] for e in events if e.get("name") == "hipGraphLaunch" and "args" in e}
    kept = [e for e in events if not (e.get("cat") == "kernel" and e["args"]["correlation"] in replays)]
    assert len(events) - len(kept) == {"vllm_decode_full": 421, "vllm_prefilldecode_piecewise": 361}[name]
    (tmp_path / "capture_traces").mkdir()
    capture = next((source / "capture_traces").glob("graph_capture*"))
    (tmp_path / "capture_traces" / capture.name).write_bytes(capture.read_bytes())
    (tmp_path / "graph_execution.json").write_text(json.dumps({**document, "traceEvents": kept}))
    whole, _, _ = answer(open_recording([source]))
    stripped, _, _ = answer(open_recording([tmp_path]))
    assert stripped == whole
    assert {row.evidence for row in whole if row.count == 24} == {"census"}


def test_mi300x_tiles_and_grids_agree() -> None:
    rows, _, findings = answer(open_recording([shared_or_skip("traces/tracelens/inference/vllm_decode_full")]))
    got = {(row.M, row.N, row.K): (row.count, row.programs, row.grid, row.units) for row in rows}
    assert got == {
        (32, 32, 2880): (24, 4, (24, 1, 1), 304),  # 2 x 2 tiles of 16 x 16, each split in 6 along K
        (32, 2880, 4096): (24, 90, (90, 1, 1), 304),
        (32, 5120, 2880): (24, 160, (160, 1, 1), 304),
        (32, 201088, 2880): (1, 449, (449, 1, 1), 304),
    }
    assert "32x32x2880: 24 of 304 (4 tiles), 24 launches" in findings["shapes.starved.decode"].evidence[0].observed


def starved_by_plain_json(path: Path, units: int) -> tuple[int, int, int]:
    """(GEMM launches of decode below ``units``, those below 3/4 of it, their time with all split-K reductions)."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    begins = sorted(
        (round(e["ts"] * 1000), e["name"])
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith("execute_")
    )
    called = {
        e["args"]["correlation"]: round(e["ts"] * 1000)
        for e in events
        if e.get("cat") in {"cuda_runtime", "cuda_driver"} and "correlation" in e.get("args", {})
    }
    launches = few = time_ns = 0
    for e in events:
        if e.get("cat") != "kernel" or not any(w in e["name"] for w in ("nvjet", "router_gemm", "splitKreduce")):
            continue
        at = called[e["args"]["correlation"]]
        if [name for start, name in begins if start <= at][-1] != DECODE:
            continue
        x, y, z = e["args"]["grid"]
        if "splitKreduce" not in e["name"]:
            if x * y * z >= units:
                continue
            launches += 1
            few += 4 * x * y * z < 3 * units
        time_ns += round(e["dur"] * 1000)
    return launches, few, time_ns


@pytest.mark.parametrize("kind", ["graph", "eager"])
def test_h200_starved_launches_agree_with_plain_json_in_both_modes(kind: str) -> None:
    launches, few, time_ns = starved_by_plain_json(h200(kind), 132)
    assert (launches, few) == (378, 243)
    assert time_ns == {"graph": 4_382_521, "eager": 3_641_044}[kind]
    finding = answer(open_recording([h200(kind)]))[2]["shapes.starved.decode"]
    assert finding.claim.startswith(
        "In decode 378 of 387 GEMM launches start fewer workgroups than the 132 units "
        f"({time_ns:,} ns with their split-K reductions); 243 of them"
    )
    assert sum(e.count for e in finding.evidence) == 378


def test_h200_evidence_counts_are_those_of_the_claims() -> None:
    _, _, findings = answer(open_recording([h200("graph")]))
    assert [e.count for e in findings["shapes.unproven"].evidence] == [378]
    assert [e.count for e in findings["shapes.moe_unproven"].evidence] == [120]  # 12 in each of 10 steps


def test_xdit_shape_of_two_kernels_says_so() -> None:
    rows, _, _ = answer(open_recording([shared_or_skip("traces/tracelens/inference/xdit_sd_3.5")]))
    (row,) = [r for r in rows if (r.M, r.N, r.K) == (16384, 512, 512)]
    assert row.count == 4
    assert row.tile.startswith("several: MT64x512x32 x 3, MT128x224x64 x 1")
    assert row.programs is None
