"""``m3probe recipe`` against what was worked out by hand from the tables of four releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_kit import ran
from recipes import AITER, BASE, FSE, GATED, INT4, MXFP4, MXFP8, UNCAST, at, judged, reasons, segments
from tree import ROOT

from m3probe.errors import UsageError

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


def test_a_layout_that_cannot_be_built_stops_the_engine() -> None:
    report = judged("0.33.0", tp=3)
    assert report.stops == ("TP3 EP1: 64 query heads cannot be split over 3 ranks",)
    assert report.shapes == ()


# --- required paths, bad input ------------------------------------------------------------------------------------


def test_a_required_path_decides_the_exit_status() -> None:
    words = ("recipe", "--vllm", "0.33.0", "--concurrency", "128")
    gated = RECIPES / "m3-mxfp8-gated.sh"
    assert ran(*words, "--require", "aiter_sparse_pa:decode", gated).returncode == 0
    assert ran(*words, "--require", "quick_reduce:prefill", gated).returncode == 0
    failed = ran(*words, "--require", "quick_reduce:decode", gated)
    assert failed.returncode == 1
    assert "1,572,864 B < 16,777,216 B" in failed.stdout
    assert ran(*words, "--require", "aiter_sparse_pa", RECIPES / "m3-mxfp8-printed.sh").returncode == 1


def test_nothing_is_eligible_on_an_engine_that_does_not_start() -> None:
    report = judged("0.33.0", env=GATED, tp=2, require=["graph_replay"])
    assert report.required[0][1] is False
    assert "would not start" in report.required[0][2]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--require", "aiter_sparse_paa", "--", "vllm", "serve", MXFP8), 2, "Did you mean aiter_sparse_pa?"),
        (("--require", "quick_reduce:decoding", "--", "vllm", "serve", MXFP8), 2, "Phases are prefill and decode"),
        (("--require", "spec_sparse_pa:prefill", "--", "vllm", "serve", MXFP8), 2, "never runs in prefill"),
        ((), 2, "no command to judge"),
        (("--",), 2, "no command to judge"),
        (("--vllm", "0.33.0", "--vllm-path", ".", "--", "vllm", "serve", MXFP8), 2, "not allowed with"),
        (("missing.sh",), 3, "missing.sh"),
        (("--env-file", "missing.env", "--", "vllm", "serve", MXFP8), 3, "missing.env"),
        (("--vllm-path", "/nowhere", "--", "vllm", "serve", MXFP8), 3, "/nowhere"),
        (("--model-config", "missing.json", "--", "vllm", "serve", MXFP8), 3, "missing.json"),
        (("--gpu", "mi355", "--", "vllm", "serve", MXFP8), 2, "Did you mean mi355x?"),
        (
            ("--spec", "2", "--", "vllm", "serve", MXFP8, "--speculative-config", '{"num_speculative_tokens": 3}'),
            2,
            "contradicts",
        ),
        (("--", "vllm", "serve", MXFP8, "--tensor-parallel-size", "four"), 2, "--tensor-parallel-size"),
        (("--", "vllm", "serve", MXFP8, "--speculative-config", "{"), 2, "--speculative-config"),
        (("--concurrency", "0", "--", "vllm", "serve", MXFP8), 2, "no whole number"),
        (("--", "python", "train.py"), 2, "vllm"),
    ],
)
def test_bad_input_has_a_sentence_and_a_status(words: tuple[str, ...], status: int, said: str) -> None:
    found = ran("recipe", *words)
    assert found.returncode == status, found.stderr
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_hostile_words_reach_no_terminal() -> None:
    found = ran("recipe", "--", "vllm", "serve", "evil\x1b[31m\u202emodel", "--served-model-name", "\x9b31m")
    assert found.returncode in (0, 2, 3)
    assert "\x1b" not in found.stdout + found.stderr
    assert "\u202e" not in found.stdout + found.stderr


def test_another_model_is_judged_where_rules_are_generic(tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
    config |= {
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    report = judged("0.33.0", env=INT4, model=str(tmp_path), concurrency=128)
    # 128 x 4,096 x 2 B = 1 MiB
    assert "1,048,576 B < 2,097,152 B" in reasons(at(report.path("quick_reduce"), "decode"))
    assert report.path("index_reuse").state == "off"
    assert next(s for s in report.shapes if s.module == "qkv_dense").N == (8 + 2 * 2) * 128


def test_a_model_whose_shapes_cannot_be_predicted_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "deepseek_v3", "hidden_size": 7168, "torch_dtype": "bfloat16"})
    )
    report = judged(
        "0.33.0", env=INT4, model="deepseek-ai/DeepSeek-V3", model_config=tmp_path / "config.json", concurrency=128
    )
    assert report.shapes == ()
    assert any("deepseek_v3: no shapes can be predicted" in text for text in report.assumed)
    assert "1,835,008 B < 2,097,152 B" in reasons(at(report.path("quick_reduce"), "decode"))


def test_a_draft_number_stands_once() -> None:
    with pytest.raises(UsageError, match="contradicts"):
        judged("0.33.0", """--speculative-config '{"num_speculative_tokens": 3}'""", drafts=2)


def test_the_text_answers_at_80_and_120_columns_and_in_ascii() -> None:
    for width in (80, 120):
        found = ran(
            "recipe", "--vllm", "0.33.0", "--concurrency", "128", RECIPES / "m3-mxfp8-gated.sh", COLUMNS=str(width)
        )
        assert max(len(line) for line in found.stdout.splitlines()) <= width
        assert "1,572,864 B < 16,777,216 B" in " ".join(found.stdout.split())
    plain = ran("recipe", "--vllm", "0.33.0", RECIPES / "m3-mxfp8-gated.sh", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert plain.stdout.isascii()


def test_the_compose_sample_is_read_whole() -> None:
    found = ran("recipe", "--vllm", "0.33.0", "--concurrency", "128", "--json", RECIPES / "m3-mxfp4-eagle3.yaml")
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert report["setup"]["spec_tokens"] == 3
    assert report["setup"]["model"] == MXFP4
    states = {line["id"]: line["state"] for line in report["paths"]}
    assert states["index_reuse"] == states["shared_expert_fusion"] == states["spec_sparse_pa"] == "eligible"
    assert BASE.split()[1] == "128"


CONDITIONAL = ROOT / "tests" / "data" / "recipe" / "gated.sh"


def states(*words: str | Path) -> dict[str, str]:
    found = ran("recipe", "--vllm", "0.33.0", "--concurrency", "128", "--json", *words)
    assert found.returncode == 0, found.stderr
    return {line["id"]: line["state"] for line in json.loads(found.stdout)["paths"]}


def test_a_path_that_hangs_on_a_condition_of_the_script_is_unproven_until_it_is_settled(tmp_path: Path) -> None:
    """The layout variable and --linear-backend stand in an if; QuickReduce's do not."""
    left_open = states(CONDITIONAL)
    assert left_open["aiter_sparse_pa"] == left_open["fused_qknorm_rope_kv"] == "unproven"
    assert left_open["quick_reduce"] == "refused"
    settled = tmp_path / "serve.env"
    settled.write_text("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=1\n")
    assert states("--env-file", settled, CONDITIONAL)["aiter_sparse_pa"] == "eligible"
    settled.write_text("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=0\n")
    assert states("--env-file", settled, CONDITIONAL)["aiter_sparse_pa"] == "off"


def test_what_the_command_sets_wins_over_the_environment_file(tmp_path: Path) -> None:
    outer = tmp_path / "serve.env"
    outer.write_text("VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT=0\nVLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT8\n")
    found = ran(
        "recipe", "--vllm", "0.33.0", "--concurrency", "128", "--env-file", outer, RECIPES / "m3-mxfp8-gated.sh"
    )
    text = " ".join(found.stdout.split())
    assert "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=INT4" in text
    assert "57 x AITER page-16 expected per step" in text


def test_an_environment_file_feeds_the_script_that_reads_it(tmp_path: Path) -> None:
    """TP=${TP:-4} in the gated sample: two ranks hold two KV heads each, and the engine does not start."""
    two = tmp_path / "two.env"
    two.write_text("TP=2\n")
    words = (
        "recipe",
        "--vllm",
        "0.33.0",
        "--require",
        "aiter_sparse_pa",
        "--env-file",
        two,
        RECIPES / "m3-mxfp8-gated.sh",
    )
    found = ran(*words)
    assert found.returncode == 1
    assert "4 KV heads over TP2 = 2 per rank" in " ".join(found.stdout.split())


def test_a_parallel_size_that_is_not_told_is_asked_for(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve {MXFP8} --tensor-parallel-size $TP\n")
    found = ran("recipe", script)
    assert found.returncode == 2
    assert "--tensor-parallel-size is not known: $TP is not set in it" in found.stderr
    assert "--env-file" in found.stderr


def test_more_requests_than_the_engine_takes_wait_and_that_is_told() -> None:
    found = [w.text for w in judged("0.33.0", "--max-num-seqs 64", concurrency=171).warnings if w.kind == "capacity"]
    assert len(found) == 1
    assert found[0].startswith("171 requests > 64, the most of one decode step")


def test_several_concurrencies_are_judged_in_one_call() -> None:
    report = judged("0.33.0", env=INT4, concurrency=(64, 256))
    assert [p.rows for p in report.points if p.phase == "decode"] == [64, 256]
    states_at = {a.point.rows: a.state for a in report.path("quick_reduce").at if a.point.phase == "decode"}
    assert states_at == {64: "refused", 256: "eligible"}


def test_a_version_without_a_table_is_named_with_those_that_have_one() -> None:
    found = ran("recipe", "--vllm", "nightly", "--", "vllm", "serve", MXFP8)
    text = " ".join(found.stdout.split())
    assert found.returncode == 0
    assert "vLLM nightly: no source of it and no table of exactly this release" in text
    assert "--vllm takes 0.24.0, 0.25.1, 0.32.0, 0.33.0" in text


def test_warnings_can_fail_the_run() -> None:
    words = ("recipe", "--vllm", "0.33.0", "--fail-on-warnings", "--")
    typo = ("env", "VLLM_ROCM_USE_AITR=1", "vllm", "serve", MXFP8, "--block-size", "128")
    assert ran(*words, *typo).returncode == 1
    assert ran(*words, "vllm", "serve", MXFP8, "--block-size", "128").returncode == 0


def test_variables_of_this_shell_are_named_and_not_taken() -> None:
    found = ran("recipe", "--vllm", "0.33.0", "--", "vllm", "serve", MXFP8, VLLM_ROCM_USE_AITER="1")
    assert "VLLM_ROCM_USE_AITER is set in this shell and not in the input: it is not taken" in " ".join(
        found.stdout.split()
    )
    assert "VLLM_ROCM_USE_AITER is not set (default off)" in " ".join(found.stdout.split())


def test_a_part_of_a_name_suggests_the_paths_that_hold_it() -> None:
    found = ran("recipe", "--require", "sparse", "--", "vllm", "serve", MXFP8)
    assert "Did you mean aiter_sparse_pa or sparse_attention or spec_sparse_pa?" in found.stderr


def test_paths_of_m3s_model_files_are_off_for_another_model_and_open_for_an_unknown_one(tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
    config |= {"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    known = judged("0.33.0", env=GATED, model=str(tmp_path))
    unknown = judged("0.33.0", env=GATED, model="meta-llama/Llama-3.1-8B")
    for name in ("aiter_sparse_pa", "sparse_attention", "fused_qknorm_rope_kv", "monokernel"):
        assert known.path(name).state == "off"
        assert "it stands in MiniMax M3's model files" in known.path(name).asked
        assert unknown.path(name).state == "unproven"
    assert known.path("graph_replay").state != "eligible"
    assert "M3 is not compiled" not in known.path("graph_replay").asked
