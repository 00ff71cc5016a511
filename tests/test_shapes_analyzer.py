"""Question 1 on traces written by hand and on the real ones: which M, N, K ran, how often, and what they prove: counting."""

from __future__ import annotations

from pathlib import Path

from builders import kernel, launch, op, recording, step, write_trace
from shapes_kit import BF16, DECODE, GEMM, PREFILL, REDUCE, answer, call, counted, mm

from m3probe.sources import open_recording


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
