"""Rules on correctness gates: holds, broken with its numbers, unproven with what would tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rules_kit import ATTEND, COMPLETE, DECODE, TIMELESS, UNUSABLE, served
from tree import ROOT

from m3probe.analyzers._gates import gate_rows
from m3probe.errors import UsageError
from m3probe.model.judgement import Judgement
from m3probe.model.path_report import PathsSection
from m3probe.model.report import Answer, TrustRow, TrustSection
from m3probe.pipeline import read, report
from m3probe.rules import judge, load_rules
from m3probe.schema.gates import BlockSizes, GateFacts


def gate(tmp_path: Path, facts: GateFacts, lines: str = "", trust: TrustRow | None = COMPLETE) -> Judgement:
    """Gates are judged by the real predicate; the trace beside them says nothing of them."""
    rec = served(tmp_path, (DECODE, [ATTEND]))
    rec = replace(rec, meta=replace(rec.meta, gates=facts))
    path = tmp_path / "rules.toml"
    path.write_text(f'[[rule]]\ngate = "block_equal"\n{lines}')
    sections = (PathsSection((), gate_rows(rec)), *((TrustSection(trust, {}),) if trust else ()))
    return judge(load_rules(path), rec, Answer(sections))


@pytest.mark.parametrize(
    ("kv", "sparse", "outcome", "said"),
    [
        (128, 128, "holds", "holds: KV block 128, sparse block 128"),
        (64, 128, "failed", "broken: KV block 64, sparse block 128; both must be 128 tokens"),
        (None, 128, "inconclusive", "unproven: the KV block or the sparse block was not recorded"),
    ],
)
def test_a_gates_verdict_is_the_rules(tmp_path: Path, kv: int | None, sparse: int, outcome: str, said: str) -> None:
    (found,) = gate(tmp_path, GateFacts(blocks=BlockSizes(kv, sparse))).results
    assert (str(found.outcome), found.observed, found.basis) == (outcome, said, "gates")
    assert found.rule == "gate block_equal: holds"
    assert bool(found.next_move) == (outcome != "holds")


def test_a_broken_gate_says_what_it_did_once(tmp_path: Path) -> None:
    (found,) = gate(tmp_path, GateFacts(blocks=BlockSizes(64, 128))).results
    assert "sglang-jax issue 1376" in found.next_move
    (found,) = gate(tmp_path, GateFacts()).results
    assert found.next_move.startswith("Record the server with m3probe attach. The facts: cache_config.block_size")


def test_lost_kernels_change_no_recorded_fact(tmp_path: Path) -> None:
    facts = GateFacts(blocks=BlockSizes(128, 128))
    assert gate(tmp_path, facts, trust=UNUSABLE).exit_code == 0
    assert gate(tmp_path, facts, trust=TIMELESS).exit_code == 0
    assert gate(tmp_path, facts, 'trust = "complete"\n', TIMELESS).exit_code == 4
    assert gate(tmp_path, GateFacts(blocks=BlockSizes(64, 128)), trust=UNUSABLE).exit_code == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('gate = "kv_block_128"', "unknown gate 'kv_block_128'"),
        ('gate = "block_equl"', "Did you mean 'block_equal'?"),
        ('gate = "block_equal"\nphase = "decode"', "phase does not fit a rule on gate"),
        ('gate = "block_equal"\nper_step = 1', "per_step does not fit a rule on gate"),
        ('gate = "block_equal"\nverdict = "executed"', "verdict does not fit a rule on gate"),
        ('agree = "environment"\nrank = 1', "rank does not fit a rule on agree"),
        ('agree = "enviroment"', "Did you mean 'environment'?"),
        ('agree = "versions"\ngate = "block_equal"', "exactly one of"),
    ],
)
def test_keys_that_do_not_fit_are_refused(tmp_path: Path, lines: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"[[rule]]\n{lines}\n")
    with pytest.raises(UsageError, match="rule 1") as caught:
        load_rules(path)
    assert said in caught.value.sentence()


def test_gates_of_the_live_h200_recording(tmp_path: Path) -> None:
    """vLLM 0.25.1, M3: blocks of 128 in cache and selector, BF16 cache; no evaluation was given."""
    rules = tmp_path / "rules.toml"
    rules.write_text("".join(f'[[rule]]\ngate = "{name}"\n' for name in ("block_equal", "kv_dtype", "eval_file")))
    rec = read([ROOT / "samples" / "live-h200-m3-graph"])
    found = judge(load_rules(rules), rec, report(rec).answer)
    assert [str(r.outcome) for r in found.results] == ["holds", "holds", "inconclusive"]
    assert found.results[2].next_move.startswith("Give the evaluation with --eval FILE.")
