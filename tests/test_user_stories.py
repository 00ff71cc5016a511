"""Each public report of "cannot tell if it ran" or "silently fell back": the input that fooled people, and what is said.

The reports are listed in docs/stories.md with their links.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from m3_setups import decode, setup
from recipes import AITER, FSE, GATED, INT4, MXFP4, at, judged, reasons, segments
from test_configured import GLUON, SMALL, TABLE, TRITON, made, row, small

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._state import state_at
from m3probe.gates import judge
from m3probe.schema.gates import Arrivals, EvalRun, GateFacts, GateState, GroupedLayer, Score
from m3probe.schema.setup import Held, Point, State
from m3probe.schema.verdicts import Phase

BOTH = {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}
FLAT = """--hf-overrides '{"use_index_cache": true, "index_topk_freq": 4}'"""
NESTED = """--hf-overrides '{"text_config": {"use_index_cache": true, "index_topk_freq": 4}}'"""
REFUSAL = "shared-expert FSE quantization compatibility is not implemented for ModelOptMxFp8Config"


def test_01_fusion_was_off_for_weeks_behind_a_warning() -> None:
    """vLLM PR 57916: MXFP8 M3 lost shared-expert fusion; the flag stayed on."""
    found = judged("0.32.0", env=f"{AITER} {FSE}").path("shared_expert_fusion")
    assert found.state == "refused"
    assert REFUSAL in reasons(found.at[0])
    assert judged("0.33.0", env=f"{AITER} {FSE}").path("shared_expert_fusion").state == "eligible"


def test_02_a_flag_that_is_accepted_and_runs_unfused_with_600_warnings(tmp_path: Path) -> None:
    """vLLM PR 53068: exit 0, same text, unfused. Here: declined, and the reason once, not 600 times."""
    given = setup("0.32.0", model=replace(SMALL, quant_config_class="ModelOptMxFp8Config", moe_quant="mxfp8"))
    given = replace(given, env={"VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS": "1"})
    step = ["fusedMiniMaxM3QNormRopeKVInsertKernel", "_swiglu_oai_kernel"] * 3
    found = row(made(tmp_path, [step] * 5, given), "shared_expert_fusion")
    assert found.configured == "yes"
    assert found.eligible == "no"
    assert found.verdict == "declined"
    assert sum(REFUSAL in reason for reason in found.reasons) == 1


def test_03_a_refactor_that_refused_quark_models_too() -> None:
    """vLLM PR 54573: on these releases Quark is accepted, so unfused kernels there are missed, not declined."""
    for version in ("0.32.0", "0.33.0"):
        line = judged(version, env=f"{AITER} {FSE}", model=MXFP4).path("shared_expert_fusion")
        assert line.state == "eligible", line.at[0].needs


def test_04_a_gain_credited_to_a_fusion_that_was_off_in_every_run(tmp_path: Path) -> None:
    """sglang PR 36576: what was off gets no credit, whatever else got faster."""
    found = row(made(tmp_path, [["_swiglu_oai_kernel"]], small()), "shared_expert_fusion")
    assert (found.configured, found.verdict) == ("no", "off")


@pytest.mark.parametrize(
    ("version", "state", "words"),
    [
        ("0.24.0", "off", "has no index reuse"),
        ("0.25.1", "off", "silently ignored"),
        ("0.32.0", "off", "silently ignored"),
        ("0.33.0", "refused_at_start", "nest it under text_config"),
    ],
)
def test_05_a_flat_override_that_looked_enabled(version: str, state: str, words: str) -> None:
    """vllm recipes PR 621: only a throughput equal to the baseline exposed it."""
    report = judged(version, FLAT)
    line = report.path("index_reuse")
    assert line.state == state
    told = line.asked if state == "off" else reasons(line.at[0])
    assert words in told
    assert bool(report.stops) is (state == "refused_at_start")
    if state == "off":
        assert any(w.kind == "no_effect" and "index_reuse" in w.text for w in report.warnings)


def test_05_the_nested_form_computes_15_of_57_layers() -> None:
    for version in ("0.25.1", "0.32.0", "0.33.0"):
        line = judged(version, NESTED).path("index_reuse")
        assert line.state == "eligible"
        assert any("15 of 57 sparse layers choose, 42 skip" in need.text for need in line.at[0].needs)


def test_06_a_knob_whose_existence_was_disputed() -> None:
    """InferenceX PR 2333: the size override is in the registry of all four; a misspelt one is not."""
    knob = "VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_BYTES_MB"
    for version in ("0.24.0", "0.25.1", "0.32.0", "0.33.0"):
        assert not [w for w in judged(version, env=f"{INT4} {knob}=1").warnings if w.kind == "unknown_variable"]
        told = judged(version, env=f"{INT4} VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_MB=1").warnings
        assert any(w.kind == "unknown_variable" and f"did you mean {knob}?" in w.text for w in told)


def test_06_quick_reduce_is_off_unless_somebody_names_a_codec() -> None:
    assert judged("0.33.0", env=AITER).path("quick_reduce").state == "off"


def test_07_an_all_reduce_fusion_that_did_nothing_on_this_gpu() -> None:
    """InferenceX PR 1969: no such code for ROCm before 0.32."""
    for version in ("0.24.0", "0.25.1"):
        assert judged(version, env=AITER).path("fused_allreduce_norm").state == "off"
    assert judged("0.33.0", env=AITER).path("fused_allreduce_norm").state != "off"


def test_08_all_reduces_between_two_limits_fall_to_rccl_unannounced() -> None:
    """vLLM issue 53136: 8 to 16 MiB at TP8 with the FP codec are 683 to 1,365 rows of 12,288 B."""
    report = judged("0.33.0", env="VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=FP", tp=8)
    assert [(r.first, r.last, r.backend) for r in report.all_reduce][:3] == [
        (1, 682, "custom"),
        (683, 1365, "rccl"),
        (1366, 174762, "quick_reduce"),
    ]


def test_09_the_official_image_leaves_aiter_off() -> None:
    """vLLM issue 56945: 1.7 to 3.7 x slower and nothing at start says so. The word that is missing is named."""
    asked = judged("0.33.0").path("aiter_sparse_pa").asked
    assert "VLLM_ROCM_USE_AITER is not set (default off)" in asked


def test_10_aiter_on_does_not_choose_aiters_attention() -> None:
    """vLLM issue 46596: ROCM_ATTN stands before ROCM_AITER_FA in every release read."""
    told = [w for w in judged("0.33.0", env=AITER).warnings if w.kind == "not_implied"]
    assert told and "ROCM_ATTN" in told[0].text
    assert not [
        w for w in judged("0.33.0", "--attention-backend TRITON_ATTN", AITER).warnings if w.kind == "not_implied"
    ]


@pytest.mark.parametrize(("version", "state"), [("0.25.1", "refused"), ("0.32.0", "eligible"), ("0.33.0", "eligible")])
def test_11_a_draft_backend_that_the_runner_ignores(version: str, state: str) -> None:
    """vLLM PR 54826: Model Runner V2 of 0.25.1 reads no override."""
    spec = """--speculative-config '{"method":"eagle3","num_speculative_tokens":3,"attention_backend":"TRITON_ATTN"}'"""
    line = judged(version, spec, "VLLM_USE_V2_MODEL_RUNNER=1").path("draft_attention")
    assert line.state == state
    assert ("ignores the override" in reasons(line.at[0])) is (state == "refused")


def test_12_a_drafter_left_on_its_slow_default() -> None:
    """vllm recipes PR 615: up to 151 % lost. V1 never inherits the target's backend."""
    spec = """--attention-backend TRITON_ATTN --speculative-config '{"method":"eagle3","num_speculative_tokens":3}'"""
    line = judged("0.25.1", spec).path("draft_attention")
    assert line.state == "off"
    assert "never inherits --attention-backend" in line.asked
    assert "inherits TRITON_ATTN" in judged("0.33.0", spec).path("draft_attention").asked


def test_13_a_cap_on_rows_quietly_disabled_a_path_at_a_larger_batch() -> None:
    """sglang PR 34014: 8 rows. vLLM's router GEMM has such a cap at 32: batch 32 and batch 33 differ."""
    line = judged("0.33.0").path("router_gemm")
    first, second = segments(line, "decode")[:2]
    assert first == (1, 32, "eligible")
    assert second[0] == 33
    assert second[2] == "refused"


def test_14_a_setting_that_made_quick_reduce_unreachable() -> None:
    """sglang PR 32230: custom all-reduce disabled, and QuickReduce with it."""
    line = judged("0.33.0", "--disable-custom-all-reduce", INT4).path("quick_reduce")
    assert line.state == "refused"
    assert "--disable-custom-all-reduce" in reasons(line.at[0])


def test_15_a_missing_layout_variable_kept_the_kernels_away() -> None:
    """InferenceX PR 1199."""
    line = judged("0.33.0", env=AITER).path("aiter_sparse_pa")
    assert line.state == "off"
    assert line.asked == "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT is not set (default off)"


def test_16_a_layout_that_ran_fast_and_answered_nonsense(tmp_path: Path) -> None:
    """vLLM PR 54717: executed is not correct; an evaluation near zero breaks the path's gate."""
    rec = made(tmp_path, [[GLUON, TABLE, GLUON]], small(env=BOTH))
    facts = GateFacts(run=EvalRun(score=Score("gsm8k", "exact_match", 0.0008, n=1319)))
    found = row(replace(rec, meta=replace(rec.meta, gates=facts)), "aiter_sparse_pa")
    assert (found.verdict, found.correct) == ("executed", "broken")


def test_17_is_decode_eager_and_is_it_aiters_backend(tmp_path: Path) -> None:
    """InferenceX PR 1935: a reviewer asks for logs. The configuration and the kernels answer."""
    eager = judged("0.33.0", "--enforce-eager", AITER)
    assert eager.path("graph_replay").state == "off"
    assert eager.path("graph_replay").asked == "--enforce-eager"
    found = row(made(tmp_path, [["_mxfp8_grouped_gemm_kernel"] * 4], small()), "moe_backend")
    assert found.variant == "Triton MXFP8"


def test_18_a_script_that_set_a_flag_for_weeks_while_a_check_left_it_inert() -> None:
    """InferenceX PR 2851: required in CI, it fails on the first run."""
    report = judged("0.32.0", env=f"{AITER} {FSE}", require=["shared_expert_fusion"])
    assert [(what, held) for what, held, _ in report.required] == [("shared_expert_fusion", False)]
    assert REFUSAL in report.required[0][2]


def test_21_a_line_that_says_using_is_no_execution(tmp_path: Path) -> None:
    """vLLM PR 25709: a configured path without a kernel is unproven, whatever a log says."""
    found = row(made(tmp_path, [["gemm"]], small(env=BOTH)), "aiter_sparse_pa")
    assert (found.configured, found.eligible, found.verdict) == ("yes", "yes", "unproven")


def test_22_attention_fell_back_without_a_word(tmp_path: Path) -> None:
    """xformers issue 1401: the fallback's kernel is named, with the step count."""
    found = row(made(tmp_path, [[TRITON, TRITON]] * 4, small(env=BOTH)), "aiter_sparse_pa")
    assert (found.verdict, found.variant, found.counts["missed"]) == ("missed", "Triton", 4)


def test_23_engaged_or_not_engaged_is_said_for_every_path(tmp_path: Path) -> None:
    """vLLM PR 46063: the author adds such a line for one kernel."""
    report = judged("0.33.0", env=GATED)
    assert {line.id for line in report.paths} == set(fast_paths())
    assert all(line.state in {"off", "refused_at_start", "refused", "unproven", "eligible"} for line in report.paths)


def test_24_true_for_plain_decode_and_silent_on_the_speculative_shape() -> None:
    """vLLM issue 53943: a batch that is not uniform sends its verification rows to the prefill side."""
    draft = {"method": "eagle3", "num_speculative_tokens": 3}
    given = setup(env=BOTH, draft=draft)
    plain, spec = fast_paths()["aiter_sparse_pa"], fast_paths()["spec_sparse_pa"]
    uneven = Point(Phase.DECODE, 13, 4)
    assert state_at(plain, given, uneven).state is State.ELIGIBLE
    found = state_at(spec, given, uneven)
    assert found.state is State.REFUSED
    assert found.of(Held.NO) == ("13 rows of 4 requests, 4 each make 16",)
    assert state_at(spec, given, decode(16, 4)).state is State.ELIGIBLE


def test_25_a_healthy_engine_with_stranded_requests() -> None:
    """vLLM PR 57705: 97 of 128 finish and no error is logged."""
    found = judge(GateFacts(arrivals=Arrivals(received=128, ran=97)))["kv_arrival"]
    assert found.state is GateState.BROKEN
    assert "97" in found.text
    assert "128" in found.text


def test_26_a_group_kept_on_a_path_meant_for_other_heads() -> None:
    """vLLM PR 56996: layers with different query heads shared one builder."""
    group = tuple(
        GroupedLayer(f"layers.{i}", "TRITON_ATTN", "full", heads, draft=False) for i, heads in enumerate((16, 64))
    )
    found = judge(GateFacts(groups=(group,)))["attn_group_key"]
    assert found.state is GateState.BROKEN


def test_27_invocations_counted_64_with_the_path_on_and_0_off(tmp_path: Path) -> None:
    """ROCm/vllm PR 1087: the good practice. Calls are counted by the anchor."""
    given = small(env=BOTH)
    on = row(made(tmp_path, [[TABLE, *[GLUON] * 2]] * 32, given), "aiter_sparse_pa")
    assert on.counts["calls"] == 64
    off = row(made(tmp_path, [["gemm"]] * 32, small()), "aiter_sparse_pa")
    assert off.counts["calls"] == 0


def test_28_one_decode_step_kernel_by_kernel_on_paper() -> None:
    """InferenceX issue 1765 asks for it: calls that one decode step of M3 makes at TP4."""
    report = judged("0.33.0", "--moe-backend aiter", f"{GATED} {FSE}", concurrency=128)
    calls = {line.id: at(line, "decode").expected for line in report.paths if line.at}
    assert calls["aiter_sparse_pa"] == {"AITER page-16": 57}
    assert calls["fused_qknorm_rope_kv"] == {"AITER": 57}
    assert calls["mxfp8_moe"] == {"AITER FlyDSL MXFP8": 114}
    assert calls["shared_expert_fusion"] == {"fused": 57}
    assert calls["custom_all_reduce"] == {"AITER": 121, "vLLM": 0}
