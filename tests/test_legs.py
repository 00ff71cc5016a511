"""The triple of a pass: output right, path executed, end-to-end metric better; a missing leg is never a pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs_kit import rate, run
from tree import ROOT

from m3probe.errors import UnreadableInput
from m3probe.legs import Metric, executed_leg, metric_leg, quality_leg
from m3probe.model.judgement import RuleResult
from m3probe.model.path_report import GateRow
from m3probe.rules import Rule, load_rules
from m3probe.schema.gates import GateState
from m3probe.schema.verdicts import RuleOutcome

HOLDS, FAILED, INCONCLUSIVE = RuleOutcome.HOLDS, RuleOutcome.FAILED, RuleOutcome.INCONCLUSIVE
GRAPH = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
EAGER = ROOT / "samples" / "h200-m3-tp4rank-eager.pt.trace.json.gz"
RULES = ROOT / "samples" / "rules" / "h200-m3.toml"


def gate(name: str, state: str) -> GateRow:
    return GateRow(name, name, GateState(state), f"{name} says {state}")


@pytest.mark.parametrize(
    ("gates", "outcome", "observed"),
    [
        ((), INCONCLUSIVE, "nothing"),
        ((("eval_file", "unproven"), ("cosine", "unproven")), INCONCLUSIVE, "eval_file says unproven"),
        ((("eval_file", "holds"), ("cosine", "unproven")), HOLDS, "eval_file says holds"),
        ((("eval_file", "unproven"), ("cosine", "holds")), HOLDS, "cosine says holds"),
        ((("eval_file", "holds"), ("cosine", "broken")), FAILED, "cosine says broken"),
        ((("eval_file", "broken"), ("cosine", "holds")), FAILED, "eval_file says broken"),
        # drafts accepted by rate: the score is worth nothing, however good it is
        ((("eval_file", "holds"), ("eval_acceptance", "broken")), FAILED, "eval_acceptance says broken"),
        # how it was evaluated shows nothing by itself
        ((("eval_acceptance", "holds"), ("eval_length", "holds")), INCONCLUSIVE, "nothing"),
        ((("kv_dtype", "broken"), ("eval_file", "holds")), HOLDS, "eval_file says holds"),
    ],
)
def test_output_right(gates: tuple[tuple[str, str], ...], outcome: RuleOutcome, observed: str) -> None:
    found = quality_leg([gate(*each) for each in gates])
    assert found.outcome is outcome
    assert observed in found.observed
    assert (found.number, found.basis) == (0, "quality")
    assert bool(found.next_move) is (outcome is not HOLDS)


def rules(tmp_path: Path, text: str) -> tuple[Rule, ...]:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return load_rules(path).rules


def result(number: int, outcome: RuleOutcome) -> RuleResult:
    return RuleResult(number, None, f"text {number}", outcome, "a", "b", "kernels")


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        ('path = "graph_replay"\nverdict = "executed"', True),
        ('path = "graph_replay"\nverdict = "off"', False),
        ('kernel = "a"\nper_step = 6', True),
        ('kernel = "a"\nper_step = {max = 6}', False),
        ('kernel = "a"\nper_step = 0', False),
        ('kernel = "a"\nper_step = "2 * moe_layers"', True),
        ('path = "graph_replay"\nforbid = true', False),
        ('gate = "kv_dtype"', False),
        ('kernel = "a"\nmin_count = 1', True),
        ('family = "comm"\nmax_share = 0.2', False),
        ('family = "comm"\nmin_share = 0.2', True),
        ('kernel = "a"\nforbid = true', False),
    ],
)
def test_rules_that_all_hold_show_an_execution_only_where_one_asks_for_it(
    tmp_path: Path, rule: str, asks: bool
) -> None:
    found = executed_leg([result(1, HOLDS)], rules(tmp_path, f"[[rule]]\n{rule}\n"))
    assert found.outcome is (HOLDS if asks else INCONCLUSIVE)
    assert found.why == ("" if asks else "no rule asks that anything runs")


@pytest.mark.parametrize(
    ("outcomes", "outcome", "why"),
    [
        ((HOLDS, HOLDS), HOLDS, ""),
        ((HOLDS, FAILED, INCONCLUSIVE), FAILED, "failed: rule 2"),
        ((INCONCLUSIVE, HOLDS), INCONCLUSIVE, "inconclusive: rule 1"),
        ((FAILED,) * 7, FAILED, "failed: rule 1, rule 2, rule 3, rule 4, rule 5 and 2 more"),
    ],
)
def test_path_executed_is_what_the_rules_say_together(
    tmp_path: Path, outcomes: tuple[RuleOutcome, ...], outcome: RuleOutcome, why: str
) -> None:
    asked = rules(tmp_path, '[[rule]]\nkernel = "a"\nper_step = 6\n')
    found = executed_leg([result(i, o) for i, o in enumerate(outcomes, 1)], asked)
    assert (found.outcome, found.why) == (outcome, why)


@pytest.mark.parametrize(
    ("before", "after", "more", "outcome", "why"),
    [
        (700.0, 800.0, {}, HOLDS, ""),
        (800.0, 700.0, {}, FAILED, "worse: "),
        (700.0, 700.3, {}, FAILED, "no change beyond noise"),
        (700.0, 900.0, {"max_concurrency": 64}, INCONCLUSIVE, "the two hold no benchmark result of one workload point"),
        (700.0, 900.0, {"num_gpus": None}, INCONCLUSIVE, "while GPUs is not known"),
        (700.0, 900.0, {"model_id": "another"}, INCONCLUSIVE, "not the same contract: model"),
    ],
)
def test_the_metric_is_what_compare_says(
    tmp_path: Path, before: float, after: float, more: dict[str, Any], outcome: RuleOutcome, why: str
) -> None:
    """Three runs of one point each, a thousandth apart."""
    baseline, measured = (
        run(tmp_path, name, [rate(value * f) | said for f in (0.999, 1.0, 1.001)]).paths[0]
        for name, value, said in (("old", before, {}), ("new", after, more))
    )
    found = metric_leg(Metric(measured, baseline))
    assert (found.outcome, why in found.why, bool(found.why)) == (outcome, True, outcome is not HOLDS), found.why
    assert bool(found.next_move) is (outcome is not HOLDS)
    assert found.basis == "compare"


def test_one_run_each_without_their_requests_is_no_proof(tmp_path: Path) -> None:
    baseline, measured = (run(tmp_path, n, [rate(v)]).paths[0] for n, v in (("old", 700.0), ("new", 900.0)))
    found = metric_leg(Metric(measured, baseline))
    assert (found.outcome, "no figure that is sure" in found.why) == (INCONCLUSIVE, True)
    assert "--save-detailed" in found.next_move


def test_results_that_contradict_themselves_are_named(tmp_path: Path) -> None:
    """64 clients are said; 4 x 700 tokens/s at 20 ms a token are 56 in flight, and none waits."""
    said = {"max_concurrency": 64, "mean_tpot_ms": 20.0, "mean_ttft_ms": 0.1}
    baseline, measured = (run(tmp_path, n, [rate(700.0) | said]).paths[0] for n in ("old", "new"))
    found = metric_leg(Metric(measured, baseline))
    assert found.outcome is INCONCLUSIVE
    assert "left out: " in found.why
    assert "fewer than the 64 that the client kept" in found.why
    assert "again" in found.next_move


def test_a_metric_that_is_missing_is_inconclusive_and_one_that_cannot_be_read_is_not(tmp_path: Path) -> None:
    file = run(tmp_path, "one", [rate(700.0)]).paths[0]
    for metric in (Metric(), Metric(file)):
        found = metric_leg(metric)
        assert (found.outcome, found.why) == (INCONCLUSIVE, "no two runs to compare")
        assert "--metric-baseline FILE" in found.next_move
    with pytest.raises(UnreadableInput, match=r"gone\.json: cannot be read: No such file"):
        metric_leg(Metric(tmp_path / "gone.json"))
    with pytest.raises(UnreadableInput, match=r"gone\.json"):
        metric_leg(Metric(file, tmp_path / "gone.json"))


# --- the command line --------------------------------------------------------------------------------------


def check(*args: object) -> subprocess.CompletedProcess[str]:
    words = [str(Path(sys.executable).with_name("m3probe")), "assert", *map(str, args), "--no-github"]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def legs(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    found = json.loads(done.stdout)["results"]
    return {r["rule"]: r["outcome"] for r in found if r["rule"].startswith("leg ")}


def gsm8k(path: Path, accuracy: float) -> Path:
    path.write_text(json.dumps({"accuracy": accuracy, "num_questions": 1319}))
    return path


def test_without_triple_there_are_no_legs() -> None:
    done = check(RULES, GRAPH, "--json")
    assert (done.returncode, legs(done)) == (0, {})


def test_a_missing_leg_is_exit_4() -> None:
    done = check(RULES, GRAPH, "--triple", "--json")
    assert done.returncode == 4
    assert legs(done) == {
        "leg output right": "inconclusive",
        "leg path executed": "holds",
        "leg end-to-end metric": "inconclusive",
    }


def test_the_triple_passes_with_all_three_legs_and_fails_with_a_metric_that_is_worse(tmp_path: Path) -> None:
    """0.95 of 1,319 is +- 0.0118: in the healthy band from 0.94. 700 to 800 tokens/s/GPU, and the other way round."""
    old, new = (
        run(tmp_path, n, [rate(v * f) for f in (0.999, 1.0, 1.001)]).paths[0]
        for n, v in (("old", 700.0), ("new", 800.0))
    )
    good = gsm8k(tmp_path / "eval.json", 0.95)
    done = check(RULES, GRAPH, "--triple", "--eval", good, "--metric", new, "--metric-baseline", old)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[-4].startswith("ok            leg output right | observed gsm8k 0.9500, n = 1,319 +- 0.0118")
    assert lines[-3].startswith("ok            leg path executed | observed 6 of 6 rules hold")
    assert lines[-2].startswith("ok            leg end-to-end metric | observed better: output per gpu at c128 x 1.143")
    done = check(RULES, GRAPH, "--triple", "--eval", good, "--metric", old, "--metric-baseline", new, "--json")
    assert (done.returncode, legs(done)["leg end-to-end metric"]) == (1, "failed")


def test_an_output_that_is_wrong_is_exit_1_though_every_rule_holds(tmp_path: Path) -> None:
    done = check(RULES, GRAPH, "--triple", "--json", "--eval", gsm8k(tmp_path / "eval.json", 0.0008))
    assert done.returncode == 1
    assert legs(done)["leg output right"] == "failed"
    assert legs(done)["leg path executed"] == "holds"


def test_a_path_that_did_not_run_fails_its_leg() -> None:
    done = check(RULES, EAGER, "--triple", "--json")
    assert (done.returncode, legs(done)["leg path executed"]) == (1, "failed")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--metric", "a.json"), 2, "--metric is a leg of --triple"),
        (("--metric-baseline", "a.json"), 2, "--metric-baseline is a leg of --triple"),
        (("--triple", "--metric-baseline", "a.json"), 2, "--metric-baseline without --metric"),
        (("--triple", "--metric", "gone.json"), 3, "gone.json: cannot be read"),
        (("--triple", "--metric", ""), 2, "an empty path"),
    ],
)
def test_wrong_words(options: tuple[str, ...], code: int, said: str) -> None:
    done = check(RULES, GRAPH, *options)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
