"""Fast-path verdicts: by hand on small traces, by a plain recount on real ones."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, op, recording, step, write_trace
from tree import ROOT, shared_or_skip

from m3probe.analyzers import paths, trust
from m3probe.fastpaths import fast_paths
from m3probe.model.findings import Finding
from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.sources import open_recording

DECODE = "execute_context_0(0)_generation_8(8)"
PREFILL = "execute_context_1(512)_generation_0(0)"
TRITON, MERGE, SCORE = "_gqa_sparse_decode_kernel", "_merge_topk_attn_out_kernel", "_decode_index_score_kernel"
GLUON = "paged_attention_decode_v2_gluon_dot_kernel"
TABLE = "_build_sparse_block_table_kernel"
EXPERTS = "fused_moe_kernel"
ROCM = {"hip_runtime_version": 70051831}
H200 = "traces/h200-m3/h200-m3-tp4rank-{}.pt.trace.json.gz"


def answer(rec: Recording) -> Answer:
    before = trust.ANALYZER.judge(rec, Answer())
    return before.plus(paths.ANALYZER.judge(rec, before))


def rows_of(rec: Recording) -> dict[str, PathRow]:
    section = answer(rec).section(PathsSection)
    assert section is not None
    return {row.id: row for row in section.paths}


def eager(at: float, first: int, names: list[str], said: str = DECODE) -> list[dict[str, Any]]:
    """A step at ``at`` us that launches each kernel by itself."""
    events = [step(at, 90.0, said)]
    for i, name in enumerate(names):
        events += [launch(at + 4 * i, first + i), kernel(at + 4 * i + 3, 2.0, first + i, name)]
    return events


def replay(at: float, correlation: int, names: list[str], said: str = DECODE) -> list[dict[str, Any]]:
    """A step at ``at`` us that launches one graph; no names: none of its kernels was recorded."""
    events = [step(at, 90.0, said), launch(at, correlation, "hipGraphLaunch")]
    return events + [kernel(at + 4 * i + 3, 2.0, correlation, name) for i, name in enumerate(names)]


# --- one rule each ------------------------------------------------------------------------------------------


def test_a_variant_that_ran_in_every_step_is_executed_and_named(tmp_path: Path) -> None:
    names = [SCORE, TRITON, MERGE, SCORE, TRITON, MERGE]
    row = rows_of(recording(tmp_path, eager(100, 10, names) + eager(200, 20, names)))["sparse_attention"]
    assert (row.verdict, row.variant, row.names_from_source) == ("executed", "Triton", False)
    assert (row.configured, row.eligible) == ("unknown", "unknown")
    assert row.counts["calls"] == 4, "two anchors in each of two steps; the merge kernel counts nothing"
    assert (row.counts["executed"], row.counts["steps"], row.counts["steps_without"]) == (2, 2, 0)
    assert row.evidence[0] == f"decode: 4 calls of Triton ({TRITON}) in 2 of 2 steps, 2 per step, rows 8 (kernels)"


def test_a_model_without_sparse_layers_is_unproven_not_off(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [EXPERTS, EXPERTS])))["sparse_attention"]
    assert (row.verdict, row.variant, row.counts["executed"]) == ("unproven", "", 0)
    assert row.reasons[0] == "no kernel of a known variant in 1 of 1 decode steps"
    assert not row.names_from_source, "Triton's names were seen in traces: only the others' never were"
    assert row.evidence == (
        "names read in source only: AITER page-16, MSA",
        "names seen in real traces: Triton",
    )


def finding_of(rec: Recording, path: str) -> Finding:
    return next(f for f in answer(rec).findings if f.id == f"paths.{path}")


def test_an_unproven_path_shows_the_steps_that_were_asked(tmp_path: Path) -> None:
    events = eager(100, 10, [TRITON]) + eager(200, 20, [EXPERTS]) + eager(300, 30, [EXPERTS])
    shown = finding_of(recording(tmp_path, events), "sparse_attention").evidence
    assert [(e.table, e.rows, e.count, e.observed) for e in shown] == [
        ("kernels", (0,), 1, "1 calls of Triton"),
        ("steps", (1, 2), 2, "no call in 2 of 3 steps asked"),
    ]
    never = finding_of(recording(tmp_path, eager(100, 10, [EXPERTS])), "sparse_attention").evidence
    assert [(e.table, e.count) for e in never] == [("steps", 1)]


def test_an_executed_path_needs_no_steps_as_evidence(tmp_path: Path) -> None:
    events = eager(100, 10, [EXPERTS], PREFILL) + replay(200, 20, [EXPERTS])
    shown = finding_of(recording(tmp_path, events), "graph_replay").evidence
    assert [e.table for e in shown] == ["launches"]


def test_a_path_of_which_no_name_was_ever_seen_says_so_when_nothing_ran(tmp_path: Path) -> None:
    """Only where every variant is known from source alone: no match proves nothing then."""
    variants = tuple(v for v in fast_paths()["sparse_attention"].variants if v.names_from_source)
    path = replace(fast_paths()["sparse_attention"], variants=variants)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "fast_paths", lambda: {"sparse_attention": path})
        row = rows_of(recording(tmp_path, eager(100, 10, [EXPERTS])))["sparse_attention"]
    assert row.names_from_source
    assert row.evidence == ("names read in source only: AITER page-16, MSA",)


def test_phases_that_lack_a_path_alike_share_a_reason_and_the_deciding_phase_is_first(tmp_path: Path) -> None:
    events = eager(100, 10, [EXPERTS], PREFILL) + eager(200, 20, [EXPERTS]) + eager(300, 30, [EXPERTS])
    rows = rows_of(recording(tmp_path, events))
    assert rows["sparse_attention"].reasons[0] == (
        "no kernel of a known variant in 1 of 1 prefill and 2 of 2 decode steps"
    )
    assert rows["graph_replay"].reasons[0] == "no graph launch in 2 of 2 decode and 1 of 1 prefill steps: eager"


def test_one_step_without_a_call_keeps_the_phase_from_passing(tmp_path: Path) -> None:
    events = eager(100, 10, [TRITON]) + eager(200, 20, [TRITON]) + eager(300, 30, [EXPERTS])
    row = rows_of(recording(tmp_path, events))["sparse_attention"]
    assert (row.verdict, row.by_phase) == ("unproven", {"decode": "unproven"})
    assert (row.counts["executed"], row.counts["steps"], row.counts["steps_without"]) == (2, 3, 1)
    assert row.reasons[0] == "no kernel of a known variant in 1 of 3 decode steps, rows 8"


def test_a_path_that_one_rank_lacks_is_not_averaged_away(tmp_path: Path) -> None:
    for rank, names in ((0, [TRITON]), (1, [EXPERTS])):
        info = {"rank": rank, "world_size": 2}
        write_trace(tmp_path / f"rank{rank}.json", eager(100, 10, names), distributedInfo=info)
    row = rows_of(open_recording([tmp_path]))["sparse_attention"]
    assert (row.verdict, row.counts["executed"], row.counts["steps"]) == ("unproven", 1, 2)
    assert row.reasons[0].startswith("rank 1: no kernel")
    assert row.evidence[0].startswith("rank 0: decode: 1 calls of Triton")


def test_each_phase_has_its_own_verdict(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [EXPERTS], PREFILL) + eager(200, 20, [TRITON])))
    assert row["sparse_attention"].by_phase == {"prefill": "unproven", "decode": "executed"}
    assert row["sparse_attention"].verdict == "unproven"
    assert row["moe_backend"].by_phase == {"prefill": "executed", "decode": "unproven"}


def test_empty_steps_are_not_asked_for_any_path(tmp_path: Path) -> None:
    events = [*eager(100, 10, [TRITON]), step(200, 90, "execute_context_0(0)_generation_0(0)")]
    row = rows_of(recording(tmp_path, events))["sparse_attention"]
    assert (row.verdict, row.counts["steps"]) == ("executed", 1)


def test_aiter_rests_on_names_from_source_and_says_so(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [SCORE, TABLE, GLUON]), **ROCM))["sparse_attention"]
    assert (row.verdict, row.variant, row.names_from_source) == ("executed", "AITER page-16", True)
    finding = next(
        f
        for f in answer(recording(tmp_path, eager(100, 10, [SCORE, TABLE, GLUON]))).findings
        if f.id == "paths.sparse_attention"
    )
    assert finding.confidence == "medium"


def test_aiter_paged_attention_of_a_dense_model_is_no_sparse_attention(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [GLUON]), **ROCM))["sparse_attention"]
    assert row.verdict == "unproven"
    assert any(GLUON in reason and "no known variant" in reason for reason in row.reasons)


def test_the_fallback_is_named_with_what_it_stands_in_for_and_is_never_missed(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [SCORE, TRITON]), **ROCM))["sparse_attention"]
    assert (row.verdict, row.variant) == ("executed", "Triton")
    told = next(line for line in row.evidence if "none of these" in line)
    assert "AITER page-16" in told
    assert "MSA" not in told, "what only the other vendor has is no alternative"


def test_two_variants_in_one_recording_are_both_named(tmp_path: Path) -> None:
    names = ["_mxfp8_grouped_gemm_kernel", EXPERTS]
    row = rows_of(recording(tmp_path, eager(100, 10, names)))["moe_backend"]
    assert row.variant == "Triton MXFP8 + Triton fused_moe"
    assert row.names_from_source


def test_experts_of_no_known_variant_are_told_by_name(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, ["marlin_moe_wna16_kernel"])))["moe_backend"]
    assert row.verdict == "unproven"
    assert "moe_gemm kernels of no known variant: marlin_moe_wna16_kernel" in row.reasons


# --- graphs ----------------------------------------------------------------------------------------------------


def test_a_replay_with_kernels_is_executed_and_decode_decides(tmp_path: Path) -> None:
    events = (
        eager(100, 10, [EXPERTS], PREFILL) + replay(200, 20, [EXPERTS, TRITON]) + replay(300, 30, [EXPERTS, TRITON])
    )
    row = rows_of(recording(tmp_path, events))["graph_replay"]
    assert (row.verdict, row.variant) == ("executed", "FULL")
    assert row.by_phase == {"prefill": "unproven", "decode": "executed"}
    assert (
        row.evidence[0] == "decode: 2 graph launches (FULL) x 2 kernels in 2 of 2 steps, 1 per step, rows 8 (kernels)"
    )
    assert row.reasons[0] == "no graph launch in 1 of 1 prefill steps: eager"


def test_eager_decode_is_unproven_with_its_count(tmp_path: Path) -> None:
    row = rows_of(recording(tmp_path, eager(100, 10, [EXPERTS]) + eager(200, 20, [EXPERTS])))["graph_replay"]
    assert (row.verdict, row.counts["calls"]) == ("unproven", 0)
    assert row.reasons[0] == "no graph launch in 2 of 2 decode steps: eager"


def test_graph_launches_without_kernels_and_without_census_prove_nothing(tmp_path: Path) -> None:
    rec = recording(tmp_path, replay(100, 10, []) + replay(200, 20, []))
    for row in rows_of(rec).values():
        assert row.verdict == "unproven"
        assert row.reasons[0] == "graph launches show no kernels and no census explains them in 2 of 2 decode steps"
        assert row.counts["steps_hidden"] == 2
    assert not any(f.trusted for f in answer(rec).findings)


def test_eager_steps_are_counted_apart_from_those_whose_graph_launch_shows_no_kernels(tmp_path: Path) -> None:
    events = eager(100, 10, [EXPERTS]) + replay(200, 20, []) + replay(300, 30, [])
    row = rows_of(recording(tmp_path, events))["graph_replay"]
    assert row.reasons[0].startswith("no graph launch in 1 of 3 decode steps: eager")
    assert "; graph launches of 2 more show no kernels" in row.reasons[0]


def test_what_was_seen_stays_executed_where_kernels_can_be_hidden(tmp_path: Path) -> None:
    """A lost replay hides kernels elsewhere; the prefill that showed its kernels ran all the same."""
    events = eager(100, 10, [EXPERTS, TRITON], PREFILL) + replay(200, 20, [])
    row = rows_of(recording(tmp_path, events))["moe_backend"]
    assert row.by_phase == {"prefill": "executed", "decode": "unproven"}
    assert (row.counts["executed"], row.counts["steps_hidden"]) == (1, 1)


def test_without_runtime_calls_no_graph_launch_could_have_been_seen(tmp_path: Path) -> None:
    rec = recording(tmp_path, [step(100, 90, DECODE), op(101, 5, "aten::mm", [[8, 4], [4, 4]])])
    assert "no runtime call was recorded" in rows_of(rec)["graph_replay"].reasons[0]


def test_without_steps_calls_are_counted_over_the_whole_trace(tmp_path: Path) -> None:
    events = [e for e in replay(100, 10, [EXPERTS, EXPERTS]) if e["cat"] != "user_annotation"]
    row = rows_of(recording(tmp_path, events))
    assert row["moe_backend"].verdict == "executed"
    assert row["moe_backend"].counts == {"calls": 2}, "a count of steps that nobody recorded is not printed"
    assert row["graph_replay"].variant == "mode not told"


@pytest.mark.parametrize("case", ["k03_graph_kernels_dropped", "k04_graph_replay_partial"])
def test_known_cases_never_miss_nor_pass_what_was_lost(case: str) -> None:
    rec = open_recording([ROOT / "tests" / "data" / "cases" / f"{case}.json"])
    verdicts = {row.verdict for row in rows_of(rec).values()}
    assert verdicts <= {"executed", "unproven"}
    if case.startswith("k03"):
        assert verdicts == {"unproven"}


# --- real traces, recounted by plain json --------------------------------------------------------------------


def recount(path: Path, names: set[str]) -> Counter[tuple[str, str]]:
    """{(first words of the step's annotation, kernel): launches}: integers and correlations only."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    said = [e for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("execute_")]
    said = sorted((round(e["ts"] * 1000), e["name"]) for e in said)
    at = {
        e["args"]["correlation"]: round(e["ts"] * 1000)
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    found: Counter[tuple[str, str]] = Counter()
    for e in events:
        if e.get("cat") == "kernel" and e["name"] in names:
            begun = at[e["args"]["correlation"]]
            inside = [name for start, name in said if start <= begun][-1]
            found[inside, e["name"]] += 1
    return found


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_the_h200_pair_agrees_with_a_recount(mode: str) -> None:
    path = shared_or_skip(H200.format(mode))
    prefill, decode = "execute_context_8(4000)_generation_0(0)", DECODE
    truth = recount(path, {TRITON, "_gqa_sparse_fwd_kernel", EXPERTS})
    assert truth == {
        (prefill, "_gqa_sparse_fwd_kernel"): 6,
        (decode, TRITON): 54,
        (prefill, EXPERTS): 12,
        (decode, EXPERTS): 108,
    }
    rows = rows_of(open_recording([path]))
    sparse, experts = rows["sparse_attention"], rows["moe_backend"]
    assert (sparse.verdict, sparse.variant) == ("executed", "Triton")
    assert (sparse.counts["prefill.calls"], sparse.counts["decode.calls"]) == (6, 54)
    assert f"decode: 54 calls of Triton ({TRITON}) in 9 of 9 steps, 6 per step, rows 8 (kernels)" in sparse.evidence
    assert (experts.verdict, experts.variant) == ("executed", "Triton fused_moe")
    assert (experts.counts["prefill.calls"], experts.counts["decode.calls"]) == (12, 108)


def test_graph_replay_of_the_h200_pair() -> None:
    graph = rows_of(open_recording([shared_or_skip(H200.format("graph"))]))["graph_replay"]
    assert (graph.verdict, graph.variant) == ("executed", "FULL")
    assert graph.evidence == (
        "decode: 9 graph launches (FULL) x 189 kernels in 9 of 9 steps, 1 per step, rows 8 (kernels)",
    )
    assert graph.by_phase["prefill"] == "unproven"
    eager_row = rows_of(open_recording([shared_or_skip(H200.format("eager"))]))["graph_replay"]
    assert (eager_row.verdict, eager_row.variant) == ("unproven", "")
    assert "no graph launch in 9 of 9 decode and 1 of 1 prefill steps: eager" in eager_row.reasons


def without_graph_kernels(folder: Path, to: Path) -> Path:
    """A copy of a profile folder whose replays show none of their kernels."""
    shutil.copytree(folder, to, copy_function=shutil.copyfile)
    trace = to / "graph_execution.json.gz"
    document = json.loads(gzip.decompress(trace.read_bytes()))
    graphs = {e["args"]["correlation"] for e in document["traceEvents"] if "GraphLaunch" in e.get("name", "")}
    document["traceEvents"] = [
        e
        for e in document["traceEvents"]
        if e.get("cat") != "kernel" or e.get("args", {}).get("correlation") not in graphs
    ]
    trace.write_bytes(gzip.compress(json.dumps(document).encode()))
    return to


@pytest.mark.parametrize(
    ("folder", "graph", "experts"),
    [("vllm_decode_full", ("FULL", 1), 48), ("vllm_prefilldecode_piecewise", ("PIECEWISE", 25), 48)],
)
def test_verdicts_of_mi300x_rest_on_the_census_alone(
    tmp_path: Path, folder: str, graph: tuple[str, int], experts: int
) -> None:
    source = shared_or_skip(f"traces/tracelens/inference/{folder}")
    whole = rows_of(open_recording([source]))
    bare = rows_of(open_recording([without_graph_kernels(source, tmp_path / folder)]))
    assert (whole["graph_replay"].variant, whole["graph_replay"].counts["calls"]) == graph
    assert (whole["moe_backend"].variant, whole["moe_backend"].counts["calls"]) == ("triton_kernels", experts)
    for name, row in whole.items():
        again = bare[name]
        for key in ("verdict", "variant", "counts", "by_phase", "configured", "eligible", "names_from_source"):
            assert getattr(again, key) == getattr(row, key), (name, key)
    assert whole["moe_backend"].evidence[0].endswith("(kernels)")
    assert bare["moe_backend"].evidence[0].endswith("(census)")
    assert bare["graph_replay"].evidence[0].endswith("(census)")


def test_b200_experts_are_trtllm_and_nothing_is_invented() -> None:
    rows = rows_of(open_recording([shared_or_skip("traces/tracelens/b200/eager_trace.json.gz")]))
    assert (rows["moe_backend"].variant, rows["moe_backend"].counts["calls"]) == ("TRT-LLM", 72)
    assert (rows["graph_replay"].verdict, rows["sparse_attention"].verdict) == ("unproven", "unproven")
