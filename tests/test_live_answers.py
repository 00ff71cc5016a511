"""Shapes, repeats and bytes of a live recording: products of the model map and counted steps, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from recording_kit import SECOND, batch, count, experts, judged, linear, replayed, steps, write
from tree import ROOT

from m3probe.model.live_report import LiveSection
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.report import BytesSection, PlaneRow, QueuesSection, Report, ShapesSection, TrustSection
from m3probe.pipeline import analyze
from m3probe.present.json import report_json
from m3probe.present.text import report_text
from m3probe.schema import records
from m3probe.schema.roles import Role, Stage


def shapes(found: Report) -> set[tuple[str, str, int, int, int, int]]:
    section = found.answer.section(ShapesSection)
    assert section is not None
    return {(row.phase, row.module, row.M, row.N, row.K, row.count) for row in section.shapes}


def planes(found: Report, plane: str) -> dict[str, PlaneRow]:
    section = found.answer.section(BytesSection)
    assert section is not None
    return {f"{row.what}|{row.layout}": row for row in getattr(section.bytes, plane)}


def test_m_is_the_batch_of_a_replayed_step_and_the_rows_of_an_eager_one(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        linear("model.layers.0.qkv_proj", 768, 512),
        linear("model.layers.1.qkv_proj", 768, 512),
        batch(0, 8),
        steps(replayed(0, steps=100, rows=5, padded=8), count("prefill", 3, 64)),
        steps(replayed(0, steps=50, rows=6, padded=8), second=2),
    )
    # two layers: 2 x (100 + 50) at the padded 8 rows, 2 x 3 at the real 64
    assert shapes(found) == {("decode", "qkv_proj", 8, 768, 512, 300), ("prefill", "qkv_proj", 64, 768, 512, 6)}


def test_experts_multiply_top_k_rows_for_each_row(tmp_path: Path) -> None:
    found = judged(tmp_path, experts(1024, 512, (512, 512), number=8, top_k=2), steps(count(steps=10, rows=4)))
    assert shapes(found) == {("decode", "experts w13", 8, 1024, 512, 10), ("decode", "experts w2", 8, 512, 512, 10)}


def test_a_fused_shared_expert_is_one_more_row(tmp_path: Path) -> None:
    module = experts(1024, 512, (512, 512), number=8, top_k=2, fused_shared=1, top_k_with_shared=3)
    found = judged(tmp_path, module, steps(count(steps=10, rows=4)))
    assert {row[2] for row in shapes(found)} == {12}


def test_experts_spread_over_ranks_have_no_m_before_routing_tells_it(tmp_path: Path) -> None:
    module = experts(1024, 512, (512, 512), number=8, top_k=2, ep_size=2)
    assert shapes(judged(tmp_path, module, steps(count(steps=10, rows=4)))) == set()


def test_eager_steps_of_several_sizes_counted_together_give_no_m(tmp_path: Path) -> None:
    mixed = count("mixed", steps=2, rows=50, rows_sum=130, padded_rows=50)
    assert shapes(judged(tmp_path, linear("l.o_proj", 64, 64), steps(mixed))) == set()


def test_the_head_multiplies_sampled_rows_alone(tmp_path: Path) -> None:
    head = records.Module(name="lm_head", cls="ParallelLMHead", kind="lm_head", N=1000, K=64, dtype="bfloat16")
    found = judged(
        tmp_path, head, batch(0, 8), steps(count(steps=7, rows=4), count("prefill", 2, 64), replayed(0, 9, 5, 8))
    )
    assert shapes(found) == {("decode", "lm_head", 4, 1000, 64, 7)}


def test_a_draft_models_modules_are_not_the_targets(tmp_path: Path) -> None:
    found = judged(tmp_path, linear("draft.qkv", 64, 64, draft=True), steps(count(steps=5)))
    assert shapes(found) == set()


@pytest.mark.parametrize(("n", "predicted"), [(2304, True), (2305, False)])
def test_shapes_are_held_against_the_models_own(tmp_path: Path, n: int, predicted: bool) -> None:
    # MiniMax M3 at TP4: qkv and index heads of a sparse layer, 16 + 2 x 1 heads of 128 and one shared key
    config = records.Config(
        sections={}, model={"model_type": "minimax_m3_text", "architectures": ["MiniMaxM3SparseForCausalLM"]}
    )
    found = judged(tmp_path, config, linear("model.layers.0.self_attn.qkv_proj", n, 6144), steps(count()), tp=4)
    section = found.answer.section(ShapesSection)
    assert section is not None
    assert [row.predicted for row in section.shapes] == [predicted]


def test_calls_of_a_step_are_its_modules_and_its_collectives(tmp_path: Path) -> None:
    reduce = records.Collective(
        op="all_reduce", group="tp", payload_bytes=4096, backend="shm", phase="decode", count=50
    )
    inside = records.Collective(
        op="all_reduce", group="tp", payload_bytes=8192, backend="shm", descriptor=0, stage=Stage.CAPTURE, count=5
    )
    found = judged(
        tmp_path,
        *(linear(f"model.layers.{n}.qkv", 64, 64, layer=n) for n in (0, 1)),
        linear("model.layers.1.o", 64, 64, layer=1),
        linear("projector", 64, 64, layer=-1),
        batch(0, 8),
        reduce,
        inside,
        steps(count(steps=10, rows=4), replayed(0, steps=30, rows=5, padded=8)),
    )
    section = found.answer.section(RepeatsSection)
    assert section is not None
    rows = {row.family: (row.per_step, row.per_layer, row.evidence) for row in section.repeats}
    # 50 seen + 5 x 30 replays over 40 steps; three modules in two layers, and one outside of them
    assert rows == {"gemm": (4.0, 1.5, "ledger"), "comm": (5.0, None, "calls")}
    covered = {row.graph_mode: (row.steps, row.step_share, row.row_share) for row in section.graph_coverage}
    assert covered == {"NONE": (10, 0.25, 40 / 190), "FULL": (30, 0.75, 150 / 190)}
    # payloads: 50 x 4,096 + 150 x 8,192
    assert planes(found, "comm")["all_reduce by shm|group tp, decode"].bytes == 1_433_600


def test_a_collective_of_unknown_payload_has_no_bytes(tmp_path: Path) -> None:
    known = records.Collective(
        op="all_gather", group="tp", payload_bytes=-1, payload_sum_bytes=700, phase="decode", count=3
    )
    untold = records.Collective(op="reduce_scatter", group="tp", payload_bytes=-1, phase="decode", count=2)
    rows = planes(judged(tmp_path, known, untold, steps(count())), "comm")
    assert rows["all_gather by an unseen backend|group tp, decode"].bytes == 700
    assert rows["reduce_scatter by an unseen backend|group tp, decode"].bytes is None


def test_weights_and_caches_are_one_ranks(tmp_path: Path) -> None:
    cache = [
        records.KvLayer(
            layer=f"l{n}", kind="main", block_tokens=16, page_bytes=65_536, real_page_bytes=65_536, dtype="bfloat16"
        )
        for n in (0, 1)
    ]
    held = [
        linear("a.qkv", 100, 10),
        *cache,
        records.KvPool(blocks=500, bytes=65_536_000),
        steps(count(steps=10, rows=4)),
    ]
    for rank in (0, 1):
        write(tmp_path / f"w{rank}.m3p", held, rank=rank, world=2)
    found = analyze([tmp_path])
    assert planes(found, "compute")["weights, linear|per rank, read once a step"].bytes == 2000
    state = planes(found, "state")
    # 65,536 / 16 = 4,096 bytes a token and layer; 40 rows were written
    assert state["main cache, per token|2 layers of one rank: 8,192 B"].bytes == 8192
    assert next(row for what, row in state.items() if what.startswith("main cache written")).bytes == 40 * 8192
    assert (state["cache pool|blocks of one rank"].count, state["cache pool|blocks of one rank"].bytes) == (
        500,
        65_536_000,
    )


def test_a_step_reads_no_more_experts_than_its_rows_can_choose(tmp_path: Path) -> None:
    module = experts(10, 10, (10, 5), number=8, top_k=2)  # 8 x 150 x 2 = 2,400 bytes
    found = judged(tmp_path, module, steps(count(steps=10, rows=3), count("prefill", 2, 100)))
    rows = {row.what: row.bytes for row in planes(found, "compute").values() if row.what.startswith("experts read")}
    assert rows == {"experts read, decode, at most": 1800, "experts read, prefill, at most": 2400}  # 6 of 8; all


def test_the_time_of_a_step_is_split_by_who_has_it(tmp_path: Path) -> None:
    worker = count(steps=4, rows=2, prepare_ns=400, launch_ns=800, wait_ns=1200, idle_ns=1600)
    engine = count(steps=4, rows=2, role=Role.ENGINE, mode="", schedule_ns=80, output_ns=40)
    write(tmp_path / "w.m3p", [steps(worker), steps(count(steps=6, rows=2), second=2)])
    write(tmp_path / "e.m3p", [steps(engine)], role=Role.ENGINE)
    section = analyze([tmp_path]).answer.section(LiveSection)
    assert section is not None
    (row,) = section.step_times
    # times were taken in the first second alone: 4 of 10 steps
    assert (row.steps, row.rows, row.prepare_ns, row.launch_ns, row.wait_ns, row.idle_ns) == (10, 2, 100, 200, 300, 400)
    assert (row.schedule_ns, row.output_ns) == (20, 10)


def test_queues_tell_range_and_trend_and_the_prefix_caches_gap(tmp_path: Path) -> None:
    samples = [
        records.Sample(mono_ns=n * SECOND, values={"num_requests_waiting": 2.0 * n}, source="scheduler")
        for n in range(1, 6)
    ]
    cache = records.PrefixCache(
        mono_ns=SECOND, queries=1000, hits=250, infinite_hits=400, lost_rounding=50, lost_eviction=100
    )
    write(tmp_path / "a.m3p", [*samples, cache], role=Role.API)
    section = analyze([tmp_path]).answer.section(QueuesSection)
    assert section is not None
    assert "waiting 2 to 10 requests in 5 sample(s), +2.00 a second" in section.queues["admission"]
    assert "hit 25.0% of 1,000" in section.queues["prefix_cache"]
    assert "40.0% (lost to rounding 50, eviction 100 tokens)" in section.queues["prefix_cache"]
    assert section.queues["front_end"].startswith("not measured")


def scraped(second: int, **values: float) -> records.Sample:
    named = {f"vllm:{name}": value for name, value in values.items()}
    return records.Sample(mono_ns=second * SECOND, values=named, source="metrics", labels={"engine": "0"})


def test_without_guests_queues_are_as_metrics_tell_them_and_the_rest_is_unusable(tmp_path: Path) -> None:
    held = [
        scraped(1, num_requests_waiting=1, prefix_cache_queries_total=100, prefix_cache_hits_total=50),
        scraped(2, num_requests_waiting=9, prefix_cache_queries_total=500, prefix_cache_hits_total=150),
    ]
    write(tmp_path / "host.m3p", held, role=Role.HOST)
    found = analyze([tmp_path])
    trust, queues = found.answer.section(TrustSection), found.answer.section(QueuesSection)
    assert trust is not None and queues is not None
    assert (trust.trust.verdict, [reason.word for reason in trust.trust.reasons]) == ("unusable", ["no_worker"])
    assert queues.queues["admission"] == "waiting 1 to 9 requests in 2 sample(s)"
    assert queues.queues["prefix_cache"] == "hit 25.0% of 400 prompt tokens"


def test_the_queues_of_two_engines_are_summed(tmp_path: Path) -> None:
    for engine, waiting in ((0, 3.0), (1, 40.0)):
        sample = records.Sample(
            mono_ns=SECOND, values={"num_requests_waiting": waiting}, labels={"engine": str(engine)}
        )
        write(tmp_path / f"a{engine}.m3p", [sample], role=Role.API)
    section = analyze([tmp_path]).answer.section(QueuesSection)
    assert section is not None
    assert section.queues["admission"] == "waiting 43 to 43 requests over 2 engines in 1 sample(s)"


def test_a_live_report_fits_the_schema_and_has_no_row_of_dashes(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        linear("a.qkv", 64, 64),
        steps(count(steps=5, rows=2, prepare_ns=5, launch_ns=5, wait_ns=5, idle_ns=5)),
    )
    document: dict[str, Any] = json.loads(report_json(found))
    jsonschema.validate(document, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    assert document["live"]["step_times"][0]["phase"] == "decode"
    text = report_text(found, 100, color=False)
    assert "Recorded live" in text
    assert "decode costs" not in text
