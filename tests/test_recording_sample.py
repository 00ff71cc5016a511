"""The bundled live recording: Qwen3 MoE of two layers at TP2, eager, on a CPU. Truth is its config.json and what was asked of it.

hidden 256, 4 query and 2 KV heads of 64, 8 experts of 128, top-2, vocabulary 1,024, float32. Eight rounds of four requests:
prompts of 40, 41, ... 47 tokens, 16 tokens each.
"""

from __future__ import annotations

from functools import cache

import pytest
from recording_kit import path
from tree import ROOT

from m3probe.model.path_report import PathsSection
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.report import BytesSection, QueuesSection, Report, ShapesSection
from m3probe.pipeline import analyze, inspect, read, reading
from m3probe.present.text import report_text

SAMPLE = ROOT / "samples" / "live-cpu-moe-tp2"
PROMPT_TOKENS = 4 * sum(range(40, 48))
ROWS = PROMPT_TOKENS + 32 * 15
"""The first of 16 tokens comes out of the prompt's own step."""


@cache
def report() -> Report:
    return analyze([SAMPLE])


def test_nothing_of_it_is_lost() -> None:
    rec = read([SAMPLE])
    assert reading(rec) == ("ok", ())
    facts = inspect(rec).facts
    assert (facts["trust"], facts["processes"]) == ("complete", {"api": 1, "engine": 1, "worker": 2})
    assert facts["ended_in_order"] is True


def test_every_row_is_counted_on_each_rank() -> None:
    rec = read([SAMPLE])
    table = rec.tables["step_counts"]
    worker = table["role"] == rec.strings.find("worker")
    rows = {
        rec.files[file].rank: int(table["rows_sum"][worker & (table["file"] == file)].sum())
        for file in range(len(rec.files))
    }
    assert {rank: count for rank, count in rows.items() if rank is not None} == {0: ROWS, 1: ROWS}


def test_local_shapes_are_those_of_the_config_at_tp2() -> None:
    section = report().answer.section(ShapesSection)
    assert section is not None
    shapes = {(row.module, row.N, row.K) for row in section.shapes if row.phase == "decode"}
    assert shapes == {
        ("qkv_proj", (2 + 1 + 1) * 64, 256),
        ("o_proj", 256, 2 * 64),
        ("gate", 8, 256),
        ("experts w13", 2 * 64, 256),
        ("experts w2", 256, 64),
        ("lm_head", 512, 256),
    }
    assert all(row.M % 2 == 0 for row in section.shapes if row.op == "moe")  # top-2


def test_a_step_reduces_five_times_and_gathers_its_logits_once() -> None:
    section = report().answer.section(RepeatsSection)
    assert section is not None
    comm = {row.phase: row.per_step for row in section.repeats if row.family == "comm"}
    assert comm == {
        "decode": 6.0,
        "mixed": 6.0,
        "prefill": 6.0,
    }  # embedding; attention and experts of two layers; logits
    moe = {row.per_layer for row in section.repeats if row.family == "moe_gemm"}
    assert moe == {1.0}


def test_bytes_are_exact() -> None:
    section = report().answer.section(BytesSection)
    assert section is not None
    state = {row.what: row.bytes for row in section.bytes.state}
    per_token = 2 * 2 * 1 * 64 * 4  # layers, K and V, KV heads of a rank, head size, float32
    assert (state["main cache, per token"], state["main cache written"]) == (per_token, per_token * ROWS)
    reduced = sum(row.bytes or 0 for row in section.bytes.comm if row.what.startswith("all_reduce"))
    assert reduced == 2 * 5 * ROWS * 256 * 4  # ranks, calls a step, rows, hidden size, float32
    weights = {row.what: row.bytes for row in section.bytes.compute}
    assert weights["weights, moe"] == 2 * 8 * (128 * 256 + 256 * 64) * 4


def test_the_experts_ran_in_every_layer_of_every_step_and_no_graph_was_replayed() -> None:
    steps = inspect(read([SAMPLE])).facts["steps_counted"]
    moe, graphs = path(report(), "moe_backend"), path(report(), "graph_replay")
    assert (moe.verdict, moe.counts["calls"]) == ("executed", 2 * sum(steps.values()))
    assert (graphs.verdict, graphs.counts["calls"]) == ("off", 0)
    assert graphs.reasons == ("off: enforce_eager is on, as the server resolved it",)
    assert set(graphs.by_phase.values()) == {"off"}
    assert path(report(), "sparse_attention").verdict == "off"  # no MiniMax M3


def test_its_own_configuration_leaves_no_path_of_a_gpu_open() -> None:
    """A CPU: what needs a GPU or ROCm is off, nothing is missed, and a switch that nobody gave is not said to be asked for."""
    section = report().answer.section(PathsSection)
    assert section is not None
    assert section.recipe is not None
    assert (section.recipe.source, section.recipe.vllm, section.recipe.gpu) == (
        "what the server itself resolved", "0.32.0", "cpu",
    )  # fmt: skip
    assert {row.id: row.verdict for row in section.paths if row.verdict != "off"} == {"moe_backend": "executed"}
    assert path(report(), "custom_all_reduce").reasons == (
        "off: disable_custom_all_reduce is on, as the server resolved it",
    )
    assert path(report(), "router_gemm").reasons[0].startswith("off: the server runs on a CPU")
    assert path(report(), "moe_backend").eligible == "yes"


def test_requests_and_the_prefix_cache_are_told() -> None:
    section = report().answer.section(QueuesSection)
    assert section is not None
    assert "over 32 finished request(s)" in section.queues["prefill"]
    assert (
        f"hit 0.0% of {PROMPT_TOKENS:,} prompt tokens" in section.queues["prefix_cache"]
    )  # no block of 128 is ever full


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_figure_of_the_step_times_is_cut_by_a_narrow_page(width: int) -> None:
    text = report_text(report(), width, color=False)
    (prefill,) = (line for line in text.splitlines() if line.startswith("  prefill  NONE"))
    assert prefill.endswith(" 302,455")  # µs a step waits for the next: 302,454.6
