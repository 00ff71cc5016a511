"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases: MXFP8 experts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gemm_kit import AITER, MXFP4, MXFP8, expected, m3, mono, named
from m3_setups import NEW, VERSIONS, at, decode, refusal

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._experts_mxfp8 import mxfp8_pick
from m3probe.schema.setup import Held, Point, State
from m3probe.schema.verdicts import Phase

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
