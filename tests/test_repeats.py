"""Question 2 on hand-written steps (worked out beside each) and on real recordings counted again by plain json: launches per step and layer; costs and launching; graph coverage."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import recording, step
from repeats_kit import WINDOW_US, judged, row
from steps import (
    FLASH,
    GEMM,
    MODEL,
    PERIOD_US,
    one_step,
    steps,
)

from m3probe.analyzers._steptime import step_times
from m3probe.model.report import Answer, Reason, Report, TrustRow, TrustSection
from m3probe.present.text import report_text

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


def test_the_softmax_of_a_sampler_is_no_layer(tmp_path: Path) -> None:
    """Sampling at a temperature runs one over the vocabulary in each step: three layers attend, not four."""
    soft = (
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*, float const*, int)"
    )
    section, _ = judged(recording(tmp_path, steps(3, [*MODEL, GEMM, soft])))
    assert row(section, "decode", "gemm").per_layer == pytest.approx(15 / 3)
    assert section.layers is not None
    assert section.layers.dense_attention == 1
    # attention that is not fused has no other kernel to count by
    unfused, _ = judged(recording(tmp_path, steps(3, [GEMM, soft, GEMM, GEMM, soft, GEMM])))
    assert unfused.layers is not None
    assert unfused.layers.dense_attention == 2
