"""Stragglers, uneven experts and draft loops: bounds worked out by hand on small recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arithmetic import check
from builders import kernel, launch, recording, step, write_trace
from recording_kit import process, write
from steps import DECODE, EXPERTS, FLASH, GEMM

from m3probe.analyzers import draft, expert_skew, straggler
from m3probe.analyzers._said import runs
from m3probe.analyzers.straggler import TOLD
from m3probe.model.findings import Finding
from m3probe.model.report import Answer
from m3probe.schema import records
from m3probe.sources import open_recording

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def only(answer: Answer) -> Finding:
    assert len(answer.findings) == 1
    return answer.findings[0]


def high(finding: Finding) -> float:
    assert finding.bound is not None
    check(finding.bound)
    return finding.bound.high


# --- straggler ------------------------------------------------------------------------------------------


def rank(folder: Path, number: int, world: int, waits_us: list[list[float]], shift_us: float = 0.0) -> None:
    """One step of 1,000 us for each list: a GEMM to the middle, then collectives of these lengths."""
    events: list[dict[str, Any]] = []
    for i, lengths in enumerate(waits_us):
        at = 1000.0 * (i + 1) + shift_us
        events += [step(at, 900.0, DECODE), launch(at, 100 * (i + 1)), kernel(at + 1, 300.0, 100 * (i + 1), GEMM)]
        for j, length in enumerate(lengths, 1):
            events += [launch(at + j, 100 * (i + 1) + j)]
            events += [kernel(at + 400.0 + 100 * j, length, 100 * (i + 1) + j, NCCL)]
    info = {"rank": number, "world_size": world}
    write_trace(folder / f"rank{number}.pt.trace.json", events, distributedInfo=info)


def judged(folder: Path) -> Answer:
    return straggler.ANALYZER.judge(open_recording([folder]), Answer())


def test_the_rank_that_enters_last_is_named_and_the_others_wait(tmp_path: Path) -> None:
    # rank 1 needs 10 us for each; rank 0 waits 30 and 50 us beyond that in each step, rank 2 10 and 10
    for number, lengths in enumerate(([40.0, 60.0], [10.0, 10.0], [20.0, 20.0])):
        rank(tmp_path, number, 3, [lengths] * 3, shift_us=7_000.0 * number)  # the clocks have nothing in common
    finding = only(judged(tmp_path))
    assert finding.id == "straggler.rank.1"
    # steps begin at 1,001 and end at their last kernel: two windows of 1,000 us, and one to 600 + 60 us
    assert high(finding) == pytest.approx(3 * 80 / (2 * 1000 + 659))
    assert "Rank 1 enters 100.0 % of the collectives last" in finding.claim
    assert "rank 0 0.080 ms, rank 1 0.000 ms, rank 2 0.020 ms" in finding.claim
    assert "6 collectives in 3 step(s) of rank 0" in finding.evidence[0].observed


def test_of_many_ranks_those_that_wait_least_and_most_are_told() -> None:
    # rank n waits n us
    least = "rank 0 0.000 ms, rank 1 0.001 ms, rank 2 0.002 ms, rank 3 0.003 ms"
    most = "rank 5 0.005 ms, rank 6 0.006 ms, rank 7 0.007 ms, rank 8 0.008 ms"
    told = straggler._told(range(TOLD + 1), np.arange(TOLD + 1) * 1000)
    assert told == f"{least}, 1 rank between, {most}"
    assert straggler._told(range(TOLD), np.arange(TOLD) * 1000).count("rank ") == TOLD


def test_ranks_that_take_turns_are_no_straggler(tmp_path: Path) -> None:
    rank(tmp_path, 0, 2, [[50.0, 10.0]] * 3)
    rank(tmp_path, 1, 2, [[10.0, 50.0]] * 3)
    finding = only(judged(tmp_path))
    assert finding.id == "straggler.turns"
    assert high(finding) == pytest.approx(3 * 40 / (2 * 1000 + 609))


def test_equal_ranks_do_not_wait(tmp_path: Path) -> None:
    rank(tmp_path, 0, 2, [[10.0, 11.0]] * 3)
    rank(tmp_path, 1, 2, [[11.0, 10.0]] * 3)
    assert judged(tmp_path).findings == ()


def test_steps_whose_collectives_differ_are_left_out_and_counted(tmp_path: Path) -> None:
    rank(tmp_path, 0, 2, [[40.0, 60.0], [40.0], [40.0, 60.0]])
    rank(tmp_path, 1, 2, [[10.0, 10.0]] * 3)
    finding = only(judged(tmp_path))
    assert "4 collectives in 2 step(s) of rank 0; 1 step(s) left out" in finding.evidence[0].observed
    assert high(finding) == pytest.approx(2 * 80 / (1000 + 659))


def test_one_rank_of_two_proves_nothing(tmp_path: Path) -> None:
    rank(tmp_path, 0, 2, [[40.0]])
    finding = only(judged(tmp_path))
    assert (finding.id, finding.bound) == ("straggler.unproven", None)
    assert "1 of 2 ranks" in finding.claim


def test_no_step_with_the_same_collectives_proves_nothing(tmp_path: Path) -> None:
    rank(tmp_path, 0, 2, [[40.0]])
    rank(tmp_path, 1, 2, [[10.0, 10.0]])
    assert only(judged(tmp_path)).id == "straggler.unproven"


def test_one_device_without_collectives_is_not_asked(tmp_path: Path) -> None:
    rank(tmp_path, 0, 1, [[]])
    assert judged(tmp_path).findings == ()


# --- expert skew ----------------------------------------------------------------------------------------


def routed(*experts: int, layer: str = "model.layers.3.mlp.experts", shared: int = -1) -> records.Routing:
    return records.Routing(
        layer=layer,
        steps=1,
        rows=sum(experts) // 2,
        top_k=2,
        experts=experts,
        shared=shared,
        padded=-1,
        overlap_next=None,
    )


def skew(tmp_path: Path, *found: object, **of: Any) -> Answer:
    path = write(tmp_path / "worker.m3p", found, **of)
    return expert_skew.ANALYZER.judge(open_recording([path]), Answer())


def test_ranks_wait_for_the_hottest_and_the_shared_expert_does_not_count(tmp_path: Path) -> None:
    # two ranks of two experts: 700 + 500 = 1,200 against 300 + 500 = 800; mean 1,000
    finding = only(skew(tmp_path, process(ep=2), routed(700, 500, 300, 500, shared=50_000)))
    assert finding.id == "expert_skew.ranks"
    assert high(finding) == pytest.approx(1 - 1000 / 1200)
    assert finding.bound is not None
    assert finding.bound.basis == "MoE GEMM time"
    assert "1.20 x the mean rows" in finding.claim
    assert finding.confidence == "low"


def test_layers_are_waited_for_one_by_one(tmp_path: Path) -> None:
    # each layer's hottest is another rank: 1,200 and 1,200 of twice 1,000, though the sums are equal
    layers = routed(700, 500, 300, 500), routed(300, 500, 700, 500, layer="model.layers.4.mlp.experts")
    finding = only(skew(tmp_path, process(ep=2), *layers))
    assert high(finding) == pytest.approx(1 - 2000 / 2400)
    assert "2 MoE layers" in finding.claim


def test_few_rows_are_uneven_by_chance(tmp_path: Path) -> None:
    assert skew(tmp_path, process(ep=2), routed(8, 4, 3, 5)).findings == ()  # 12 against 10: within 3 roots of 10


def test_without_expert_parallelism_a_hot_expert_costs_no_wait(tmp_path: Path) -> None:
    finding = only(skew(tmp_path, routed(700, 500, 300, 500)))
    assert (finding.id, finding.verdict, finding.bound) == ("expert_skew.experts", "no_wait", None)
    assert "1.40 x the mean" in finding.claim


def test_expert_parallel_ranks_without_counts_are_unproven(tmp_path: Path) -> None:
    finding = only(skew(tmp_path, process(ep=4)))
    assert (finding.id, finding.bound) == ("expert_skew.unproven", None)


def test_experts_that_do_not_divide_over_the_ranks_bound_nothing(tmp_path: Path) -> None:
    finding = only(skew(tmp_path, process(ep=3), routed(700, 500, 300, 500)))
    assert (finding.verdict, finding.bound) == ("unproven", None)


def test_damaged_counts_are_none(tmp_path: Path) -> None:
    assert expert_skew._counts('[1, -2, "x"]') == []
    assert expert_skew._counts("[1, 2") == []
    assert expert_skew._counts('{"a": 1}') == []
    assert skew(tmp_path, routed(0, 0)).findings == ()


# --- draft loop -----------------------------------------------------------------------------------------

VERIFIES = "execute_context_0(0)_generation_2(8)"


def drafting(at: float, first: int, *, said: str = VERIFIES, target: int = 6, behind: int = 2) -> list[dict[str, Any]]:
    """A graph of ``target`` kernels of 100 us, then ``behind`` of 50 us, each launched by itself."""
    events = [step(at, 900.0, said), launch(at, first, "hipGraphLaunch")]
    events += [kernel(at + 1 + 100 * i, 100.0, first, (GEMM, FLASH)[i % 2]) for i in range(target)]
    for i in range(behind):
        events.append(launch(at + 10 + i, first + 1 + i))
        events.append(kernel(at + 1 + 100 * target + 50 * i, 50.0, first + 1 + i, EXPERTS))
    return events


def test_work_behind_the_targets_graph_bounds_the_draft_loop(tmp_path: Path) -> None:
    rec = recording(tmp_path, [*drafting(1000.0, 10), *drafting(1700.0, 30)])
    finding = only(draft.ANALYZER.judge(rec, Answer()))
    # 600 us of graph and 100 us behind it in each step, without a gap
    assert finding.id == "draft.loop"
    assert high(finding) == pytest.approx(200 / 1400)
    assert finding.confidence == "low"


def test_steps_without_drafts_are_not_asked(tmp_path: Path) -> None:
    rec = recording(tmp_path, drafting(1000.0, 10, said=DECODE))
    assert draft.ANALYZER.judge(rec, Answer()).findings == ()


@pytest.mark.parametrize(("target", "behind"), [(2, 2), (0, 3)])
def test_a_first_graph_that_is_not_most_of_the_step_tells_nothing(tmp_path: Path, target: int, behind: int) -> None:
    rec = recording(tmp_path, drafting(1000.0, 10, target=target, behind=behind))
    finding = only(draft.ANALYZER.judge(rec, Answer()))
    assert (finding.id, finding.bound) == ("draft.unproven", None)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([], []), ([3], ["3"]), ([0, 1], ["0", "1"]), ([0, 1, 2], ["0-2"]), ([0, 2, 3, 4, 5, 7], ["0", "2-5", "7"])],
)
def test_runs_of_ranks_are_told_as_one(numbers: list[int], said: list[str]) -> None:
    assert runs(numbers) == said
