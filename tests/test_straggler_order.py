"""Whom the others wait for, without steps: collectives aligned by their order, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from arithmetic import check
from builders import kernel, launch, recording
from process_kit import GEMM, RCCL, Ran, recorded
from test_device_time import FIRST, SECOND, TWO

from m3probe import pipeline
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.readers.events import NO_TIME


def straggler(rec: Recording) -> Finding | None:
    return next((f for f in pipeline.report(rec).findings if f.question == "straggler"), None)


def why(rec: Recording) -> str:
    found = straggler(rec)
    assert found is not None
    assert (found.id, found.verdict, found.bound) == ("straggler.unproven", "unproven", None)
    return found.claim


def test_the_rank_that_spends_least_is_waited_for() -> None:
    """Rank 0 spends 2,000, 1,000 and 1,000 ns in them, rank 1 1,000, 800 and 700: it enters last each time."""
    rec = recorded(TWO)
    found = straggler(rec)
    assert found is not None
    assert (found.id, found.verdict, found.confidence, found.trusted) == ("straggler.rank.1", "late", "low", True)
    assert found.bound is not None
    assert found.bound.arithmetic == ("1,500 ns / 11,000 ns",)
    check(found.bound)
    assert (
        "Rank 1 enters 100.0 % of the collectives last, and rank 0 waits in them for 13.6 % of the GPU span"
        in found.claim
    )
    assert "in sum: rank 0 0.002 ms, rank 1 0.000 ms" in found.claim
    (shown,) = found.evidence
    assert shown.observed == "3 collectives of rank 0, aligned by their order alone (no steps)"
    assert rec.kernels["start_ns"][list(shown.rows)].tolist() == [2_000, 10_000, 8_000]


def test_processes_of_their_own_have_clocks_of_their_own() -> None:
    late = [(name, start + 10**9, end + 10**9) for name, start, end in SECOND]
    rec = recorded(Ran({0: FIRST}), Ran({1: late}, pid=502, path="502_results.json"))
    found = straggler(rec)
    assert found is not None
    assert found.id == "straggler.rank.1"


def test_one_clock_refutes_an_order_that_misleads() -> None:
    late = [(name, start + 10**6, end + 10**6) for name, start, end in SECOND]
    assert "0 of 3 run at one time on all ranks" in why(recorded(Ran({0: FIRST, 1: late})))


@pytest.mark.filterwarnings("error")
def test_collectives_of_a_file_without_a_rank_align_nothing() -> None:
    """Two ranks without a collective, and a third file that has one."""
    gemm = [(GEMM, 1_000, 2_000)]
    rec = recorded(Ran({0: gemm, 1: gemm, 2: FIRST}))
    unranked = [replace(file, rank=None) if file.rank == 2 else file for file in rec.files]
    assert "no collective is of a file whose rank is known" in why(replace(rec, files=tuple(unranked)))


def test_collectives_of_other_names_are_aligned_by_themselves() -> None:
    """Two communicators on two streams need not take turns alike."""
    other = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    first = [(RCCL, 1_000, 2_000), (other, 1_500, 1_900), (GEMM, 2_000, 3_000)]
    second = [(other, 1_400, 1_900), (RCCL, 1_600, 2_000), (GEMM, 2_000, 3_000)]
    found = straggler(recorded(Ran({0: first, 1: second})))
    assert found is not None
    # RCCL 1,000 against 400, the other 400 against 500: each rank is last once
    assert (found.id, found.verdict) == ("straggler.turns", "uneven")
    assert found.bound is not None
    assert found.bound.arithmetic == ("600 ns / 2,000 ns",)


def test_unequal_numbers_are_not_aligned() -> None:
    said = why(recorded(Ran({0: FIRST, 1: SECOND[:-1]})))
    assert "unequal numbers of ncclDevKernel_Generic_1" in said
    assert said.endswith("(rank 0 3, rank 1 2)")


def test_a_collective_without_a_time_leaves_the_order_open() -> None:
    lost = [*SECOND[:-1], (RCCL, NO_TIME, NO_TIME)]
    assert "1 collectives have no time" in why(recorded(Ran({0: FIRST, 1: lost})))


def test_equal_ranks_are_not_told() -> None:
    assert straggler(recorded(Ran({0: FIRST, 1: FIRST}))) is None
    nothing = [(RCCL, 1_000, 1_000)]
    work = [*nothing, (GEMM, 2_000, 3_000)]  # the span of rank 0 is 0 ns
    assert straggler(recorded(Ran({0: nothing}), Ran({1: work}, pid=502, path="502_results.json"))) is None


def test_one_rank_alone_asks_for_the_others() -> None:
    assert "one rank alone was recorded" in why(recorded(Ran({0: FIRST})))
    assert "nothing says which rank each of 2 files is of" in why(recorded(TWO, ranked=False))
    assert straggler(recorded(Ran({0: [(GEMM, 1_000, 2_000)]}))) is None


@pytest.mark.parametrize("world", [1, 4])
def test_a_trace_that_tells_its_world_is_believed(tmp_path: Path, world: int) -> None:
    events = [launch(1.0, 1), kernel(3.0, 2.0, 1, RCCL)]
    found = straggler(recording(tmp_path, events, distributedInfo={"rank": 0, "world_size": world}))
    assert (found is None) == (world == 1)
    assert found is None or "1 of 4 ranks was recorded" in found.claim
