"""The model map of a real vLLM: tiny models from their config by hand, and MiniMax M3's published sizes at TP 2, 4 and 8."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from guest_kit import only
from live_llm import outcome, recorded

from m3probe.gates import gates
from m3probe.schema import records
from m3probe.schema.gates import GateFacts

HIDDEN, INNER, MOE, EXPERTS, VOCAB, HEADS, KV, HEAD = 256, 384, 128, 8, 512, 4, 2, 64
ATTENTION = {"qkv_proj": ((HEADS + 2 * KV) * HEAD, HIDDEN), "o_proj": (HIDDEN, HEADS * HEAD)}
F32 = 4

# Facts of MiniMax M3 by TP, worked out from its sizes: 64 query heads, 4 KV heads, 4 index heads of 128 and one index key,
# dense MLP 12,288, experts and shared expert 3,072, vocabulary 200,064.
# TP: (qkv dense, qkv sparse, o_proj K, gate_up dense, down dense K, gate_up shared, w13, w2 K, vocabulary)
M3 = {
    2: (4608, 4992, 4096, 12288, 6144, 3072, 3072, 1536, 100032),
    4: (2304, 2560, 2048, 6144, 3072, 1536, 1536, 768, 50016),
    8: (1280, 1536, 1024, 3072, 1536, 768, 768, 384, 25008),
}


def tiny(folder: Path, *arguments: str) -> list[records.AnyRecord]:
    """What a worker of a tiny model wrote."""
    assert outcome("tiny_llm.py", folder, *arguments)["failed"] == {}
    return recorded(folder)


def sizes(kept: list[records.AnyRecord], kind: str) -> dict[str, Counter[tuple[int, int]]]:
    """Last part of the name -> how many modules have each (N, K)."""
    found: dict[str, Counter[tuple[int, int]]] = {}
    for module in only(records.Module, kept):
        if module.kind == kind:  # type: ignore[union-attr]
            found.setdefault(module.name.rpartition(".")[2], Counter())[module.N, module.K] += 1  # type: ignore[union-attr]
    return found


def fused_gate(kept: list[records.AnyRecord]) -> tuple[GateFacts, str, str]:
    facts = next(gate.facts for gate in only(records.Gate, kept) if gate.seam == "after load")  # type: ignore[union-attr]
    verdict = gates()["fused_params"].check(facts)
    return facts, str(verdict.state), verdict.text


def weights_by_hand(mlp: int) -> int:
    """Bytes of all parameters of a tiny model in float32."""
    attention = sum(n * k for n, k in ATTENTION.values())
    return F32 * (2 * VOCAB * HIDDEN + 2 * (attention + mlp + 2 * HIDDEN) + HIDDEN)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> list[records.AnyRecord]:
    """A checkpoint that lacks two slices; vLLM loads it without a word."""
    without = ["model.layers.1.self_attn.k_proj.weight", "model.layers.0.mlp.up_proj.weight"]
    return tiny(tmp_path_factory.mktemp("llama"), "llama", *(w for name in without for w in ("--without", name)))


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory: pytest.TempPathFactory) -> list[records.AnyRecord]:
    return tiny(tmp_path_factory.mktemp("mixtral"), "mixtral", "--dummy")


def test_a_dense_model_s_layers_have_the_sizes_of_its_config(llama: list[records.AnyRecord]) -> None:
    wanted = ATTENTION | {"gate_up_proj": (2 * INNER, HIDDEN), "down_proj": (HIDDEN, INNER)}
    assert sizes(llama, "linear") == {name: Counter({size: 2}) for name, size in wanted.items()}
    assert sizes(llama, "norm") == {
        "input_layernorm": Counter({(HIDDEN, -1): 2}),
        "post_attention_layernorm": Counter({(HIDDEN, -1): 2}),
        "norm": Counter({(HIDDEN, -1): 1}),
    }
    assert sizes(llama, "embedding") == {"embed_tokens": Counter({(VOCAB, HIDDEN): 1})}
    assert sizes(llama, "lm_head") == {"lm_head": Counter({(VOCAB, HIDDEN): 1})}


def test_a_dense_model_s_bytes_are_its_parameters(llama: list[records.AnyRecord]) -> None:
    held = [m for m in only(records.Module, llama) if m.kind not in ("other", "attention")]  # type: ignore[union-attr]
    assert sum(m.weight_bytes for m in held) == weights_by_hand(3 * INNER * HIDDEN)  # type: ignore[union-attr]


def test_a_mixture_s_experts_have_the_sizes_of_its_config(mixtral: list[records.AnyRecord]) -> None:
    (moe, _other) = (m for m in only(records.Module, mixtral) if m.kind == "moe")  # type: ignore[union-attr]
    assert isinstance(moe, records.Module)
    assert (moe.N, moe.K, moe.facts["w2"]) == (2 * INNER, HIDDEN, [HIDDEN, INNER])
    assert (moe.facts["experts"], moe.facts["local_experts"], moe.facts["top_k"]) == (EXPERTS, EXPERTS, 2)
    assert moe.weight_bytes == EXPERTS * 3 * INNER * HIDDEN * F32
    assert sizes(mixtral, "router") == {"gate": Counter({(EXPERTS, HIDDEN): 2})}
    assert sizes(mixtral, "linear") == {name: Counter({size: 2}) for name, size in ATTENTION.items()}


def test_caches_have_the_bytes_of_the_config_and_one_allocation(llama: list[records.AnyRecord]) -> None:
    layers, (pool,) = only(records.KvLayer, llama), only(records.KvPool, llama)
    assert [layer.layer for layer in layers] == [f"model.layers.{n}.self_attn.attn" for n in range(2)]  # type: ignore[union-attr]
    for layer in layers:
        assert isinstance(layer, records.KvLayer)
        assert (layer.kind, layer.kv_heads, layer.head_size, layer.dtype) == ("main", KV, HEAD, "float32")
        assert layer.page_bytes == layer.real_page_bytes == layer.block_tokens * 2 * KV * HEAD * F32
        assert pool.bytes == pool.blocks * 2 * layer.page_bytes == 1 << 30  # type: ignore[union-attr]


def test_a_slice_that_the_checkpoint_lacks_is_caught(llama: list[records.AnyRecord]) -> None:
    facts, state, text = fused_gate(llama)
    missing = {p.name: set(p.declared) - set(p.loaded) for p in facts.fused or ()}
    assert missing == {
        "model.layers.0.self_attn.qkv_proj.weight": set(),
        "model.layers.1.self_attn.qkv_proj.weight": {"k"},
        "model.layers.0.mlp.gate_up_proj.weight": {"1"},
        "model.layers.1.mlp.gate_up_proj.weight": set(),
    }
    assert state == "broken"
    assert "1 of 2 slices were loaded" in text


def test_without_a_checkpoint_nothing_is_said_of_its_slices(mixtral: list[records.AnyRecord]) -> None:
    facts, state, _text = fused_gate(mixtral)
    assert facts.fused is None
    assert state == "unproven"


def test_other_facts_for_gates_are_those_of_the_config(mixtral: list[records.AnyRecord]) -> None:
    facts = fused_gate(mixtral)[0]
    assert (facts.experts, facts.masks, facts.activation, facts.blocks, facts.topk) == (EXPERTS, None, None, None, None)
    ((first, second),) = facts.groups or ()
    assert [(g.layer, g.q_heads, g.draft) for g in (first, second)] == [
        (f"model.layers.{n}.self_attn.attn", HEADS, False) for n in range(2)
    ]
    assert first.kv_spec == f"FullAttentionSpec {KV} x {HEAD} float32"
    assert facts.kv is not None
    assert (facts.kv.writer, facts.kv.reader) == ("float32", "float32")
    assert [(w.workers, w.ranks) for w in facts.workers or ()] == [(1, 1)]


@pytest.fixture(scope="module")
def m3(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = outcome("m3_map.py", tmp_path_factory.mktemp("m3"), "2", "4", "8")
    return found


@pytest.mark.parametrize("tp", M3)
def test_m3_on_amd_has_the_published_model_s_local_shapes(m3: dict[str, list[dict[str, Any]]], tp: int) -> None:
    dense, sparse, o, gate_up, down, shared, w13, w2, vocabulary = M3[tp]
    seen: Counter[tuple[str, str, int, int]] = Counter()
    for module in m3[str(tp)]:
        if module["kind"] in ("linear", "moe", "router", "embedding", "lm_head"):
            seen[module["kind"], module["name"].rpartition(".")[2], module["N"], module["K"]] += 1
    assert seen == {
        ("linear", "qkv_proj", dense, 6144): 3,
        ("linear", "qkv_proj", sparse, 6144): 57,
        ("linear", "o_proj", 6144, o): 60,
        ("linear", "gate_up_proj", gate_up, 6144): 3,
        ("linear", "down_proj", 6144, down): 3,
        ("linear", "gate_up_proj", shared, 6144): 57,
        ("linear", "down_proj", 6144, w2): 57,
        ("moe", "experts", w13, 6144): 57,
        ("router", "gate", 128, 6144): 57,
        ("embedding", "embed_tokens", vocabulary, 6144): 1,
        ("lm_head", "lm_head", vocabulary, 6144): 1,
    }


@pytest.mark.parametrize("tp", M3)
def test_m3_s_heads_experts_and_activation_are_the_published_ones(m3: dict[str, list[dict[str, Any]]], tp: int) -> None:
    sparse = [m for m in m3[str(tp)] if m["kind"] == "attention" and "indexer" in m["facts"]]
    assert len(sparse) == 57
    for module in sparse:
        facts = module["facts"]
        assert (facts["heads"], facts["kv_heads"], facts["index_heads"]) == (64 // tp, max(4 // tp, 1), max(4 // tp, 1))
        assert (module["kernel"], facts["flags"]["skip_index_topk"]) == ("MiniMaxM3SparseTritonImpl", False)
    for module in (m for m in m3[str(tp)] if m["kind"] == "moe"):
        facts = module["facts"]
        assert (facts["experts"], facts["local_experts"], facts["top_k"], facts["scoring"]) == (128, 128, 4, "sigmoid")
        assert (facts["alpha"], facts["beta"], facts["limit"], facts["bias"]) == (1.702, 1.0, 7.0, True)
        assert facts["w2"] == [6144, M3[tp][7]]
        assert module["weight_bytes"] == 128 * 3 * (3072 // tp) * 6144 * 2  # bfloat16
        assert facts["flags"]["is_fused_shared_expert_enabled"] is False


def test_kv_heads_that_several_ranks_hold_are_told_of_m3(m3: dict[str, list[dict[str, Any]]]) -> None:
    for tp, replicas in (("2", 1), ("4", 1), ("8", 2)):
        layers = [m for m in m3[tp] if m["name"].endswith("qkv_proj")]
        assert {m["facts"]["kv_replicas"] for m in layers} == {replicas}
