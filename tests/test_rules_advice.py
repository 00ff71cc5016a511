"""The next move of a rule that is no pass: what changed the state, by its own number, and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import kernel, launch, step, write_trace
from rules_kit import ATTEND, CAPTURED, COMPLETE, DECODE, HIDING, ONE_GONE, UNUSABLE, judged, path_row, result, served
from test_rules_exit import without_graph_kernels
from tree import ROOT, shared_or_skip

from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.recording import Recording
from m3probe.pipeline import read, report
from m3probe.recipe.asking import Server
from m3probe.rules import judge, load_rules
from m3probe.schema.setup import Setup
from m3probe.schema.verdicts import RuleOutcome
from m3probe.workload import Workload

SAMPLES = ROOT / "samples"
READY = Path("any-vllm-graphs")


def on(rules: Path, *paths: Path) -> Judgement:
    rec = read(list(paths))
    return judge(load_rules(rules), rec, report(rec).answer)


def outcomes(found: Judgement) -> list[str]:
    return [str(r.outcome) for r in found.results]


# --- real recordings ------------------------------------------------------------------------------------------


def test_graphs_hold_on_the_graph_sample_and_fail_on_the_eager_one_for_its_reason() -> None:
    found = on(READY, SAMPLES / "h200-m3-tp4rank-graph.pt.trace.json.gz")
    assert (outcomes(found), found.exit_code) == (["holds"] * 3, 0)
    assert [r.next_move for r in found.results] == ["", "", ""]
    found = on(READY, SAMPLES / "h200-m3-tp4rank-eager.pt.trace.json.gz")
    assert (outcomes(found), found.exit_code) == (["holds", "failed", "failed"], 1)
    replays, eager = found.results[1:]
    assert replays.why == "9 step(s) made no call of it, and nothing can have hidden one"
    assert eager.observed == "eager: 9 steps without a graph launch"
    assert replays.next_move.startswith("What decided: no graph launch in 9 of 9 decode")
    assert "--enforce-eager turns it off" in replays.next_move


def test_a_live_server_says_which_flag_turned_graphs_off() -> None:
    found = on(READY, SAMPLES / "live-h200-m3-eager")
    assert outcomes(found) == ["holds", "failed", "failed"]
    assert found.results[1].next_move.startswith(
        "What decided: off: enforce_eager is on, as the server resolved it. Asked for by: --compilation-config"
    )


def test_the_ready_m3_file_fails_on_an_h200_by_what_it_is() -> None:
    """One H200, BF16, no AITER: nothing of the MI355X configuration ran, and each rule says what decided that."""
    found = on(Path("m3-mxfp8-tp4"), SAMPLES / "live-h200-m3-graph")
    told = {r.rule.partition(":")[0]: r for r in found.results}
    assert found.exit_code == 1
    attends = told["path aiter_sparse_pa in decode"]
    assert "VLLM_ROCM_USE_AITER is not set (default off)" in attends.next_move
    assert "Triton ran" in attends.next_move
    assert "off: the experts are bf16, not mxfp8" in told["path mxfp8_moe in decode"].next_move
    assert "off: TP1: no all-reduce" in told["path custom_all_reduce in decode"].next_move
    assert str(told["gate block_equal"].outcome) == "holds"


def test_the_sample_rules_with_formulas_hold() -> None:
    found = on(SAMPLES / "rules" / "h200-m3-formulas.toml", SAMPLES / "live-h200-m3-graph")
    assert (outcomes(found), found.exit_code) == (["holds"] * 10, 0)


# --- traces whose kernels were lost ---------------------------------------------------------------------------

REPLAYED = '[[rule]]\npath = "graph_replay"\nverdict = "executed"\n'
ROUTED = '[[rule]]\nkernel = "_topk_forward"\nper_step = 24\n'  # 24 layers, one routing kernel each


def test_kernel_less_copy_is_4_without_census_and_judged_with_it(tmp_path: Path) -> None:
    assert without_graph_kernels(shared_or_skip(CAPTURED), tmp_path / "bare") == 421
    rules = tmp_path / "rules.toml"
    rules.write_text(REPLAYED + ROUTED)
    alone = on(rules, tmp_path / "bare" / "graph_execution.json.gz")
    assert (outcomes(alone), alone.exit_code) == (["inconclusive"] * 2, 4)
    assert "give the capture traces beside the trace" in alone.results[1].next_move
    with_census = on(rules, tmp_path / "bare")
    assert (outcomes(with_census), with_census.exit_code) == (["holds"] * 2, 0)
    rules.write_text(REPLAYED + ROUTED.replace("24", "23"))
    broken = on(rules, tmp_path / "bare")
    assert (outcomes(broken), broken.exit_code) == (["holds", "failed"], 1)
    assert broken.results[1].basis == "census"


def test_dropped_kernels_are_4_and_say_why(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(REPLAYED + '[[rule]]\nkernel = "nowhere"\nmin_count = 1\n')
    found = on(rules, shared_or_skip("cases/k03_graph_kernels_dropped.json"))
    assert found.results[1].outcome is RuleOutcome.INCONCLUSIVE
    assert found.exit_code == 4
    assert "capture traces" in found.results[1].next_move


# --- made by hand ---------------------------------------------------------------------------------------------

PATH = 'path = "graph_replay"\nverdict = "executed"'


def test_a_failed_path_names_the_refusal_and_what_ran_instead(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    row = replace(path_row("declined", "eager"), reasons=("128 rows > 64, the largest captured size",))
    found = result(tmp_path, rec, PATH, COMPLETE, [row])
    assert found.next_move.startswith(
        "What decided: 128 rows > 64, the largest captured size. eager ran. Asked for by: "
    )
    assert "It needs: " in found.next_move


def test_an_unproven_path_asks_for_the_configuration_where_none_was_given(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    assert "--recipe FILE" in result(tmp_path, rec, PATH, COMPLETE, [path_row("unproven")]).next_move
    known = replace(rec, meta=replace(rec.meta, setup=Setup()))
    assert "--recipe FILE" not in result(tmp_path, known, PATH, COMPLETE, [path_row("unproven")]).next_move


def test_a_kernel_of_the_catalogue_names_its_path_and_the_family_that_ran(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [("flash::FlashAttnFwd", 1.0), ("_gqa_sparse_fwd_kernel", 1.0)]))
    row = replace(path_row("off", "Triton"), id="sparse_attention", title="sparse attention", reasons=("off: x",))
    rule = 'kernel = "_gqa_sparse_decode_kernel"\nphase = "decode"\nper_step = 1'
    found = result(tmp_path, rec, rule, COMPLETE, [row])
    assert found.next_move.startswith("Kernels of its family that ran: 1 x _gqa_sparse_fwd_kernel.")
    assert "_gqa_sparse_decode_kernel is sparse attention's Triton, which is off here" in found.next_move
    assert "off: x" in found.next_move


def test_an_unknown_kernel_still_has_a_next_move(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    assert result(tmp_path, rec, 'kernel = "mine"\nmin_count = 1').next_move.startswith(
        "Compare with the last recording"
    )
    assert result(tmp_path, rec, 'kernel = "mine"\nmin_count = 1', None).next_move


@pytest.mark.parametrize(
    ("trust", "said"),
    [
        (HIDING, "give the capture traces"),
        (UNUSABLE, "Profile the workers with GPU activity"),
        (ONE_GONE, "Give every rank's trace."),
    ],
)
def test_evidence_that_cannot_carry_a_pass_says_what_would(tmp_path: Path, trust: object, said: str) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    found = result(tmp_path, rec, 'kernel = "_gqa*"\nper_step = 1', trust)  # type: ignore[arg-type]
    assert (found.outcome, said in found.next_move) == (RuleOutcome.INCONCLUSIVE, True)


def test_every_result_that_is_no_pass_has_a_next_move_and_no_pass_has_one(tmp_path: Path) -> None:
    rec = served(tmp_path, (DECODE, [ATTEND]))
    rules = (
        '[require]\ntrust = "complete"\n[[rule]]\nkernel = "_gqa*"\nper_step = 1\n[[rule]]\nkernel = "_gqa*"\n'
        'phase = "prefill"\nper_step = 1\n[[rule]]\nfamily = "comm"\nmin_share = 0.1\n[[rule]]\nkernel = "x"\n'
        'rank = 7\nforbid = true\n[[rule]]\nagree = "census"\n[[rule]]\ngate = "block_equal"\n'
        '[[rule]]\npath = "graph_replay"\nphase = "mixed"\nverdict = "executed"\n'
    )
    path = tmp_path / "all.toml"
    path.write_text(rules)
    found = judge(load_rules(path), rec, report(rec).answer)
    assert judged(tmp_path, rec, '[require]\ntrust = "complete"\n', HIDING).results[0].next_move
    assert [bool(r.next_move) for r in found.results] == [r.outcome is not RuleOutcome.HOLDS for r in found.results]


# --- the configuration that the ready file is for -------------------------------------------------------------

KV_WRITE = "void fusedMiniMaxM3QNormRopeKVInsertKernel<__hip_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(int)"
DECODE_KERNELS = {
    KV_WRITE: 60,
    "_build_sparse_block_table_kernel": 57,
    "paged_attention_decode_v2_gluon_dot_kernel": 57,
    "flydsl_moe1_afp8_wfp8_bf16_t32x128x256": 57,
    "flydsl_moe2_layout_afp8_wfp8_bf16_t32x128x256": 57,
    "void aiter::cross_device_reduce_1stage<__hip_bfloat16, 4>(int)": 121,
}
"""One decode step of MiniMax M3 at TP4 on MI355X as its source says: no trace of one is public."""


def served_on_mi355x(tmp_path: Path, kernels: dict[str, int]) -> Recording:
    """Three replays of a full graph of 8 rows, judged beside the gated recipe at TP4."""
    events = []
    for correlation in range(1, 4):
        at = 20_000.0 * correlation
        events += [step(at, 5_000.0, DECODE), launch(at + 1, correlation, "hipGraphLaunch")]
        names = [name for name, times in kernels.items() for _ in range(times)]
        events += [kernel(at + 100 + 20 * i, 10.0, correlation, name) for i, name in enumerate(names)]
    trace = write_trace(tmp_path / "mi355x.pt.trace.json", events)
    server = Server(file=SAMPLES / "recipes" / "m3-mxfp8-gated.sh", vllm="0.33.0", gpu="mi355x")
    return read([trace], Workload(server=server))


def by_id(rec: Recording) -> dict[str, RuleResult]:
    rules = load_rules(Path("m3-mxfp8-tp4"))
    found = judge(rules, rec, report(rec).answer).results[1:]
    return {rule.id: result for rule, result in zip(rules.rules, found, strict=True)}


def test_the_ready_file_holds_where_its_configuration_ran(tmp_path: Path) -> None:
    found = by_id(served_on_mi355x(tmp_path, DECODE_KERNELS))
    said = {name: str(r.outcome) for name, r in found.items() if r.basis in ("paths", "kernels")}
    assert said == {
        "decode-replays": "holds",
        "no-eager-decode": "holds",
        "fp8-kv": "holds",
        "mxfp8-experts": "holds",
        "page-16-attention": "holds",
        "attends": "holds",
        "no-triton-attend": "holds",
        "custom-all-reduce": "holds",
    }
    assert found["attends"].expected == "executed as AITER page-16; exactly 57 (sparse_layers) per step"


def test_the_ready_file_fails_where_a_fallback_ran(tmp_path: Path) -> None:
    kernels = dict(DECODE_KERNELS)
    del kernels["paged_attention_decode_v2_gluon_dot_kernel"], kernels["_build_sparse_block_table_kernel"]
    found = by_id(served_on_mi355x(tmp_path, kernels | {"_gqa_sparse_decode_kernel": 57}))
    for name in ("page-16-attention", "attends", "no-triton-attend"):
        assert str(found[name].outcome) == "failed", name
    assert found["page-16-attention"].observed.startswith("missed as Triton")
    assert "yet the fallback ran" in found["page-16-attention"].next_move
    assert str(found["mxfp8-experts"].outcome) == "holds"


def test_names_that_nobody_has_seen_fail_no_ready_rule(tmp_path: Path) -> None:
    """Were AITER's kernels called otherwise, nothing would match: inconclusive, and no false alarm."""
    kernels = {f"renamed_{i}": times for i, times in enumerate(DECODE_KERNELS.values())}
    found = by_id(served_on_mi355x(tmp_path, kernels))
    assert [name for name, r in found.items() if r.outcome is RuleOutcome.FAILED] == []
    assert str(found["mxfp8-experts"].outcome) == "inconclusive"
