"""GEMM, experts and tuned-table paths on paper: settings, numbers and builds, worked out by hand from four releases: router; another vendor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gemm_kit import AITER, FSE, MXFP8, expected, m3, mono, real
from m3_setups import NEW, OLD, VERSIONS, at, decode, refusal
from test_paths import H200, rows_of
from tree import shared_or_skip

from m3probe.schema.setup import Held, Setup, State
from m3probe.sources import open_recording

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
