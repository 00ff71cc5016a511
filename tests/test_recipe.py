"""``m3probe recipe`` against what was worked out by hand from the tables of four releases."""

from __future__ import annotations

import json

import pytest
from command_kit import ran
from recipes import AITER, FSE, GATED, INT4, MXFP8, UNCAST, at, judged, reasons, segments
from tree import ROOT

RELEASES = ("0.24.0", "0.25.1", "0.32.0", "0.33.0")
RECIPES = ROOT / "samples" / "recipes"
FP8_INDEX = """--attention-config '{"indexer_kv_dtype": "fp8"}'"""


# --- the all-reduce ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize(
    ("cast", "sentence"),
    [(UNCAST, "1,572,864 B < 16,777,216 B"), ("", "1,572,864 B < 2,097,152 B")],
)
def test_a_decode_all_reduce_of_128_rows_is_not_int4_eligible(version: str, cast: str, sentence: str) -> None:
    """128 x 6,144 x 2 B = 1,572,864 B; the BF16 column of TP4 INT4 is 16 MiB, the FP16 column (cast on) 2 MiB."""
    report = judged(version, env=f"{INT4} {cast}", concurrency=128)
    decode = at(report.path("quick_reduce"), "decode")
    assert decode.state == "refused"
    assert sentence in reasons(decode)
    assert at(report.path("quick_reduce"), "prefill").state == "eligible", "32,768 rows are 384 MiB"


def test_three_drafted_tokens_make_512_rows_of_128_requests() -> None:
    """512 x 12,288 B = 6,291,456 B: above 2 MiB, so that cast on they are INT4-eligible, cast off not."""
    on = judged("0.33.0", env=INT4, concurrency=128, drafts=3)
    off = judged("0.33.0", env=f"{INT4} {UNCAST}", concurrency=128, drafts=3)
    assert [p.rows for p in on.points if p.phase == "decode"] == [512]
    assert at(on.path("quick_reduce"), "decode").state == "eligible"
    assert "6,291,456 B < 16,777,216 B" in reasons(at(off.path("quick_reduce"), "decode"))


def test_the_rows_at_which_int4_begins() -> None:
    """16 MiB / 12,288 B = 1,365.33: 1,366 rows; 2 MiB: 170.67, so 171. Decode goes to 1,024 requests.

    A graph replays padded rows: captured sizes step by 8 there, so 169 requests already launch 176 rows.
    """
    off, on = judged("0.33.0", env=f"{INT4} {UNCAST}"), judged("0.33.0", env=INT4)
    eager = judged("0.33.0", "--enforce-eager", INT4)
    assert segments(off.path("quick_reduce"), "prefill") == [(1, 1365, "refused"), (1366, 32768, "eligible")]
    assert segments(on.path("quick_reduce"), "decode") == [(1, 168, "refused"), (169, 1024, "eligible")]
    assert segments(eager.path("quick_reduce"), "decode") == [(1, 170, "refused"), (171, 1024, "eligible")]


def test_the_codec_threshold_never_matters_with_the_built_in_table() -> None:
    threshold = "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB=256"
    told = [w.text for w in judged("0.33.0", env=f"{INT4} {threshold}").warnings]
    # cast is on by default: the FP16 column of TP4 INT4, 2 MiB, against 256 KiB
    assert any(
        "QUANTIZATION_MIN_SIZE_KB=256 (262,144 B) never matters" in text and "2,097,152 B" in text for text in told
    )
    zero = judged("0.33.0", env=f"{INT4} {threshold} VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_BYTES_MB=0")
    assert not any("never matters" in w.text for w in zero.warnings)


def test_the_map_of_the_gated_recipe_has_its_dead_zone() -> None:
    """AITER's all-reduce takes up to 64 MiB = 5,461 rows; without it 8 MiB (682 rows) is the end, and RCCL takes 683 to 1,365."""
    with_aiter = judged("0.33.0", env=f"{GATED} {INT4} {UNCAST}", concurrency=128)
    assert [(r.first, r.last, r.backend) for r in with_aiter.all_reduce][:2] == [
        (1, 1365, "aiter_custom"),
        (1366, 174762, "quick_reduce"),
    ]
    assert "decode, 128 requests" in with_aiter.all_reduce[0].points
    without = judged("0.33.0", env=f"{INT4} {UNCAST}", concurrency=128)
    assert [(r.first, r.last, r.backend) for r in without.all_reduce][:3] == [
        (1, 682, "custom"),
        (683, 1365, "rccl"),
        (1366, 174762, "quick_reduce"),
    ]


# --- the blog's two commands --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", RELEASES)
def test_the_printed_command_leaves_sparse_attention_off(version: str) -> None:
    found = ran("recipe", "--vllm", version, "--concurrency", "128", "--json", RECIPES / "m3-mxfp8-printed.sh")
    assert found.returncode == 0, found.stderr
    paths = {line["id"]: line for line in json.loads(found.stdout)["paths"]}
    assert paths["aiter_sparse_pa"]["state"] == "off"
    assert paths["quick_reduce"]["state"] == "off"


@pytest.mark.parametrize(
    ("version", "tp", "state"),
    [
        ("0.24.0", 4, "off"),
        ("0.25.1", 4, "off"),
        ("0.32.0", 4, "eligible"),
        ("0.33.0", 4, "eligible"),
        ("0.24.0", 2, "off"),
        ("0.25.1", 2, "off"),
        ("0.32.0", 2, "refused_at_start"),
        ("0.33.0", 2, "refused_at_start"),
    ],
)
def test_the_gated_recipe_per_release_and_layout(version: str, tp: int, state: str) -> None:
    report = judged(version, "--linear-backend emulation", f"{GATED} {INT4} {UNCAST}", tp=tp)
    assert report.path("aiter_sparse_pa").state == state
    assert bool(report.stops) is (state == "refused_at_start")
    if state == "refused_at_start":
        assert "4 KV heads over TP2 = 2 per rank" in report.stops[0]
    if version in ("0.24.0", "0.25.1"):
        assert "has no AITER sparse paged attention" in report.path("aiter_sparse_pa").asked


@pytest.mark.parametrize("version", ["0.32.0", "0.33.0"])
def test_two_kv_heads_are_legal_when_the_indexer_emits_the_page_table(version: str) -> None:
    report = judged(version, FP8_INDEX, GATED, tp=2)
    assert report.path("aiter_sparse_pa").state == "eligible", report.stops


# --- other differences between releases -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "state"), [("0.24.0", "off"), ("0.25.1", "eligible"), ("0.32.0", "refused"), ("0.33.0", "eligible")]
)
def test_shared_expert_fusion_of_an_mxfp8_checkpoint(version: str, state: str) -> None:
    report = judged(version, env=f"{AITER} {FSE}")
    assert report.path("shared_expert_fusion").state == state
    moe = next(s for s in report.shapes if s.module == "moe_w13")
    assert (moe.experts, moe.top_k) == ((129, 5) if state == "eligible" else (128, 4))


@pytest.mark.parametrize(
    ("version", "state"),
    [("0.24.0", "refused_at_start"), ("0.25.1", "refused_at_start"), ("0.32.0", "refused"), ("0.33.0", "refused")],
)
def test_a_linear_backend_that_filters_to_nothing(version: str, state: str) -> None:
    """No MXFP8 kernel is called triton: an error at start in the old two, a warning and the usual choice in the new."""
    line = judged(version, "--linear-backend triton").path("mxfp8_linear")
    assert line.state in (state, "eligible") if state == "refused" else line.state == state
    text = " ".join(need.text for need in line.at[0].needs)
    assert "triton" in text


def test_unknown_flags_are_refused_with_the_nearest_name() -> None:
    found = ran("recipe", "--vllm", "0.33.0", "--", "vllm", "serve", MXFP8, "--tensor-paralel-size", "4")
    assert found.returncode == 2
    assert "--tensor-parallel-size" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_nightly_has_no_known_rule_and_nothing_is_eligible_by_one() -> None:
    report = judged(None, env=f"{GATED} {INT4}")
    assert report.build.source == "none"
    assert report.path("aiter_sparse_pa").state == "unproven"
    assert report.path("quick_reduce").state == "unproven"


# --- sizes --------------------------------------------------------------------------------------------------------


def test_local_shapes_of_tp4() -> None:
    """facts: q 16 heads, 1 KV head, 1 index head, the replicated index key: (16 + 2 + 1 + 1) x 128 = 2,560."""
    shapes = {s.module: (s.layers, s.N, s.K) for s in judged("0.33.0").shapes}
    assert shapes["qkv_dense"] == (3, 2304, 6144)
    assert shapes["qkv_sparse"] == (57, 2560, 6144)
    assert shapes["o_proj"] == (60, 6144, 2048)
    assert shapes["shared_gate_up"] == (57, 1536, 6144)
    assert shapes["moe_w13"] == (57, 1536, 6144)
    assert shapes["lm_head"] == (1, 50016, 6144)


def test_tiles_follow_the_selector_of_the_release() -> None:
    """M 128, N 2,560, K 6,144: 64 x 64 x 512 with 8 warps and 2 stages; 0.25.1 has another selector."""
    new = next(s for s in judged("0.33.0", concurrency=128).shapes if s.module == "qkv_sparse")
    assert new.tiles["decode, 128 requests"] == "64 x 64 x 512, 8 warps, 2 stages"
    assert not any(s.tiles for s in judged("0.25.1", concurrency=128).shapes)
    assert not any(s.tiles for s in judged("0.33.0", "--linear-backend emulation", concurrency=128).shapes)


def test_bytes_per_token_and_capacity() -> None:
    """60 x 2 x 128 = 15,360 of FP8 K and V; 57 x 128 x 2 = 14,592 of BF16 index keys, 7,296 of FP8."""
    bf16, fp8 = judged("0.33.0", env=GATED).memory, judged("0.33.0", FP8_INDEX, GATED).memory
    assert bf16 is not None
    assert fp8 is not None
    assert (bf16.main, bf16.index) == (15360, 14592)
    assert (fp8.main, fp8.index) == (15360, 7296)
    assert bf16.tokens_at_most is not None
    assert bf16.budget == int(309_237_645_312 * 0.92)
    assert bf16.weights is not None
    assert bf16.tokens_at_most == (bf16.budget - bf16.weights) // (29952 * 128) * 128
    # 427.04e9 parameters, nearly all MXFP8 (33/32 B), over 4 ranks
    assert bf16.weights == pytest.approx(427.04e9 * 33 / 32 / 4, rel=0.02)


def test_a_workload_that_cannot_hold_its_requests_is_told() -> None:
    crowded = judged("0.33.0", concurrency=10000, isl=8192, osl=1024)
    assert any(w.kind == "capacity" for w in crowded.warnings)
    assert not any(w.kind == "capacity" for w in judged("0.33.0", concurrency=128, isl=8192, osl=1024).warnings)
