"""Question 1 on traces written by hand and on the real ones: which M, N, K ran, how often, and what they prove: tiles and starvation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording, step
from shapes_kit import DECODE, GEMM, PREFILL, REDUCE, UNITS, answer, call, linears, mm

from m3probe.model.report import Answer, Reason, TrustRow, TrustSection

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
