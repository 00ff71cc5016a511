"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases: the shelf; MXFP8 linear."""

from __future__ import annotations

from typing import Any

import pytest
from gemm_kit import BOTH, FSE, MINE, MXFP4, MXFP8, m3, named
from m3_setups import FP8_INDEX, M3, OLD, VERSIONS, at, refusal, setup

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths.mxfp8_linear import gemms, is_mxfp8
from m3probe.gates import gates
from m3probe.schema.rules import RULES as IDS
from m3probe.schema.setup import Held, Point, Setup, State
from m3probe.schema.verdicts import Phase

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
