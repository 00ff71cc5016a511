"""Every kind of rule: one that holds, one that is broken, one whose evidence is missing; and the exit status: trust; paths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rules_kit import (
    ATTEND,
    COMPLETE,
    DECODE,
    ONE_GONE,
    TIMELESS,
    UNUSABLE,
    cells,
    folder,
    judged,
    outcome,
    path_row,
    result,
    served,
)
from tree import ROOT, shared_or_skip

from m3probe.model.path_report import PathRow
from m3probe.model.report import TrustRow
from m3probe.pipeline import report
from m3probe.rules import judge, load_rules
from m3probe.schema.verdicts import RuleOutcome
from m3probe.sources import open_recording

# --- trust ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "trust", "code"),
    [
        ("complete", COMPLETE, 0),
        ("complete", TIMELESS, 4),
        ("complete", UNUSABLE, 4),
        ("complete", None, 4),
        ("degraded", COMPLETE, 0),
        ("degraded", TIMELESS, 0),
        ("degraded", UNUSABLE, 4),
    ],
)
def test_required_trust(tmp_path: Path, wanted: str, trust: TrustRow | None, code: int) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    assert judged(tmp_path, rec, f'[require]\ntrust = "{wanted}"\n', trust).exit_code == code


def test_trust_of_one_rule(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    rule = 'kernel = "_gqa*"\ntrust = "complete"\n'
    assert outcome(tmp_path, rec, f"{rule}per_step = 1") == "holds"
    assert outcome(tmp_path, rec, f"{rule}per_step = 1", TIMELESS) == "inconclusive"
    assert outcome(tmp_path, rec, f"{rule}forbid = true", TIMELESS) == "failed"


PATH = 'path = "graph_replay"\nverdict = "executed"\n'


@pytest.mark.parametrize(
    ("rule", "row", "expected"),
    [
        ("", path_row("executed"), "holds"),
        ("", path_row("missed"), "failed"),
        ("", path_row("unproven"), "inconclusive"),
        ('phase = "decode"', path_row("missed", decode="executed"), "holds"),
        ('phase = "decode"', path_row("executed", decode="unexpected"), "failed"),
        ('phase = "decode"', path_row("executed", decode="unproven"), "inconclusive"),
        ('phase = "decode"', path_row("executed", prefill="executed"), "inconclusive"),
        ("rank = 0", path_row("executed"), "holds"),
        ("rank = 1", path_row("executed"), "inconclusive"),
        ('variant = "FULL"', path_row("executed"), "holds"),
        ('variant = "eager"', path_row("executed"), "failed"),
        ('variant = "FULL"', path_row("executed", "FULL + PIECEWISE"), "inconclusive"),
        ('variant = "eager"', path_row("executed", "FULL + PIECEWISE"), "failed"),
        ('variant = "FULL"', path_row("unproven"), "inconclusive"),
    ],
)
def test_path_rules(tmp_path: Path, rule: str, row: PathRow, expected: str) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    assert outcome(tmp_path, rec, PATH + rule, COMPLETE, [row]) == expected


def test_path_without_analysis_or_row_is_inconclusive(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    assert outcome(tmp_path, rec, PATH) == "inconclusive"
    assert outcome(tmp_path, rec, PATH, COMPLETE, []) == "inconclusive"


def test_path_verdict_that_went_wrong_is_not_hidden_by_another_row(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    assert outcome(tmp_path, rec, PATH, COMPLETE, [path_row("executed"), path_row("missed")]) == "failed"
    assert outcome(tmp_path, rec, PATH, COMPLETE, [path_row("unproven"), path_row("executed")]) == "holds"


def test_path_shows_counts_of_its_phase(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    found = result(tmp_path, rec, PATH + 'phase = "decode"', COMPLETE, [path_row("x", decode="executed")])
    assert found.observed == "executed as FULL; steps 8, executed 7, calls 7"
    assert result(tmp_path, rec, PATH, COMPLETE, [path_row("executed")]).observed == "executed as FULL; calls 9"


def test_path_rule_misses_the_rank_that_wrote_no_trace(tmp_path: Path) -> None:
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND])], 1: [(DECODE, [ATTEND])]})
    assert outcome(tmp_path, rec, PATH, ONE_GONE, [path_row("executed")]) == "inconclusive"
    assert outcome(tmp_path, rec, PATH, ONE_GONE, [path_row("missed")]) == "failed"
    # rank 0 is there and speaks for itself
    assert outcome(tmp_path, rec, f"{PATH}rank = 0", ONE_GONE, [path_row("executed")]) == "holds"


def test_a_path_that_surely_did_not_run_fails_its_rule(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    row = replace(path_row("unproven"), cells=cells("", 0, 1, decode="unproven"))
    for rule in ("", 'phase = "decode"', "rank = 0"):
        found = result(tmp_path, rec, PATH + rule, COMPLETE, [row])
        assert (found.outcome, found.why) == (
            RuleOutcome.FAILED,
            "1 step(s) made no call of it, and nothing can have hidden one",
        )


def test_decode_that_ran_eager_fails_the_sample_rules() -> None:
    rec = open_recording([shared_or_skip("traces/h200-m3/h200-m3-tp4rank-eager.pt.trace.json.gz")])
    rules = load_rules(ROOT / "samples" / "rules" / "h200-m3.toml")
    judgement = judge(rules, rec, report(rec).answer)
    outcomes = {r.rule: r.outcome for r in judgement.results}
    assert judgement.exit_code == 1
    assert [rule for rule, outcome in outcomes.items() if outcome is RuleOutcome.FAILED] == [
        rule for rule in outcomes if "graph_replay" in rule
    ]


def test_path_rule_looks_at_its_rank_and_phase_alone(tmp_path: Path) -> None:
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND])], 1: [(DECODE, [ATTEND])]})
    row = path_row("missed", "FULL + PIECEWISE")
    both = (*cells("FULL", 0, decode="executed"), *cells("PIECEWISE", 1, decode="missed", prefill="executed"))
    row = replace(row, cells=both)
    for rule, expected in (
        ("rank = 0", "holds"),
        ('rank = 0\nvariant = "FULL"', "holds"),
        ('rank = 0\nvariant = "PIECEWISE"', "failed"),
        ("rank = 1", "failed"),
        ('rank = 1\nphase = "prefill"\nvariant = "PIECEWISE"', "holds"),
        ('phase = "decode"', "failed"),
        ('phase = "prefill"', "holds"),
        ('rank = 0\nphase = "prefill"', "inconclusive"),
    ):
        assert outcome(tmp_path, rec, PATH + rule, COMPLETE, [row]) == expected, rule
