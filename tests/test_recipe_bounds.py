"""What recipe, and analyze with a recipe, do with inputs that are hostile, huge, or that leave things open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recipes import GATED, INT4, MXFP8, at, judged, reasons
from tree import ROOT

from m3probe.recipe import Ask, recipe
from m3probe.recipe.flags import Flags
from m3probe.recipe.reading import read_script
from m3probe.vllm_source import bundled

SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
RULES = ROOT / "samples" / "rules" / "h200-m3.toml"
SERVE = ("vllm", "serve", MXFP8, "--tensor-parallel-size", "4", "--block-size", "128")


def run(*words: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from m3probe.cli import main; sys.exit(main())", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT.anchor, timeout=timeout)


def script(text: str, **ask: object) -> dict[str, str]:
    """States of a shell script's command on 0.33.0 by path."""
    build = bundled("0.33.0")
    assert build is not None
    given = read_script(text, Flags.of(build))
    return {line.id: line.state for line in recipe(Ask(given=given, build=build, gpu="mi355x", **ask)).paths}  # type: ignore[arg-type]


# --- the JUnit file spares every input ------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--recipe", "--env-file", "--eval", "--cosine", "--model-config", "--tuned-table"])
def test_junit_over_an_input_is_refused_before_anything_is_written(tmp_path: Path, option: str) -> None:
    named = tmp_path / "input"
    named.write_text("kept\n")
    beside = () if option in ("--recipe", "--eval", "--cosine", "--model-config") else ("--recipe", named)
    done = run("assert", RULES, SAMPLE, option, named, *beside, "--junit", named)
    assert done.returncode == 2
    assert "--junit would overwrite an input" in done.stderr
    assert named.read_text() == "kept\n"


# --- what the input leaves open is not judged at a default ------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("--block-size $Q", "sparse_attention"),
        ("--cudagraph-capture-sizes $(cat sizes)", "graph_replay"),
        ("--max-num-seqs $N", "graph_replay"),
        ("--kv-cache-dtype $K", "fp8_kv_cache"),
        ("--moe-backend $M", "mxfp8_moe"),
        ("--linear-backend $L", "mxfp8_linear"),
        ("--hf-overrides $H", "index_reuse"),
    ],
)
def test_a_path_that_reads_an_unknown_value_is_unproven(word: str, path: str) -> None:
    base = "export VLLM_ROCM_USE_AITER=1\nvllm serve MiniMaxAI/MiniMax-M3-MXFP8 -tp 4 "
    known = "" if word.startswith("--block-size") else "--block-size 128 "
    assert script(f"{base}{known}{word}\n")[path] == "unproven"


def test_a_path_that_does_not_read_it_is_judged() -> None:
    found = script(f"vllm serve {MXFP8} -tp 4 --block-size 128 --hf-overrides $H\n")
    assert found["custom_all_reduce"] != "unproven"
    assert found["index_reuse"] == "unproven"


def test_an_unknown_number_of_drafts_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text(f'vllm serve {MXFP8} -tp 4 --speculative-config "{{\\"num_speculative_tokens\\": $K}}"\n')
    done = run("recipe", "--vllm", "0.33.0", file)
    assert done.returncode == 2
    assert "--speculative-config is not known" in done.stderr


# --- numbers and nesting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--hf-overrides", "[" * 60_000),
        ("--speculative-config", '{"num_speculative_tokens": "' + "1" * 5000 + '"}'),
        ("--max-num-seqs", "9" * 5000),
        ("--cudagraph-capture-sizes", "a"),
        ("--compilation-config", '{"cudagraph_capture_sizes": ["a", null, 1e400, {}]}'),
        ("--gpu-memory-utilization", "nan"),
    ],
)
def test_hostile_values_get_a_sentence(words: tuple[str, str]) -> None:
    done = run("recipe", "--vllm", "0.33.0", "--", *SERVE, *words)
    assert done.returncode in (0, 2), done.stderr
    assert len(done.stderr) < 5000
    assert "Traceback" not in done.stderr


def test_a_negative_quick_reduce_limit_is_judged() -> None:
    env = f"{INT4} VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB=-5"
    assert judged("0.33.0", env=env, concurrency=128).path("quick_reduce").state != "eligible"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"model_type": "minimax_m3_text", "num_hidden_layers": 2147483647}', "at most 10,000"),
        ('{"model_type": "minimax_m3_text", "hidden_size": 1' + "0" * 5000 + "}", "not a JSON document"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_a_hostile_model_config_is_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.json").write_text(text)
    done = run("recipe", "--model-config", tmp_path / "config.json", "--", *SERVE, timeout=20)
    assert done.returncode == 3
    assert said in done.stderr


def test_a_huge_activation_constant_is_not_judged_as_a_float(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "minimax_m3_text", "swiglu_alpha": 1' + "0" * 400 + "}")
    assert run("recipe", "--model-config", tmp_path / "config.json", "--", *SERVE).returncode == 0


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "minimax_m3_text"}', encoding="utf-8-sig")
    assert run("recipe", "--model-config", tmp_path / "config.json", "--", *SERVE).returncode == 0


@pytest.mark.parametrize("option", ["--model-config", "--tuned-table", "--env-file"])
def test_a_pipe_does_not_hold_the_command(tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run("recipe", "--vllm", "0.33.0", option, tmp_path / "pipe", "--", *SERVE, timeout=20)
    assert done.returncode == 3
    assert "not a regular file" in done.stderr


def test_a_path_name_of_any_length_is_refused_in_a_short_sentence() -> None:
    done = run("recipe", "--model-config", "x" * 5000, "--", *SERVE)
    assert done.returncode == 3
    assert len(done.stderr) < 5000


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--eval", '{"accuracy": 1' + "0" * 400 + ', "num_questions": 3}'),
        ("--eval", "[" * 100_000),
        ("--cosine", '{"cosines": [1, 2]}'),
        ("--cosine", '{"cosines": [null]}'),
        ("--cosine", '{"a": 1' + "0" * 400 + "}"),
        ("--cosine", '{"a": 0.1, "a": 0.99999}'),
    ],
)
def test_hostile_quality_files_get_a_sentence(tmp_path: Path, option: str, text: str) -> None:
    (tmp_path / "file.json").write_text(text)
    done = run("analyze", option, tmp_path / "file.json", SAMPLE)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


def test_metadata_of_any_size_is_read_by_its_head(tmp_path: Path) -> None:
    tree = tmp_path / "site"
    (tree / "vllm").mkdir(parents=True)
    for name in ("__init__.py", "envs.py"):
        (tree / "vllm" / name).write_text("")
    info = tree / "vllm-9.9.9.dist-info"
    info.mkdir()
    with (info / "METADATA").open("w") as file:
        file.write("Name: vllm\nVersion: 9.9.9\n")
        file.truncate(2**30)
    done = run("recipe", "--vllm-path", tree, "--", *SERVE, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "vLLM 9.9.9" in done.stdout


# --- many of them ---------------------------------------------------------------------------------------------------


def test_thousands_of_misspelt_variables_are_told_in_a_few_lines(tmp_path: Path) -> None:
    (tmp_path / "many.env").write_text("".join(f"VLLM_ROCM_USE_AITR{n}=1\n" for n in range(3000)))
    done = run("recipe", "--vllm", "0.33.0", "--env-file", tmp_path / "many.env", "--", *SERVE, timeout=30)
    assert done.returncode == 0
    assert done.stdout.count("is no variable of vLLM 0.33.0") == 20
    assert "only the first 20 are told" in done.stdout


def test_required_paths_are_bounded() -> None:
    done = run("recipe", *["--require=graph_replay"] * 300, "--", *SERVE)
    assert done.returncode == 2
    assert "was given 300 times" in done.stderr


def test_a_folder_of_more_tables_than_anyone_ships_is_refused(tmp_path: Path) -> None:
    for n in range(2001):
        (tmp_path / f"{n}.csv").touch()
    done = run("recipe", "--tuned-table", tmp_path, "--", *SERVE)
    assert done.returncode == 3
    assert "more than 2,000 CSV files" in done.stderr


def test_a_damaged_tuned_table_in_a_folder_is_told(tmp_path: Path) -> None:
    good = ROOT / "tests" / "data" / "tuned" / "generated_mxfp8_tuned_fmoe.csv"
    (tmp_path / "a_tuned_fmoe.csv").write_bytes(good.read_bytes())
    (tmp_path / "b_tuned_fmoe.csv").write_text("no,table\n1,2\n")
    (tmp_path / "c_untuned_fmoe.csv").write_text("token,model_dim\n1,2\n")
    text = " ".join(run("recipe", "--vllm", "0.33.0", "--tuned-table", tmp_path, "--", *SERVE).stdout.split())
    assert "a tuned table is left out:" in text
    assert "b_tuned_fmoe.csv" in text
    assert "c_untuned" not in text


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_service_without_a_file_is_refused() -> None:
    done = run("recipe", "--service", "two", "--", *SERVE)
    assert done.returncode == 2
    assert "--service chooses among the commands of a FILE" in done.stderr


def test_a_share_of_memory_that_is_none_stops_the_engine() -> None:
    assert "--gpu-memory-utilization 7" in judged("0.33.0", "--gpu-memory-utilization 7").stops[0]


def test_weights_that_do_not_fit_stop_the_engine() -> None:
    """427 billion MXFP8 weights are 440 GB: no single 288 GiB device holds them."""
    stops = judged("0.33.0", tp=1).stops
    assert any("of weights do not fit in the 284.5 GB of a rank" in text for text in stops)
    assert not judged("0.33.0", tp=4).stops


def test_more_sequences_than_tokens_stop_the_engine_and_a_default_is_lowered() -> None:
    words = BUDGET_OF_64
    assert any("--max-num-batched-tokens 64 < --max-num-seqs 128" in t for t in judged("0.33.0", words).stops)
    lowered = judged("0.33.0", "--max-num-batched-tokens 64", concurrency=128)
    assert not lowered.stops
    assert [p.rows for p in lowered.points if p.phase == "decode"] == [64]


BUDGET_OF_64 = "--max-num-batched-tokens 64 --max-num-seqs 128"


def test_the_map_places_a_step_by_the_rows_that_are_launched() -> None:
    """Captured sizes 8 and 913: 500 rows run as 913, 11,218,944 B, above vLLM's 8 MiB: the map must not say custom."""
    words = """--compilation-config '{"cudagraph_capture_sizes": [8, 913]}'"""
    report = judged("0.33.0", words, concurrency=500)
    assert "(500 rows run as 913)" in reasons(at(report.path("custom_all_reduce"), "decode"))
    assert [r.backend for r in report.all_reduce if "decode, 500 requests" in r.points] == ["rccl"]


def test_an_engine_that_does_not_start_is_said_above_paths_that_would_be_eligible() -> None:
    done = run("recipe", "--vllm", "0.33.0", "--", "env", *GATED.split(), *SERVE, "--block-size", "64")
    text = " ".join(done.stdout.split())
    assert "as they would be if the engine started" in text
    assert json.loads(run("recipe", "--json", "--vllm", "0.33.0", "--", *SERVE, "--block-size", "64").stdout)["stops"]


def test_words_that_may_be_any_flag_leave_every_required_path_unproven(tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text(f"vllm serve {MXFP8} -tp 4 --block-size 128 --max-num-batched-tokens 32768 $EXTRA\n")
    done = run("recipe", "--vllm", "0.33.0", "--require", "custom_all_reduce:decode", file)
    assert done.returncode == 1
    assert "unproven:" in done.stdout
    file.write_text(f"vllm serve {MXFP8} -tp 4 --block-size 128 --max-num-batched-tokens 32768\n")
    assert run("recipe", "--vllm", "0.33.0", "--require", "custom_all_reduce:decode", file).returncode == 0
