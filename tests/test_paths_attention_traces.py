"""Attention paths on paper: settings, numbers and builds, worked out by hand from the source of four releases: traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attention_kit import MINE
from builders import kernel, launch, recording, step
from test_paths import DECODE, H200, ROCM, eager, rows_of
from tree import shared_or_skip

from m3probe.fastpaths.indexer import one_workgroup_per_request, requests_of_grid
from m3probe.model.executed import executed
from m3probe.schema.setup import Held
from m3probe.sources import open_recording

# --- traces ---------------------------------------------------------------------------------------------------
# Names of AITER's kernels are taken from source: generated, no trace of MiniMax M3 on AMD was at hand.

SCORE, TOPK, MERGE = "_decode_index_score_kernel", "_topk_index_partial_kernel", "_topk_index_merge_kernel"
ATTEND, GLUON, TABLE = (
    "_gqa_sparse_decode_kernel",
    "paged_attention_decode_v2_gluon_dot_kernel",
    "_decode_topk_fused_kernel",
)
AITER_NORM = "void aiter::fusedQKNormIdxrQKNormKernel<__hip_bfloat16, 128>(int)"
M3_NORM = (
    "void vllm::minimax_m3_fused_ops::fusedMiniMaxM3QNormRopeKVInsertKernel"
    "<c10::BFloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(int)"
)


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_h200_runs_the_triton_indexer_six_times_a_step_and_reuses_nothing(mode: str) -> None:
    rows = rows_of(open_recording([shared_or_skip(H200.format(mode))]))
    indexer, reuse, norm = rows["indexer"], rows["index_reuse"], rows["fused_qknorm_rope_kv"]
    # nothing says that another indexer was asked for: a fallback's kernels are no execution, and no miss either
    assert (indexer.verdict, indexer.variant, indexer.counts["fallback_calls"]) == ("unproven", "Triton", 60)
    assert "the fallback ran (Triton) in 1 of 1 prefill and 9 of 9 decode steps" in indexer.reasons[0]
    assert any(
        "54 calls of Triton (_decode_index_score_kernel) in 9 of 9 steps, 6 per step" in t for t in indexer.evidence
    )
    assert (reuse.verdict, reuse.variant, reuse.counts["fallback_calls"]) == ("unproven", "every layer chooses", 60)
    assert (norm.verdict, norm.variant, norm.counts["fallback_calls"]) == ("unproven", "vLLM op", 90), "9 layers"
    assert (rows["fp8_kv_cache"].variant, rows["fp8_kv_cache"].counts["fallback_calls"]) == ("BF16", 90)
    assert (rows["sparse_attention"].verdict, rows["sparse_attention"].counts["decode.calls"]) == ("executed", 54)
    assert (rows["aiter_sparse_pa"].variant, rows["spec_sparse_pa"].verdict) == ("Triton", "unproven")
    for name in ("draft_attention", "kv_transfer"):
        assert rows[name].verdict == "unproven"
        assert rows[name].reasons[0].startswith("no kernel is this path's own")


def test_h200_grids_count_requests() -> None:
    rec = open_recording([shared_or_skip(H200.format("eager"))])
    ran = executed(rec)
    names = np.array([rec.strings[i] == SCORE for i in ran.name.tolist()])
    rows = np.flatnonzero(names)
    assert len(rows) == 54
    for row in rows.tolist():
        at_step = int(ran.step[row])
        real, requests = int(rec.steps["rows"][at_step]), int(rec.steps["requests"][at_step])
        told = one_workgroup_per_request(SCORE, rec.dims[int(ran.grid[row])], real, requests)
        assert (requests_of_grid(SCORE, rec.dims[int(ran.grid[row])]), real, told.held) == (8, 8, Held.UNKNOWN)


def test_reuse_is_counted_by_the_layers_that_chose_nothing(tmp_path: Path) -> None:
    """Four sparse layers at frequency 4: one chooses, three attend to its blocks."""
    names = [SCORE, TOPK, MERGE, ATTEND, ATTEND, ATTEND, ATTEND]
    row = rows_of(recording(tmp_path, eager(100, 10, names) + eager(200, 30, names)))["index_reuse"]
    assert (row.verdict, row.variant, row.counts["calls"]) == ("executed", "reuse", 6)


def test_one_step_that_reused_nothing_is_told_beside_the_others(tmp_path: Path) -> None:
    reused, whole = [SCORE, MERGE, ATTEND, ATTEND], [SCORE, MERGE, ATTEND, SCORE, MERGE, ATTEND]
    row = rows_of(recording(tmp_path, eager(100, 10, reused) + eager(200, 30, whole)))["index_reuse"]
    assert (row.verdict, row.variant) == ("unproven", "reuse"), "one of two steps reused"
    assert (row.counts["calls"], row.counts["fallback_calls"]) == (1, 2), "one skipped layer, two choosing ones"
    assert "the fallback ran (every layer chooses) in 1 of 2 decode steps" in row.reasons[0]


def test_attends_without_any_choice_prove_no_reuse(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [ATTEND, ATTEND])))["index_reuse"]
    assert row.verdict == "unproven"


def verify(tmp_path: Path, said: str, names: list[str]) -> dict[str, str]:
    rows = rows_of(recording(tmp_path, eager(100, 10, names, said), **ROCM))
    return {name: row.variant for name, row in rows.items()}


def test_generated_aiter_names_are_executed_and_rest_on_source(tmp_path: Path) -> None:
    rows = rows_of(recording(tmp_path, eager(100, 10, [AITER_NORM, SCORE, TABLE, GLUON]), **ROCM))
    for name, variant in (("aiter_sparse_pa", "AITER page-16"), ("fused_qknorm_rope_kv", "AITER")):
        assert (rows[name].verdict, rows[name].variant, rows[name].names_from_source) == ("executed", variant, True)
    assert rows["spec_sparse_pa"].verdict == "unproven", "one row per request: nothing was verified"


def test_generated_verification_counts_only_where_rows_exceed_requests(tmp_path: Path) -> None:
    told = verify(tmp_path, "execute_context_0(0)_generation_8(32)", [SCORE, TABLE, GLUON])
    assert told["spec_sparse_pa"] == told["aiter_sparse_pa"] == "AITER page-16"


def test_generated_fp8_writer_is_told_by_its_template_argument(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [M3_NORM]), **ROCM))["fp8_kv_cache"]
    assert (row.verdict, row.variant, row.names_from_source) == ("executed", "FP8", True)


def test_a_step_of_another_model_runs_none_of_these(tmp_path: Path) -> None:
    events = [step(100, 90, DECODE), launch(101, 1), kernel(104, 2, 1, "Cijk_Alik_Bljk")]
    rows = rows_of(recording(tmp_path, events))
    assert {rows[name].verdict for name in MINE} == {"unproven"}


def test_a_traces_grids_say_whether_one_workgroup_served_a_request(tmp_path: Path) -> None:
    """Three requests verify four rows each: a grid of 3 serves requests, a grid of 12 rows."""

    def scored(workgroups: int) -> str:
        said = "execute_context_0(0)_generation_3(12)"
        events = [
            step(100, 90.0, said),
            launch(101, 1),
            kernel(105, 2.0, 1, SCORE, grid=[workgroups, 4, 1], block=[64, 1, 1]),
        ]
        row = rows_of(recording(tmp_path, events))["indexer"]
        return next(line for line in row.evidence if line.startswith("one workgroup per request"))

    assert scored(3).startswith("one workgroup per request: yes in 1 launches (grid (3, 4, 1): 3 requests served")
    assert scored(12).startswith("one workgroup per request: no in 1 launches (grid (12, 4, 1): 12 requests served")
