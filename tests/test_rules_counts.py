"""Every kind of rule: one that holds, one that is broken, one whose evidence is missing; and the exit status: per_step; forbid and counts; shares; ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import rocprof_kit
from builders import kernel, launch, recording, step, write_trace
from rules_kit import (
    ATTEND,
    COMPLETE,
    DECODE,
    EMPTY,
    HIDING,
    ONE_GONE,
    PREFILL,
    REDUCE,
    TIMELESS,
    UNUSABLE,
    events,
    folder,
    outcome,
    result,
    served,
)

from m3probe.model.report import TrustRow
from m3probe.schema.verdicts import RuleOutcome
from m3probe.sources import open_recording

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


# --- processes without a device ------------------------------------------------------------------------------


def test_the_empty_table_of_the_api_server_beside_workers_is_no_rank(tmp_path: Path) -> None:
    """Two workers of one GEMM and one all-reduce in one step each, as rocprofv3 writes them below the host's name."""
    host = tmp_path / "run" / "host1"
    for pid, agent in ((501, "Agent 4"), (502, "Agent 5")):
        rocprof_kit.worker(host, pid, agent)
    rocprof_kit.table(host / "500_kernel_trace.csv", rocprof_kit.KERNELS, [])
    rec = open_recording([tmp_path / "run"])
    assert len(rec.files) == 3
    assert outcome(tmp_path, rec, 'family = "gemm"\nper_step = 1') == "holds"
    assert outcome(tmp_path, rec, 'family = "comm"\nmax_share = 0.2') == "holds"  # 100 of 800 ns on each
    assert outcome(tmp_path, rec, 'kernel = "not_there"\nforbid = true') == "holds"
    assert outcome(tmp_path, rec, 'family = "comm"\nmin_share = 0.5') == "failed"


def test_an_empty_table_alone_judges_nothing(tmp_path: Path) -> None:
    rocprof_kit.table(tmp_path / "run" / "500_kernel_trace.csv", rocprof_kit.KERNELS, [])
    rec = open_recording([tmp_path / "run"])
    assert outcome(tmp_path, rec, 'kernel = "not_there"\nforbid = true') == "inconclusive"


@pytest.mark.parametrize("rule", ['family = "gemm"\nper_step = 1', 'family = "gemm"\nphase = "decode"\nmin_count = 1'])
def test_kernels_without_ranges_are_asked_for_steps_by_the_way_to_have_them(tmp_path: Path, rule: str) -> None:
    rows = [rocprof_kit.kernel("Cijk_gemm", 2_000, 2_700)]
    rocprof_kit.table(tmp_path / "run" / "501_kernel_trace.csv", rocprof_kit.KERNELS, rows)
    found = result(tmp_path, open_recording([tmp_path / "run"]), rule)
    assert found.outcome is RuleOutcome.INCONCLUSIVE
    assert "--profiler-config.profiler cuda" in found.next_move


def test_a_torch_trace_without_steps_is_asked_for_no_range(tmp_path: Path) -> None:
    rec = recording(tmp_path, [launch(100.0, 1), kernel(110.0, 2.0, 1, "Cijk_gemm")])
    assert "profiler cuda" not in result(tmp_path, rec, 'family = "gemm"\nper_step = 1').next_move


def test_a_torch_trace_without_kernels_stays_a_rank_that_may_have_lost_them(tmp_path: Path) -> None:
    inside = tmp_path / "ranks"
    inside.mkdir()
    write_trace(inside / "a.pt.trace.json", events([(DECODE, [ATTEND])]))
    write_trace(inside / "b.pt.trace.json", [launch(100.0, 1)], distributedInfo={})
    assert outcome(tmp_path, open_recording([inside]), 'kernel = "not_there"\nforbid = true') == "inconclusive"
