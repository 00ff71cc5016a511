"""A trace beside the configuration it ran with: executed, missed, declined, unexpected, off, refused at start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import kernel, launch, recording, step
from m3_setups import FP8_INDEX, GATED, M3, NESTED, setup

from m3probe.analyzers import paths, trust
from m3probe.analyzers._configured import WORST
from m3probe.model.path_report import PathRow, PathsSection
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.schema.gates import EvalRun, GateFacts, Score
from m3probe.schema.setup import Setup
from m3probe.schema.verdicts import PathVerdict

DECODE = "execute_context_0(0)_generation_8(8)"
TRITON, SCORE, TOPK = "_gqa_sparse_decode_kernel", "_decode_index_score_kernel", "_decode_topk_fused_kernel"
GLUON, TABLE = "paged_attention_decode_v2_gluon_dot_kernel", "_build_sparse_block_table_kernel"
SMALL = replace(M3, layers=3, dense_layers=1, moe_layers=2, sparse_layers=2)
"""One dense and two sparse layers, so that a step needs few kernels."""


def one(at: float, first: int, names: list[str], said: str = DECODE) -> list[dict[str, Any]]:
    events = [step(at, 90.0, said)]
    for i, name in enumerate(names):
        events += [launch(at + 4 * i, first + i), kernel(at + 4 * i + 3, 2.0, first + i, name)]
    return events


def made(tmp_path: Path, steps: list[list[str]], given: Setup, said: str = DECODE) -> Recording:
    """A recording of eager steps, told the server's configuration."""
    events = [e for i, names in enumerate(steps) for e in one(100.0 * (i + 1), 100 * (i + 1), names, said)]
    rec = recording(tmp_path, events)
    return replace(rec, meta=replace(rec.meta, setup=given))


def row(rec: Recording, name: str) -> PathRow:
    section = paths.ANALYZER.judge(rec, trust.ANALYZER.judge(rec, Answer())).section(PathsSection)
    assert section is not None
    return next(path for path in section.paths if path.id == name)


def small(version: str = "0.33.0", tp: int = 4, **more: Any) -> Setup:
    return setup(version, tp, model=SMALL, **more)


@pytest.mark.parametrize(
    ("steps", "given", "verdict", "counts"),
    [
        ([[GLUON, TABLE, GLUON]] * 2, small(env=GATED), "executed", {"steps": 2, "executed": 2}),
        ([[TRITON, TRITON]] * 2, small(env=GATED), "missed", {"steps": 2, "missed": 2}),
        ([["gemm"]] * 2, small(env=GATED), "unproven", {"steps": 2, "unproven": 2}),
        ([[TRITON, TRITON]] * 2, small(), "off", {"steps": 2, "off": 2}),
        ([[GLUON, TABLE, GLUON]] * 2, small(), "unexpected", {"steps": 2, "unexpected": 2}),
        ([[TRITON, TRITON]] * 2, small(env=GATED, tp=2), "refused_at_start", {"refused_at_start": 2}),
        ([[TRITON, TRITON]] * 2, small(env=GATED, gfx="gfx90a"), "declined", {"declined": 2}),
        ([[GLUON, TABLE, GLUON]] * 2, small(env=GATED, gfx="gfx90a"), "unexpected", {"unexpected": 2}),
    ],
)
def test_a_verdict_is_what_was_allowed_against_what_ran(
    tmp_path: Path, steps: list[list[str]], given: Setup, verdict: str, counts: dict[str, int]
) -> None:
    """The verdict table, cell by cell."""
    found = row(made(tmp_path, steps, given), "aiter_sparse_pa")
    assert found.verdict == verdict
    assert {key: found.counts[key] for key in counts} == counts


def test_one_missed_step_of_ten_is_never_executed(tmp_path: Path) -> None:
    steps = [[GLUON, TABLE, GLUON]] * 9 + [[TRITON, TRITON]]
    rec = made(tmp_path, steps, small(env=GATED))
    found = row(rec, "aiter_sparse_pa")
    assert found.verdict == "missed"
    assert found.counts["missed"] == 1
    assert found.counts["executed"] == 9
    finding = next(f for f in paths.ANALYZER.judge(rec, Answer()).findings if f.id == "paths.aiter_sparse_pa")
    assert "missed 1 of 10 steps" in finding.claim


def test_a_step_in_which_one_of_two_layers_fell_back_is_missed(tmp_path: Path) -> None:
    found = row(made(tmp_path, [[GLUON, TABLE, TRITON]], small(env=GATED)), "aiter_sparse_pa")
    assert found.verdict == "missed"
    assert "1 of 2 calls; the fallback made the others" in found.reasons[0]


def test_an_unknown_build_leaves_eligibility_unknown_and_a_seen_kernel_executed(tmp_path: Path) -> None:
    given = setup(None, model=SMALL, env=GATED)
    ran, not_ran = [[GLUON, TABLE, GLUON]], [[TRITON, TRITON]]
    assert row(made(tmp_path, ran, given), "aiter_sparse_pa").verdict == "executed"
    found = row(made(tmp_path, not_ran, given), "aiter_sparse_pa")
    assert (found.verdict, found.eligible) == ("unproven", "unknown")


def test_eager_steps_where_graphs_are_eligible_are_missed(tmp_path: Path) -> None:
    found = row(made(tmp_path, [[TRITON]] * 3, small()), "graph_replay")
    assert (found.configured, found.eligible, found.verdict) == ("yes", "yes", "missed")


def test_a_batch_above_the_largest_captured_size_is_declined_with_its_number(tmp_path: Path) -> None:
    """600 rows > 512, the default ceiling: eager by design, not missed."""
    rec = made(tmp_path, [[TRITON]], small(), said="execute_context_0(0)_generation_600(600)")
    found = row(rec, "graph_replay")
    assert found.verdict == "declined"
    assert "600 rows > 512" in " ".join(found.reasons)


def test_reuse_asked_for_and_a_scorer_in_every_layer_is_missed(tmp_path: Path) -> None:
    nested = {"--hf-overrides": {"text_config": {"use_index_cache": True, "index_topk_freq": 2}}}
    given = small(flags=nested)
    every, reuse = [[SCORE, TOPK, TRITON] * 2], [[SCORE, TOPK, TRITON, TRITON]]
    assert row(made(tmp_path, every, given), "index_reuse").verdict == "missed"
    assert row(made(tmp_path, reuse, given), "index_reuse").verdict == "executed"


def test_a_flat_override_is_off_and_says_that_it_was_ignored(tmp_path: Path) -> None:
    flat = {"--hf-overrides": {"use_index_cache": True, "index_topk_freq": 4}}
    found = row(made(tmp_path, [[SCORE, TOPK, TRITON] * 2], small("0.32.0", flags=flat)), "index_reuse")
    assert (found.configured, found.verdict) == ("no", "off")
    assert "silently ignored" in found.reasons[0]


def test_without_a_configuration_nothing_is_missed(tmp_path: Path) -> None:
    rec = made(tmp_path, [[TRITON, TRITON]], small())
    found = row(replace(rec, meta=replace(rec.meta, setup=None)), "aiter_sparse_pa")
    assert found.configured == found.eligible == "unknown"
    assert "configured and eligible are unknown: a trace does not say" in found.reasons


def test_a_drafter_without_a_kernel_of_its_own_is_off_or_unproven_never_missed(tmp_path: Path) -> None:
    draft = {"method": "eagle3", "num_speculative_tokens": 3, "attention_backend": "TRITON_ATTN"}
    rec = made(tmp_path, [[TRITON]], small(draft=draft))
    assert row(rec, "draft_attention").verdict == "unproven"
    assert row(made(tmp_path, [[TRITON]], small()), "draft_attention").verdict == "off"


def test_the_worst_verdict_of_a_roll_up_comes_first() -> None:
    assert set(WORST) == set(PathVerdict)
    assert WORST[0] is PathVerdict.MISSED
    assert WORST.index(PathVerdict.UNPROVEN) < WORST.index(PathVerdict.EXECUTED)


def test_correct_needs_every_gate_of_the_path(tmp_path: Path) -> None:
    """Graph replay has one gate, the evaluation; 0.95 of 1,319 is in the healthy band, 0.005 is ruin."""
    rec = made(tmp_path, [[TRITON]], small())
    assert row(rec, "graph_replay").correct == "unproven"
    for value, says in ((0.95, "holds"), (0.005, "broken")):
        facts = GateFacts(run=EvalRun(score=Score("gsm8k", "exact_match", value, n=1319)))
        assert row(replace(rec, meta=replace(rec.meta, gates=facts)), "graph_replay").correct == says


def test_settings_of_the_fixtures_are_what_their_names_say() -> None:
    """Guards against a renamed setting that would turn every eligible case above into off."""
    assert GATED == {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}
    assert "text_config" in NESTED["--hf-overrides"]
    assert "fp8" in FP8_INDEX["--attention-config"]
