"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import recording
from m3_setups import FP8_INDEX, M3, NESTED, NEW, OLD, RULES, VERSIONS, at, decode, refusal, setup
from test_paths import H200, ROCM, eager, rows_of
from tree import ROOT, shared_or_skip

from m3probe.fastpaths import fast_paths, tuned_table
from m3probe.fastpaths._expert_pick import pick
from m3probe.fastpaths._experts_mxfp4 import mxfp4_pick
from m3probe.fastpaths._experts_mxfp8 import mxfp8_pick
from m3probe.fastpaths._shared_expert import experts_and_slots, fused_shared
from m3probe.fastpaths.monokernel import REFUSALS
from m3probe.fastpaths.mxfp8_linear import gemms, is_mxfp8
from m3probe.fastpaths.shared_expert_fusion import append
from m3probe.gates import gates
from m3probe.readers.tuned_tables import read_tuned_table
from m3probe.schema.paths import Role, When
from m3probe.schema.rules import RULES as IDS
from m3probe.schema.setup import Build, Held, Point, Rule, RuleStatus, Setup, State
from m3probe.schema.tuned import GemmKey, MoeKey, TunedTable
from m3probe.schema.verdicts import Phase
from m3probe.sources import open_recording
from m3probe.vllm_source import bundled

MXFP8 = replace(
    M3,
    linear_quant="mxfp8",
    moe_quant="mxfp8",
    quant_config_class="ModelOptMxFp8Config",
    moe_intermediate=3072,
    activation=(1.702, 1.0, 7.0),
)
MXFP4 = replace(MXFP8, linear_quant="bf16", moe_quant="mxfp4", quant_config_class="QuarkConfig")
AITER = {"VLLM_ROCM_USE_AITER": "1"}
FSE = {"VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS": "1"}
BOTH = AITER | FSE
DATA = ROOT / "tests" / "data" / "tuned"
MINE = (
    "moe_backend",
    "monokernel",
    "mxfp4_moe",
    "mxfp8_linear",
    "mxfp8_moe",
    "router_gemm",
    "shared_expert_fusion",
    "tuned_table",
)


def m3(version: str | None = "0.33.0", model: Any = MXFP8, tp: int = 4, **more: Any) -> Setup:
    return setup(version, tp, **({"model": model, "units": 256} | more))


def named(word: str) -> dict[str, str]:
    return {"--moe-backend": word}


def expected(path: str, variant: str, made: Setup, point: Point | None = None) -> int | None:
    found = next(v for v in fast_paths()[path].variants if v.name == variant)
    assert found.expected is not None
    return found.expected(made, point or decode(8))


# --- the shelf -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MINE)
def test_a_path_of_this_catalogue_is_whole_and_its_gates_exist(name: str) -> None:
    path = fast_paths()[name]
    assert path.asked
    assert path.gates
    assert set(path.gates) <= set(gates())
    assert path.instead
    assert path.functions
    assert path.sources
    assert all(effect.source for effect in path.effects)
    assert all(need.check for need in path.needs), "each need is judged on paper"
    assert {rule for need in path.needs for rule in need.rules} <= set(IDS)


@pytest.mark.parametrize("name", MINE)
@pytest.mark.parametrize("model", [MXFP8, MXFP4, M3], ids=["mxfp8", "mxfp4", "untold"])
def test_an_unknown_build_never_makes_a_path_eligible(name: str, model: Any) -> None:
    made = m3(None, model, env=BOTH, flags=FP8_INDEX | named("aiter") | {"--monokernel": True})
    assert at(name, made).state in (State.UNPROVEN, State.OFF)


@pytest.mark.parametrize("name", MINE)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rows", [1, 33, 32768])
def test_every_path_answers_for_a_setup_of_which_nothing_is_known(name: str, version: str, rows: int) -> None:
    bare = Setup(build=setup(version).build)
    assert at(name, bare, Point(Phase.DECODE, rows, rows)).state is not State.ELIGIBLE or name == "moe_backend"


# --- MXFP8 linear ---------------------------------------------------------------------------------------------


def test_a_model_tells_whether_its_dense_weights_are_mxfp8() -> None:
    assert [is_mxfp8(m3(model=model)) for model in (MXFP8, MXFP4, M3)] == [True, False, None]


@pytest.mark.parametrize("version", VERSIONS)
def test_auto_is_native_on_gfx950(version: str) -> None:
    found = at("mxfp8_linear", m3(version))
    assert found.state is State.ELIGIBLE
    assert found.asked == "--linear-backend auto"
    assert "K of hidden size 6,144, o_proj 2,048, shared down 768: multiples of 128" in found.of(Held.YES)


@pytest.mark.parametrize("version", VERSIONS)
def test_gfx942_has_no_mx_hardware_and_emulates(version: str) -> None:
    found = at("mxfp8_linear", m3(version, gfx="gfx942"))
    assert found.state is State.REFUSED
    assert refusal(found) == {
        "0.24.0": "GPU gfx942: native MXFP8 needs gfx95",
        "0.25.1": "GPU gfx942: native MXFP8 needs gfx95",
    }.get(version, "GPU gfx942: native MXFP8 needs gfx95 or gfx1250")


@pytest.mark.parametrize("version", VERSIONS)
def test_emulation_is_asked_for_by_name(version: str) -> None:
    found = at("mxfp8_linear", m3(version, flags={"--linear-backend": "emulation"}))
    assert found.state is State.OFF
    assert found.asked.startswith("--linear-backend emulation: weights become BF16 at load, hipBLASLt (Cijk_*)")


@pytest.mark.parametrize("word", ["triton", "aiter", "torch"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_word_without_an_mxfp8_kernel_stops_old_builds_and_warns_in_new_ones(version: str, word: str) -> None:
    found = at("mxfp8_linear", m3(version, flags={"--linear-backend": word}))
    if version in OLD:
        assert found.state is State.REFUSED_AT_START
        assert refusal(found) == (
            f"--linear-backend {word}: no '{word}' kernel exists for MXFP8 layers, the engine does not start (ValueError)"
        )
    else:
        assert found.state is State.ELIGIBLE
        said = f"--linear-backend {word} has no MXFP8 kernel: vLLM {version} warns once and selects as with auto"
        assert said in found.of(Held.YES)


@pytest.mark.parametrize(("version", "state"), [("0.24.0", State.REFUSED_AT_START), ("0.25.1", State.REFUSED_AT_START)])
def test_a_word_that_a_build_lacks_is_refused_by_the_command_line(version: str, state: State) -> None:
    """b12x came after 0.25.1, humming after 0.24."""
    found = at("mxfp8_linear", m3(version, flags={"--linear-backend": "b12x"}))
    assert found.state is state
    assert refusal(found) == f"--linear-backend b12x is none of vLLM {version}'s names: the engine does not start"


def test_dashes_and_capitals_are_read_as_vllm_reads_them() -> None:
    made = m3("0.24.0", flags={"--linear-backend": "FlashInfer-Cutlass"})
    assert "--linear-backend flashinfer_cutlass: no 'flashinfer_cutlass' kernel" in refusal(at("mxfp8_linear", made))


@pytest.mark.parametrize(
    ("version", "state"), [("0.25.1", State.ELIGIBLE), ("0.32.0", State.OFF), ("0.33.0", State.OFF)]
)
def test_a_word_per_quantisation_counts_since_0_32(version: str, state: State) -> None:
    flags = {"--kernel-config": '{"linear_backend_per_quant": {"mxfp8": "emulation"}}'}
    assert at("mxfp8_linear", m3(version, flags=flags)).state is state


def test_the_word_per_quantisation_wins_over_the_general_one() -> None:
    flags = {"--kernel-config": {"linear_backend_per_quant": {"mxfp8": "emulation"}}, "--linear-backend": "triton"}
    assert at("mxfp8_linear", m3(flags=flags)).asked.startswith("linear_backend_per_quant mxfp8 emulation")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_disabled_native_kernel_is_emulated_and_none_left_stops_the_engine(version: str) -> None:
    native, emulation = "RocmDotScaledMxfp8LinearKernel", "EmulationMxfp8LinearKernel"
    found = at("mxfp8_linear", m3(version, env={"VLLM_DISABLED_KERNELS": native}))
    assert found.state is State.REFUSED
    assert refusal(found) == f"VLLM_DISABLED_KERNELS turns off {native}: emulation runs"
    none = at("mxfp8_linear", m3(version, env={"VLLM_DISABLED_KERNELS": f"{native},{emulation}"}))
    assert none.state is State.REFUSED_AT_START
    assert any("no MXFP8 kernel is left, the engine does not start" in text for text in none.of(Held.NO))


def test_a_blank_after_the_comma_disables_nothing() -> None:
    """vLLM splits at commas and strips nothing: ' RocmDot...' is another name."""
    made = m3(env={"VLLM_DISABLED_KERNELS": "X, RocmDotScaledMxfp8LinearKernel"})
    assert at("mxfp8_linear", made).state is State.ELIGIBLE


def test_at_tp16_the_shared_expert_s_k_is_192_and_runs_in_bf16() -> None:
    """3,072 / 16 = 192 = 128 + 64; the hidden size 6,144 and o_proj's 512 are multiples."""
    found = at("mxfp8_linear", m3(tp=16))
    assert found.state is State.ELIGIBLE
    said = "K of shared down 192 is no multiple of 128: that layer runs in BF16 unannounced"
    assert said in found.of(Held.YES)


def test_dense_gemms_of_a_step() -> None:
    """60 x (qkv, o) + 3 x 2 = 126; the unfused shared experts add 57 x 2 = 114."""
    assert gemms(m3()) == 240
    assert gemms(m3(env=FSE)) == 126
    assert gemms(m3("0.32.0", env=FSE)) == 240, "refused there"
    assert gemms(m3("0.24.0", env=FSE)) == 240, "no fusion there"


# --- MXFP8 experts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "env", "gfx", "member"),
    [
        ("0.24.0", {}, "gfx950", "NATIVE_MXFP8"),
        ("0.24.0", AITER, "gfx950", "NATIVE_MXFP8"),
        ("0.24.0", {}, "gfx942", "EMULATION"),
        ("0.25.1", {}, "gfx950", "AITER_MXFP8"),
        ("0.25.1", AITER, "gfx950", "AITER_MXFP8"),
        ("0.25.1", AITER, "gfx942", "EMULATION"),
        ("0.32.0", {}, "gfx950", "TRITON_MXFP8"),
        ("0.32.0", AITER, "gfx950", "AITER_MXFP8"),
        ("0.32.0", AITER | {"VLLM_ROCM_USE_AITER_MOE": "0"}, "gfx950", "TRITON_MXFP8"),
        ("0.33.0", {}, "gfx950", "TRITON_MXFP8"),
        ("0.33.0", AITER, "gfx950", "AITER_MXFP8"),
        ("0.33.0", AITER | {"VLLM_BATCH_INVARIANT": "1"}, "gfx950", "TRITON_MXFP8"),
        ("0.33.0", AITER, "gfx942", "EMULATION"),
        ("0.33.0", AITER, None, None),
    ],
)
def test_auto_takes_the_first_that_fits(version: str, env: dict[str, str], gfx: str | None, member: str | None) -> None:
    assert mxfp8_pick(m3(version, env=env, gfx=gfx)).member == member


@pytest.mark.parametrize("version", NEW)
def test_the_official_image_leaves_aiter_off_and_auto_says_what_it_takes(version: str) -> None:
    found = at("mxfp8_moe", m3(version))
    assert found.state is State.OFF
    assert found.asked == (
        "--moe-backend auto passes AITER_MXFP8 over (VLLM_ROCM_USE_AITER is not set (default off)): TRITON_MXFP8 on gfx950"
    )


def test_0_25_1_asks_for_a_file_of_the_package_and_no_variable() -> None:
    found = at("mxfp8_moe", m3("0.25.1"))
    assert found.state is State.ELIGIBLE
    want = "vLLM 0.25.1 asks no variable but flydsl and minimax_m3_mxfp8_tuned_fmoe.csv in the AITER package"
    assert f"given both: {want}" in found.of(Held.YES)
    lacking = at("mxfp8_moe", m3("0.25.1", tuned_tables={"a/bf16_tuned_gemm.csv": None}))
    assert lacking.state is State.REFUSED
    assert refusal(lacking) == f"{want}: it is not among the 1 tables given"
    having = m3("0.25.1", tuned_tables={"a/minimax_m3_mxfp8_tuned_fmoe.csv": None})
    assert at("mxfp8_moe", having).state is State.ELIGIBLE


@pytest.mark.parametrize(
    ("version", "word", "state"),
    [
        ("0.24.0", "aiter", State.REFUSED_AT_START),
        ("0.24.0", "triton", State.REFUSED_AT_START),
        ("0.25.1", "aiter", State.ELIGIBLE),
        ("0.25.1", "triton", State.OFF),
        ("0.32.0", "aiter", State.ELIGIBLE),
        ("0.33.0", "triton", State.OFF),
        *(
            (version, word, State.REFUSED_AT_START)
            for version in VERSIONS
            for word in ("emulation", "flydsl", "marlin")
        ),
    ],
)
def test_a_name_leads_to_its_backend_or_stops_the_engine(version: str, word: str, state: State) -> None:
    """emulation is a choice of --moe-backend, and no MXFP8 name in any of the four."""
    found = at("mxfp8_moe", m3(version, env=AITER, flags=named(word)))
    assert found.state is state
    if state is State.REFUSED_AT_START:
        assert refusal(found).endswith("the engine does not start")


def test_the_names_that_mxfp8_knows_are_told() -> None:
    said = refusal(at("mxfp8_moe", m3("0.24.0", flags=named("aiter"))))
    assert said == (
        "--moe-backend aiter is none of MXFP8's deep_gemm, flashinfer_trtllm, marlin, xpu: the engine does not start"
    )


@pytest.mark.parametrize("version", NEW)
def test_a_named_aiter_that_is_off_stops_the_engine_and_auto_does_not(version: str) -> None:
    found = at("mxfp8_moe", m3(version, flags=named("aiter")))
    assert found.state is State.REFUSED_AT_START
    assert refusal(found) == (
        "--moe-backend aiter: VLLM_ROCM_USE_AITER is not set (default off); the engine does not start"
    )


def test_all_refusals_of_a_named_backend_are_told_at_once() -> None:
    odd = replace(MXFP8, activation=(1.5, 1.0, 7.0))
    made = m3(model=odd, gfx="gfx942", flags=named("aiter"), env={"VLLM_BATCH_INVARIANT": "1"})
    said = refusal(at("mxfp8_moe", made))
    for part in (
        "GPU gfx942: AITER's MXFP8 experts need gfx95 or gfx1250",
        "VLLM_ROCM_USE_AITER is not set",
        "SwiGLU-OAI with alpha 1.5, beta 1; AITER's kernel holds alpha 1.702, beta 1.0",
        "VLLM_BATCH_INVARIANT=1",
    ):
        assert part in said


@pytest.mark.parametrize(("version", "state"), [("0.25.1", State.ELIGIBLE), ("0.32.0", State.REFUSED)])
def test_0_25_1_does_not_compare_the_activation(version: str, state: State) -> None:
    odd = replace(MXFP8, activation=(1.5, 1.0, 7.0))
    assert at("mxfp8_moe", m3(version, odd, env=AITER)).state is state


@pytest.mark.parametrize(("version", "member"), [("0.25.1", "EMULATION"), ("0.32.0", None), ("0.33.0", None)])
def test_triton_by_name_without_mx_hardware(version: str, member: str | None) -> None:
    chosen = mxfp8_pick(m3(version, gfx="gfx942", flags=named("triton")))
    assert (chosen.member, chosen.starts) == (member, member is not None)


def test_expert_parallelism_is_allowed_and_names_its_gate() -> None:
    found = at("mxfp8_moe", m3(env=AITER, expert_parallel=True))
    assert found.state is State.ELIGIBLE
    assert "EP4 is allowed; gate expert_mask has to hold" in found.of(Held.YES)
    assert "expert_mask" in fast_paths()["mxfp8_moe"].gates


def test_a_checkpoint_of_another_kind_does_not_ask() -> None:
    assert at("mxfp8_moe", m3(model=MXFP4, env=AITER)).asked == "the experts are mxfp4, not mxfp8"
    assert at("mxfp4_moe", m3(env=AITER)).asked == "the experts are mxfp8, not mxfp4"


def test_two_gemms_in_each_of_57_layers() -> None:
    fp8, fp4 = m3(env=AITER), m3(model=MXFP4, env=AITER)
    assert expected("mxfp8_moe", "AITER FlyDSL MXFP8", fp8) == 114
    assert expected("mxfp4_moe", "AITER FlyDSL W4A4", fp4) == 114
    assert [expected("moe_backend", "AITER FlyDSL", made) for made in (fp8, fp4)] == [114, 114]
    assert expected("mxfp8_moe", "Triton MXFP8", fp8) == 0
    assert expected("mxfp8_moe", "Triton MXFP8", m3()) == 114, "AITER is off"
    assert expected("mxfp8_moe", "Triton fused_moe", m3(gfx="gfx942")) == 114
    assert expected("mxfp4_moe", "triton_kernels", m3("0.24.0", MXFP4, env=AITER)) == 114
    assert expected("mxfp8_moe", "AITER FlyDSL MXFP8", m3(env=AITER, gfx=None)) is None


def test_the_monokernel_takes_decode_steps_away_from_the_experts() -> None:
    assert expected("mxfp4_moe", "AITER FlyDSL W4A4", mono()) is None
    assert expected("mxfp4_moe", "AITER FlyDSL W4A4", mono(), Point(Phase.PREFILL, 512, 1)) == 114
    assert expected("moe_backend", "monokernel", m3()) == 0
    assert expected("router_gemm", "FP32 kernel", mono()) is None
    whole = mono(flags={"--monokernel": False, "--kernel-config": {"monokernel": True}})
    assert expected("monokernel", "monokernel", whole) == 57
    assert expected("monokernel", "monokernel", mono(), decode(17)) == 0
    assert expected("monokernel", "monokernel", mono(pp=2)) is None, "the engine does not start"
    assert [expected("moe_backend", "monokernel", mono(), decode(n)) for n in (16, 17)] == [57, 0]


# --- MXFP4 experts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "env", "gfx", "member"),
    [
        ("0.24.0", AITER, "gfx950", "TRITON_UNFUSED"),
        ("0.25.1", AITER, "gfx950", "AITER_MXFP4_MXFP4"),
        ("0.25.1", {}, "gfx950", "EMULATION"),
        ("0.32.0", AITER, "gfx950", "AITER_MXFP4_MXFP4"),
        ("0.33.0", AITER, "gfx950", "AITER_MXFP4_MXFP4"),
        ("0.33.0", {}, "gfx950", "EMULATION"),
        ("0.33.0", AITER, "gfx942", "EMULATION"),
    ],
)
def test_mxfp4_auto(version: str, env: dict[str, str], gfx: str, member: str) -> None:
    assert mxfp4_pick(m3(version, MXFP4, env=env, gfx=gfx)).member == member


@pytest.mark.parametrize("version", ["0.25.1", *NEW])
def test_aiter_stands_for_a_list_and_the_checkpoint_s_activations_choose(version: str) -> None:
    found = at("mxfp4_moe", m3(version, MXFP4, env=AITER, flags=named("aiter")))
    assert found.state is State.ELIGIBLE
    assert "AITER_MXFP4_BF16 (W4A16)" in found.asked
    assert "AITER_MXFP4_FP8 (W4A8)" in found.asked
    kept = {"0.33.0": "AITER_MXFP4_MXFP4, AITER_TRITON_MXFP4_MXFP4"}.get(version, "AITER_MXFP4_MXFP4")
    assert found.asked.endswith(f"; the checkpoint's MXFP4 activations leave {kept}")


def test_0_24_does_not_take_m3_s_activation() -> None:
    found = at("mxfp4_moe", m3("0.24.0", MXFP4, env=AITER, flags=named("aiter")))
    assert found.state is State.REFUSED_AT_START
    assert refusal(found) == (
        "--moe-backend aiter: AITER's experts of vLLM 0.24.0 do not take M3's activation swigluoai_uninterleave; "
        "the engine does not start"
    )


@pytest.mark.parametrize("version", ["0.25.1", *NEW])
def test_mxfp4_on_gfx942_is_refused_by_name_and_emulated_by_auto(version: str) -> None:
    made = m3(version, MXFP4, env=AITER, gfx="gfx942", flags=named("aiter"))
    assert at("mxfp4_moe", made).state is State.REFUSED_AT_START
    auto = at("mxfp4_moe", m3(version, MXFP4, env=AITER, gfx="gfx942"))
    assert auto.state is State.REFUSED
    assert refusal(auto) == "GPU gfx942: AITER's MXFP4 experts need gfx950"


@pytest.mark.parametrize("version", VERSIONS)
def test_emulation_is_a_name_for_mxfp4(version: str) -> None:
    found = at("mxfp4_moe", m3(version, MXFP4, env=AITER, flags=named("emulation")))
    assert found.state is State.OFF
    assert "amd-quark" in found.asked


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("word", ["bogus", "aiter_mxfp4_mxfp4"])
@pytest.mark.parametrize("quant", ["bf16", "mxfp4", "mxfp8"])
def test_a_word_that_the_command_line_refuses_stops_any_checkpoint(version: str, word: str, quant: str) -> None:
    """Literal MoEBackend (config/kernel.py); map_mxfp4_backend knows aiter_mxfp4_mxfp4, the flag does not take it."""
    found = at("moe_backend", m3(version, replace(MXFP8, moe_quant=quant), flags=named(word)))
    assert found.state is State.REFUSED_AT_START
    assert refusal(found) == (
        f"--moe-backend {word} is none of vLLM {version}'s words: vllm serve refuses it, the engine does not start"
    )


def test_a_word_of_the_command_line_may_be_known_to_no_bf16_oracle_here() -> None:
    assert at("moe_backend", m3("0.33.0", replace(MXFP8, moe_quant="bf16"), flags=named("triton"))).state is (
        State.UNPROVEN
    )
    assert at("moe_backend", m3("0.25.1", flags=named("Flash-Infer"))).state is State.REFUSED_AT_START


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("word", ["triton", "triton_unfused", "marlin", "flashinfer_trtllm", "deep_gemm"])
def test_old_releases_keep_members_for_mxfp4_activations_alone(version: str, word: str) -> None:
    """_filter_by_activation leaves no candidate: ValueError "does not support activation"."""
    members = {
        "triton": "TRITON",
        "triton_unfused": "TRITON_UNFUSED",
        "marlin": "MARLIN",
        "deep_gemm": "DEEPGEMM_MXFP4",
    }
    told = members.get(word, "FLASHINFER_TRTLLM_MXFP4_BF16, FLASHINFER_TRTLLM_MXFP4_MXFP8")
    found = at("moe_backend", real(version, word))
    assert found.state is State.REFUSED_AT_START
    assert refusal(found) == (
        f"--moe-backend {word}: {told} takes no MXFP4 activations, the engine does not start (ValueError)"
    )


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("triton", "TRITON does not take M3's activation swigluoai_uninterleave"),
        ("marlin", "MARLIN does not run on ROCm"),
        ("flashinfer_trtllm", "FLASHINFER_TRTLLM_MXFP4_BF16 does not run on ROCm"),
        ("aiter_triton_mxfp4_bf16", "AITER_TRITON_MXFP4_BF16 does not take M3's activation swigluoai_uninterleave"),
    ],
)
def test_new_releases_ask_members_with_bf16_activations_next(version: str, word: str, says: str) -> None:
    """OAITritonExperts: SWIGLUOAI alone. AiterW4A16ExpertsMonolithic: SWIGLUOAI and SILU. MarlinExperts: is_cuda()."""
    found = at("moe_backend", real(version, word))
    assert found.state is State.REFUSED_AT_START
    assert refusal(found) == f"--moe-backend {word}: {says}; the engine does not start (ValueError)"


@pytest.mark.parametrize("version", NEW)
def test_triton_unfused_starts_with_bf16_activations(version: str) -> None:
    """UnfusedOAITritonExperts takes swigluoai_uninterleave and (MXFP4 weights, None); it is not batch-invariant."""
    found = mxfp4_pick(real(version, "triton_unfused"))
    assert (found.member, found.starts, "with BF16 activations" in found.text) == ("TRITON_UNFUSED", True, True)
    assert at("mxfp4_moe", real(version, "triton_unfused")).state is State.OFF
    invariant = real(version, "triton_unfused", env={"VLLM_BATCH_INVARIANT": "1"})
    assert mxfp4_pick(invariant).starts is False
    assert expected("moe_backend", "triton_kernels", real(version, "triton_unfused")) == 114


def test_gfx1250_has_a_w4a4_form_of_its_own_in_0_33() -> None:
    """AiterW4A4ExpertsMonolithic._supports_current_device: on_gfx1250()."""
    word = "aiter_triton_mxfp4_mxfp4"
    assert mxfp4_pick(real("0.33.0", word)).starts is False
    assert mxfp4_pick(real("0.33.0", word, gfx="gfx1250")).starts is None, "not judged"


def real(version: str, word: str, **more: Any) -> Setup:
    """With the whole table of names, which the hand-read one holds in part."""
    found = bundled(version)
    assert found is not None
    return replace(m3(version, MXFP4, flags=named(word), **more), build=found)


def test_mxfp4_with_ep_is_not_refused_by_any_release() -> None:
    for version in ("0.25.1", *NEW):
        assert at("mxfp4_moe", m3(version, MXFP4, env=AITER, expert_parallel=True)).state is State.ELIGIBLE


# --- the trace-side path --------------------------------------------------------------------------------------


def test_the_moe_backend_says_when_no_engine_starts() -> None:
    found = at("moe_backend", m3(flags=named("emulation")))
    assert found.state is State.REFUSED_AT_START
    assert at("moe_backend", m3(flags=named("triton"))).state is State.ELIGIBLE
    assert at("moe_backend", m3(model=MXFP4, env=AITER)).state is State.ELIGIBLE


def test_a_gpu_of_another_vendor_is_not_judged() -> None:
    assert pick(m3(gfx="sm90")) == replace(pick(m3(gfx="sm90")), member=None, starts=None)


# --- shared-expert fusion -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "model", "state"),
    [
        ("0.24.0", MXFP8, State.OFF),
        ("0.24.0", MXFP4, State.OFF),
        ("0.25.1", MXFP8, State.ELIGIBLE),
        ("0.25.1", MXFP4, State.ELIGIBLE),
        ("0.32.0", MXFP8, State.REFUSED),
        ("0.32.0", MXFP4, State.ELIGIBLE),
        ("0.33.0", MXFP8, State.ELIGIBLE),
        ("0.33.0", MXFP4, State.ELIGIBLE),
    ],
)
def test_fusion_by_release_and_checkpoint(version: str, model: Any, state: State) -> None:
    assert at("shared_expert_fusion", m3(version, model, env=FSE)).state is state


def test_0_25_1_does_not_compare_the_quantisation() -> None:
    found = at("shared_expert_fusion", m3("0.25.1", env=FSE))
    assert "vLLM 0.25.1 does not compare the quantisation of routed and shared experts" in found.of(Held.YES)


@pytest.mark.parametrize("version", ["0.25.1", *NEW])
def test_expert_parallelism_refuses_the_fusion(version: str) -> None:
    found = at("shared_expert_fusion", m3(version, MXFP4, env=FSE, expert_parallel=True))
    assert found.state is State.REFUSED
    assert refusal(found) == "--enable-expert-parallel (EP4): the shared slot is not in the expert map"


def test_a_bf16_checkpoint_is_fused_and_an_untold_one_is_unknown() -> None:
    bf16 = replace(MXFP8, linear_quant="bf16", moe_quant="bf16", quant_config_class=None)
    assert at("shared_expert_fusion", m3(model=bf16, env=FSE)).state is State.ELIGIBLE
    assert at("shared_expert_fusion", m3(model=M3, env=FSE)).state is State.UNPROVEN


@pytest.mark.parametrize(
    ("env", "gfx", "held", "says"),
    [
        (BOTH, "gfx950", Held.YES, "gfx950 with AITER's MoE on: AITER's grouped top-k appends the slot"),
        (FSE, "gfx950", Held.NO, "VLLM_ROCM_USE_AITER is not set (default off): vLLM's top-k router appends the slot"),
        (BOTH, "gfx942", Held.NO, "gfx942, not gfx950: vLLM's top-k router appends the slot"),
        (BOTH | {"VLLM_ROCM_USE_AITER_MOE": "0"}, "gfx950", Held.NO, "VLLM_ROCM_USE_AITER_MOE is off: vLLM's"),
    ],
)
def test_the_fusion_works_without_aiter_and_says_who_appends(
    env: dict[str, str], gfx: str, held: Held, says: str
) -> None:
    made = m3(env=env, gfx=gfx)
    assert append(made).held is held
    assert append(made).text.startswith(says)
    found = at("shared_expert_fusion", made)
    assert found.state is State.ELIGIBLE, "either way is a fusion"
    assert append(made).text in found.of(Held.YES)


@pytest.mark.parametrize(
    ("version", "env", "ep", "sizes"),
    [
        ("0.33.0", FSE, False, (129, 5)),
        ("0.33.0", {}, False, (128, 4)),
        ("0.32.0", FSE, False, (128, 4)),
        ("0.25.1", FSE, False, (129, 5)),
        ("0.24.0", FSE, False, (128, 4)),
        ("0.33.0", FSE, True, (32, 4)),
    ],
)
def test_experts_and_slots_of_the_key(version: str, env: dict[str, str], ep: bool, sizes: tuple[int, int]) -> None:
    assert experts_and_slots(m3(version, env=env, expert_parallel=ep)) == sizes


def test_activation_kernels_stay_in_the_dense_layers_alone() -> None:
    assert expected("shared_expert_fusion", "separate MLP", m3()) == 60
    assert expected("shared_expert_fusion", "separate MLP", m3(env=FSE)) == 0
    assert expected("shared_expert_fusion", "fused", m3(env=FSE)) == 57
    assert expected("shared_expert_fusion", "fused", m3()) == 0


NORM, ACT = "vllm::minimax_m3_fused_ops::fusedMiniMaxM3QNormRopeKVInsertKernel", "_swiglu_oai_kernel"
QUANT_ACT = "_swiglu_oai_quant_kernel"


def test_a_trace_with_activations_in_three_of_nine_layers_is_fused(tmp_path: Path) -> None:
    """The experts' own activation (_swiglu_oai_quant_kernel) is another kernel and counts for nothing."""
    names = [NORM, ACT] * 3 + [NORM, QUANT_ACT] * 6
    row = rows_of(recording(tmp_path, eager(100, 10, names), **ROCM))["shared_expert_fusion"]
    assert (row.verdict, row.variant, row.counts["calls"]) == ("executed", "fused", 6)


def test_a_trace_with_an_activation_in_every_layer_is_not(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [NORM, ACT] * 9), **ROCM))["shared_expert_fusion"]
    assert (row.verdict, row.variant, row.counts["fallback_calls"]) == ("unproven", "separate MLP", 9)


@pytest.mark.parametrize(
    ("kernel_name", "path", "variant"),
    [
        ("flydsl_moe1_afp8_wfp8_bf16_t32x64x256_w4_gui_kw2_fp8", "mxfp8_moe", "AITER FlyDSL MXFP8"),
        ("flydsl_moe2_mxfp8_8w_t256x256_xcd3", "mxfp8_moe", "AITER FlyDSL MXFP8"),
        ("flydsl_moe2_layout_afp4_wfp4_bf16_t16x128x256_atomic_sbm16", "mxfp4_moe", "AITER FlyDSL W4A4"),
        ("flydsl_mxmoe_g1_a4w4_16x128x256_f16in_hpf_nt_swiglu_xcd2", "mxfp4_moe", "AITER FlyDSL W4A4"),
        ("flydsl_mxmoe_g1_a4w4_16x128x256_f16in_hpf_nt_swiglu_xcd2", "moe_backend", "AITER FlyDSL"),
        ("ck::kernel_moe_mxgemm_2lds<int>", "mxfp4_moe", "AITER CK"),
        ("minimax_m3_mono_ffn_s16_tp4", "monokernel", "monokernel"),
        ("_rocm_fp32_router_gemm_kernel", "router_gemm", "FP32 kernel"),
    ],
)
def test_names_of_aiter_s_tables_and_of_vllm_belong_to_one_variant(kernel_name: str, path: str, variant: str) -> None:
    assert [v.name for v in fast_paths()[path].variants if v.counts(kernel_name)] == [variant]


@pytest.mark.parametrize("name", ["flydsl_moe1_afp8_wfp8_bf16_t32", "ck::kernel_moe_gemm<fp8>", "_matmul_ogs_bf16"])
def test_kernels_of_other_precisions_are_no_mxfp4_of_aiter(name: str) -> None:
    path = fast_paths()["mxfp4_moe"]
    assert not [v for v in path.variants if v.counts(name) and v.role is Role.FAST]


def test_the_stock_experts_are_no_execution_of_the_monokernel() -> None:
    roles = {v.name: v.role for v in fast_paths()["monokernel"].variants}
    assert roles == {"monokernel": Role.FAST, "AITER FlyDSL W4A4": Role.FALLBACK}


# --- router ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OLD)
def test_old_builds_have_no_router_gemm_on_rocm(version: str) -> None:
    found = at("router_gemm", m3(version), decode(8))
    assert found.state is State.OFF
    assert found.asked == f"vLLM {version} has no FP32 router GEMM on ROCm: F.linear in FP32 at any size"


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (1, None),
        (32, None),
        (33, "40 rows > 32: F.linear in FP32 (33 rows run as 40)"),
        (513, "513 rows > 32: F.linear in FP32"),
        (2047, "2,047 rows > 32: F.linear in FP32"),
        (2048, "2,048 rows > 32: three BF16 terms (Cijk_* and _reduce_terms_kernel)"),
    ],
)
def test_the_router_kernel_takes_32_rows(version: str, rows: int, says: str | None) -> None:
    found = at("router_gemm", m3(version), decode(rows))
    assert found.state is (State.REFUSED if says else State.ELIGIBLE)
    assert found.of(Held.NO) == ((says,) if says else ())


@pytest.mark.parametrize("version", NEW)
def test_the_router_counts_rows_as_they_are_launched(version: str) -> None:
    """2 drafts: 10 requests are 30 rows, and 33 is the next of 3, 6, 9, 12, 18, 24, 33 (32 in whole requests of 3)."""
    two = {"method": "eagle3", "num_speculative_tokens": 2}
    found = at("router_gemm", m3(version, draft=two), decode(30, 10))
    assert refusal(found) == "33 rows > 32: F.linear in FP32 (30 rows run as 33)"
    assert at("router_gemm", m3(version, draft=two), decode(24, 8)).state is State.ELIGIBLE
    bare = m3(version, draft=two, flags={"--enforce-eager": True})
    assert at("router_gemm", bare, decode(30, 10)).state is State.ELIGIBLE
    own = {"--compilation-config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 64]}}
    assert refusal(at("router_gemm", m3(version, flags=own), decode(9))) == (
        "64 rows > 32: F.linear in FP32 (9 rows run as 64)"
    )


@pytest.mark.parametrize(("version", "state"), [("0.32.0", State.REFUSED), ("0.33.0", State.ELIGIBLE)])
def test_0_32_serves_five_shapes_and_0_33_any(version: str, state: State) -> None:
    found = at("router_gemm", m3(version, replace(MXFP8, experts=160)), decode(8))
    assert found.state is state
    if state is State.REFUSED:
        assert refusal(found) == "(hidden 6,144, experts 160), 5 shapes are served"


@pytest.mark.parametrize(("version", "state"), [("0.32.0", State.ELIGIBLE), ("0.33.0", State.REFUSED)])
def test_batch_invariance_turns_it_off_in_0_33(version: str, state: State) -> None:
    assert at("router_gemm", m3(version, env={"VLLM_BATCH_INVARIANT": "1"}), decode(8)).state is state


def test_router_calls() -> None:
    assert [expected("router_gemm", "FP32 kernel", m3(), decode(n)) for n in (8, 32, 33, 128)] == [57, 57, 0, 0]
    assert [expected("router_gemm", "three BF16 terms", m3(), decode(n)) for n in (32, 2047, 2048)] == [0, 0, 57]
    invariant = {"VLLM_BATCH_INVARIANT": "1"}
    for name, rows in (("FP32 kernel", 8), ("three BF16 terms", 2048)):
        assert expected("router_gemm", name, m3(env=invariant), decode(rows)) == 0
        assert expected("router_gemm", name, m3("0.32.0", env=invariant), decode(rows)) == 57
        assert expected("router_gemm", name, m3(gfx="gfx942"), decode(rows)) == 0
        assert expected("router_gemm", name, m3("0.24.0"), decode(rows)) == 0
        assert expected("router_gemm", name, m3(gfx="sm90"), decode(rows)) is None
        assert expected("router_gemm", name, m3(None), decode(rows)) is None


@pytest.mark.parametrize(
    ("path", "variant", "made"),
    [
        ("router_gemm", "FP32 kernel", m3(pp=2)),
        ("mxfp8_moe", "AITER FlyDSL MXFP8", m3(env=AITER, pp=2)),
        ("moe_backend", "AITER FlyDSL", m3(env=AITER, pp=2)),
        ("shared_expert_fusion", "fused", m3(env=FSE, pp=2)),
        ("shared_expert_fusion", "separate MLP", m3(pp=2)),
    ],
)
def test_a_stage_of_a_pipeline_runs_some_of_the_layers(path: str, variant: str, made: Setup) -> None:
    assert expected(path, variant, made) is None
    assert expected(path, variant, replace(made, pp=1)) in (57, 60, 114)


def test_h200_router_and_activations() -> None:
    """A plain recount of the names: 9 decode steps x 6 expert layers, 10 steps x 9 activations and 9 norms."""
    rows = rows_of(open_recording([shared_or_skip(H200.format("eager"))]))
    router, shared = rows["router_gemm"], rows["shared_expert_fusion"]
    assert (router.variant, router.counts["decode.calls"]) == ("FP32 kernel (CUDA)", 54)
    assert (shared.variant, shared.counts["fallback_calls"]) == ("separate MLP", 90)
    assert rows["mxfp8_linear"].verdict == "unproven"
    assert rows["moe_backend"].variant == "Triton fused_moe"


# --- another vendor ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["router_gemm", "mxfp8_linear", "mxfp8_moe", "moe_backend"])
def test_an_nvidia_gpu_is_not_judged_by_rocms_rules(version: str, name: str) -> None:
    """GateLinear serves Hopper at (6144, 128), CUDA has MXFP8 kernels of its own: a ROCm refusal would be wrong."""
    found = at(name, m3(version, gfx="sm90"), decode(8))
    assert (found.state, found.of(Held.NO)) == (State.UNPROVEN, ())
    assert "sm90 is no ROCm GPU: not judged" in " ".join((found.asked, *found.of(Held.UNKNOWN)))


def test_words_of_rocms_tables_do_not_stop_an_nvidia_gpu() -> None:
    """0.24 raises on ROCm for marlin (no MXFP8 kernel of its list); CUDA's list has one."""
    marlin = {"--linear-backend": "marlin"}
    assert at("mxfp8_linear", m3("0.24.0", flags=marlin)).state is State.REFUSED_AT_START
    assert at("mxfp8_linear", m3("0.24.0", gfx="sm90", flags=marlin)).state is State.UNPROVEN
    assert at("mxfp4_moe", real("0.33.0", "marlin", gfx="sm100")).state is State.UNPROVEN
    assert at("moe_backend", real("0.33.0", "marlin", gfx="sm100")).state is State.UNPROVEN
    assert at("monokernel", mono(gfx="sm90")).state is State.OFF


# --- monokernel -----------------------------------------------------------------------------------------------

MONO_FLAGS = FP8_INDEX | named("aiter") | {"--monokernel": True, "--kv-cache-dtype": "fp8"}


def mono(**more: Any) -> Setup:
    flags = MONO_FLAGS | more.pop("flags", {})
    return m3("0.33.0", **({"model": MXFP4, "env": BOTH, "flags": flags} | more))


def test_the_monokernel_runs_where_nothing_refuses() -> None:
    for rows in (1, 16):
        found = at("monokernel", mono(), decode(rows))
        assert (found.state, found.of(Held.NO), found.of(Held.UNKNOWN)) == (State.ELIGIBLE, (), ())
    assert expected("monokernel", "monokernel", mono()) == 57


def test_the_monokernel_counts_rows_as_they_are_launched() -> None:
    """2 drafts: 5 requests are 15 rows and run as 18; 4 drafts: 3 are 15 and run as 20; 3 x 4 = 12 run as 16."""
    for drafts, requests, runs in ((2, 5, 18), (4, 3, 20)):
        draft = {"method": "eagle3", "num_speculative_tokens": drafts}
        found = at("monokernel", mono(draft=draft), decode(15, requests))
        assert refusal(found) == f"{runs} rows, 1 to 16 are served (15 rows run as {runs})"
        bare = mono(draft=draft, flags={"--enforce-eager": True})
        assert at("monokernel", bare, decode(15, requests)).state is State.ELIGIBLE
    three = {"method": "eagle3", "num_speculative_tokens": 3}
    assert at("monokernel", mono(draft=three), decode(12, 3)).state is State.ELIGIBLE
    own = {"--compilation-config": {"cudagraph_capture_sizes": [1, 2, 4, 8, 64]}}
    assert refusal(at("monokernel", mono(flags=own), decode(9))) == "64 rows, 1 to 16 are served (9 rows run as 64)"


def test_every_refusal_of_the_source_is_a_need_of_its_own_at_start() -> None:
    said = RULES["0.33.0"]["monokernel"]["refusals"]
    assert [sentence for sentence, _ in REFUSALS] == said
    assert len(said) == 25
    needs = {need.text: need for need in fast_paths()["monokernel"].needs}
    assert all(needs[sentence].when is When.START for sentence in said)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tp": 8}, "TP8, must be 4"),
        ({"pp": 2}, "PP 2: pipeline parallelism must be 1"),
        ({"dp": 2}, "DP 2: data parallelism must be 1"),
        ({"flags": {"--decode-context-parallel-size": "2"}}, "DCP 2: decode context parallelism must be 1"),
        ({"flags": {"--prefill-context-parallel-size": 4}}, "PCP 4: prefill context parallelism must be 1"),
        ({"flags": {"--enable-dbo": True}}, "--enable-dbo: no micro-batches"),
        ({"flags": {"--ubatch-size": "2"}}, "--ubatch-size 2: no micro-batches"),
        ({"expert_parallel": True}, "EP4: no expert parallelism"),
        ({"flags": {"--enable-eplb": True}}, "--enable-eplb: no EPLB"),
        ({"flags": {"--kv-cache-dtype": "auto"}}, "--kv-cache-dtype auto, must be fp8 or fp8_e4m3"),
        ({"flags": {"--kv-cache-dtype": "fp8_e5m2"}}, "--kv-cache-dtype fp8_e5m2, must be fp8 or fp8_e4m3"),
        ({"flags": {"--block-size": "256"}}, "--block-size 256, must be 128"),
        ({"flags": {"--kv-offloading-size": "20"}}, "--kv-offloading-size: no KV offloading"),
        ({"flags": {"--attention-config": "{}"}}, "indexer_kv_dtype bf16, must be fp8"),
        ({"flags": {"--attention-config": {"indexer_kv_dtype": "fp8_e4m3"}}}, "indexer_kv_dtype fp8_e4m3, must be fp8"),
        ({"flags": {"--enable-lora": True}}, "--enable-lora: no LoRA"),
        (
            {"flags": {"--kv-transfer-config": {"kv_connector": "MoRIIOConnector"}}},
            "kv_connector MoRIIOConnector: no KV connector",
        ),
        ({"env": BOTH | {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, "Model Runner V1, must be V2"),
        ({"draft": {"method": "mtp", "num_speculative_tokens": 1}}, "drafter mtp, only eagle3"),
        ({"flags": {"--enable-sleep-mode": True}}, "--enable-sleep-mode: no sleep mode"),
        ({"flags": {"--weight-transfer-config": "{}"}}, "--weight-transfer-config: no weight transfer"),
        ({"flags": {"--cpu-offload-gb": "4"}}, "--cpu-offload-gb: no weight offloading"),
        ({"flags": {"--offload-group-size": "2"}}, "--offload-group-size: no weight offloading"),
        ({"flags": {"--compilation-config": {"mode": 1}}}, "compilation mode 1: no stock torch.compile"),
        (
            {"flags": {"--enable-return-routed-experts": True}},
            "--enable-return-routed-experts: no routed-expert capture",
        ),
        ({"flags": {"--moe-backend": "auto"}}, "--moe-backend auto, must be aiter by name"),
        ({"units": 304}, "gfx950 with 304 compute units, must be 256"),
        ({"gfx": "gfx942"}, "GPU gfx942: the monokernel needs gfx950"),
        ({"model": replace(MXFP4, sparse_layers=56)}, "56 sparse layers, must be 3 to the last: 57"),
        (
            {"model": replace(MXFP4, top_k=8)},
            "top-8, 1 shared expert, SwiGLU-OAI (1.702, 1.0, 7.0): must be 4, 1, (1.702, 1.0, 7.0)",
        ),
        (
            {"env": AITER},
            "the shared expert is not fused: VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS is not set (default off)",
        ),
    ],
)
def test_the_monokernel_refuses_at_start_with_the_number(changed: dict[str, Any], says: str) -> None:
    found = at("monokernel", mono(**changed), decode(8))
    assert found.state is State.REFUSED_AT_START
    assert says in found.of(Held.NO)


def test_index_reuse_is_refused_twice() -> None:
    found = at("monokernel", mono(flags=NESTED), decode(8))
    assert found.state is State.REFUSED_AT_START
    assert found.of(Held.NO) == ("use_index_cache: no index reuse", "index_topk_freq 4, must be 1")


def test_an_mxfp8_checkpoint_has_another_layout() -> None:
    found = at("monokernel", mono(model=MXFP8), decode(8))
    assert found.state is State.REFUSED_AT_START
    assert found.of(Held.NO) == ("experts in the AITER_MXFP4_MXFP4 layout: --moe-backend aiter: AITER_MXFP8",)


def test_all_refusals_come_at_once_as_vllm_s_one_error_has_them() -> None:
    found = at("monokernel", m3("0.33.0", tp=8, flags={"--monokernel": True}), decode(8))
    said = found.of(Held.NO)
    assert {
        "TP8, must be 4",
        "--kv-cache-dtype auto, must be fp8 or fp8_e4m3",
        "indexer_kv_dtype bf16, must be fp8",
    } <= set(said)
    assert len(said) == 6, "TP, KV dtype, index dtype, backend, fusion, layout"


def test_a_refusal_that_is_new_in_a_build_is_unknown_not_met() -> None:
    made = mono()
    rule = made.build.rule("monokernel")
    more = Rule(RuleStatus.CONFIRMED, rule.value | {"refusals": [*rule.value["refusals"], "does not support Mondays"]})
    found = at("monokernel", replace(made, build=Build("0.33.0", {**made.build.rules, "monokernel": more})), decode(8))
    assert found.state is State.UNPROVEN
    assert found.of(Held.UNKNOWN) == ("vLLM 0.33.0 also refuses: does not support Mondays",)


@pytest.mark.parametrize("version", ["0.24.0", "0.25.1", "0.32.0"])
def test_older_builds_refuse_the_flag_itself(version: str) -> None:
    found = at("monokernel", m3(version, MXFP4, env=BOTH, flags=MONO_FLAGS), decode(8))
    assert found.state is State.OFF
    assert found.asked == f"vLLM {version} has no --monokernel: vllm serve refuses the flag"


@pytest.mark.parametrize(
    ("point", "says"),
    [
        (decode(17), "24 rows, 1 to 16 are served (17 rows run as 24)"),
        (Point(Phase.PREFILL, 8, 1), "a prefill step; decode alone is served"),
        (Point(Phase.MIXED, 8, 4), "a mixed step; decode alone is served"),
    ],
)
def test_single_steps_run_the_stock_layers_without_a_word(point: Point, says: str) -> None:
    found = at("monokernel", mono(), point)
    assert found.state is State.REFUSED
    assert refusal(found) == says


def test_a_piecewise_decode_graph_keeps_the_stock_layers() -> None:
    made = mono(
        flags={"--compilation-config": {"cudagraph_mode": "PIECEWISE"}},
        env=BOTH | {"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"},
    )
    found = at("monokernel", made, decode(8))
    assert found.state is State.REFUSED
    assert refusal(found).startswith("decode PIECEWISE (")


def test_drafted_tokens_are_rows_like_any_other() -> None:
    """4 requests x (1 + 3) = 16 rows fit, 5 make 20, which run as 24, and do not."""
    eagle = {"method": "eagle3", "num_speculative_tokens": 3}
    assert at("monokernel", mono(draft=eagle), decode(16, 4)).state is State.ELIGIBLE
    assert refusal(at("monokernel", mono(draft=eagle), decode(20, 5))) == (
        "24 rows, 1 to 16 are served (20 rows run as 24)"
    )


# --- tuned tables ---------------------------------------------------------------------------------------------


def tables(*names: str) -> dict[str, TunedTable]:
    return {name: read_tuned_table((DATA / name).read_bytes(), name) for name in names}


FMOE = "generated_mxfp8_tuned_fmoe.csv"


def test_the_keys_of_a_tp4_setup() -> None:
    """3,072 / 4 = 768; 128 + 1 experts, 4 + 1 slots; native MXFP8 GEMMs read no table."""
    (key,) = tuned_table.keys_of(m3(env=BOTH), 100)
    assert key == MoeKey(
        rows=100,
        model_dim=6144,
        inter_dim=768,
        experts=129,
        top_k=5,
        act="Swiglu",
        dtype="bfloat16",
        q_dtype_a="float8_e4m3fn",
        q_dtype_w="float8_e4m3fn",
        q_type="per_1x32",
        g1u1=True,
        weight_stage1=False,
        cu_num=256,
        gfx="gfx950",
    )


@pytest.mark.parametrize(
    ("more", "sizes"),
    [
        ({"tp": 8}, (384, 129, 5)),
        ({"tp": 4, "dp": 2}, (384, 129, 5)),
        ({"tp": 4, "expert_parallel": True}, (3072, 32, 4)),
        ({"tp": 8, "expert_parallel": True}, (3072, 16, 4)),
    ],
)
def test_the_moe_key_by_parallelism(more: dict[str, Any], sizes: tuple[int, int, int]) -> None:
    key = tuned_table.moe_key(m3(env=BOTH, **more), 8)
    assert key is not None
    assert (key.inter_dim, key.experts, key.top_k) == sizes


def test_bf16_attention_reads_aiter_s_dense_table_at_tp4() -> None:
    """qkv 16 x 128 + 2 x 128 = 2,304; with index_q and index_k 2,560; o_proj K 2,048; shared 1,536 and 768."""
    keys = tuned_table.dense_keys(m3(model=MXFP4, env=AITER), 8)
    assert [(key.n, key.k) for key in keys] == [(2304, 6144), (2560, 6144), (6144, 2048), (1536, 6144), (6144, 768)]
    fused = tuned_table.dense_keys(m3(model=MXFP4, env=BOTH), 8)
    assert [(key.n, key.k) for key in fused] == [(2304, 6144), (2560, 6144), (6144, 2048)]
    tp2 = tuned_table.dense_keys(m3(model=MXFP4, tp=2, env=BOTH), 8)
    assert [(key.n, key.k) for key in tp2] == [(4608, 6144), (4992, 6144), (6144, 4096)]


def test_who_is_asked_for_a_dense_gemm() -> None:
    on = {"PYTORCH_TUNABLEOP_ENABLED": "1"}
    emulated = {"flags": {"--linear-backend": "emulation"}}
    assert tuned_table.dense_kind(m3(env=AITER | on)) is None, "native MXFP8"
    assert tuned_table.dense_kind(m3(model=MXFP4, env=AITER | on)) == "gemm"
    assert tuned_table.dense_kind(m3(model=MXFP4, env=on)) == "tunableop"
    assert tuned_table.dense_kind(m3(model=MXFP4, env={"PYTORCH_TUNABLEOP_ENABLED": "true"})) is None
    assert tuned_table.dense_kind(m3(env=AITER | on, **emulated)) == "tunableop", "F.linear passes AITER by"
    assert tuned_table.dense_kind(m3(env=AITER, **emulated)) is None
    assert tuned_table.dense_kind(m3(model=MXFP4, env=AITER | on, gfx="gfx942")) == "tunableop"


def test_a_fused_setup_finds_its_row() -> None:
    found = at("tuned_table", m3(env=BOTH, tuned_tables=tables(FMOE)), decode(100))
    assert found.state is State.ELIGIBLE
    assert f"tuned: 100 rows -> 128, {FMOE}:9, 16.5 us" in found.of(Held.YES)


def test_no_table_given_is_unknown_not_default() -> None:
    assert at("tuned_table", m3(env=BOTH)).state is State.UNPROVEN


def test_the_variable_replaces_the_tables_and_adds_none() -> None:
    given = tables(FMOE)
    mine = m3(env=BOTH | {"AITER_CONFIG_FMOE": f"/x/{FMOE}"}, tuned_tables=given)
    assert at("tuned_table", mine, decode(8)).state is State.ELIGIBLE
    other = m3(env=BOTH | {"AITER_CONFIG_FMOE": "/x/mine.csv"}, tuned_tables=given)
    found = at("tuned_table", other, decode(8))
    assert found.state is State.UNPROVEN
    assert found.of(Held.UNKNOWN)[0] == (
        "AITER_CONFIG_FMOE=/x/mine.csv replaces AITER's tables, and no table of that name was given"
    )


def test_bypassed_rows_are_no_rows() -> None:
    made = m3(env=BOTH | {"AITER_BYPASS_TUNE_CONFIG": "1"}, tuned_tables=tables(FMOE))
    assert refusal(at("tuned_table", made, decode(8))) == "AITER_BYPASS_TUNE_CONFIG=1: tuned rows are passed over"
    for word, state in (("2", State.REFUSED), ("0", State.ELIGIBLE), ("yes", State.UNPROVEN)):
        told = replace(made, env=BOTH | {"AITER_BYPASS_TUNE_CONFIG": word})
        assert at("tuned_table", told, decode(8)).state is state, "int() of the text"


def test_native_triton_experts_read_no_table() -> None:
    found = at("tuned_table", m3(flags=named("triton"), tuned_tables=tables(FMOE)))
    assert found.state is State.OFF
    assert found.asked == "--moe-backend triton: TRITON_MXFP8 on gfx950: no tuned table is read"


def test_dense_shapes_are_counted_and_the_missed_ones_named() -> None:
    """The generated BF16 table holds three shapes up to 256 rows; the shared expert's two are not in it."""
    given = tables("generated_bf16_tuned_gemm.csv", "generated_fp4_tuned_fmoe_old_header.csv")
    fused = at("tuned_table", m3(model=MXFP4, env=BOTH, tuned_tables=given), decode(100))
    assert "3 of 3 dense shapes are tuned in the gemm table" in fused.of(Held.YES)
    apart = at("tuned_table", m3(model=MXFP4, env=AITER, tuned_tables=given), decode(100))
    said = (
        "3 of 5 dense shapes are tuned in the gemm table; default for (M, N, K) (100, 1,536, 6,144), (100, 6,144, 768)"
    )
    assert said in apart.of(Held.NO)


def test_tunableop_matches_the_exact_rows() -> None:
    env = {"PYTORCH_TUNABLEOP_ENABLED": "1"}
    made = m3(
        env=env | FSE, flags={"--linear-backend": "emulation"}, tuned_tables=tables("generated_tunableop_results0.csv")
    )
    assert tuned_table.dense_keys(made, 100)[0] == GemmKey(100, 2304, 6144, "bfloat16")
    said = at("tuned_table", made, decode(100)).of(Held.NO)
    assert said == (
        "2 of 3 dense shapes are tuned in the tunableop table; default for (M, N, K) (100, 6,144, 2,048)",
    ), "the third row of the file is float16"
    assert at("tuned_table", made, decode(101)).of(Held.NO)[0].startswith("0 of 3 dense shapes")


# --- stories: the input that fooled people, and the sentence ---------------------------------------------------


def test_story_1_mxfp8_fusion_was_off_for_five_weeks() -> None:
    """vLLM PR 57916: the variable was set, the window's builds refused it with a warning."""
    found = at("shared_expert_fusion", m3("0.32.0", env=FSE))
    assert found.state is State.REFUSED
    assert refusal(found) == (
        "vLLM 0.32.0: shared-expert FSE quantization compatibility is not implemented for ModelOptMxFp8Config"
    )
    assert fused_shared(m3("0.32.0", env=FSE)) is False


def test_story_2_the_flag_is_accepted_and_runs_unfused() -> None:
    """vLLM PR 53068: exit 0 and hundreds of warnings. The engine starts, so it is refused, not refused at start."""
    made = m3("0.32.0", env=FSE)
    assert at("shared_expert_fusion", made).state is State.REFUSED
    assert expected("shared_expert_fusion", "separate MLP", made) == 60
    assert any("57 lines" in line for line in fast_paths()["shared_expert_fusion"].logs)


@pytest.mark.parametrize("version", NEW)
def test_story_3_quark_is_accepted(version: str) -> None:
    """vLLM PR 54573: Quark was refused after the same refactor; a build that lacks it in its list is told."""
    made = m3(version, MXFP4, env=FSE)
    assert at("shared_expert_fusion", made).state is State.ELIGIBLE
    rule = made.build.rule("fse")
    without = Rule(RuleStatus.CONFIRMED, rule.value | {"accepts": ["Fp8Config"]})
    broken = replace(made, build=Build(version, {**made.build.rules, "fse": without}))
    assert refusal(at("shared_expert_fusion", broken)).endswith("is not implemented for QuarkConfig")


def test_story_4_a_gain_is_not_credited_to_a_fusion_that_did_not_run(tmp_path: Path) -> None:
    """sglang PR 36576: a bundle gained 46 to 55 % while the fusion's own status was False."""
    faster = recording(
        tmp_path, eager(100, 10, [NORM, ACT] * 9 + ["flydsl_moe1_afp8_wfp8_bf16_t32x64x256_w4"] * 6), **ROCM
    )
    rows = rows_of(faster)
    assert (rows["shared_expert_fusion"].variant, rows["mxfp8_moe"].variant) == ("separate MLP", "AITER FlyDSL MXFP8")


def test_story_13_a_cap_on_rows_turns_a_decode_path_off_without_a_word() -> None:
    """sglang PR 34014: a cap of 8 at batch 16. Here: 16 rows of the monokernel, 32 of the router."""
    assert refusal(at("monokernel", mono(), decode(17))) == "24 rows, 1 to 16 are served (17 rows run as 24)"
    assert refusal(at("router_gemm", m3(), decode(64))) == "64 rows > 32: F.linear in FP32"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (m3("0.24.0", env=FSE), "has no shared-expert fusion: the variable does nothing"),
        (m3("0.33.0", MXFP4, env=FSE, expert_parallel=True), "the shared slot is not in the expert map"),
        (m3("0.32.0", env=FSE), "is not implemented for ModelOptMxFp8Config"),
    ],
)
def test_story_18_a_script_sets_the_fusion_and_a_check_leaves_it_inert(made: Setup, says: str) -> None:
    """InferenceX PR 2851."""
    found = at("shared_expert_fusion", made)
    assert found.state in (State.OFF, State.REFUSED)
    assert says in (found.asked, *found.of(Held.NO))[-1]


def test_story_19_the_table_has_no_fallback_on_the_expert_count() -> None:
    """sglang PR 37072, as M3 meets it: unfused 128/4 against rows of 129/5 alone are two findings."""
    found = at("tuned_table", m3(env=AITER, tuned_tables=tables(FMOE)), decode(100))
    assert found.state is State.REFUSED
    why = "shared-expert fusion is off (VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS is not set)"
    assert found.of(Held.NO) == (
        f"the MoE key has 128 experts, 4 slots; the tables have 129/5 at model dim 6,144: {why}",
        f"default: {FMOE} has no such row; nearest differs in experts 128, not 129; top-k 4, not 5",
    )


def test_story_19_at_0_32_the_refused_fusion_is_the_reason() -> None:
    found = at("tuned_table", m3("0.32.0", env=BOTH, tuned_tables=tables(FMOE)), decode(100))
    assert found.of(Held.NO)[0].endswith(
        "shared-expert fusion is off (vLLM 0.32.0: shared-expert FSE quantization compatibility is not implemented for "
        "ModelOptMxFp8Config)",
    )


def test_story_20_a_fused_shape_without_rows_runs_the_heuristic_over_the_whole_range() -> None:
    """AITER PR 4666 (385/7): a table of the unfused shape serves no row count of the fused one."""
    text = "cu_num,token,model_dim,inter_dim,expert,topk,us,kernelName1\n"
    text += "".join(f"256,{1 << i},6144,768,128,4,1.0,k\n" for i in range(16))
    unfused = {"unfused.csv": read_tuned_table(text.encode(), "unfused.csv")}
    for rows in (1, 16, 100, 4096, 32768):
        found = at("tuned_table", m3(env=BOTH, tuned_tables=unfused), decode(rows))
        assert found.of(Held.NO) == (
            "the MoE key has 129 experts, 5 slots; the tables have 128/4 at model dim 6,144",
            "default: unfused.csv has no such row; nearest differs in experts 129, not 128; top-k 5, not 4",
        )
