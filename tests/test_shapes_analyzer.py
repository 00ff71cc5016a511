"""Question 1 on traces written by hand and on the real ones: which M, N, K ran, how often, and what they prove."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, op, recording, step, write_trace
from tree import shared_or_skip

from m3probe.analyzers.shapes import judge
from m3probe.model.findings import Finding
from m3probe.model.m3_shapes import local_shapes
from m3probe.model.model_config import minimax_m3
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, ModelMatch, Reason, ShapeRow, ShapesSection, TrustRow, TrustSection
from m3probe.sources import open_recording

DECODE = "execute_context_0(0)_generation_8(8)"
PREFILL = "execute_context_1(4000)_generation_0(0)"
BF16 = ["c10::BFloat16", "c10::BFloat16"]
GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float>"
UNITS = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132, "warpSize": 32}]}
M3_KERNEL = "_fused_minimax_m3_qknorm_rope_kernel"
# (N, K) -> calls per decode step, from the model: 3 dense and 6 sparse layers of a TP4 rank, vocabulary whole.
H200_STEP = {
    (2560, 6144): 6,  # qkv of sparse layers
    (2304, 6144): 3,  # qkv of dense layers
    (6144, 2048): 9,  # o_proj
    (1536, 6144): 6,  # shared gate_up
    (6144, 768): 6,  # shared down
    (6144, 6144): 3,  # dense gate_up
    (6144, 3072): 3,  # dense down
    (200064, 6144): 1,  # lm_head
    (128, 6144): 6,  # router
}


def mm(M: int, N: int, K: int) -> list[list[int]]:
    return [[M, K], [K, N]]


def call(
    at: float, number: int, name: str, dims: Any, types: Any = BF16, *, kernels: tuple[str, ...] = (GEMM,), **args: Any
):
    """An operator of 20 us that launches kernels of 10 us each."""
    events = [op(at, 20.0, name, dims, types)]
    for i, text in enumerate(kernels):
        events += [
            launch(at + 1 + 3 * i, 10 * number + i),
            kernel(at + 40 + 10 * i, 10.0, 10 * number + i, text, **args),
        ]
    return events


def linears(pairs: Any, M: int = 8, **args: Any) -> list[dict[str, Any]]:
    """One decode step with a mm of each (N, K)."""
    events = [step(0.0, 100.0 * len(pairs) + 50, DECODE)]
    for i, (N, K) in enumerate(pairs):
        events += call(100.0 * i + 1, i + 1, "aten::mm", mm(M, N, K), **args)
    return events


def answer(
    rec: Recording, so_far: Answer | None = None
) -> tuple[tuple[ShapeRow, ...], ModelMatch | None, dict[str, Finding]]:
    got = judge(rec, so_far or Answer())
    section = got.section(ShapesSection)
    assert section is not None
    return section.shapes, section.model_match, {finding.id: finding for finding in got.findings}


def counted(rows: tuple[ShapeRow, ...]) -> dict[tuple[str, int, int, int], int]:
    return {(row.phase, row.M, row.N, row.K): row.count for row in rows}


def test_expert_weights_in_the_arguments_are_two_grouped_gemms(tmp_path: Path) -> None:
    dims = [[8, 6144], [129, 1536, 6144], [129, 6144, 768], [8, 5], [8, 5]]
    events = [
        step(0.0, 90.0, DECODE),
        *call(1.0, 1, "vllm::rocm_aiter_fused_moe", dims, kernels=("fused_moe_kernel",) * 2),
    ]
    rows, _, findings = answer(recording(tmp_path, events))
    assert [(r.op, r.M, r.N, r.K, r.count) for r in rows] == [("moe", 8, 1536, 6144, 1), ("moe", 8, 6144, 768, 1)]
    assert rows[0].module == "moe_w13, 129 local experts, M before routing"
    assert rows[0].programs is None
    assert "shapes.moe_untuned" not in findings
    dims[1][0] = dims[2][0] = 128
    events = [step(0.0, 90.0, DECODE), *call(1.0, 1, "vllm::rocm_aiter_fused_moe", dims, kernels=("fused_moe_kernel",))]
    assert answer(recording(tmp_path, events))[2]["shapes.moe_untuned"].verdict == "unexpected"


# --- counting ------------------------------------------------------------------------------------------


def test_linear_around_matmul_around_mm_is_one_gemm(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), op(1.0, 30.0, "aten::linear", [[8, 6144], [2560, 6144]])]
    events += [op(2.0, 28.0, "aten::matmul", mm(8, 2560, 6144)), *call(3.0, 1, "aten::mm", mm(8, 2560, 6144))]
    rows, _, _ = answer(recording(tmp_path, events))
    assert [(r.op, r.M, r.N, r.K, r.count, r.evidence) for r in rows] == [("aten::mm", 8, 2560, 6144, 1, "kernels")]


def test_linear_and_mm_as_innermost_operators_share_a_row(tmp_path: Path) -> None:
    events = [step(0.0, 190.0, DECODE), *call(1.0, 1, "aten::linear", [[8, 64], [32, 64]])]
    events += call(100.0, 2, "aten::mm", mm(8, 32, 64))
    assert counted(answer(recording(tmp_path, events))[0]) == {("decode", 8, 32, 64): 2}


def test_split_k_with_its_reduction_is_one_call(tmp_path: Path) -> None:
    dims = mm(8, 1536, 6144)
    events = [step(0.0, 90.0, DECODE), *call(1.0, 1, "aten::mm", dims, kernels=(GEMM, REDUCE), grid=[4, 24, 1])]
    rows, _, _ = answer(recording(tmp_path, events))
    assert counted(rows) == {("decode", 8, 1536, 6144): 1}
    assert rows[0].grid == (4, 24, 1)


def test_operator_that_only_copies_is_no_gemm(tmp_path: Path) -> None:
    copy = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>"
    events = [step(0.0, 90.0, DECODE), *call(1.0, 1, "aten::matmul", mm(8, 32, 64), kernels=(copy,))]
    assert answer(recording(tmp_path, events)) == ((), None, {})


def test_batched_gemm_says_so_and_proves_no_layer(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), *call(1.0, 1, "aten::bmm", [[16, 8, 64], [16, 64, 32]])]
    (row,), match, _ = answer(recording(tmp_path, events))
    assert (row.op, row.M, row.N, row.K, row.module) == ("aten::bmm", 8, 32, 64, "each of a batch of 16")
    assert row.programs == 16  # one tile of 64 x 8 each
    assert match is None


def test_phase_of_a_call_is_its_steps(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, PREFILL), *call(1.0, 1, "aten::mm", mm(4000, 32, 64))]
    events += [step(100.0, 90.0, DECODE), *call(101.0, 2, "aten::mm", mm(8, 32, 64))]
    assert counted(answer(recording(tmp_path, events))[0]) == {("prefill", 4000, 32, 64): 1, ("decode", 8, 32, 64): 1}


def test_replay_and_eager_call_of_one_shape_are_one_row_that_rests_on_the_census(tmp_path: Path) -> None:
    name = "Cijk_A_MT32x16x64_SK0_WG64_4_1"
    (tmp_path / "capture_traces").mkdir()
    capture = [step(0.0, 40.0, "capture_8_FULL"), launch(1.0, 0, "hipStreamBeginCapture")]
    capture += [op(5.0, 9.0, "aten::mm", mm(8, 32, 64), BF16), launch(6.0, 0, kernel=name, grid=[256, 1, 1])]
    capture += [launch(20.0, 0, "hipStreamEndCapture")]
    write_trace(tmp_path / "capture_traces" / "graph_capture_rank_0.1.pt.trace.json", capture)
    events = [step(100.0, 90.0, DECODE), launch(101.0, 7, "hipGraphLaunch")]
    events += [step(200.0, 90.0, DECODE), *call(201.0, 1, "aten::mm", mm(8, 32, 64), kernels=(name,))]
    write_trace(tmp_path / "dp0_pp0_tp0_dcp0_ep0_rank0.2.pt.trace.json", events)
    (row,), _, _ = answer(open_recording([tmp_path]))
    assert (row.count, row.evidence, row.dtype) == (2, "census", "bf16")


def test_replay_without_a_census_is_unproven_and_not_listed(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), launch(1.0, 1, "hipGraphLaunch")]
    events += [kernel(50.0 + 10 * i, 10.0, 1, name) for i, name in enumerate([GEMM, REDUCE, GEMM])]
    events += call(20.0, 5, "aten::mm", mm(8, 32, 64))
    rows, _, findings = answer(recording(tmp_path, events))
    assert counted(rows) == {("decode", 8, 32, 64): 1}
    found = findings["shapes.unproven"]
    assert (found.verdict, found.claim[:11]) == ("unproven", "2 of 3 GEMM")
    assert found.evidence[0].observed == "2 replayed from a graph without a census"


def test_evidence_counts_every_launch_and_shows_a_row_of_each_kind(tmp_path: Path) -> None:
    """Eleven replayed GEMMs of two kernels: eleven, not two groups and not the five rows that are shown."""
    events = [step(0.0, 290.0, DECODE), launch(1.0, 1, "hipGraphLaunch")]
    names = [GEMM] * 6 + [GEMM.replace("64x8", "128x8")] * 5
    events += [kernel(50.0 + 10 * i, 10.0, 1, name) for i, name in enumerate(names)]
    events += [kernel(200.0 + 10 * i, 10.0, 1, "fused_moe_kernel") for i in range(7)]
    _, _, findings = answer(recording(tmp_path, events))
    (shown,) = findings["shapes.unproven"].evidence
    assert (shown.count, len(shown.rows)) == (11, 5)
    assert {0, 6} <= set(shown.rows)
    assert findings["shapes.moe_unproven"].evidence[0].count == 7


def test_replays_without_any_kernel_are_unproven_by_launch_and_step(tmp_path: Path) -> None:
    events = [step(0.0, 190.0, PREFILL), *call(1.0, 1, "aten::mm", mm(4000, 32, 64))]
    for i in range(3):
        events += [step(200.0 + 100 * i, 90.0, DECODE), launch(201.0 + 100 * i, 50 + i, "hipGraphLaunch")]
        events += call(240.0 + 100 * i, 60 + i, "aten::mm", mm(8, 200064, 6144))
    rows, _, findings = answer(recording(tmp_path, events))
    assert counted(rows)["decode", 8, 200064, 6144] == 3
    found = findings["shapes.unproven"]
    assert (found.verdict, found.where) == ("unproven", "decode")
    assert found.claim == (
        "the GEMMs of 3 graph launches are unknown (no kernel record, no census): the histogram is without them"
    )
    assert [(e.table, e.count, e.observed) for e in found.evidence] == [
        ("launches", 3, "3 graph launches in 3 decode steps"),
        ("steps", 3, "3 decode steps"),
    ]
    assert found.evidence[1].rows == (1, 2, 3)


def test_everything_shaped_leaves_nothing_unproven(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), *call(1.0, 1, "aten::mm", mm(8, 32, 64))]
    assert "shapes.unproven" not in answer(recording(tmp_path, events))[2]


def test_opaque_expert_layer_shows_what_surrounds_it_and_no_row(tmp_path: Path) -> None:
    events = [step(0.0, 190.0, DECODE)]
    events += call(1.0, 1, "vllm::moe_forward", [[8, 6144], [8, 128]], kernels=("fused_moe_kernel",) * 2)
    top = "void vllm::moe::topkGating<4, 128>"
    events += call(100.0, 2, "_moe_C::topk_sigmoid", [[8, 4], [8, 4], [8, 128]], kernels=(top,))
    rows, _, findings = answer(recording(tmp_path, events))
    assert rows == ()
    assert findings["shapes.moe_unproven"].evidence[0].observed == "rows 8; hidden 6144; router experts 128; top-k 4"
    assert findings["shapes.moe_unproven"].claim.startswith("N, K and local experts of 2 grouped")


# --- tiles and starvation --------------------------------------------------------------------------------


def test_tile_text_tells_what_ran_from_what_would(tmp_path: Path) -> None:
    events = [*linears([(1536, 6144)]), *call(200.0, 9, "aten::mm", mm(8, 32, 2880), kernels=("gemm_without_tile",))]
    narrow, wide = answer(recording(tmp_path, events, **UNITS))[0]
    assert (wide.N, wide.tile) == (
        1536,
        "64x8x64, name; 16x16x1024 (MXFP8 selector would); 96 programs, 6 K loops",
    )
    assert (wide.programs, wide.k_loops, wide.units) == (24, 96, 132)
    assert (narrow.tile, narrow.programs) == ("MXFP8 selector refuses K 2,880", None)


def test_the_selectors_programs_are_not_those_of_a_kernel_that_did_not_ask_it(tmp_path: Path) -> None:
    """The H200 router: 128 workgroups ran; the selector would start 8 programs."""
    events = [step(0.0, 90.0, DECODE)]
    dims = [[8, 128], [8, 6144], [128, 6144]]
    events += call(1.0, 1, "_C::fp32_router_gemm", dims, kernels=("fp32_router_gemm_kernel",), grid=[128, 1, 1])
    (row,), _, findings = answer(recording(tmp_path, events, **UNITS))
    assert (row.M, row.N, row.K, row.programs, row.k_loops, row.grid) == (8, 128, 6144, None, None, (128, 1, 1))
    assert row.tile == "16x16x1024 (MXFP8 selector would); 8 programs, 6 K loops"
    assert findings["shapes.starved.decode"].evidence[0].observed == "8x128x6144: 128 of 132, 1 launch"


def test_native_mxfp8_kernel_runs_the_selectors_tile(tmp_path: Path) -> None:
    rec = recording(tmp_path, linears([(1536, 6144)], kernels=("_mxfp8_linear_kernel",)), **UNITS)
    (row,), _, findings = answer(rec)
    assert (row.tile, row.programs, row.k_loops) == ("16x16x1024 (MXFP8 selector)", 96, 6)
    assert "8x1536x6144: 96 of 132" in findings["shapes.starved.decode"].evidence[0].observed


def test_one_shape_that_ran_as_two_kernels_says_several(tmp_path: Path) -> None:
    wide = "Cijk_Alik_Bljk_MT128x224x64_SN_X1"
    tall = "Cijk_Alik_Bljk_MT64x512x32_SN_X1"
    events = [step(0.0, 490.0, DECODE)]
    for i, name in enumerate([tall, tall, wide, tall]):
        events += call(1.0 + 100 * i, i + 1, "aten::mm", mm(16384, 512, 512), kernels=(name,), grid=[8 + i % 2, 1, 1])
    (row,), _, _ = answer(recording(tmp_path, events, **UNITS))
    assert row.count == 4
    assert row.tile.startswith("several: MT64x512x32 x 3, MT128x224x64 x 1; ")
    assert (row.programs, row.k_loops, row.grid) == (None, None, None)


def test_one_tile_on_two_grids_is_not_given_one_of_them(tmp_path: Path) -> None:
    events = [step(0.0, 290.0, DECODE)]
    for i in range(2):
        events += call(1.0 + 100 * i, i + 1, "aten::mm", mm(8, 1536, 6144), grid=[4 + i, 24, 1])
    (row,), _, findings = answer(recording(tmp_path, events, **UNITS))
    assert row.tile.startswith("64x8x64, name, 2 grids; ")
    assert (row.programs, row.k_loops, row.grid) == (None, 96, None)
    assert "2 of 2 GEMM launches" in findings["shapes.starved.decode"].claim


def test_starved_counts_launches_and_bounds_those_that_leave_a_quarter_idle(tmp_path: Path) -> None:
    events = linears([(1536, 6144)] * 3 + [(6144, 6144)], grid=[4, 24, 1])  # 96 of 132: 73 %
    events += call(500.0, 9, "aten::mm", mm(8, 2560, 6144), grid=[4, 30, 1])  # 120 of 132: 91 %
    events += call(600.0, 10, "aten::mm", mm(8, 200064, 6144), grid=[2, 66, 1])
    finding = answer(recording(tmp_path, events, **UNITS))[2]["shapes.starved.decode"]
    # kernels of 10 us each, from 41 to 650 us after the step's start
    assert finding.claim == (
        "In decode 5 of 6 GEMM launches start fewer workgroups than the 132 units (50,000 ns with their split-K "
        "reductions); 4 of them leave more than a quarter idle and take 6.6 % of decode step time"
    )
    assert finding.bound is not None
    assert (finding.bound.high, finding.bound.basis) == (pytest.approx(40 / 609), "decode step time")
    (shown,) = finding.evidence
    assert shown.observed == (
        "8x1536x6144: 96 of 132 (24 tiles), 3 launches; 8x6144x6144: 96 of 132, 1 launch; "
        "8x2560x6144: 120 of 132 (40 tiles), 1 launch"
    )
    assert (shown.count, shown.expected) == (5, "at least 132 workgroups")
    assert (finding.trusted, finding.confidence) == (True, "medium")


def test_a_launch_that_nearly_fills_the_device_is_a_fact_without_a_bound(tmp_path: Path) -> None:
    finding = answer(recording(tmp_path, linears([(1536, 6144)], grid=[128, 1, 1]), **UNITS))[2][
        "shapes.starved.decode"
    ]
    assert finding.claim.startswith("In decode 1 of 1 GEMM launches start fewer workgroups than the 132 units")
    assert finding.claim.endswith("none of them leaves a quarter of the units idle")
    assert (finding.bound, finding.confidence, finding.verdict) == (None, "low", "starved")


def test_a_split_k_reduction_costs_the_same_with_an_operator_and_in_a_replay(tmp_path: Path) -> None:
    eager = linears([(1536, 6144)], kernels=(GEMM, REDUCE), grid=[4, 24, 1])
    replayed = [step(0.0, 90.0, DECODE), launch(1.0, 7, "cudaGraphLaunch")]
    replayed += [kernel(41.0 + 10 * i, 10.0, 7, name, grid=[4, 24, 1]) for i, name in enumerate([GEMM, REDUCE])]
    for events in (eager, replayed):
        finding = answer(recording(tmp_path, events, **UNITS))[2]["shapes.starved.decode"]
        assert "1 of 1 GEMM launches" in finding.claim
        assert "(20,000 ns with their split-K reductions)" in finding.claim
        assert finding.evidence[0].count == 1
        assert finding.bound is not None
        assert finding.bound.high == pytest.approx(1.0)


def test_a_reduction_on_another_stream_belongs_to_no_gemm_of_this_one(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), launch(1.0, 7, "cudaGraphLaunch")]
    events += [kernel(41.0, 10.0, 7, GEMM, grid=[4, 24, 1]), kernel(51.0, 10.0, 7, REDUCE, stream=9)]
    finding = answer(recording(tmp_path, events, **UNITS))[2]["shapes.starved.decode"]
    assert "(10,000 ns with" in finding.claim


@pytest.mark.parametrize(
    ("events", "header"),
    [
        (linears([(1536, 6144)], grid=[4, 33, 1]), UNITS),  # split-K fills the device
        (linears([(1536, 6144)], grid=[4, 24, 1]), {}),  # units unknown
        (linears([(1536, 6144)], kernels=("gemm_without_tile",)), UNITS),  # neither grid nor tile known
        ([step(0.0, 90.0, PREFILL), *call(1.0, 1, "aten::mm", mm(8, 64, 64), grid=[1, 1, 1])], UNITS),
    ],
)
def test_not_starved_or_not_known(tmp_path: Path, events: list[dict[str, Any]], header: dict[str, Any]) -> None:
    assert "shapes.starved.decode" not in answer(recording(tmp_path, events, **header))[2]


def test_replayed_gemms_starve_by_their_grid_alone_and_lost_kernels_void_the_share(tmp_path: Path) -> None:
    events = [step(0.0, 90.0, DECODE), launch(1.0, 1, "cudaGraphLaunch"), kernel(50.0, 10.0, 1, GEMM, grid=[4, 24, 1])]
    hidden = TrustSection(TrustRow("degraded", (Reason("truncated", "cut", hides_kernels=True),)), {})
    finding = answer(recording(tmp_path, events, **UNITS), Answer((hidden,)))[2]["shapes.starved.decode"]
    assert finding.evidence[0].observed == f"shape unknown, {GEMM}: 96 of 132, 1 launch"
    assert not finding.trusted


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
