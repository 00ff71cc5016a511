"""Floors of a live recording without a trace: device, sizes and formats by the server's own word, steps as counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording_kit import count, read, steps
from roofline_kit import judged, on_h200, part
from served_kit import MODEL, ON_CUDA, ON_ROCM, config, server
from steps import FLASH, GEMM
from steps import steps as traced

from m3probe.model.model_config import model_config_of
from m3probe.model.recording import Recording
from m3probe.schema import records
from m3probe.schema.setup import ModelFacts, Setup

TIMES: dict[str, Any] = {"prepare_ns": 2_000_000, "launch_ns": 500_000, "wait_ns": 1_000_000, "idle_ns": 500_000}
DECODED = count("decode", 10, 8, gen_reqs_sum=80, gen_seq_len_sum=80 * 3000, **TIMES)
"""Ten steps of 8 requests with 3,000 key tokens each; 0.4 ms from step to step."""


def linear(dtype: str = "bfloat16") -> records.Module:
    return records.Module(name="o_proj", cls="RowParallelLinear", kind="linear", N=6144, K=2048, dtype=dtype)


def moe(dtype: str = "bfloat16", quant: str = "") -> records.Module:
    facts = {"experts": 128, "top_k": 4, "ep_size": 1}
    return records.Module("experts", "FusedMoE", "moe", 3, 6144, 6144, dtype, quant=quant, facts=facts)


def cache(kind: str, dtype: str) -> records.KvLayer:
    return records.KvLayer(layer=f"layers.3.{kind}", kind=kind, spec="", dtype=dtype)


def live(tmp_path: Path, *more: object, on: dict[str, str] | None = None) -> Recording:
    return read(tmp_path, server(on or ON_CUDA), config(), *more)


def test_a_counted_step_beside_its_floor(tmp_path: Path) -> None:
    caches = (cache("main", "bfloat16"), cache("index", "bfloat16"))
    found, findings = judged(live(tmp_path, linear(), moe(), *caches, steps(DECODED)))
    row = found.decode
    assert row is not None
    assert (found.device, row.steps, row.rows, row.requests, row.context) == ("H200", 10, 8, 8, 3000)
    assert (row.step_ns, row.busy_ns) == (400_000, None)
    by_name = {part.what: part for part in row.parts}
    # one KV head of 128, BF16: 512 B a token; three dense layers read all of it, six sparse ones 2,048
    queries = 8 * 16 * 128 * 2 * 2
    assert by_name["attend_dense"].bytes == 3 * (8 * 3000 * 512 + queries)
    assert by_name["attend_sparse"].bytes == 6 * (8 * 2048 * 512 + queries)
    assert by_name["o_proj"].bytes == 9 * (6144 * 2048 * 2 + 8 * 2048 * 2 + 8 * 6144 * 2)
    assert "all_reduce" not in by_name
    assert row.left_out == {}
    finding = findings["roofline.decode_floor"]
    assert finding.evidence[0].table == "step_counts"
    assert finding.verdict == "contradiction"  # 0.4 ms is less than the vocabulary alone needs
    assert "0.400 ms; its" in finding.claim


def test_recorded_routing_says_how_many_experts_are_read(tmp_path: Path) -> None:
    """Every row of this layer chose the same four: they are read once, however many rows there are."""
    routing = records.Routing(layer="layers.3", steps=1, rows=100, top_k=4, experts=(100,) * 4 + (0,) * 124)
    found, _ = judged(live(tmp_path, linear(), moe(), routing, steps(DECODED)))
    assert found.decode is not None
    (w2,) = (part for part in found.decode.parts if part.what == "moe_w2")
    assert w2.bytes == 6 * (4 * 6144 * 3072 * 2 + 8 * 4 * 3072 * 2 + 8 * 6144 * 2)
    assert w2.note == "4.0 experts hit in each layer; experts by recorded routing"


def test_a_quantisation_method_tells_what_bytes_of_a_packed_weight_are(tmp_path: Path) -> None:
    quantised = moe("uint8", "ModelOptMxFp8FusedMoE")
    found, _ = judged(live(tmp_path, linear(), quantised, steps(DECODED)))
    assert found.decode is not None
    (w13,) = (part for part in found.decode.parts if part.what == "moe_w13")
    hit = 128 * (1 - (31 / 32) ** 8)
    moved = hit * 6144 * 6144 * 33 / 32 + 8 * 6144 * 33 / 32 + 32 * 6144 * 2
    assert w13.bytes == pytest.approx(6 * moved)
    assert "no mxfp8 peak of H200" in w13.note


def test_engines_that_share_the_experts_share_their_columns(tmp_path: Path) -> None:
    """Two engines without expert parallelism: each rank has half of every expert's columns, and the rows of both."""
    read_all = server(dp=2, world_size=2)
    found, _ = judged(
        read(tmp_path, read_all, config(parallel={"data_parallel_size": 2}), linear(), moe(), steps(DECODED))
    )
    assert found.decode is not None
    (w2,) = (part for part in found.decode.parts if part.what == "moe_w2")
    hit = 128 * (1 - (31 / 32) ** 16)
    assert w2.bytes == pytest.approx(6 * (hit * 6144 * 1536 * 2 + 16 * 4 * 1536 * 2 + 16 * 6144 * 2))
    assert "each of 2 data-parallel engines is taken to compute as many rows: they share the experts" in found.unknown


def test_stages_of_a_pipeline_have_no_floor_of_a_step(tmp_path: Path) -> None:
    """Nine layers over two stages: neither holds all of them."""
    found, findings = judged(
        read(tmp_path, server(pp=2), config(parallel={"pipeline_parallel_size": 2}), linear(), moe(), steps(DECODED))
    )
    assert found.decode is None
    assert any("pipeline stages" in text for text in found.unknown)
    assert "roofline.decode_floor" not in findings


def test_packed_weights_of_an_unknown_method_are_left_out(tmp_path: Path) -> None:
    found, _ = judged(live(tmp_path, linear(), moe("uint8", "SomeMethod"), steps(DECODED)))
    assert found.decode is not None
    assert found.decode.left_out["moe_w13"] == "the format of its weights is not known"


def test_on_rocm_the_name_tells_which_of_the_gfx950_it_is(tmp_path: Path) -> None:
    assert judged(live(tmp_path, linear(), steps(DECODED), on=ON_ROCM))[0].device == "MI355X"


def test_a_gfx_target_alone_is_no_device(tmp_path: Path) -> None:
    found, _ = judged(live(tmp_path, linear(), steps(DECODED), on=ON_ROCM | {"device_name": "gfx950"}))
    assert (found.device, found.decode) == (None, None)


def test_without_a_counted_step_there_is_no_floor_of_one(tmp_path: Path) -> None:
    found, findings = judged(live(tmp_path, linear(), moe()))
    assert found.decode is None
    assert "no decode step has both a known time and a known number of rows" in found.unknown
    assert not findings


def test_a_configuration_of_another_model_is_none(tmp_path: Path) -> None:
    rec = read(tmp_path, server(), config({"model_type": "other"}), linear(), steps(DECODED))
    found, _ = judged(rec)
    assert found.decode is None
    assert any("the model is not known" in text for text in found.unknown)


def test_a_kept_back_number_of_heads_is_taken_from_the_model_map(tmp_path: Path) -> None:
    """Guests hide values whose names look like that of a secret: num_key_value_heads has a key in it."""
    text = MODEL | {"num_key_value_heads": "(set)"}
    heads = replace_facts(linear(), kv_heads_all=1)
    caches = (cache("main", "bfloat16"), cache("index", "bfloat16"))
    found, _ = judged(read(tmp_path, server(), config(text), heads, *caches, steps(DECODED)))
    assert found.decode is not None
    assert "attend_dense" in {part.what for part in found.decode.parts}
    untold, _ = judged(read(tmp_path, server(), config(text), linear(), *caches, steps(DECODED)))
    assert untold.decode is None


def replace_facts(module: records.Module, **facts: Any) -> records.Module:
    return records.Module(**{name: getattr(module, name) for name in module.__struct_fields__} | {"facts": facts})


def test_a_dense_decoder_that_the_user_named(tmp_path: Path) -> None:
    """Not MiniMax M3: two layers of Llama's sizes, by --model-config and --tp; one kernel of each GEMM 100 us."""
    sizes = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32_000,
    }  # fmt: skip
    layer = [GEMM, FLASH, GEMM, GEMM, GEMM]
    rec = on_h200(tmp_path, traced(2, [*layer, *layer, GEMM], every_us=60.0, dur_us=50.0))
    setup = Setup(model=ModelFacts(linear_quant="bf16"))
    rec = replace(rec, meta=replace(rec.meta, model=model_config_of(sizes, ""), tp=1, setup=setup))
    found, _ = judged(rec)
    row = part(found, "gemm")
    weights = 2 * (6144 * 4096 + 4096 * 4096 + 3 * 4096 * 14336) + 32_000 * 4096
    rows = 2 * 2 * (2 * (4096 + 6144 + 4096 + 4096 + 4096 + 28672 + 14336 + 4096) + 4096 + 32_000)
    assert row.bytes == weights * 2 + rows
    assert row.observed_ns == 9 * 50_000
    assert found.control_plane is None
