"""What a configuration cannot do, and words that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_kit import ran
from recipes import BASE, GATED, INT4, MXFP4, MXFP8, at, judged, reasons
from tree import ROOT

from m3probe.errors import UsageError

RECIPES = ROOT / "samples" / "recipes"


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
