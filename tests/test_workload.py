"""``analyze`` and ``assert`` told the server's configuration and the worth of its answers: end to end, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_kit import ran
from tree import ROOT

SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
GATED = ROOT / "samples" / "recipes" / "m3-mxfp8-gated.sh"
ON_MI355X = ("--recipe", GATED, "--vllm", "0.33.0", "--gpu", "mi355x")


def paths(*words: str | Path) -> dict[str, dict[str, Any]]:
    done = ran("analyze", "--json", *words, SAMPLE)
    assert done.returncode == 0, done.stderr
    return {row["id"]: row for row in json.loads(done.stdout)["paths"]}


def test_the_recording_beside_the_recipe_it_did_not_run_with_shows_what_was_missed() -> None:
    """The sample ran the Triton attend in all 60 sparse calls (9 x 6 decode, 6 prefill): eligible there, so missed."""
    found = paths(*ON_MI355X)
    sparse = found["aiter_sparse_pa"]
    assert (sparse["configured"], sparse["eligible"], sparse["verdict"]) == ("yes", "yes", "missed")
    assert (sparse["counts"]["missed"], sparse["counts"]["fallback_calls"], sparse["variant"]) == (10, 60, "Triton")
    assert found["index_reuse"]["verdict"] == "off"
    assert found["graph_replay"]["verdict"] == "executed"
    # 4,000 prefill rows are 49,152,000 B, 8 decode rows 98,304 B; no all-reduce ran on one device
    reduce = found["quick_reduce"]
    assert (reduce["eligible"], reduce["verdict"]) == ("partly", "unproven")
    assert any("98,304 B < 16,777,216 B" in reason for reason in reduce["reasons"])


def test_without_a_gpu_the_traces_own_device_is_taken() -> None:
    """On an H200 AITER's attend is refused, and the Triton attend that ran is no miss; expert backends are not judged."""
    found = paths("--recipe", GATED, "--vllm", "0.33.0")
    assert (found["aiter_sparse_pa"]["eligible"], found["aiter_sparse_pa"]["verdict"]) == ("no", "declined")
    assert any("sm90" in reason for reason in found["aiter_sparse_pa"]["reasons"])
    assert found["mxfp8_moe"]["verdict"] == "unproven"


def test_a_recipe_for_another_device_says_so_above_the_paths() -> None:
    done = json.loads(ran("analyze", "--json", *ON_MI355X, SAMPLE).stdout)["recipe"]
    assert (done["vllm"], done["gpu"]) == ("0.33.0", "MI355X")
    assert done["contradicts"] == ["the recording is of H200, the configuration was judged for MI355X (--gpu)"]
    text = ran("analyze", *ON_MI355X, SAMPLE).stdout
    assert text.index("Paths  ✗") < text.index("the recording is of H200") < text.index("AITER sparse paged attention:")
    assert json.loads(ran("analyze", "--json", SAMPLE).stdout)["recipe"] is None


def test_a_recipe_that_does_not_start_cannot_be_the_one_that_ran(tmp_path: Path) -> None:
    two = tmp_path / "two.env"
    two.write_text("TP=2\n")
    done = json.loads(ran("analyze", "--json", *ON_MI355X, "--env-file", two, SAMPLE).stdout)
    assert any("does not start, so another one was recorded" in text for text in done["recipe"]["contradicts"])
    assert done["meta"]["tp"] == 2


def test_warnings_of_the_recipe_reach_the_report(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("export VLLM_ROCM_USE_AITR=1\nvllm serve MiniMaxAI/MiniMax-M3-MXFP8 -tp 4 --block-size 128\n")
    done = ran("analyze", "--recipe", script, "--vllm", "0.33.0", SAMPLE)
    assert "did you mean VLLM_ROCM_USE_AITER?" in " ".join(done.stdout.split())


def test_without_a_recipe_the_fallbacks_are_told_in_one_line() -> None:
    text = " ".join(ran("analyze", SAMPLE).stdout.split())
    assert "a fallback ran, and nothing says what was asked for (--recipe FILE does)" in text
    assert "AITER sparse paged attention (Triton, 60 calls)" in text


def evaluation(tmp_path: Path, value: float, name: str = "eval.json") -> Path:
    document = {"results": {"gsm8k": {"exact_match,strict-match": value}}, "n-samples": {"gsm8k": {"effective": 1319}}}
    (tmp_path / name).write_text(json.dumps(document))
    return tmp_path / name


def test_an_evaluation_decides_whether_an_executed_path_is_correct(tmp_path: Path) -> None:
    good, bad = evaluation(tmp_path, 0.9515), evaluation(tmp_path, 0.0099, "bad.json")
    assert paths("--eval", good)["graph_replay"]["correct"] == "holds"
    assert paths("--eval", bad)["graph_replay"]["correct"] == "broken"
    assert paths()["graph_replay"]["correct"] == "unproven"
    text = " ".join(ran("analyze", "--eval", bad, SAMPLE).stdout.split())
    assert "✗ broken evaluation file read, within noise of healthy: gsm8k 0.0099, n = 1,319" in text


def test_a_score_is_held_against_its_baseline(tmp_path: Path) -> None:
    """n = 1,319 at 0.93 and 0.95: noise 1.96 x sqrt(0.00703^2 + 0.00600^2) = 0.0181 < 0.02."""
    low, base = evaluation(tmp_path, 0.93), evaluation(tmp_path, 0.95, "base.json")
    done = json.loads(ran("analyze", "--json", "--eval", low, "--eval-baseline", base, SAMPLE).stdout)
    gate = next(gate for gate in done["gates"] if gate["id"] == "eval_file")
    assert gate["verdict"] == "broken"
    assert "-0.0200, noise below 0.0181" in gate["text"]


def test_cosines_are_a_gate(tmp_path: Path) -> None:
    (tmp_path / "cosine.json").write_text(json.dumps({"layer 3": 0.9999, "layer 4": 0.527}))
    done = json.loads(ran("analyze", "--json", "--cosine", tmp_path / "cosine.json", SAMPLE).stdout)
    gate = next(gate for gate in done["gates"] if gate["id"] == "cosine")
    assert (gate["verdict"], gate["text"]) == ("broken", "lowest of 2 cosines: 0.5270 (layer 4), must be > 0.999")


def test_a_rule_on_a_missed_path_fails_and_holds_where_it_ran(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\npath = "aiter_sparse_pa"\nphase = "decode"\nverdict = "executed"\n')
    assert ran("assert", rules, *ON_MI355X, SAMPLE).returncode == 1
    rules.write_text('[[rule]]\npath = "aiter_sparse_pa"\nphase = "decode"\nverdict = "missed"\n')
    assert ran("assert", rules, *ON_MI355X, SAMPLE).returncode == 0
    rules.write_text('[[rule]]\npath = "index_reuse"\nverdict = "off"\n')
    assert ran("assert", rules, *ON_MI355X, SAMPLE).returncode == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--vllm", "0.33.0"), 2, "--vllm says something of a server that was not given"),
        (("--gpu", "mi355x"), 2, "Give its script, compose or Kubernetes file with --recipe"),
        (("--recipe", "missing.sh"), 3, "missing.sh"),
        (("--recipe", GATED, "--tp", "8"), 2, "--tp 8 contradicts 4 of the server's command"),
        (("--eval", "missing.json"), 3, "missing.json"),
        (("--eval-baseline", SAMPLE), 2, "--eval-baseline without --eval"),
        (("--eval", SAMPLE), 3, "no JSON"),
        (("--cosine", SAMPLE), 3, "no JSON"),
        (("--recipe", SAMPLE), 3, SAMPLE.name),
    ],
)
def test_bad_words_have_a_sentence_and_a_status(words: tuple[str | Path, ...], status: int, said: str) -> None:
    done = ran("analyze", *words, SAMPLE)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_baseline_of_another_task_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "mmlu.json"
    other.write_text(json.dumps({"results": {"mmlu": {"acc,none": 0.8}}}))
    done = ran("analyze", "--eval", evaluation(tmp_path, 0.95), "--eval-baseline", other, SAMPLE)
    assert done.returncode == 2
    assert "no task and metric in common" in done.stderr
