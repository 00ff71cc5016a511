"""Every kind of rule: one that holds, one that is broken, one whose evidence is missing; and the exit status: exit status; kernel names; real traces."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
from rules_kit import (
    ATTEND,
    CAPTURED,
    COMPLETE,
    DECODE,
    GRAPH,
    HIDING,
    KNOWN,
    REDUCE,
    TIMELESS,
    judged,
    outcome,
    path_row,
    result,
    served,
)
from tree import ROOT, shared_or_skip

from m3probe.analyzers.trust import ANALYZER as TRUST
from m3probe.model.judgement import Judgement
from m3probe.model.report import Answer, TrustRow
from m3probe.present.verdict_text import judgement_dict, judgement_text
from m3probe.rules import judge, load_rules
from m3probe.rules._names import function_name, matching, nearest_name
from m3probe.schema.verdicts import RuleOutcome
from m3probe.sources import open_recording

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


def test_text_has_one_line_per_rule_its_next_move_below_and_escapes_names(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND, ("evil\x1b[2J\nname", 1.0)]))
    lines = judgement_text(judged(tmp_path, rec, '[[rule]]\nkernel = "evil*"\nforbid = true\n' + HOLDING)).split("\n")
    assert len(lines) == 4
    assert "\x1b" not in lines[0]
    assert lines[0].startswith("FAILED        rule 1: kernel evil*: forbidden | observed 1 of 2 kernel executions")
    assert lines[1].startswith("              -> Compare with the last recording")
    assert lines[2].startswith("ok            rule 2: ")


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
