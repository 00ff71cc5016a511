"""Ranks that must be alike: what is compared, what is a launcher's own, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from recording_kit import batch, call, linear, write
from rules_kit import ATTEND, COMPLETE, DECODE, HIDING, REDUCE, folder, judged
from served_kit import config, server
from tree import ROOT, shared_or_skip

from m3probe.analyzers.ranks import judge as findings
from m3probe.model.agreement import TOPICS, Compared, compare
from m3probe.model.judgement import RuleResult
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, TrustRow, TrustSection
from m3probe.pipeline import read, report
from m3probe.present.text import report_text
from m3probe.schema import records
from m3probe.schema.env_names import PER_PROCESS
from m3probe.sources import open_recording

ENV = {"VLLM_ROCM_USE_AITER": "1", "NCCL_VERSION": "2.28"}
Records = Sequence[object]


def ranks(tmp_path: Path, *each: Records, **values: object) -> Recording:
    """One worker's file for each list of records, ranks from 0 on."""
    files = []
    for rank, found in enumerate(each):
        held = list(found)
        if not any(isinstance(record, records.Process) for record in held):
            held.insert(0, server(rank=rank, tp=len(each), world_size=len(each)))
        files.append(write(tmp_path / f"worker-{rank}.m3p", held))
    return open_recording(files)


def with_env(rank: int, **more: str) -> list[object]:
    return [server(env={**ENV, **more}, rank=rank, tp=2, world_size=2), config()]


def agree(tmp_path: Path, rec: Recording, topic: str, trust: TrustRow = COMPLETE) -> RuleResult:
    return judged(tmp_path, rec, f'[[rule]]\nagree = "{topic}"\n', trust).results[0]


# --- environment and versions ---------------------------------------------------------------------------------


def test_equal_environments_hold(tmp_path: Path) -> None:
    found = agree(tmp_path, ranks(tmp_path, with_env(0), with_env(1)), "environment")
    assert (str(found.outcome), found.observed, found.basis) == ("holds", "2 keys equal on 2 ranks", "ranks")
    assert found.rule == "agree environment: equal on all ranks"


def test_one_variable_that_differs_fails_with_rank_key_and_both_values(tmp_path: Path) -> None:
    rec = ranks(tmp_path, with_env(0), with_env(1, VLLM_ROCM_USE_AITER="0"))
    found = agree(tmp_path, rec, "environment")
    assert (str(found.outcome), found.observed) == ("failed", "1 of 2 keys differ over 2 ranks")
    assert found.where == "VLLM_ROCM_USE_AITER: '1' on rank 0, '0' on rank 1"
    assert found.evidence[0].observed == found.where
    assert "same variables" in found.next_move


def test_a_variable_that_one_rank_lacks_is_a_difference(tmp_path: Path) -> None:
    rec = ranks(tmp_path, with_env(0), with_env(1, AITER_CONFIG_FMOE="/a.csv"))
    assert agree(tmp_path, rec, "environment").where == "AITER_CONFIG_FMOE: not set on rank 0, '/a.csv' on rank 1"


@pytest.mark.parametrize(
    "name",
    ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "M3PROBE_ID", "VLLM_DP_RANK", "VLLM_PORT"],
)
def test_what_a_launcher_sets_rank_by_rank_is_left_out(tmp_path: Path, name: str) -> None:
    rec = ranks(tmp_path, with_env(0, **{name: "0"}), with_env(1, **{name: "1"}))
    assert str(agree(tmp_path, rec, "environment").outcome) == "holds"


def test_a_hidden_value_is_not_compared(tmp_path: Path) -> None:
    rec = ranks(tmp_path, with_env(0, VLLM_API_KEY="(set)"), with_env(1))
    assert str(agree(tmp_path, rec, "environment").outcome) == "holds"


def test_versions_differ_by_build_and_gpu(tmp_path: Path) -> None:
    rec = ranks(tmp_path, [server(rank=0), config()], [server(rank=1, vllm="0.32.0", gfx="gfx942"), config()])
    found = agree(tmp_path, rec, "versions")
    assert str(found.outcome) == "failed"
    assert "vllm: 0.25.1 on rank 0, 0.32.0 on rank 1" in found.where
    assert "gfx: NVIDIA H200 on rank 0, gfx942 on rank 1" in found.where


def test_a_third_rank_is_compared_too(tmp_path: Path) -> None:
    rec = ranks(tmp_path, with_env(0), with_env(1), with_env(2, NCCL_VERSION="2.27"))
    assert agree(tmp_path, rec, "environment").where == "NCCL_VERSION: '2.28' on rank 0, '2.27' on rank 2"


# --- backends, tuned tables, census ---------------------------------------------------------------------------


def backend(variant: str, size: int = 8) -> Records:
    return [call("moe_backend", variant, size=size), linear("model.layers.0.qkv", 64, 64, kernel="Native")]


def test_backends_are_compared_where_both_ranks_have_them(tmp_path: Path) -> None:
    same = ranks(tmp_path, backend("AITER CK"), backend("AITER CK"))
    assert agree(tmp_path, same, "backends").observed == "2 keys equal on 2 ranks"
    rec = ranks(tmp_path, backend("AITER CK"), backend("Triton fused_moe"))
    found = agree(tmp_path, rec, "backends")
    assert found.where == "moe_backend (eager at 8 rows): AITER CK on rank 0, Triton fused_moe on rank 1"
    # data-parallel ranks see other batches: a size that only one has is no difference
    assert str(agree(tmp_path, ranks(tmp_path, backend("A", 8), backend("B", 16)), "backends").outcome) == "holds"


def test_a_module_on_another_kernel_fails(tmp_path: Path) -> None:
    rec = ranks(tmp_path, [linear("qkv", 64, 64, kernel="Native")], [linear("qkv", 64, 64, kernel="Emulation")])
    assert agree(tmp_path, rec, "backends").where == "module qkv: Native on rank 0, Emulation on rank 1"


def test_tuned_rows_are_compared_by_what_was_looked_up(tmp_path: Path) -> None:
    def looked(variant: str) -> Records:
        return [call("tuned_table", variant, size=128, facts={"experts": 129, "topk": 5})]

    rec = ranks(tmp_path, looked("tuned row"), looked("default"))
    found = agree(tmp_path, rec, "tuned_tables")
    assert found.where == '128 rows {"experts": 129, "topk": 5}: tuned row on rank 0, default on rank 1'
    assert "AITER_CONFIG_*" in found.next_move
    none = agree(tmp_path, ranks(tmp_path, backend("A"), backend("A")), "tuned_tables")
    assert (str(none.outcome), none.why) == ("inconclusive", "no rank looked a tuned table up while it recorded")


def captured(*names: str) -> Records:
    kernels = tuple(records.CensusKernel(name=name) for name in names)
    return [batch(0, 8), records.Census(descriptor=0, piece=0, kernels=kernels, source="test")]


def test_captured_graphs_are_compared_by_their_kernel_multisets(tmp_path: Path) -> None:
    same = ranks(tmp_path, captured("a", "b", "b"), captured("b", "a", "b"))
    assert str(agree(tmp_path, same, "census").outcome) == "holds"  # order is no difference
    found = agree(tmp_path, ranks(tmp_path, captured("a", "b", "b"), captured("a", "c", "b")), "census")
    assert str(found.outcome) == "failed"
    assert found.where == "FULL graph of 8 rows: 2 x b of 3 kernels on rank 0, 1 x b, 1 x c of 3 kernels on rank 1"
    one = agree(tmp_path, ranks(tmp_path, captured("a"), [batch(0, 8)]), "census")
    assert (str(one.outcome), one.why) == ("inconclusive", "one rank: nothing to compare")


def test_differences_beyond_the_names_shown_are_seen(tmp_path: Path) -> None:
    names = [f"k{i}" for i in range(8)]
    rec = ranks(tmp_path, captured(*names, "x"), captured(*names, "y"), captured("k0"))
    told = compare(rec, "census").differences
    assert [d.other_rank for d in told] == ["rank 1", "rank 2"]


# --- traces ---------------------------------------------------------------------------------------------------


def test_traces_compare_the_kernels_of_like_steps(tmp_path: Path) -> None:
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND, REDUCE])], 1: [(DECODE, [ATTEND, REDUCE])]})
    assert agree(tmp_path, rec, "census").observed == "1 keys equal on 2 ranks"
    (tmp_path / "ranks").rename(tmp_path / "before")
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND, REDUCE])], 1: [(DECODE, [ATTEND, ("Cijk_x", 1.0)])]})
    found = agree(tmp_path, rec, "census")
    assert (str(found.outcome), "1 x Cijk_x" in found.where) == ("failed", True)
    lost = agree(tmp_path, rec, "census", HIDING)
    assert (str(lost.outcome), "kernels may be missing" in lost.why) == ("inconclusive", True)


def test_steps_of_other_rows_have_nothing_in_common(tmp_path: Path) -> None:
    four = "execute_context_0(0)_generation_4(4)"
    found = agree(tmp_path, folder(tmp_path, {0: [(DECODE, [ATTEND])], 1: [(four, [ATTEND])]}), "census")
    assert (str(found.outcome), "nothing in common" in found.why) == ("inconclusive", True)


@pytest.mark.parametrize("topic", TOPICS)
def test_one_rank_has_nothing_to_compare(tmp_path: Path, topic: str) -> None:
    rec = read([ROOT / "samples" / "live-h200-m3-graph"])
    found = agree(tmp_path, rec, topic)
    assert str(found.outcome) == "inconclusive"
    assert found.why in ("one rank: nothing to compare", "no rank looked a tuned table up while it recorded")
    assert found.next_move


def test_the_two_ranks_of_the_cpu_sample_agree(tmp_path: Path) -> None:
    rec = read([ROOT / "samples" / "live-cpu-moe-tp2"])
    assert {t: str(agree(tmp_path, rec, t).outcome) for t in ("environment", "versions", "backends")} == {
        "environment": "holds",
        "versions": "holds",
        "backends": "holds",
    }


def test_real_rank_sets_agree(tmp_path: Path) -> None:
    rec = open_recording([shared_or_skip("cases/k23_rank_set")])
    assert compare(rec, "census").differences == ()


# --- the finding ----------------------------------------------------------------------------------------------


def test_a_difference_is_a_finding_before_any_figure(tmp_path: Path) -> None:
    rec = ranks(tmp_path, with_env(0), with_env(1, VLLM_ROCM_USE_AITER="0"))
    found = report(rec).answer.findings
    assert found[0].id == "trust.ranks.environment"
    assert found[0].claim == ("The ranks differ in environment: VLLM_ROCM_USE_AITER: '1' on rank 0, '0' on rank 1")
    assert (found[0].verdict, found[0].where, found[0].trusted) == ("differs", "rank 1", True)


@pytest.mark.parametrize(
    "make", [lambda _: read([ROOT / "samples" / "live-cpu-moe-tp2"]), lambda p: folder(p, {0: [(DECODE, [ATTEND])]})]
)
def test_ranks_that_agree_or_are_alone_make_no_finding(tmp_path: Path, make: Callable[[Path], Recording]) -> None:
    assert findings(make(tmp_path), Answer((TrustSection(COMPLETE, {}),))).findings == ()


def test_a_difference_in_lost_kernels_is_not_trusted(tmp_path: Path) -> None:
    rec = folder(tmp_path, {0: [(DECODE, [ATTEND])], 1: [(DECODE, [REDUCE])]})
    (found,) = findings(rec, Answer((TrustSection(HIDING, {}),))).findings
    assert (found.id, found.trusted) == ("trust.ranks.census", False)


def test_compared_says_nothing_of_ranks_that_are_not_there(tmp_path: Path) -> None:
    found = compare(folder(tmp_path, {0: [(DECODE, [ATTEND])]}), "environment")
    assert isinstance(found, Compared)
    assert (found.ranks, found.why) == ((), "no rank recorded its environment")


@pytest.mark.parametrize("name", sorted(PER_PROCESS))
def test_what_vllm_sets_in_each_process_is_no_difference(name: str, tmp_path: Path) -> None:
    rec = ranks(tmp_path, with_env(0, **{name: "a"}), with_env(1, **{name: "b"}))
    assert str(agree(tmp_path, rec, "environment").outcome) == "holds"


def test_the_report_says_that_ranks_differ_before_it_names_a_bottleneck(tmp_path: Path) -> None:
    rec = ranks(tmp_path, with_env(0), with_env(1, VLLM_ROCM_USE_AITER="0"))
    lines = [line.split()[0] for line in report_text(report(rec), 100, color=False).splitlines() if line.strip()]
    assert lines.index("Trust") < lines.index("Ranks") < lines.index("Next")
