"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases: MXFP4 experts; the trace-side path."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gemm_kit import AITER, MXFP4, MXFP8, expected, m3, named, real
from m3_setups import NEW, OLD, VERSIONS, at, refusal

from m3probe.fastpaths._expert_pick import pick
from m3probe.fastpaths._experts_mxfp4 import mxfp4_pick
from m3probe.schema.setup import State

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
