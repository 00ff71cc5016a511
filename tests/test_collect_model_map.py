"""The model map on stand-ins for vLLM's modules: local N and K, kinds, bytes by storage, drafts, caches, configuration."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from modules_kit import (
    Attention,
    ColumnParallelLinear,
    FlashBackend,
    FlashImpl,
    GateLinear,
    List,
    MergedColumnParallelLinear,
    MiniMaxM3IndexerCache,
    Module,
    MoERunner,
    ParallelLMHead,
    QKVParallelLinear,
    ReplicatedLinear,
    RMSNorm,
    RowParallelLinear,
    Tensor,
    VocabParallelEmbedding,
    linear,
    routed,
    worker,
)

from m3probe.collectors._kv_layers import Caches
from m3probe.collectors._modules import Walk, layer_of
from m3probe.collectors._modules_config import config
from m3probe.collectors._modules_look import models
from m3probe.collectors._modules_moe import fused_shared
from m3probe.collectors._probe import Probe
from m3probe.collectors.model_map import ModelMap
from m3probe.schema import records
from m3probe.schema.roles import Level, Role


def mapped(model: Any, *, draft: bool = False) -> dict[str, records.Module]:
    return {record.name: record for record in Walk().modules(model, draft=draft)}


def one(module: Module, name: str = "it") -> records.Module:
    return mapped(Module(**{name: module}))[name]


def attention(**more: Any) -> Attention:
    values = {
        "num_heads": 8,
        "num_kv_heads": 1,
        "head_size": 128,
        "kv_cache_dtype": "fp8",
        "attn_backend": FlashBackend,
    }
    return Attention(**values | {"impl": FlashImpl(num_heads=8)} | more)


def test_kv_heads_that_two_ranks_hold_are_in_n_and_are_told() -> None:
    # M3 at TP8: 64 / 8 = 8 query heads, 4 KV heads for 8 ranks: one each, held twice
    layer = linear(
        QKVParallelLinear,
        [1024, 128, 128],
        6144,
        (10240, 6144),
        num_heads=8,
        num_kv_heads=1,
        num_kv_head_replicas=2,
        head_size=128,
        tp_size=8,
    )
    found = one(layer)
    assert (found.kind, found.N, found.K) == ("linear", 1280, 6144)
    assert (found.facts["parts"], found.facts["kv_replicas"], found.facts["tp_size"]) == ([1024, 128, 128], 2, 8)
    assert found.weight_bytes == 1280 * 6144 * 2


def test_row_parallel_layers_have_the_whole_n_and_this_rank_s_k() -> None:
    found = one(linear(RowParallelLinear, [6144], 2048, (6144, 8192), reduce_results=True))
    assert (found.N, found.K, found.facts["global"], found.facts["reduce_results"]) == (6144, 2048, [6144, 8192], True)


def test_a_packed_weight_has_logical_n_and_k_and_its_own_dims_are_told() -> None:
    packed = Tensor(1536, 3072, dtype="uint8")  # MXFP4: two values a byte
    scales = Tensor(1536, 192, dtype="uint8")
    found = one(linear(ColumnParallelLinear, [1536], 6144, (12288, 6144), weight=packed, weight_scale=scales))
    assert (found.N, found.K, found.dtype, found.facts["stored"]) == (1536, 6144, "uint8", [1536, 3072])
    assert found.weight_bytes == 1536 * 3072 + 1536 * 192


def test_a_weight_that_a_cpu_library_took_away_is_counted_by_its_dims() -> None:
    found = one(linear(ColumnParallelLinear, [512], 256, (512, 256), weight=Tensor(0), params_dtype="torch.float32"))
    assert (found.dtype, found.weight_bytes) == ("float32", 512 * 256 * 4)
    assert found.facts["bytes_from"] == "N x K x dtype"


def test_an_embedding_is_this_rank_s_share_of_the_padded_vocabulary() -> None:
    sizes = {"num_embeddings_per_partition": 50016, "embedding_dim": 64, "org_vocab_size": 200064}
    weight = Tensor(50016, 64)
    model = Module(embed=VocabParallelEmbedding(weight=weight, **sizes), head=ParallelLMHead(weight=weight, **sizes))
    found = mapped(model)
    assert [(m.kind, m.N, m.K) for m in found.values()] == [("embedding", 50016, 64), ("lm_head", 50016, 64)]
    assert (found["embed"].weight_bytes, found["head"].weight_bytes) == (50016 * 64 * 2, 0)
    assert found["head"].facts["shared_with"] == "embed"


def test_experts_are_one_record_with_the_sizes_of_one_expert() -> None:
    held = routed(swiglu_alpha=1.702, swiglu_limit=7.0, scoring_func="sigmoid", renormalize=True)
    block = Module(gate=linear(ReplicatedLinear, [8], 256, (8, 256)), experts=MoERunner(routed_experts=held))
    found = mapped(List(block))
    assert sorted(found) == ["0.experts", "0.gate"]
    moe = found["0.experts"]
    assert (found["0.gate"].kind, moe.kind, moe.N, moe.K, moe.facts["w2"]) == ("router", "moe", 256, 256, [256, 128])
    assert (moe.facts["experts"], moe.facts["top_k"], moe.facts["alpha"], moe.facts["limit"]) == (8, 2, 1.702, 7.0)
    assert moe.weight_bytes == 8 * (256 * 256 + 256 * 128) * 2


def test_a_gate_is_a_router_and_a_shared_expert_s_gate_is_not() -> None:
    held = MoERunner(routed_experts=routed(), gate=linear(GateLinear, [8], 256, (8, 256)))
    block = Module(experts=held, shared_expert_gate=linear(ReplicatedLinear, [1], 256, (1, 256)))
    kinds = {name: module.kind for name, module in mapped(block).items()}
    assert kinds == {"experts": "moe", "experts.gate": "router", "shared_expert_gate": "linear"}


def test_a_shared_expert_among_the_routed_ones_is_seen_in_the_weights() -> None:
    assert fused_shared(routed(slots=9)) == 1
    moe = one(MoERunner(routed_experts=routed(slots=9)))
    assert (moe.facts["experts"], moe.facts["fused_shared"], moe.facts["top_k_with_shared"]) == (8, 1, 3)
    placed = routed(expert_map_manager=SimpleNamespace(num_fused_shared_experts=0))
    assert fused_shared(placed) == 0
    assert fused_shared(routed()) == -1


def test_padding_of_an_expert_is_told_apart_from_what_the_model_has() -> None:
    assert one(MoERunner(routed_experts=routed(unpadded=120))).facts["padding"] == {"intermediate": 8}
    assert "padding" not in one(MoERunner(routed_experts=routed())).facts


def test_decisions_of_the_block_around_the_experts_go_with_them() -> None:
    block = Module(
        experts=MoERunner(routed_experts=routed()), is_fused_shared_expert_enabled=True, use_aiter_moe_fse=False
    )
    flags = mapped(List(block))["0.experts"].facts["flags"]
    assert flags == {"is_fused_shared_expert_enabled": True, "use_aiter_moe_fse": False}


def test_attention_norms_and_all_else_that_holds_memory_are_told() -> None:
    rope = Module(cos_sin=Tensor(2048, 64, dtype="float32"))
    model = Module(
        attn=attention(skip_index_topk=True), norm=RMSNorm(weight=Tensor(6144), variance_epsilon=1e-6), rope=rope
    )
    found = mapped(model)
    attn = found["attn"]
    assert (attn.kind, attn.kernel, attn.facts["backend"], attn.facts["kv_heads"]) == (
        "attention",
        "FlashImpl",
        "FLASH",
        1,
    )
    assert attn.facts["flags"] == {"skip_index_topk": True}
    assert (found["norm"].kind, found["norm"].N, found["norm"].K) == ("norm", 6144, -1)
    assert (found["rope"].kind, found["rope"].weight_bytes) == ("other", 2048 * 64 * 4)
    assert "" not in found  # the whole model holds nothing itself


def test_the_layer_is_the_last_number_of_the_decoder() -> None:
    assert layer_of("language_model.model.layers.17.mlp.experts") == 17
    assert layer_of("vision.blocks.3.model.layers.5.x") == 5
    assert layer_of("model.norm") == -1
    assert layer_of("model.experts.4.w1") == -1


def test_models_are_found_in_both_runners_behind_any_wrapper() -> None:
    target, draft = Module(), Module()
    for v2 in (False, True):
        found = list(models(worker(target, draft, v2=v2, wrapped=True)))
        assert found == [(target, False), (draft, True)]
    assert list(models(SimpleNamespace(model_runner=None))) == []


def test_what_a_draft_shares_with_the_target_is_the_target_s() -> None:
    embedding = VocabParallelEmbedding(weight=Tensor(100, 8), num_embeddings_per_partition=100, embedding_dim=8)
    target = Module(embed=embedding, layers=List(Module(mlp=linear(ColumnParallelLinear, [16], 8, (16, 8)))))
    draft = Module(embed=embedding, fc=linear(ReplicatedLinear, [8], 24, (8, 24)))
    walk = Walk()
    found = [m for model, is_draft in ((target, False), (draft, True)) for m in walk.modules(model, draft=is_draft)]
    assert [(m.name, m.draft) for m in found] == [("embed", False), ("layers.0.mlp", False), ("fc", True)]
    assert walk.storages.total == sum(m.weight_bytes for m in found) == 100 * 8 * 2 + 16 * 8 * 2 + 8 * 24 * 2


@dataclass(frozen=True)
class Spec:
    """``FullAttentionSpec`` and its like."""

    block_size: int = 128
    num_kv_heads: int = 1
    head_size: int = 128
    dtype: str = "torch.float8_e4m3fn"
    page_size_bytes: int = 32768
    real_page_size_bytes: int = 32768
    cache_role: Any = None


def cached() -> SimpleNamespace:
    """Two layers in one allocation, an index cache of its own, a draft's layer."""
    pool = Tensor(10, 2, 128, 256, dtype="float8_e4m3fn")
    index = Tensor(10, 128, 128)
    layers = {
        "layers.0.attn": attention(kv_cache=Tensor(10, 1, 128, 256, dtype="float8_e4m3fn", of=pool)),
        "layers.3.attn": attention(kv_cache=[Tensor(10, 1, 128, 256, dtype="float8_e4m3fn", of=pool)]),
        "layers.3.indexer": MiniMaxM3IndexerCache(kv_cache=index),
        "layers.60.attn": attention(kv_cache=Tensor(0)),
    }
    main, keys = Spec(), Spec(dtype="torch.bfloat16")
    groups = [
        SimpleNamespace(layer_names=["layers.0.attn", "layers.3.attn", "layers.60.attn"], kv_cache_spec=main),
        SimpleNamespace(
            layer_names=["layers.3.indexer"],
            kv_cache_spec=SimpleNamespace(block_size=128, kv_cache_specs={"layers.3.indexer": keys}),
        ),
    ]
    runner = {"kv_cache_config": SimpleNamespace(num_blocks=10, kv_cache_groups=groups)}
    vllm_config = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context=layers))
    drafter = {"_draft_attn_layer_names": {"layers.60.attn"}}
    return worker(Module(), Module(), runner=runner, vllm_config=vllm_config, drafter=drafter)


def test_caches_are_told_by_layer_and_their_allocations_counted_once() -> None:
    *layers, pool = list(Caches(cached()).records())
    assert [(x.layer, x.kind, x.group, x.storage, x.draft) for x in layers if isinstance(x, records.KvLayer)] == [
        ("layers.0.attn", "main", 0, 0, False),
        ("layers.3.attn", "main", 0, 0, False),
        ("layers.60.attn", "main", 0, -1, True),
        ("layers.3.indexer", "index", 1, 1, False),
    ]
    assert pool == records.KvPool(blocks=10, bytes=10 * 2 * 128 * 256 + 10 * 128 * 128 * 2, block_tokens=128, groups=2)


def test_the_index_cache_is_also_told_by_its_spec_s_role() -> None:
    held = cached()
    context = held.vllm_config.compilation_config.static_forward_context
    context["layers.3.indexer"] = attention(kv_cache=Tensor(10, 128, 128))
    role = SimpleNamespace(value="indexer")
    held.model_runner.kv_cache_config.kv_cache_groups[1].kv_cache_spec = Spec(cache_role=role)
    assert [x.kind for x in Caches(held).records() if isinstance(x, records.KvLayer)][-1] == "index"


@dataclass
class Transfer:
    """A section of VllmConfig."""

    kv_connector: str = "MoRIIOConnector"
    kv_connector_extra_config: Any = None
    hf_token: Any = "hf_abc"
    engine: Any = None


def test_the_configuration_is_plain_data_and_keeps_no_key() -> None:
    extra = {"proxy_ip": "10.0.0.1", "api_key": "sk-1", "ports": (1, 2), "deep": {"password": 1234, "n": 3}}
    sizes = {"hidden_size": 6144, "dtype": object, "num_key_value_heads": 4, "eos_token_id": 2}
    text = SimpleNamespace(to_dict=lambda: sizes, architectures=None)
    model = SimpleNamespace(
        hf_config=SimpleNamespace(architectures=["M3"]), hf_text_config=text, model="/m", hf_token="y"
    )
    made = config(SimpleNamespace(kv_transfer_config=Transfer(kv_connector_extra_config=extra), model_config=model))
    section = made.sections["kv_transfer"]
    assert section["kv_connector"] == "MoRIIOConnector"
    assert section["hf_token"] == "(set)"
    assert section["kv_connector_extra_config"] == {
        "proxy_ip": "10.0.0.1",
        "api_key": "(set)",
        "ports": [1, 2],
        "deep": {"password": "(set)", "n": 3},
    }
    assert (made.model["hidden_size"], made.model["architectures"]) == (6144, ["M3"])
    assert (made.model["num_key_value_heads"], made.model["eos_token_id"]) == (4, 2)  # sizes, though key is in the name
    assert "hf_config" not in made.sections["model"]
    assert "1234" not in str(made) and "sk-1" not in str(made) and "hf_abc" not in str(made)


def test_a_worker_without_a_model_is_one_note_and_no_error() -> None:
    probe = Probe(Level.LEDGER)
    held = worker(None)
    probe._hosts[Role.WORKER] = lambda: held  # type: ignore[assignment]
    part = ModelMap(probe)
    part.loaded()
    part.captured()
    assert {note.word for note in probe.told(records.Note)} == {"no_model_map", "no_caches"}


def test_merged_columns_say_how_n_is_made_up() -> None:
    found = one(linear(MergedColumnParallelLinear, [768, 768], 6144, (6144, 6144), output_sizes=[3072, 3072]))
    assert (found.N, found.facts["parts"]) == (1536, [768, 768])
