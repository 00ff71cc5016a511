"""Question 2 on hand-written steps (worked out beside each) and on real recordings counted again by plain json."""

from __future__ import annotations

import gzip
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, recording, step
from steps import (
    ATTEND,
    DENSE,
    FLASH,
    GEMM,
    MODEL,
    PERIOD_US,
    SCORE,
    SPARSE,
    SPARSE_FUSED,
    one_step,
    steps,
)
from tree import shared_or_skip

from m3probe.analyzers import _figures as figures
from m3probe.analyzers import repeats
from m3probe.analyzers._layers import layers
from m3probe.analyzers._relayout import is_layout_work
from m3probe.analyzers._steptime import step_times
from m3probe.analyzers._view import KernelName, view
from m3probe.kernels.demangle import demangle
from m3probe.kernels.grammar import classify, head_of
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, Reason, RepeatRow, RepeatsSection, TrustRow, TrustSection
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


def test_rows_that_hold_drafts_do_not_say_how_many_tokens_came_out(tmp_path: Path) -> None:
    said = "execute_context_0(0)_generation_2(8)"
    section, findings = judged(recording(tmp_path, steps(3, said=said)))
    assert section.costs.ns_per_output_token is None
    assert section.costs.ns_per_active_request == 32_000
    assert row(section, "decode", "gemm").ns_per_output_token is None
    assert findings["repeats.draft_rows"].verdict == "unproven"


def test_eager_decode_with_short_kernels_is_launch_bound(tmp_path: Path) -> None:
    section, findings = judged(recording(tmp_path, steps(3)))
    idle = 1 - 3 * 32 * 2 / WINDOW_US
    assert section.costs.launch_bound is True
    bound = findings["repeats.launch_bound"].bound
    assert bound is not None
    assert bound.high == pytest.approx(idle)
    assert "10.0 us and the mean kernel takes 2.0 us" in findings["repeats.launch_bound"].claim
    eager = findings["repeats.decode_eager"]
    assert eager.bound is not None
    assert eager.bound.high == pytest.approx(idle)
    assert "up to 31 launches per step" in eager.claim


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


def test_a_fused_shared_expert_is_no_finding(tmp_path: Path) -> None:
    names = [*DENSE, *SPARSE_FUSED, *SPARSE_FUSED]
    assert "repeats.shared_expert_separate" not in judged(recording(tmp_path, steps(3, names)))[1]


def test_an_mlp_in_only_some_moe_layers_is_no_shared_expert(tmp_path: Path) -> None:
    names = [*DENSE, *SPARSE, *SPARSE_FUSED]
    assert "repeats.shared_expert_separate" not in judged(recording(tmp_path, steps(3, names)))[1]


def test_every_sparse_layer_choosing_its_blocks_is_found(tmp_path: Path) -> None:
    finding = judged(recording(tmp_path, steps(3)))[1]["repeats.index_every_layer"]
    assert "2 block selections for 2 layers, 0.004 ms per decode step" in finding.claim
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
    assert "stream of its own" in shared.claim
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
    assert times.tail_ns.tolist() == [998_000, 0]
