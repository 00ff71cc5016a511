"""Fast paths of a live recording: every cell of the table of verdicts, and roll-ups that keep the counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording_kit import batch, call, captured, count, judged, path, process, replayed, steps, write

from m3probe.model.path_report import PathRow
from m3probe.pipeline import analyze
from m3probe.schema import records
from m3probe.schema.roles import Stage

QUICK, FAST, SLOW = "quick_reduce", "HIP INT4", "RCCL"
TOO_SMALL = "65,536 B < 16,777,216 B"


def quick(variant: str = "", size: int = 65_536, **values: object) -> records.Dispatch:
    return call(QUICK, variant, size=size, unit="bytes", **values)


def seen(tmp_path: Path, *found: object) -> PathRow:
    return path(judged(tmp_path, *found, steps(count(steps=10, rows=4))), QUICK)


@pytest.mark.parametrize(
    ("said", "ran", "verdict"),
    [
        (True, FAST, "executed"),
        (True, SLOW, "missed"),
        (True, "", "unproven"),
        (False, FAST, "unexpected"),
        (False, SLOW, "declined"),
        (False, "", "unproven"),
        (None, FAST, "executed"),
        (None, SLOW, "unproven"),
        (None, "", "unproven"),
    ],
)
def test_the_table_of_verdicts(tmp_path: Path, said: bool | None, ran: str, verdict: str) -> None:
    asked = [] if said is None else [quick(eligible=said, reason="" if said else TOO_SMALL, count=20)]
    branch = [quick(ran, count=20)] if ran else []
    row = seen(tmp_path, *asked, *branch)
    assert row.verdict == verdict
    assert row.eligible == {True: "yes", False: "no", None: "unknown"}[said if ran else None]
    if said is False:
        assert any(TOO_SMALL in reason for reason in row.reasons)


def test_each_size_is_judged_by_its_own_predicate(tmp_path: Path) -> None:
    large = 33_554_432
    row = seen(
        tmp_path,
        quick(eligible=False, reason=TOO_SMALL, count=30),
        quick(SLOW, count=30),
        quick(eligible=True, size=large, count=10),
        quick(FAST, size=large, count=10),
    )
    assert (row.verdict, row.eligible) == ("declined", "partly")
    assert row.counts == {"calls": 10, "fallback_calls": 30, "declined_calls": 30, "decode.calls": 10}
    assert row.reasons == (TOO_SMALL,)


def test_ten_missed_of_a_thousand_are_never_executed(tmp_path: Path) -> None:
    row = seen(tmp_path, quick(eligible=True, count=1000), quick(FAST, count=990), quick(SLOW, count=10))
    assert row.verdict == "missed"
    assert (row.counts["calls"], row.counts["missed_calls"]) == (990, 10)


def test_a_size_that_was_asked_for_and_never_seen_to_run_is_unproven(tmp_path: Path) -> None:
    row = seen(tmp_path, quick(eligible=True), quick(FAST), quick(eligible=True, size=99, count=5))
    assert (row.verdict, row.counts["unproven_calls"]) == ("unproven", 5)


def test_capture_times_counted_replays_is_execution(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        batch(0, 8),
        batch(1, 16),
        captured(QUICK, eligible=True, descriptor=0, size=131_072, unit="bytes", count=4),
        captured(QUICK, FAST, descriptor=0, size=131_072, unit="bytes", count=4),
        captured(QUICK, FAST, descriptor=1, size=262_144, unit="bytes", count=4),
        steps(replayed(0, steps=25, rows=5, padded=8), replayed(0, steps=15, rows=6, padded=8)),
    )
    row = path(found, QUICK)
    # 4 calls in the graph, 25 + 15 replays of it; batch 1 was captured and never replayed
    assert (row.verdict, row.counts["calls"], row.names_from_source) == ("executed", 160, False)
    assert row.evidence[0] == "decode FULL 8 rows: 160 of HIP INT4 (facts of capture x counted replays)"


def test_a_break_of_the_graph_is_not_multiplied_by_replays_that_record_it_themselves(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        batch(0, 8, mode="PIECEWISE"),
        captured(QUICK, FAST, descriptor=0, count=4, facts={"outside_graph": True}),
        call(QUICK, FAST, descriptor=0, count=40),
        steps(replayed(0, steps=10, rows=5, padded=8, mode="PIECEWISE")),
    )
    # 4 breaks a step, 10 steps: the 40 calls that the hook saw in the replays
    assert path(found, QUICK).counts["calls"] == 40


def test_warm_up_is_no_execution(tmp_path: Path) -> None:
    row = seen(tmp_path, quick(FAST, stage=Stage.WARMUP, count=50))
    assert (row.verdict, row.counts.get("calls", 0)) == ("unproven", 0)


def test_replays_of_a_late_probe_are_unproven_though_eager_steps_were_seen(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        process(late=True),
        batch(0, 8),
        quick(FAST, phase="prefill", count=20),
        quick(FAST, count=8),
        steps(count("prefill", 5, 64), count(steps=2), replayed(0, steps=100, rows=5, padded=8)),
    )
    row = path(found, QUICK)
    assert (row.by_phase["prefill"], row.by_phase["decode"], row.verdict) == ("executed", "unproven", "unproven")
    assert any("decode FULL 8 rows" in reason for reason in row.reasons)
    assert any("attached late" in reason for reason in row.reasons)


def test_an_eager_twin_shows_what_a_batch_runs_and_is_labelled(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        process(late=True),
        batch(0, 8),
        quick(FAST, stage=Stage.TWIN, count=8),
        steps(count(steps=2, stage=Stage.TWIN), replayed(0, steps=100, rows=5, padded=8)),
    )
    row = path(found, QUICK)
    assert row.verdict == "executed"
    assert row.evidence == ("decode eager: 8 of HIP INT4 (seen in eager twins of graph steps)",)


def test_what_was_refused_at_load_declines_each_call(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        call("aiter_sparse_pa", eligible=False, reason="head size 64 is not 128", stage=Stage.LOAD, phase="unknown"),
        call("aiter_sparse_pa", "Triton", size=4, count=40),
        steps(count(steps=10, rows=4)),
    )
    row = path(found, "aiter_sparse_pa")
    assert (row.verdict, row.reasons, row.counts["declined_calls"]) == ("declined", ("head size 64 is not 128",), 40)


def test_a_selection_at_load_is_no_execution(tmp_path: Path) -> None:
    row = seen(tmp_path, quick(FAST, stage=Stage.LOAD, phase="unknown"))
    assert row.verdict == "unproven"
    assert "selected at load: HIP INT4 (no call by itself)" in row.evidence


def test_one_of_several_variants_is_sure_only_where_all_of_them_are_fast(tmp_path: Path) -> None:
    assert seen(tmp_path, quick("HIP INT4 | HIP INT6")).verdict == "executed"
    assert seen(tmp_path, quick("HIP INT4 | RCCL")).verdict == "unproven"


def test_a_path_that_asks_which_one_ran_is_answered_by_any(tmp_path: Path) -> None:
    found = judged(tmp_path, call("moe_backend", "CPUFusedMOE", count=20), steps(count(steps=10)))
    row = path(found, "moe_backend")
    assert (row.verdict, row.variant, row.counts["calls"]) == ("executed", "CPUFusedMOE", 20)


def test_the_rank_that_missed_it_is_told(tmp_path: Path) -> None:
    for rank, ran in ((0, FAST), (1, SLOW)):
        held = [quick(eligible=True), quick(ran), steps(count(steps=10))]
        write(tmp_path / f"w{rank}.m3p", held, rank=rank, world=2)
    row = path(analyze([tmp_path]), QUICK)
    assert row.verdict == "missed"
    assert {cell.rank: cell.verdict for cell in row.cells} == {0: "executed", 1: "missed"}


def test_graph_replay_is_counted_by_steps(tmp_path: Path) -> None:
    found = judged(tmp_path, batch(0, 8), steps(replayed(0, 90, 5, 8), count("prefill", 10, 64)))
    row = path(found, "graph_replay")
    assert (row.verdict, row.by_phase["decode"], row.counts["calls"]) == ("executed", "executed", 90)
    assert row.counts["fallback_calls"] == 10


def test_a_dispatchers_no_is_why_a_step_ran_eager(tmp_path: Path) -> None:
    refused = call("graph_replay", "eager", size=600, eligible=False, reason="600 rows > 512", count=10)
    found = judged(tmp_path, refused, steps(count(steps=10, rows=600)))
    row = path(found, "graph_replay")
    assert (row.verdict, row.reasons, row.counts["fallback_calls"]) == ("declined", ("600 rows > 512",), 10)


def test_a_mode_without_a_counted_replay_proves_no_replay(tmp_path: Path) -> None:
    found = judged(tmp_path, batch(0, 8), steps(replayed(0, 90, 5, 8, replays=0)))
    assert path(found, "graph_replay").verdict == "unproven"


def test_a_guests_note_says_why_nothing_was_seen(tmp_path: Path) -> None:
    note = records.Note(word="compiled_paths", text="a part of the model is compiled", lossy=True)
    row = seen(tmp_path, note)
    assert (row.verdict, row.reasons) == (
        "unproven",
        ("a part of the model is compiled; no hook saw a call of it",),
    )
