"""What a missed path could give: the published run nearest to this one, by hand, else the fallback's own time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from arithmetic import check
from builders import recording
from gemm_kit import BOTH, MXFP8
from m3_setups import GATED, setup
from published_kit import Published as Figure
from published_kit import row as published_row
from steps import DENSE, SPARSE, steps
from test_configured import DECODE, GLUON, SMALL, TABLE, TRITON, made, small

from m3probe.analyzers import paths, trust
from m3probe.analyzers._path_bound import with_bound
from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._published import Run, nearest, published
from m3probe.model.findings import Finding
from m3probe.model.path_report import PathRow
from m3probe.model.recording import Recording
from m3probe.model.report import Answer

CROWDED = "execute_context_0(0)_generation_100(100)"
MISSED, RAN = [TRITON, TRITON], [GLUON, TABLE, GLUON]


def finding(rec: Recording, name: str) -> Finding:
    answer = paths.ANALYZER.judge(rec, trust.ANALYZER.judge(rec, Answer()))
    found = next(f for f in answer.findings if f.id == f"paths.{name}")
    if found.bound is not None:
        check(found.bound)
    return found


# --- the published runs -----------------------------------------------------------------------------------


def shares(path: str, run: Run) -> list[float]:
    return sorted(round(effect.high, 4) for effect in nearest(published()[path], run))


@pytest.mark.parametrize(
    ("path", "run", "expected"),
    [
        # +30.2 % of output at 1 request; TPOT 16.79 -> 13.69 ms in the reproduction: prompts would tell which is nearer
        ("shared_expert_fusion", Run("mxfp8", 4, 1), [round(1 - 13.69 / 16.79, 4), round(1 - 1 / 1.302, 4)]),
        ("shared_expert_fusion", Run("mxfp8", 4, 1, 1024, 1024), [round(1 - 13.69 / 16.79, 4)]),
        ("shared_expert_fusion", Run("mxfp8", 4, 128), [round(1 - 1 / 1.056, 4)]),
        # 32 requests lie between 16 and 64: both are told
        ("shared_expert_fusion", Run("mxfp8", 4, 32), [round(1 - 32.79 / 36.62, 4), round(1 - 22.04 / 26.59, 4)]),
        ("index_reuse", Run("mxfp4", 4, 1), [0.1]),
        ("index_reuse", Run("mxfp4", 4, 128), [0.04, round(1 - 63.3 / 69.9, 4)]),
        ("aiter_sparse_pa", Run("mxfp4", 4, 256, 7354, 917), [round(1 - 1 / 1.0693, 4)]),
        ("aiter_sparse_pa", Run("mxfp8", 4, 64), [round(1 - 1 / 1.0556, 4)]),
        ("quick_reduce", Run("mxfp4", 4, 100), [round(1 - 1240 / 1343, 4)]),
        ("mxfp8_linear", Run("mxfp8", 4, 1), [round(1 - 1 / 0.79, 4)]),  # emulation took 0.79 of the time: native loses
        ("draft_attention", Run("mxfp4", 4, 8), [round(1 - 1 / 2.51, 4)]),
    ],
)
def test_the_nearest_published_run_is_taken(path: str, run: Run, expected: list[float]) -> None:
    assert shares(path, run) == sorted(expected)


CSV_ROWS = {
    "shared_expert_fusion": ["d23", "d24", "d28", "d29", "d30"],
    "index_reuse": ["d33", "d34", "d37"],
    "aiter_sparse_pa": ["d38", "d39"],
    "spec_sparse_pa": ["d40", "d41"],
    "mxfp8_linear": ["d43", "d44"],
    "quick_reduce": ["d49", "d50", "d51", "d52"],
    "draft_attention": ["d61b"],
}
"""The published figure behind each effect, in the order of the file."""
LENGTHS = {"8k1k": (8192, 1024), "1k1k": (1024, 1024), "": (None, None)}


def won(row: Figure) -> float:
    """The share of time, from the published columns alone."""
    if row.metric == "tpot_change_pct":
        return -float(row.after) / 100
    ratio = float(row.after) / float(row.before)
    if "emulation" in row.config:  # told of the fallback: the path is the other side
        ratio = 1 / ratio
    return 1 - ratio if row.metric.startswith(("tpot", "ttft")) else 1 - 1 / ratio


@pytest.mark.parametrize(("path", "ids"), CSV_ROWS.items())
def test_every_effect_is_a_published_figure_with_its_conditions(path: str, ids: list[str]) -> None:
    for effect, id_ in zip(published()[path], ids, strict=True):
        row = published_row(id_)
        assert effect.high == pytest.approx(won(row))
        assert (effect.run.isl, effect.run.osl) == LENGTHS[row.isl_osl]
        if row.conc.isdecimal():
            assert effect.run.concurrency == int(row.conc)
        for word in (f"TP{effect.run.tp}" if effect.run.tp else "", (effect.run.quant or "").upper()):
            # rows of one A/B name its configuration once; MXFP8 is what an MXFP8 linear layer has
            assert word in row.config or path in {"quick_reduce", "mxfp8_linear", "index_reuse", "shared_expert_fusion"}


def test_no_effect_is_of_several_changes_or_of_another_layout() -> None:
    # checkpoints d1-d18 bundle changes, d21-d22 tiles with program order, d8 the layout; d32 is inside the Triton indexer
    assert set(published()) == set(CSV_ROWS)
    assert "index reuse and QuickReduce" in {effect.both for effect in published()["aiter_sparse_pa"]}


def test_what_ran_in_both_runs_is_told_with_the_effect(tmp_path: Path) -> None:
    found = finding(made(tmp_path, [MISSED] * 2, small(env=GATED), CROWDED), "aiter_sparse_pa")
    assert "both with index reuse and QuickReduce" in found.claim


def test_every_published_effect_names_a_path_and_a_source() -> None:
    assert set(published()) <= set(fast_paths())
    assert all(effect.source for effects in published().values() for effect in effects)


# --- a trace beside its configuration ---------------------------------------------------------------------


def test_a_missed_path_is_bounded_by_what_was_published_and_says_where_from(tmp_path: Path) -> None:
    given = setup("0.33.0", 4, model=replace(SMALL, moe_quant="mxfp4"), env=GATED)
    found = finding(made(tmp_path, [MISSED] * 2, given, CROWDED), "aiter_sparse_pa")
    assert found.verdict == "missed"
    assert found.bound is not None
    assert (found.bound.low, found.bound.high) == (pytest.approx(1 - 1 / 1.0693), pytest.approx(1 - 1 / 1.0693))
    assert found.bound.basis == "decode step time"
    assert found.confidence == "low"  # 100 requests are not 256
    assert "vLLM PR 47287: 6.5 % of the time won at MXFP4, TP4, 256 requests" in found.claim
    assert "yours is MXFP4, TP4, 100 requests" in found.claim


def test_unknown_weights_leave_the_range_of_both(tmp_path: Path) -> None:
    found = finding(made(tmp_path, [MISSED] * 2, small(env=GATED), CROWDED), "aiter_sparse_pa")
    assert found.bound is not None
    assert found.bound.low == pytest.approx(1 - 1 / 1.0556)
    assert found.bound.high == pytest.approx(1 - 1 / 1.0693)
    assert found.bound.arithmetic == ("(1 - 1 / 1.0556)", "(1 - 1 / 1.0693)")


def test_only_the_steps_that_missed_count(tmp_path: Path) -> None:
    found = finding(made(tmp_path, [MISSED, RAN, RAN, RAN], small(env=GATED), CROWDED), "aiter_sparse_pa")
    assert found.bound is not None
    assert found.bound.high == pytest.approx((1 - 1 / 1.0693) / 4)
    assert found.bound.arithmetic[-1] == "(1 - 1 / 1.0693) * 1 / 4"


def test_a_path_that_was_measured_slower_here_is_not_sold(tmp_path: Path) -> None:
    found = finding(made(tmp_path, [MISSED] * 2, small(env=GATED), DECODE), "aiter_sparse_pa")
    assert found.verdict == "missed"
    assert found.bound is None
    assert "not running it is right here" in found.claim
    assert "this run has 8 requests" in found.claim


def test_a_size_that_a_path_refuses_by_design_is_no_loss(tmp_path: Path) -> None:
    given = small(env={"VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": "INT4"})
    found = finding(made(tmp_path, [["cross_device_reduce_1stage"]] * 2, given), "quick_reduce")
    assert (found.verdict, found.bound) == ("declined", None)
    assert "98,304 B < 2,097,152 B" in found.claim  # 8 rows of 6,144 in two bytes
    assert "refused at these sizes by design" in found.claim


def experts(tmp_path: Path, **more: str) -> Recording:
    model = replace(MXFP8, layers=3, dense_layers=1, moe_layers=2, sparse_layers=2)
    given = setup("0.33.0", 4, model=model, env=BOTH)
    return made(tmp_path, [DENSE + SPARSE + SPARSE] * 2, replace(given, **more))


def test_a_path_that_does_other_work_says_that_its_gain_is_of_no_one_contract(tmp_path: Path) -> None:
    nested = {"--hf-overrides": {"text_config": {"use_index_cache": True, "index_topk_freq": 2}}}
    chosen = ["_decode_index_score_kernel", "_decode_topk_fused_kernel", TRITON] * 2
    found = finding(made(tmp_path, [chosen] * 2, small(flags=nested)), "index_reuse")
    assert (found.verdict, found.bound is not None) == ("missed", True)
    assert found.claim.endswith("index top-k reuse changes the model's work: no speed-up under one contract")
    other = finding(made(tmp_path, [MISSED] * 2, small(env=GATED), CROWDED), "aiter_sparse_pa")
    assert "model's work" not in other.claim


def test_without_a_published_effect_the_fallbacks_time_bounds(tmp_path: Path) -> None:
    found = finding(experts(tmp_path), "mxfp8_moe")
    assert found.verdict == "missed"
    assert found.bound is not None
    # kernels of 2 us each 4 us: steps of 32 kernels begin at 100 and 200 us, so that 57 of them lie in 226 us; the first
    # step's last 7 run beside the second's: of 8 expert GEMMs two run beside other work
    assert found.bound.arithmetic == ("(114,000 ns - 102,000 ns) / 226,000 ns",)
    assert found.bound.low == 0.0
    assert found.confidence == "low"
    assert "5.3 % of decode step time" in found.claim


def test_on_another_device_nothing_published_is_taken_over(tmp_path: Path) -> None:
    given = replace(small(env=GATED), gfx="gfx942")
    found = finding(made(tmp_path, [MISSED] * 2, given, CROWDED), "aiter_sparse_pa")
    assert "published" not in found.claim


@pytest.mark.parametrize("ran", [[RAN] * 2, [["gemm"]] * 2])
def test_what_ran_or_is_unproven_has_no_bound(tmp_path: Path, ran: list[list[str]]) -> None:
    found = finding(made(tmp_path, ran, small(env=GATED), CROWDED), "aiter_sparse_pa")
    assert found.verdict in {"executed", "unproven"}
    assert found.bound is None


def test_a_path_that_ran_unasked_has_nothing_to_win(tmp_path: Path) -> None:
    found = finding(made(tmp_path, [RAN] * 2, small(), CROWDED), "aiter_sparse_pa")
    assert (found.verdict, found.bound) == ("unexpected", None)


@pytest.mark.parametrize(("keys", "bounded"), [(400_000, False), (800_000, True)])
def test_contexts_below_the_gates_prompts_say_so_too(tmp_path: Path, keys: int, bounded: bool) -> None:
    # 100 requests that attend 4,000 or 8,000 tokens each: no prompt is longer than that
    said = f"execute_100_context_0(sq0sk0sqsq0sqsk0)_generation_100(sq100sk{keys}sqsq100sqsk{keys})"
    found = finding(made(tmp_path, [MISSED] * 2, small(env=GATED), said), "aiter_sparse_pa")
    assert (found.bound is not None) is bounded
    assert ("contexts of 4,000 tokens" in found.claim) is not bounded


@pytest.mark.parametrize(
    ("reason", "us"), [("no row for the MoE key", 4 * 31), ("0 of 5 dense shapes are tuned", 14 * 31)]
)
def test_an_untuned_table_is_bounded_by_the_gemms_that_it_serves(tmp_path: Path, reason: str, us: int) -> None:
    # 32 kernels of 31 us in each 1,000 us, and 992 us of the last step: 4 expert GEMMs and 14 others (REDUCE with them)
    rec = recording(tmp_path, steps(3, every_us=31.0, dur_us=31.0))
    row = PathRow("tuned_table", "tuned tables", "declined", "", {}, "yes", "no", (reason,), (), names_from_source=True)
    plain = Finding("paths.tuned_table", "paths", "declined", "tuned tables: declined", "", (), "")
    found = with_bound(rec, fast_paths()["tuned_table"], row, [], plain)
    assert found.bound is not None
    check(found.bound)
    assert found.bound.high == pytest.approx(3 * us / 2992)
    assert found.confidence == "low"
