"""Question 2 on hand-written steps (worked out beside each) and on real recordings counted again by plain json."""

from __future__ import annotations

import gzip
import json
import shutil
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kernel, launch, recording, step, write_trace
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

from m3probe.analyzers import _figures as figures
from m3probe.analyzers import repeats
from m3probe.analyzers._basis import basis, removable_share, step_share
from m3probe.analyzers._layers import layers
from m3probe.analyzers._relayout import is_layout_work
from m3probe.analyzers._steptime import step_times
from m3probe.analyzers._view import KernelName, view
from m3probe.kernels.demangle import demangle
from m3probe.kernels.grammar import classify, head_of
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, Reason, RepeatRow, RepeatsSection, Report, TrustRow, TrustSection
from m3probe.present.text import report_text
from m3probe.sources import open_recording

GRAPH = "traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = "traces/h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz"
WINDOW_US = 2 * PERIOD_US + 31 * 10 + 2
"""Three steps of 32 kernels launched every 10 us: two full periods, then first start to last end of the third."""


def judged(rec: Recording, so_far: Answer | None = None) -> tuple[RepeatsSection, dict[str, Finding]]:
    answer = repeats.ANALYZER.judge(rec, so_far or Answer())
    section = answer.section(RepeatsSection)
    assert section is not None
    return section, {finding.id: finding for finding in answer.findings}


def row(section: RepeatsSection, phase: str, family: str) -> RepeatRow:
    return next(r for r in section.repeats if (r.phase, r.family) == (phase, family))


# --- launches per step and layer -------------------------------------------------------------------


def test_families_are_counted_per_step_and_per_layer_that_launches_them(tmp_path: Path) -> None:
    section, findings = judged(recording(tmp_path, steps(3)))
    # 1 dense + 2 sparse layers; GEMMs: 4 + 2 x 5 = 14, two of them reductions of a split K
    expected = {"attention": (1, 1), "sparse_attention": (2, 1), "moe_gemm": (4, 2), "gemm": (14, 14 / 3)}
    for family, (per_step, per_layer) in expected.items():
        found = row(section, "decode", family)
        assert (found.per_step, found.per_layer, found.evidence) == (per_step, pytest.approx(per_layer), "kernels")
    # 4 launches of 2,000 ns; 2 tokens a step
    assert row(section, "decode", "moe_gemm").ns_per_step == 8000
    assert row(section, "decode", "moe_gemm").ns_per_output_token == 4000
    assert "32.0 kernels over 3 layers" in findings["repeats.launches"].claim
    assert "32,000 in the 1,000 steps" in findings["repeats.launches"].claim
    assert "2,000 times" in findings["repeats.launches"].claim


def test_empty_steps_stay_out_of_the_means(tmp_path: Path) -> None:
    empty = step(5000.0, 10.0, "execute_context_0(0)_generation_0(0)")
    section, findings = judged(recording(tmp_path, [*steps(3), empty]))
    assert row(section, "decode", "attention").per_step == 1
    assert [r.steps for r in section.graph_coverage] == [3]
    assert "repeats.unproven" not in findings


def test_layers_are_unknown_without_an_anchor(tmp_path: Path) -> None:
    section, findings = judged(recording(tmp_path, steps(2, [GEMM, GEMM])))
    assert row(section, "decode", "gemm").per_layer is None
    assert "layers" not in findings["repeats.launches"].claim


def test_steps_of_unknown_phase_have_no_layers(tmp_path: Path) -> None:
    # a profiler's step may hold any number of passes: three attention kernels are not three layers
    section, _ = judged(recording(tmp_path, steps(2, [FLASH, FLASH, FLASH], said="ProfilerStep#7")))
    assert (row(section, "unknown", "attention").per_step, row(section, "unknown", "attention").per_layer) == (3, None)


def test_a_family_in_fewer_launches_than_layers_belongs_to_the_layers_it_matches(tmp_path: Path) -> None:
    write = "void vllm::reshape_and_cache_flash_kernel<int>(int)"
    section, _ = judged(recording(tmp_path, steps(2, [write, *MODEL])))
    assert row(section, "decode", "kv_write").per_layer == 1  # once in the one dense layer, not 1/3


def test_steps_whose_graph_kernels_are_lost_are_unproven_and_left_out(tmp_path: Path) -> None:
    lost = one_step(4 * PERIOD_US, 9000, MODEL, graph=True, record=False)
    section, findings = judged(recording(tmp_path, [*steps(3, graph=True), *lost]))
    assert row(section, "decode", "moe_gemm").per_step == 4
    assert findings["repeats.unproven"].verdict == "unproven"
    assert findings["repeats.unproven"].evidence[0].rows == (3,)


PREFILL = "execute_context_1(500)_generation_0(0)"


def test_a_phase_with_lost_replays_states_counts_and_no_time(tmp_path: Path) -> None:
    lost = one_step(4 * PERIOD_US, 9000, MODEL, graph=True, record=False)
    prefill = one_step(6 * PERIOD_US, 90_000, MODEL, said=PREFILL)
    section, findings = judged(recording(tmp_path, [*steps(3, graph=True), *lost, *prefill]))
    assert row(section, "decode", "moe_gemm").ns_per_step is None
    assert row(section, "prefill", "moe_gemm").ns_per_step == 8000
    assert (section.costs.ns_per_output_token, section.costs.step_ns_per_token) == (None, None)
    assert section.costs.launch_bound is None
    assert all(f.bound is None for f in findings.values())


def test_a_step_before_a_lost_one_does_not_own_its_time(tmp_path: Path) -> None:
    # steps of 312 us each 1,000; nothing of the second was recorded, so that nobody knows when it began
    lost = one_step(2 * PERIOD_US, 9000, MODEL, graph=True, record=False)
    rec = recording(tmp_path, [*one_step(PERIOD_US, 10, MODEL), *lost, *one_step(3 * PERIOD_US, 90_000, MODEL)])
    times = step_times(rec)
    assert times.window_ns.tolist() == [312_000, 0, 312_000]
    assert times.followed.tolist() == [False, False, False]
    assert times.short.tolist() == [False, True, False]


def test_work_before_the_lost_graph_says_when_its_step_began(tmp_path: Path) -> None:
    lost = one_step(2 * PERIOD_US + 50, 9000, MODEL, graph=True, record=False)[1:]
    early = [*one_step(2 * PERIOD_US, 8000, [GEMM]), *lost]
    times = step_times(recording(tmp_path, [*one_step(PERIOD_US, 10, MODEL), *early]))
    assert times.window_ns[0] == 1_000_000
    assert times.followed.tolist() == [True, False]


def test_replays_that_lost_some_kernels_leave_their_steps_unproven(tmp_path: Path) -> None:
    part = one_step(4 * PERIOD_US, 9000, MODEL[:-5], graph=True)
    section, findings = judged(recording(tmp_path, [*steps(3, graph=True), *part]))
    assert section.repeats == ()  # which of the unequal replays is whole, nothing tells
    assert findings["repeats.unproven"].evidence[0].count == 4


def test_nothing_is_stated_when_no_kernel_was_recorded(tmp_path: Path) -> None:
    section, findings = judged(recording(tmp_path, steps(2, graph=True, record=False)))
    assert section.repeats == ()
    assert section.costs.ns_per_output_token is None
    assert section.costs.launch_bound is None
    assert set(findings) == {"repeats.unproven"}


# --- costs and launching ---------------------------------------------------------------------------


def test_costs_of_output(tmp_path: Path) -> None:
    costs = judged(recording(tmp_path, steps(3)))[0].costs
    # 3 x 32 kernels x 2,000 ns over 6 tokens
    assert costs.ns_per_output_token == 32_000
    assert costs.ns_per_1000_token_response == 32_000_000
    assert costs.ns_per_active_request == 32_000
    assert costs.decode_tokens_in_mixed_steps == 0


def test_step_time_is_what_one_request_waits_for_a_token(tmp_path: Path) -> None:
    # two steps of 1,000 us have a next one; how long the third took is not recorded
    costs = judged(recording(tmp_path, steps(3)))[0].costs
    assert costs.step_ns_per_token == 1_000_000
    assert costs.step_ns_per_1000_token_response == 1_000_000_000


def test_text_tells_kernel_time_from_step_time(tmp_path: Path) -> None:
    section, _ = judged(recording(tmp_path, steps(3)))
    lines = report_text(Report("ok", (), Answer((section,))), 120, color=False).splitlines()
    # 64 us of kernels for 2 tokens a step; a step each 1,000 us
    assert [line.split()[-1] for line in lines if "kernel time per" in line] == ["0.032", "32.000", "0.032"]
    assert [line.split()[-1] for line in lines if "step time per" in line] == ["1.000", "1,000.000"]


def test_one_step_or_drafts_tell_no_step_time_per_token(tmp_path: Path) -> None:
    assert judged(recording(tmp_path, steps(1)))[0].costs.step_ns_per_token is None
    drafted = steps(3, said="execute_context_0(0)_generation_2(8)")
    assert judged(recording(tmp_path, drafted))[0].costs.step_ns_per_1000_token_response is None


def test_rows_that_hold_drafts_do_not_say_how_many_tokens_came_out(tmp_path: Path) -> None:
    said = "execute_context_0(0)_generation_2(8)"
    section, findings = judged(recording(tmp_path, steps(3, said=said)))
    assert section.costs.ns_per_output_token is None
    assert section.costs.ns_per_active_request == 32_000
    assert row(section, "decode", "gemm").ns_per_output_token is None
    assert findings["repeats.draft_rows"].verdict == "unproven"


def test_eager_decode_with_short_kernels_is_launch_bound(tmp_path: Path) -> None:
    section, findings = judged(recording(tmp_path, steps(3)))
    assert section.costs.launch_bound is True
    eager = findings["repeats.decode_eager"]
    assert eager.bound is not None
    # each step works from its first kernel to 312 us later, 64 us of them; what comes after, a graph cannot take
    assert eager.bound.high == pytest.approx(3 * (312 - 64) / WINDOW_US)
    assert eager.bound.basis == "decode step time"
    assert "All 3 decode steps" in eager.claim
    assert "up to 31 of 32 launches per step" in eager.claim
    launching = findings["repeats.launch_bound"]
    assert "10.0 us, and the mean kernel takes 2.0 us" in launching.claim
    # the same idle time is bounded once
    assert launching.bound is None
    assert "repeats.decode_eager" in launching.claim


def test_one_eager_step_is_said_in_the_singular(tmp_path: Path) -> None:
    claim = judged(recording(tmp_path, steps(1)))[1]["repeats.decode_eager"].claim
    assert claim.startswith("The decode step ran without a graph")


def test_a_device_that_waits_between_graphs_is_not_launch_bound(tmp_path: Path) -> None:
    section, findings = judged(recording(tmp_path, steps(3, graph=True)))
    assert section.costs.launch_bound is False
    assert "repeats.decode_eager" not in findings


def test_a_busy_device_is_not_launch_bound(tmp_path: Path) -> None:
    # 32 kernels of 31 us fill 992 of each 1,000 us
    section, _ = judged(recording(tmp_path, steps(3, every_us=31.0, dur_us=31.0)))
    assert section.costs.launch_bound is False


def test_evidence_that_hides_kernels_leaves_launching_unknown(tmp_path: Path) -> None:
    doubt = TrustSection(TrustRow("degraded", (Reason("truncated", "cut", hides_kernels=True),)), {})
    section, findings = judged(recording(tmp_path, steps(3)), Answer((doubt,)))
    assert section.costs.launch_bound is None
    assert not any(f.trusted for f in findings.values())


# --- graph coverage ---------------------------------------------------------------------------------


def test_coverage_counts_steps_rows_and_decode_tokens_by_mode(tmp_path: Path) -> None:
    prefill = one_step(10 * PERIOD_US, 90_000, MODEL, said="execute_context_1(14)_generation_0(0)")
    section, findings = judged(recording(tmp_path, [*steps(3, graph=True), *prefill]))
    full, none = section.graph_coverage
    assert (full.graph_mode, full.steps, full.step_share, full.row_share, full.token_share) == ("FULL", 3, 0.75, 0.3, 1)
    assert (none.graph_mode, none.steps, none.step_share, none.row_share, none.token_share) == ("NONE", 1, 0.25, 0.7, 0)
    assert "repeats.eager_decode_steps" not in findings  # prefill is no decode step


def test_an_eager_decode_step_among_graphs_is_found_with_its_idle_time(tmp_path: Path) -> None:
    odd = one_step(4 * PERIOD_US, 90_000, MODEL, said="execute_context_0(0)_generation_3(3)")
    found = judged(recording(tmp_path, [*steps(3, graph=True), *odd]))[1]["repeats.eager_decode_steps"]
    assert "1 of 4 decode steps" in found.claim
    assert "up to 3 rows without, up to 2 with" in found.claim
    assert found.bound is not None
    # the eager step: 312 us from its first kernel to its last, 64 busy; all: three periods and that
    assert found.bound.high == pytest.approx((312 - 64) / (3 * PERIOD_US + 312))


def test_steps_without_launch_records_have_no_known_mode(tmp_path: Path) -> None:
    section, findings = judged(recording(tmp_path, [step(0.0, 10.0, "execute_context_0(0)_generation_2(2)")]))
    assert [r.graph_mode for r in section.graph_coverage] == ["unknown"]
    assert "repeats.decode_eager" not in findings


def test_decode_tokens_of_mixed_steps_and_their_cost(tmp_path: Path) -> None:
    mixed = one_step(4 * PERIOD_US, 90_000, MODEL, said="execute_context_1(100)_generation_4(4)")
    section, findings = judged(recording(tmp_path, [*steps(3), *mixed]))
    assert section.costs.decode_tokens_in_mixed_steps == 4
    assert section.costs.mixed_ns_per_decode_token == 32 * 2000 / 4
    assert "4 decode tokens" in findings["repeats.mixed_steps"].claim
    assert "100 prefill tokens" in findings["repeats.mixed_steps"].claim
    assert findings["repeats.mixed_steps"].bound is None


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


# --- real recordings ---------------------------------------------------------------------------------


def ns(value: object) -> int:
    return int(Decimal(str(value)) * 1000)


def kernels_by_step(path: Path) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """[(annotation, [(kernel, stream, ns)])] by plain json: the step begun last before the launch owns it."""
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    named = sorted(
        (ns(e["ts"]), e["name"])
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith("execute_")
    )
    calls = {
        e["args"]["correlation"]: ns(e["ts"])
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "aunch" in e["name"]
    }
    found: list[tuple[str, list[tuple[str, int, int]]]] = [(name, []) for _, name in named]
    for e in events:
        if e.get("cat") == "kernel":
            at = calls[e["args"]["correlation"]]
            last = sum(start <= at for start, _ in named) - 1
            found[last][1].append((e["name"], e["args"]["stream"], ns(e["dur"])))
    return found


@pytest.mark.parametrize(("trace", "bound"), [(GRAPH, False), (EAGER, True)])
def test_the_h200_recordings_counted_again(trace: str, bound: bool) -> None:
    path = shared_or_skip(trace)
    rec = open_recording([path])
    section, findings = judged(rec)
    decode = [kernels for name, kernels in kernels_by_step(path) if "generation_8(8)" in name]
    assert len(decode) == 9
    flat = [k for kernels in decode for k in kernels]
    assert section.costs.ns_per_output_token == sum(dur for _, _, dur in flat) / 72
    assert section.costs.launch_bound is bound
    sparse = [dur for name, _, dur in flat if "_gqa_sparse_decode_kernel" in name]
    assert len(sparse) == 54
    seen = layers(view(rec, Answer()))
    assert (seen.dense, seen.sparse, seen.moe, seen.index) == (3, 6, 6, 6)
    moe = [dur for name, _, dur in flat if name == "fused_moe_kernel"]
    assert row(section, "decode", "moe_gemm") == RepeatRow(
        "decode", "moe_gemm", 12.0, 2.0, sum(moe) / 72, sum(moe) / 9, "kernels"
    )
    assert ("repeats.decode_eager" in findings) is bound
    assert not any("relayout" in id_ for id_ in findings)
    # the shared expert has a stream of its own there: everything on it is gate/up, reduction, activation, down
    main = max({s for _, s, _ in flat}, key=lambda s: sum(stream == s for _, stream, _ in flat))
    beside = [dur for _, stream, dur in flat if stream != main]
    shared = findings["repeats.shared_expert_separate"]
    assert shared.evidence[0].count == len(beside) == 9 * 24
    assert f"{sum(beside) / 9 / 1e6:,.3f} ms" in shared.claim
    # in the graph it is a branch beside the routed experts; eagerly the host launches one after the other
    assert ("of its time beside other work" in shared.claim) is not bound
    assert ("with nothing beside it" in shared.claim) is bound
    assert findings["repeats.index_every_layer"].evidence[0].count == 54


@pytest.mark.parametrize(
    ("trace", "phase", "number"),
    [
        ("traces/tracelens/inference/vllm_prefilldecode_piecewise", "mixed", 24),
        ("traces/tracelens/b200/eager_trace.json.gz", "prefill", 36),
    ],
)
def test_layers_of_other_models(trace: str, phase: str, number: int) -> None:
    """24 and 36 layers: one rotary kernel each, and twice as many norms plus the last one."""
    section, findings = judged(open_recording([shared_or_skip(trace)]))
    for family, per_layer in (("attention", 1), ("moe_gemm", 2), ("rope_kv", 1)):
        assert (row(section, phase, family).per_step, row(section, phase, family).per_layer) == (
            number * per_layer,
            per_layer,
        )
    assert row(section, phase, "norm").per_step == 2 * number + 1
    assert not any("relayout" in id_ or "shared" in id_ for id_ in findings)


def test_counts_survive_the_loss_of_all_graph_kernels_and_times_do_not(tmp_path: Path) -> None:
    source = shared_or_skip("traces/tracelens/inference/vllm_decode_full")
    whole, _ = judged(open_recording([source]))
    shutil.copytree(source / "capture_traces", tmp_path / "capture_traces")
    document = json.loads(gzip.decompress((source / "graph_execution.json.gz").read_bytes()))
    replays = {e["args"]["correlation"] for e in document["traceEvents"] if e.get("name") == "hipGraphLaunch"}
    document["traceEvents"] = [
        e for e in document["traceEvents"] if e.get("cat") != "kernel" or e["args"]["correlation"] not in replays
    ]
    (tmp_path / "graph_execution.json").write_text(json.dumps(document))
    bare, findings = judged(open_recording([tmp_path]))

    def counts(section: RepeatsSection) -> dict[str, tuple[float, float | None]]:
        return {r.family: (r.per_step, r.per_layer) for r in section.repeats}

    assert counts(bare) == counts(whole)
    assert row(bare, "decode", "moe_gemm").evidence == "census"
    assert row(bare, "decode", "moe_gemm").ns_per_step is None
    assert bare.costs.ns_per_output_token is None
    assert bare.costs.launch_bound is None
    assert all(f.bound is None for f in findings.values())


def covered(spans: list[tuple[int, int]], low: int, high: int) -> int:
    """Nanoseconds of [low, high) that some span covers, one span after the other."""
    total, reach = 0, low
    for start, end in sorted(spans):
        total += max(0, min(end, high) - max(start, reach))
        reach = max(reach, min(end, high))
    return total


@pytest.mark.parametrize("trace", [GRAPH, EAGER])
def test_the_share_that_removing_the_experts_wins_counted_again(trace: str) -> None:
    """Time of the decode windows in which only fused_moe_kernel runs, instant by instant."""
    rec = open_recording([shared_or_skip(trace)])
    base = basis(rec)
    assert base is not None
    _, start, end = figures.gpu_events(rec)
    spans = list(zip(start.tolist(), end.tolist(), strict=True))
    experts = {i for i, n in enumerate(rec.kernels["name"].tolist()) if rec.strings[n] == "fused_moe_kernel"}
    others = [span for i, span in enumerate(spans) if i not in experts]
    owner = [*rec.kernels["step"].tolist(), *rec.transfers["step"].tolist()]
    first = [min(b for (b, _), o in zip(spans, owner, strict=True) if o == s) for s in range(10)]
    edges = [*first, max(e for (_, e), o in zip(spans, owner, strict=True) if o == 9)]
    windows = list(pairwise(edges[1:]))  # step 0 is the prefill
    won = sum(covered(spans, low, high) - covered(others, low, high) for low, high in windows)
    bound = removable_share(rec, np.array(sorted(experts)), base)
    assert bound.high == won / sum(high - low for low, high in windows)
    taken = sum(e - b for i, (b, e) in enumerate(spans) if i in experts and owner[i] > 0)
    assert step_share(rec, np.array(sorted(experts)), base) == taken / (edges[-1] - edges[1])


@pytest.mark.parametrize("trace", [GRAPH, EAGER, "traces/tracelens/inference/vllm_decode_full"])
def test_step_windows_equal_a_count_step_by_step(trace: str) -> None:
    rec = open_recording([shared_or_skip(trace)])
    times = step_times(rec)
    _, start, end = figures.gpu_events(rec)
    spans = list(zip(start.tolist(), end.tolist(), strict=True))
    owner = [*rec.kernels["step"].tolist(), *rec.transfers["step"].tolist()]
    first = {s: min(b for (b, _), o in zip(spans, owner, strict=True) if o == s) for s in set(owner) if s >= 0}
    last = max(e for (_, e), o in zip(spans, owner, strict=True) if o == max(first))
    edges = [first[s] for s in sorted(first)] + [last]
    assert [i for i, seen in enumerate(times.seen) if seen] == sorted(first)
    for row, low, high in zip(sorted(first), edges, edges[1:], strict=False):
        assert times.window_ns[row] == high - low
        assert times.busy_ns[row] == covered(spans, low, high)


def test_device_time_after_the_work_of_a_step_is_its_tail(tmp_path: Path) -> None:
    events = steps(2, [GEMM])
    late = kernel(1500.0, 100.0, 0, "no launch")  # fills a part of the first window, and no step owns it
    times = step_times(recording(tmp_path, [*events, late]))
    assert times.window_ns.tolist() == [1_000_000, 2_000]
    assert times.busy_ns.tolist() == [102_000, 2_000]
    # the device waits for the next step while nothing runs: 998 us less the 100 us of that kernel
    assert times.tail_ns.tolist() == [898_000, 0]
    assert times.followed.tolist() == [True, False]
