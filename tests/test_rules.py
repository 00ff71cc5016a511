"""Every kind of rule: one that holds, one that is broken, one whose evidence is missing; and the exit status."""

import gzip
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording, step, write_trace
from tree import ROOT, shared_or_skip

from m3probe.analyzers.trust import ANALYZER as TRUST
from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.path_report import PathCell, PathRow, PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, Reason, TrustRow, TrustSection
from m3probe.pipeline import report
from m3probe.present.verdict_text import judgement_dict, judgement_text
from m3probe.rules import judge, load_rules
from m3probe.rules._entry import Known
from m3probe.rules._names import function_name, matching, nearest_name
from m3probe.schema.verdicts import RuleOutcome
from m3probe.sources import open_recording

GRAPH = "traces/h200-m3/h200-m3-tp4rank-graph.pt.trace.json.gz"
CAPTURED = "traces/tracelens/inference/vllm_decode_full"
KNOWN = Known(("graph_replay", "sparse_attention"), lambda _name: ("FULL", "PIECEWISE", "eager"))

COMPLETE = TrustRow("complete", ())
HIDING = TrustRow(
    "degraded", (Reason("graph_launches_without_kernels", "3 of 9 graph launches are bare", hides_kernels=True),)
)
TIMELESS = TrustRow("degraded", (Reason("no_time", "2 % without a time", hides_kernels=False),))
ONE_GONE = TrustRow(
    "degraded", (Reason("missing_rank", "rank 2 missing: 1 of 3 ranks wrote no trace", hides_kernels=True),)
)
UNUSABLE = TrustRow("unusable", (Reason("no_kernels", "no GPU kernels in trace", hides_kernels=True),))

PREFILL = "execute_context_1(64)_generation_0(0)"
DECODE = "execute_context_0(0)_generation_8(8)"
EMPTY = "execute_context_0(0)_generation_0(0)"

Step = tuple[str, Sequence[tuple[str, float]]]
ATTEND = ("_gqa_sparse_decode_kernel", 10.0)
REDUCE = ("ncclDevKernel_AllReduce", 5.0)


def events(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Steps 1,000 us apart; each launches its (name, us) kernels, which run one after another."""
    found: list[dict[str, Any]] = []
    correlation = 1
    for index, (name, kernels) in enumerate(steps):
        at = 1000.0 * (index + 1)
        found.append(step(at, 500.0, name))
        for place, (called, us) in enumerate(kernels):
            found.append(launch(at + 1 + 4 * place, correlation))
            found.append(kernel(at + 100 + 20 * place, us, correlation, called))
            correlation += 1
    return found


def served(tmp_path: Path, *steps: Step) -> Recording:
    return recording(tmp_path, events(steps))


def folder(tmp_path: Path, ranks: dict[int, Sequence[Step]]) -> Recording:
    inside = tmp_path / "ranks"
    inside.mkdir()
    for rank, steps in ranks.items():
        info = {"rank": rank, "world_size": 3}
        write_trace(inside / f"rank{rank}.pt.trace.json", events(steps), distributedInfo=info)
    return open_recording([inside])


def judged(
    tmp_path: Path,
    rec: Recording,
    rules: str,
    trust: TrustRow | None = COMPLETE,
    paths: Sequence[PathRow] | None = None,
) -> Judgement:
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    sections: list[Any] = [] if trust is None else [TrustSection(trust, {})]
    sections += [] if paths is None else [PathsSection(tuple(paths))]
    return judge(load_rules(path, KNOWN), rec, Answer(tuple(sections)))


def result(
    tmp_path: Path,
    rec: Recording,
    rule: str,
    trust: TrustRow | None = COMPLETE,
    paths: Sequence[PathRow] | None = None,
) -> RuleResult:
    return judged(tmp_path, rec, f"[[rule]]\n{rule}\n", trust, paths).results[0]


def outcome(
    tmp_path: Path,
    rec: Recording,
    rule: str,
    trust: TrustRow | None = COMPLETE,
    paths: Sequence[PathRow] | None = None,
) -> str:
    return str(result(tmp_path, rec, rule, trust, paths).outcome)


# --- per_step ------------------------------------------------------------------------------------------------

PER_STEP = 'kernel = "_gqa_sparse_decode_kernel"\nphase = "decode"\nper_step = 2'


def test_per_step_holds_in_every_step_of_the_phase_and_leaves_others_out(tmp_path: Path) -> None:
    rec = served(tmp_path, (PREFILL, [REDUCE]), (DECODE, [ATTEND] * 2), (DECODE, [ATTEND] * 2), (EMPTY, []))
    found = result(tmp_path, rec, PER_STEP)
    assert (found.outcome, found.observed, found.basis) == (RuleOutcome.HOLDS, "2 in each of 2 steps", "kernels")


@pytest.mark.parametrize(
    ("counts", "trust", "expected"),
    [
        ((2, 1), COMPLETE, "failed"),
        ((2, 3), COMPLETE, "failed"),
        ((2, 1), TIMELESS, "failed"),
        ((2, 1), HIDING, "inconclusive"),  # the third could be among the lost
        ((2, 3), HIDING, "failed"),  # one too many was seen
        ((2, 2), HIDING, "inconclusive"),  # more could be among the lost
        ((2, 2), TIMELESS, "holds"),
        ((2, 2), None, "inconclusive"),
        ((2, 3), UNUSABLE, "inconclusive"),
        ((0, 0), COMPLETE, "failed"),
    ],
)
def test_per_step_by_what_was_seen_and_can_be_hidden(
    tmp_path: Path, counts: tuple[int, int], trust: TrustRow | None, expected: str
) -> None:
    rec = served(tmp_path, *((DECODE, [REDUCE] + [ATTEND] * n) for n in counts))
    assert outcome(tmp_path, rec, PER_STEP, trust) == expected


def test_per_step_names_the_steps_that_broke_it(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND] * 2), (DECODE, [ATTEND]), (DECODE, [ATTEND] * 2))
    found = result(tmp_path, rec, PER_STEP)
    assert found.observed == "2 in 2, 1 in 1 of 3 steps"
    assert found.where == f"step 1 {DECODE}"
    assert found.evidence[0].rows == (1,)


def test_per_step_range(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND] * 2), (DECODE, [ATTEND] * 4))
    rule = 'kernel = "_gqa*"\nper_step = {}'
    assert outcome(tmp_path, rec, rule.format("{min = 2, max = 4}")) == "holds"
    assert outcome(tmp_path, rec, rule.format("{min = 3}")) == "failed"
    assert outcome(tmp_path, rec, rule.format("{max = 3}")) == "failed"


def test_per_step_without_a_phase_covers_every_step_that_serves(tmp_path: Path) -> None:
    rec = served(tmp_path, (PREFILL, [ATTEND]), (DECODE, [ATTEND]), (EMPTY, []))
    assert outcome(tmp_path, rec, 'kernel = "_gqa*"\nper_step = 1') == "holds"


def test_missing_phase_is_never_a_pass(tmp_path: Path) -> None:
    rec = served(tmp_path, (PREFILL, [ATTEND]))
    for check in ("per_step = 0", "forbid = true", "max_share = 0.9", "max_count = 9", "min_count = 0"):
        found = result(tmp_path, rec, f'kernel = "x"\nphase = "decode"\n{check}')
        assert (found.outcome, found.why) == (RuleOutcome.INCONCLUSIVE, "no decode step was recorded")


def test_step_without_any_kernel_is_no_evidence(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND] * 2), (DECODE, []))
    found = result(tmp_path, rec, PER_STEP)
    assert found.outcome is RuleOutcome.INCONCLUSIVE
    assert "1 of 2 steps show no kernel at all" in found.why


def test_per_step_without_steps_is_inconclusive(tmp_path: Path) -> None:
    rec = recording(tmp_path, [launch(1, 1), kernel(10, 5, 1, "a")])
    assert outcome(tmp_path, rec, 'kernel = "a"\nper_step = 1') == "inconclusive"
    assert outcome(tmp_path, rec, 'kernel = "a"\nmin_count = 1') == "holds"


def test_kernels_without_a_launch_leave_step_rules_open(tmp_path: Path) -> None:
    rec = recording(tmp_path, [*events([(DECODE, [ATTEND] * 2)]), kernel(5000, 1, 77, ATTEND[0])])
    assert outcome(tmp_path, rec, PER_STEP) == "inconclusive"
    assert outcome(tmp_path, rec, 'kernel = "_gqa_sparse_decode_kernel"\nmax_count = 3') == "holds"
    assert outcome(tmp_path, rec, 'kernel = "_gqa_sparse_decode_kernel"\nmax_count = 2') == "failed"


def test_bare_graph_launch_hides_kernels_even_when_trust_says_nothing(tmp_path: Path) -> None:
    bare = launch(1050, 99, "hipGraphLaunch")
    rec = recording(tmp_path, [*events([(DECODE, [ATTEND] * 2)]), bare])
    for rule in (PER_STEP, 'kernel = "Cijk_*"\nforbid = true', 'kernel = "absent"\nmin_count = 1'):
        found = result(tmp_path, rec, rule)
        assert found.outcome is RuleOutcome.INCONCLUSIVE
        assert "1 graph launch(es) show no kernel" in found.why


@pytest.mark.parametrize("check", ["min_count = 1", "max_share = 0.2"])
def test_rule_that_met_no_kernel_suggests_the_name_that_was_seen(tmp_path: Path, check: str) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    found = result(tmp_path, rec, f'kernel = "_gqa_sparse_decode_kernal"\n{check}')
    assert found.observed.endswith("; the nearest kernel name seen is _gqa_sparse_decode_kernel")


# --- forbid and counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "trust", "expected"),
    [
        ("nccl*", COMPLETE, "failed"),
        ("nccl*", HIDING, "failed"),  # it is there, whatever else was lost
        ("nccl*", UNUSABLE, "inconclusive"),
        ("Cijk_*", COMPLETE, "holds"),
        ("Cijk_*", TIMELESS, "holds"),
        ("Cijk_*", HIDING, "inconclusive"),
        ("NCCL*", COMPLETE, "holds"),  # case counts
    ],
)
def test_forbid(tmp_path: Path, name: str, trust: TrustRow, expected: str) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND, REDUCE]))
    assert outcome(tmp_path, rec, f'kernel = "{name}"\nforbid = true', trust) == expected


def test_forbidden_kernel_is_named_with_its_rows(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND, REDUCE, REDUCE]))
    found = result(tmp_path, rec, 'family = "comm"\nforbid = true')
    assert found.where == "2 x ncclDevKernel_AllReduce"
    assert (found.evidence[0].table, found.evidence[0].rows) == ("kernels", (1, 2))


def test_forbid_in_one_phase_only(tmp_path: Path) -> None:
    rec = served(tmp_path, (PREFILL, [REDUCE]), (DECODE, [ATTEND]))
    assert outcome(tmp_path, rec, 'family = "comm"\nphase = "decode"\nforbid = true') == "holds"
    assert outcome(tmp_path, rec, 'family = "comm"\nphase = "prefill"\nforbid = true') == "failed"


@pytest.mark.parametrize(
    ("check", "trust", "expected"),
    [
        ("min_count = 3", COMPLETE, "holds"),
        ("min_count = 3", HIDING, "holds"),  # three were seen
        ("min_count = 4", COMPLETE, "failed"),
        ("min_count = 4", HIDING, "inconclusive"),
        ("max_count = 3", COMPLETE, "holds"),
        ("max_count = 3", HIDING, "inconclusive"),
        ("max_count = 2", COMPLETE, "failed"),
        ("max_count = 2", HIDING, "failed"),
        ("min_count = 1\nmax_count = 3", COMPLETE, "holds"),
    ],
)
def test_counts(tmp_path: Path, check: str, trust: TrustRow, expected: str) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND] * 2), (DECODE, [ATTEND]))
    assert outcome(tmp_path, rec, f'kernel = "_gqa_sparse_decode_kernel"\n{check}', trust) == expected


def test_trace_without_kernels_passes_nothing(tmp_path: Path) -> None:
    rec = recording(tmp_path, [step(1, 5, DECODE), launch(2, 1)])
    for check in ("forbid = true", "max_share = 0.1", "max_count = 0"):
        assert outcome(tmp_path, rec, f'kernel = "a"\n{check}') == "inconclusive"


# --- shares --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "trust", "expected"),
    [
        ("max_share = 0.2", COMPLETE, "holds"),  # 5 of 25 us is 0.2 exactly
        ("max_share = 0.19", COMPLETE, "failed"),
        ("max_share = 0.19", HIDING, "inconclusive"),  # lost kernels could make the share smaller
        ("max_share = 0.2", HIDING, "inconclusive"),
        ("min_share = 0.2", COMPLETE, "holds"),
        ("min_share = 0.21", COMPLETE, "failed"),
        ("min_share = 0.21", HIDING, "inconclusive"),
        ("min_share = 0.2", HIDING, "inconclusive"),
        ("min_share = 0.1\nmax_share = 0.3", COMPLETE, "holds"),
    ],
)
def test_shares(tmp_path: Path, check: str, trust: TrustRow, expected: str) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND, ATTEND, REDUCE]))
    found = result(tmp_path, rec, f'family = "comm"\n{check}', trust)
    assert (str(found.outcome), found.observed) == (expected, "share 0.2000 (5,000 of 25,000 ns)")


def test_share_is_of_the_kernel_time_in_scope(tmp_path: Path) -> None:
    rec = served(tmp_path, (PREFILL, [("a", 95.0), REDUCE]), (DECODE, [("a", 5.0), REDUCE]))
    assert result(tmp_path, rec, 'family = "comm"\nmax_share = 1').observed.startswith("share 0.0909 ")
    decode = result(tmp_path, rec, 'family = "comm"\nphase = "decode"\nmax_share = 1')
    assert decode.observed == "share 0.5000 (5,000 of 10,000 ns)"


def test_share_without_times_is_inconclusive(tmp_path: Path) -> None:
    rec = recording(tmp_path, [step(1, 5, DECODE), launch(2, 1), kernel(0, 5, 1, "a"), kernel(30, 5, 2, "b")])
    found = result(tmp_path, rec, 'kernel = "a"\nmax_share = 0.2')
    assert found.outcome is RuleOutcome.INCONCLUSIVE
    assert "1 of 2 kernel executions have no time" in found.why


# --- ranks ---------------------------------------------------------------------------------------------------


def test_rule_without_rank_must_hold_on_every_rank(tmp_path: Path) -> None:
    good, bad = [(DECODE, [ATTEND] * 2)], [(DECODE, [ATTEND])]
    rec = folder(tmp_path, {0: good, 1: bad, 2: good})
    found = result(tmp_path, rec, PER_STEP)
    assert (found.outcome, found.observed) == (RuleOutcome.FAILED, "rank 1: 1 in the only step")
    assert outcome(tmp_path, rec, f"{PER_STEP}\nrank = 0") == "holds"
    assert outcome(tmp_path, rec, f"{PER_STEP}\nrank = 1") == "failed"
    # a rank without the kernel is not made good by two ranks that have it
    assert outcome(tmp_path, rec, 'kernel = "_gqa*"\nmin_count = 2') == "failed"


def test_rank_that_is_not_there_is_inconclusive(tmp_path: Path) -> None:
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND])], 1: [(DECODE, [ATTEND])]})
    found = result(tmp_path, rec, 'kernel = "_gqa*"\nmin_count = 1\nrank = 2', ONE_GONE)
    assert found.why == "rank 2 is not in the recording (it holds rank 0, rank 1)"
    assert found.outcome is RuleOutcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("per_step = 1", "inconclusive"),  # holds where it was seen, and nobody saw rank 2
        ("min_count = 1", "inconclusive"),
        ("per_step = 1\nrank = 0", "holds"),
        ("per_step = 2", "failed"),  # what rank 0 lacks, rank 2 cannot bring back
        ("forbid = true", "failed"),
        ("max_share = 1\nrank = 1", "holds"),
    ],
)
def test_missing_rank_leaves_only_its_own_kernels_open(tmp_path: Path, rule: str, expected: str) -> None:
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND])], 1: [(DECODE, [ATTEND])]})
    assert outcome(tmp_path, rec, f'kernel = "_gqa*"\nphase = "decode"\n{rule}', ONE_GONE) == expected


def test_rank_without_the_phase_is_said(tmp_path: Path) -> None:
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND] * 2)], 1: [(PREFILL, [REDUCE])], 2: [(DECODE, [ATTEND] * 2)]})
    found = result(tmp_path, rec, PER_STEP)
    assert found.outcome is RuleOutcome.HOLDS
    assert found.observed == "rank 0: 2 in the only step (and 1 more ranks) (no decode step on rank 1)"


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


# --- paths ---------------------------------------------------------------------------------------------------


def path_row(verdict: str, variant: str = "FULL", **by_phase: str) -> PathRow:
    counts = {"calls": 9, "decode.calls": 7}
    return PathRow(
        id="graph_replay",
        title="graph replay",
        verdict=verdict,
        variant=variant,
        counts=counts,
        configured="unknown",
        eligible="unknown",
        reasons=("a reason",),
        evidence=("a proof",),
        names_from_source=False,
        by_phase=by_phase,
        cells=cells(variant, **by_phase) if by_phase else cells(variant, decode=verdict),
    )


def cells(variant: str, rank: int = 0, absent: int = 0, **by_phase: str) -> tuple[PathCell, ...]:
    return tuple(
        PathCell(rank, phase, verdict, variant, 8, 7, 7, absent, decides=True) for phase, verdict in by_phase.items()
    )


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


# --- exit status ---------------------------------------------------------------------------------------------

HOLDING, BROKEN, OPEN = (
    f'[[rule]]\nkernel = "{name}"\n{check}\n'
    for name, check in (("_gqa*", "min_count = 1"), ("nccl*", "forbid = true"), ("x", 'phase = "mixed"\nforbid = true'))
)


@pytest.mark.parametrize(
    ("rules", "trust", "code"),
    [
        (HOLDING, COMPLETE, 0),
        (BROKEN, COMPLETE, 1),
        (OPEN, COMPLETE, 4),
        (HOLDING + OPEN, COMPLETE, 4),
        (HOLDING + BROKEN, COMPLETE, 1),
        (OPEN + BROKEN, COMPLETE, 1),  # 1 comes before 4
        ('[require]\ntrust = "complete"\n' + HOLDING, HIDING, 4),
        ('[require]\ntrust = "complete"\n' + BROKEN, HIDING, 1),
    ],
)
def test_exit_status(tmp_path: Path, rules: str, trust: TrustRow, code: int) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND, REDUCE]))
    found = judged(tmp_path, rec, rules, trust)
    assert found.exit_code == code
    assert judgement_dict(found)["exit_code"] == code
    assert f"exit {code}: " in judgement_text(found).splitlines()[-1]


def test_text_has_one_line_per_rule_and_escapes_names(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND, ("evil\x1b[2J\nname", 1.0)]))
    lines = judgement_text(judged(tmp_path, rec, '[[rule]]\nkernel = "evil*"\nforbid = true\n' + HOLDING)).split("\n")
    assert len(lines) == 3
    assert "\x1b" not in lines[0]
    assert lines[0].startswith("FAILED        rule 1: kernel evil*: forbidden | observed 1 of 2 kernel executions")
    assert lines[1].startswith("ok            rule 2: ")


# --- kernel names --------------------------------------------------------------------------------------------

GATING = "void vllm::moe::topkGating<4, (vllm::moe::ScoringFunc)1>(float const*, int*)"


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [
        ("_gqa_sparse_decode_kernel", "_gqa_sparse_decode_kernel", True),
        ("_gqa_sparse_decode_kernel", "_gqa_sparse_decode_kernel_v2", False),
        ("_gqa_sparse_decode_kernel", "void ns::_gqa_sparse_decode_kernel<4>(int)", True),
        ("topkGating", GATING, True),
        ("moe::topkGating", GATING, True),
        ("vllm::moe::topkGating", GATING, True),
        ("oe::topkGating", GATING, False),
        ("topkGatin", GATING, False),
        ("ScoringFunc", GATING, False),
        (GATING, GATING, True),
        ("vllm::*", GATING, True),
        ("topk*", GATING, True),
        ("*ScoringFunc*", GATING, True),
        ("Topk*", GATING, False),
        ("Cijk_*", "Cijk_Alik_Bljk_BBS_BH_MT64x64x64", True),
        ("Cijk_*", "xCijk_Alik", False),
        ("foo<int [2]>", "foo<int [2]>", True),
        ("scale", "_Z5scalePfi", True),
        ("_Z5scalePfi", "_Z5scalePfi", True),
        ("scale", "_Z5scalePfi.kd", True),
    ],
)
def test_which_names_a_pattern_means(pattern: str, name: str, meant: bool) -> None:
    assert matching(pattern, [name]) == [meant]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("void at::native::(anonymous namespace)::gather<int, -2>(int)", "at::native::gather"),
        ("std::enable_if<(a > b), int>::type ns::f<g<int> >(g<int>)", "ns::f"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic_1"),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"),
        ("(anonymous)", "(anonymous)"),
    ],
)
def test_function_names(name: str, own: str) -> None:
    assert function_name(name) == own


def test_no_name_is_near_to_nothing() -> None:
    assert nearest_name("zzz", ["_gqa_sparse_decode_kernel"]) == ""


# --- real traces ---------------------------------------------------------------------------------------------


def test_rules_of_the_h200_sample(tmp_path: Path) -> None:
    rec = open_recording([shared_or_skip(GRAPH)])
    path = path_row("executed", decode="executed")
    text = (ROOT / "samples" / "rules" / "h200-m3.toml").read_text()
    assert judged(tmp_path, rec, text, COMPLETE, [path]).exit_code == 0
    wrong = judged(tmp_path, rec, text.replace("per_step = 6", "per_step = 7"), COMPLETE, [path])
    assert wrong.exit_code == 1
    broken = next(r for r in wrong.results if r.outcome is RuleOutcome.FAILED)
    assert (broken.number, broken.observed) == (2, "6 in each of 9 steps")
    # 54 sparse decodes of 2,059 kernels; 12 per step in 9 decode steps and 12 in the prefill step
    count = result(tmp_path, rec, 'kernel = "fused_moe_kernel"\nmin_count = 120\nmax_count = 120')
    assert count.observed == "120 of 2,059 kernel executions"


def case(tmp_path: Path, name: str, rules: str) -> Judgement:
    """A known case, judged with the trust that the analyzer finds."""
    rec = open_recording([shared_or_skip(f"cases/{name}")])
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    return judge(load_rules(path, KNOWN), rec, TRUST.judge(rec, Answer()))


@pytest.mark.parametrize(
    ("name", "rule", "code"),
    [
        ("k03_graph_kernels_dropped.json", 'kernel = "nowhere"\nforbid = true', 4),
        ("k03_graph_kernels_dropped.json", 'kernel = "nowhere"\nmin_count = 1', 4),
        ("k03_graph_kernels_dropped.json", 'kernel = "*"\nforbid = true', 1),
        ("k24_missing_rank", 'kernel = "*"\nmin_count = 1', 4),
        ("k24_missing_rank", 'kernel = "*"\nmin_count = 1\nrank = 0', 0),
        ("k24_missing_rank", 'kernel = "*"\nforbid = true', 1),
        ("k24_missing_rank", 'kernel = "*"\nmin_count = 1\nrank = 2', 4),
        ("k23_rank_set", 'kernel = "*"\nmin_count = 2', 0),  # 2 and 3 kernels
        ("k23_rank_set", 'kernel = "*"\nmin_count = 3', 1),
        ("k30_no_gpu_events.json", 'kernel = "*"\nforbid = true', 4),
        ("k30_no_gpu_events.json", 'kernel = "*"\nmin_count = 1', 4),
    ],
)
def test_cases_with_the_trust_they_earn(tmp_path: Path, name: str, rule: str, code: int) -> None:
    assert case(tmp_path, name, f"[[rule]]\n{rule}\n").exit_code == code


def without_graph_kernels(source: Path, target: Path) -> int:
    """A copy of a profile folder whose replays show no kernels; how many were taken out."""
    shutil.copytree(source, target)
    trace = target / "graph_execution.json.gz"
    document = json.loads(gzip.decompress(trace.read_bytes()))
    replays = {e["args"]["correlation"] for e in document["traceEvents"] if "GraphLaunch" in e.get("name", "")}
    kept = [e for e in document["traceEvents"] if e.get("cat") != "kernel" or e["args"]["correlation"] not in replays]
    gone = len(document["traceEvents"]) - len(kept)
    trace.write_bytes(gzip.compress(json.dumps({**document, "traceEvents": kept}).encode()))
    return gone


def test_census_answers_where_replays_show_no_kernels(tmp_path: Path) -> None:
    assert without_graph_kernels(shared_or_skip(CAPTURED), tmp_path / "bare") == 421
    rec = open_recording([tmp_path / "bare"])
    assert len(rec.kernels) == 425 - 421
    # 24 layers, one routing kernel each
    for check, expected in (("per_step = 24", "holds"), ("per_step = 23", "failed"), ("min_count = 25", "failed")):
        found = result(tmp_path, rec, f'kernel = "_topk_forward"\n{check}', TIMELESS)
        assert (str(found.outcome), found.basis) == (expected, "census")
    assert outcome(tmp_path, rec, 'kernel = "_topk_forward"\nforbid = true', TIMELESS) == "failed"
    assert outcome(tmp_path, rec, 'kernel = "_nowhere"\nforbid = true', TIMELESS) == "holds"
    assert outcome(tmp_path, rec, 'kernel = "_topk_forward"\nmax_share = 1', TIMELESS) == "inconclusive"


def test_replays_without_kernels_or_census_judge_nothing(tmp_path: Path) -> None:
    without_graph_kernels(shared_or_skip(CAPTURED), tmp_path / "bare")
    rec = open_recording([tmp_path / "bare" / "graph_execution.json.gz"])
    for check in ("per_step = 24", "per_step = 0", "min_count = 1", "forbid = true", "max_share = 1"):
        assert outcome(tmp_path, rec, f'kernel = "_topk_forward"\n{check}') == "inconclusive"
