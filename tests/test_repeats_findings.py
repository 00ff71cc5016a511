"""Question 2 on hand-written steps (worked out beside each) and on real recordings counted again by plain json: ranks that run one step; layout work that recurs; work of sparse layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording, step, write_trace
from repeats_kit import WINDOW_US, judged
from steps import (
    ACT,
    ATTEND,
    DECODE,
    DENSE,
    EXPERTS,
    FLASH,
    GEMM,
    MODEL,
    PERIOD_US,
    SCORE,
    SPARSE,
    SPARSE_FUSED,
    SWIGLU,
    one_step,
    steps,
)
from tree import shared_or_skip

from m3probe.analyzers._relayout import is_layout_work
from m3probe.analyzers._view import KernelName
from m3probe.kernels.demangle import demangle
from m3probe.kernels.grammar import classify, head_of
from m3probe.model.recording import Recording
from m3probe.sources import open_recording

# --- ranks that run one step -------------------------------------------------------------------------

MIXED = "execute_context_1(96)_generation_3(3)"
VLLM = "dp{dp}_pp0_tp{tp}_dcp0_ep0_rank{rank}.1.pt.trace.json"


def ranks(tmp_path: Path, *files: tuple[str, int | None, list[str]]) -> Recording:
    """A folder of rank files: (file name, rank, annotations of its steps)."""
    for i, (name, rank, said) in enumerate(files):
        events = [e for at, text in enumerate(said) for e in one_step(PERIOD_US * at, 100 * at + 10, [GEMM], said=text)]
        header = {"distributedInfo": {"rank": rank, "world_size": 2} if rank is not None else {}}
        (tmp_path / str(i)).mkdir(exist_ok=True)
        write_trace(tmp_path / (name or f"{i}.pt.trace.json"), events, **header)
    return open_recording(sorted(path for path in tmp_path.iterdir() if path.is_file()))


@pytest.mark.parametrize(
    ("files", "tokens", "number"),
    [
        # tensor parallel: both ranks ran these two steps
        ([("", 0, [MIXED, MIXED]), ("", 1, [MIXED, MIXED])], 6, "2 mixed steps"),
        # one of them stopped early
        ([("", 0, [MIXED, MIXED]), ("", 1, [MIXED])], 6, "2 mixed steps"),
        # data parallel: other steps
        ([("", 0, [MIXED]), ("", 1, ["execute_context_2(64)_generation_5(5)"])], 8, "2 mixed steps"),
        # data parallel by the files' names, though the steps are alike
        ([(VLLM.format(dp=0, tp=0, rank=0), 0, [MIXED]), (VLLM.format(dp=1, tp=0, rank=1), 1, [MIXED])], 6, "2 mixed"),
        ([(VLLM.format(dp=0, tp=0, rank=0), 0, [MIXED]), (VLLM.format(dp=0, tp=1, rank=1), 1, [MIXED])], 3, "1 mixed"),
        # two recordings of one rank, and files that do not say which rank they are
        ([("", 0, [MIXED]), ("", 0, [MIXED])], 6, "2 mixed steps"),
        ([("", None, [MIXED]), ("", None, [MIXED])], 6, "2 mixed steps"),
    ],
)
def test_ranks_of_one_engine_make_its_tokens_once(
    tmp_path: Path, files: list[tuple[str, int | None, list[str]]], tokens: int, number: str
) -> None:
    section, findings = judged(ranks(tmp_path, *files))
    assert section.costs.decode_tokens_in_mixed_steps == tokens
    assert f"{tokens} decode tokens were made in {number}" in findings["repeats.mixed_steps"].claim
    assert [r.steps for r in section.graph_coverage] == [int(number.partition(" ")[0])]
    assert section.graph_coverage[0].step_share == 1


def test_the_ranks_of_the_cpu_recording_ran_one_engine() -> None:
    rec = open_recording([shared_or_skip("traces/cpu/tp2_moe")])
    found = judged(rec)[1]["repeats.mixed_steps"].claim
    # the annotations of one rank: execute_context_3(96)_generation_1(1) three times
    assert "3 decode tokens were made in 3 mixed steps beside 288 prefill tokens" in found


# --- layout work that recurs ------------------------------------------------------------------------


def test_layout_work_in_every_decode_step_is_found_with_its_time(tmp_path: Path) -> None:
    found = judged(recording(tmp_path, steps(3, [*MODEL, "shuffle_weight_kernel"])))[1]
    finding = found["repeats.relayout.shuffle_weight_kernel"]
    assert "0.002 ms per step, 2.000 ms in the 1,000 steps" in finding.claim
    assert finding.bound is not None
    busy_share = 3 * 33 * 2 / (2 * PERIOD_US + 32 * 10 + 2)
    assert finding.bound.high == pytest.approx(busy_share / 33)


def test_layout_work_that_does_not_recur_is_no_finding(tmp_path: Path) -> None:
    once = one_step(4 * PERIOD_US, 90_000, [*MODEL, "shuffle_weight_kernel"])
    assert not any("relayout" in id_ for id_ in judged(recording(tmp_path, [*steps(3), *once]))[1])


def test_layout_work_without_times_has_no_bound(tmp_path: Path) -> None:
    events = steps(2, ["shuffle_weight_kernel"])
    untimed = [{**e, "ts": 0} if e.get("cat") == "kernel" else e for e in events]
    finding = judged(recording(tmp_path, untimed))[1]["repeats.relayout.shuffle_weight_kernel"]
    assert finding.bound is None
    assert "not known" in finding.claim


@pytest.mark.parametrize(
    ("name", "is_layout"),
    [
        ("shuffle_weight_kernel", True),
        ("batched_transpose_32x32_dword", True),
        ("mxfp4_dequant_kernel", True),
        ("void repack_scales<int>(int)", True),
        ("moe_align_block_size_kernel", False),
        ("_moe_permute_kernel", False),
        ("void moe::unpermute_activation_kernel<int>(int)", False),
        ("gemm_a8w8_bpreshuffle_kernel", False),
        ("flydsl_bpreshuflle_gemm_0", False),
        ("reshape_and_cache_shuffle_kernel", False),
        ("void at::native::vectorized_gather_kernel<16, long>(int)", False),
        ("void vllm::scaled_fp8_quant_kernel<int>(int)", False),
        ("triton_poi_fused_permute_view_0", False),
        ("permute_pooled_embs_kernel", False),
    ],
)
def test_which_names_say_layout_work(name: str, is_layout: bool) -> None:
    kind = classify(name)
    assert is_layout_work(KernelName(head_of(demangle(name).lower()), kind.category, kind.family)) is is_layout


# --- work of sparse layers ---------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [False, True])
def test_a_shared_expert_beside_the_routed_ones_is_found(tmp_path: Path, graph: bool) -> None:
    finding = judged(recording(tmp_path, steps(3, graph=graph)))[1]["repeats.shared_expert_separate"]
    # gate/up, its reduction, activation, down: 4 launches in each of 2 layers; the dense layer's MLP is not one
    assert "each of 2 MoE layers" in finding.claim
    assert "8 launches per decode step, 0.016 ms" in finding.claim
    assert finding.evidence[0].count == 24
    assert finding.bound is not None
    assert finding.bound.high == pytest.approx(3 * 8 * 2 / WINDOW_US)


def one_moe_layer(shared_at: float) -> list[dict[str, Any]]:
    """Attention 0 to 10 us, routed experts 10 to 100; a shared expert of 60 us on stream 9 from ``shared_at`` on."""
    names = [(ATTEND, 0, 10, 0), (EXPERTS, 10, 50, 0), (ACT, 50, 60, 0), (EXPERTS, 60, 100, 0)]
    names += [(GEMM, shared_at, shared_at + 20, 9), (SWIGLU, shared_at + 20, shared_at + 40, 9)]
    names += [(GEMM, shared_at + 40, shared_at + 60, 9)]
    events = [step(1000.0, 900.0, DECODE)]
    for i, (name, low, high, stream) in enumerate(names):
        events += [launch(1000.0 + i, 10 + i), kernel(1100.0 + low, float(high - low), 10 + i, name, stream=stream)]
    return events


@pytest.mark.parametrize(
    ("shared_at", "words", "alone_us", "window_us"),
    [
        (20.0, "on a stream of its own (100.0 % of its time beside other work):", 0, 100),
        (70.0, "on a stream of its own (50.0 % of its time beside other work):", 30, 130),
        (100.0, "on a stream of its own, with nothing beside it:", 60, 160),
    ],
)
def test_a_stream_of_its_own_is_no_proof_that_it_runs_beside_the_routed_experts(
    tmp_path: Path, shared_at: float, words: str, alone_us: int, window_us: int
) -> None:
    finding = judged(recording(tmp_path, one_moe_layer(shared_at)))[1]["repeats.shared_expert_separate"]
    assert words in finding.claim
    assert "0.060 ms of kernel time" in finding.claim
    assert finding.bound is not None
    assert finding.bound.high == pytest.approx(alone_us / window_us)


def test_a_fused_shared_expert_is_no_finding(tmp_path: Path) -> None:
    names = [*DENSE, *SPARSE_FUSED, *SPARSE_FUSED]
    assert "repeats.shared_expert_separate" not in judged(recording(tmp_path, steps(3, names)))[1]


def test_an_mlp_in_only_some_moe_layers_is_no_shared_expert(tmp_path: Path) -> None:
    names = [*DENSE, *SPARSE, *SPARSE_FUSED]
    assert "repeats.shared_expert_separate" not in judged(recording(tmp_path, steps(3, names)))[1]


def test_every_sparse_layer_choosing_its_blocks_is_found(tmp_path: Path) -> None:
    finding = judged(recording(tmp_path, steps(3)))[1]["repeats.index_every_layer"]
    assert "2 block selections for 2 layers, 0.004 ms of kernel time per decode step" in finding.claim
    assert finding.bound is not None
    assert finding.bound.high == pytest.approx(3 * 2 * 2 / WINDOW_US / 2)  # one of the two still chooses
    assert "text_config" in finding.advice


def test_reused_block_choices_are_said(tmp_path: Path) -> None:
    reusing = [name for name in SPARSE if name != SCORE]
    found = judged(recording(tmp_path, steps(3, [*DENSE, *SPARSE, *reusing])))[1]
    assert "repeats.index_every_layer" not in found
    assert "1 selections for 2 layers" in found["repeats.index_reused"].claim


def test_without_score_kernels_nothing_is_said_about_reuse(tmp_path: Path) -> None:
    found = judged(recording(tmp_path, steps(3, [FLASH, ATTEND, ATTEND])))[1]
    assert not any("index" in id_ for id_ in found)
