"""Facts for gates from stand-ins of vLLM's objects, and what the gates of the catalogue say of them."""

from types import SimpleNamespace
from typing import Any

import pytest
from modules_kit import (
    Attention,
    FlashBackend,
    FlashImpl,
    List,
    MergedColumnParallelLinear,
    MiniMaxM3IndexerCache,
    Module,
    MoERunner,
    QKVParallelLinear,
    RoutedExperts,
    Tensor,
    linear,
    routed,
    worker,
)

from m3probe.collectors import _gates_facts as facts_of
from m3probe.collectors._gates_kv import kv
from m3probe.collectors._gates_loaded import Loaded
from m3probe.collectors._probe import Probe
from m3probe.collectors.gates import Gates
from m3probe.gates import gates
from m3probe.schema import records
from m3probe.schema.gates import CacheCensus, CacheDtypes, ExpertMask, GateFacts, TopkBuffer
from m3probe.schema.roles import Level, Role


class AiterExperts:
    """A kernel that reads its expert map as a mask."""


class TritonExperts:
    """A kernel that reads slots, -1 for absent experts."""


def verdict(gate: str, **facts: Any) -> str:
    return str(gates()[gate].check(GateFacts(**facts)).state)


def on_rank(values: list[int], kernel: Any, ep_rank: int = 1) -> RoutedExperts:
    """Experts 4 to 7 of 8 on the second of two ranks, with the map that the kernel is given."""
    method = SimpleNamespace(moe_kernel=SimpleNamespace(fused_experts=kernel))
    return routed(
        local=4, ep_rank=ep_rank, quant_method=method, expert_map=Tensor(len(values), dtype="int32", values=values)
    )


def look(model: Module, **more: Any) -> facts_of.Worker:
    return facts_of.Worker(worker(model, **more))


MAP, MASK = [-1, -1, -1, -1, 0, 1, 2, 3], [0, 0, 0, 0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("values", "kernel", "marked"),
    [(MAP, TritonExperts(), 4), (MASK, AiterExperts(), 4), (MAP, AiterExperts(), 7), (MASK, TritonExperts(), 8)],
)
def test_a_map_counts_as_its_kernel_reads_it(values: list[int], kernel: Any, marked: int) -> None:
    # -1 is not 0: read as a mask, experts of other ranks look local (vLLM PR 47158); slot 0 alone reads as absent
    found = facts_of.masks(look(Module(experts=MoERunner(routed_experts=on_rank(values, kernel)))))
    assert found == (ExpertMask(rank=1, marked=marked, local=4),)
    assert (verdict("expert_mask", masks=found, experts=8) == "broken") is (marked != 4)


def test_both_ranks_masks_together_hold_every_expert() -> None:
    first = on_rank([0, 1, 2, 3, -1, -1, -1, -1], TritonExperts(), ep_rank=0)
    second = on_rank(MAP, TritonExperts())
    masks = [
        mask
        for held in (first, second)
        for mask in facts_of.masks(look(Module(e=MoERunner(routed_experts=held)))) or ()
    ]
    assert verdict("expert_mask", masks=tuple(masks), experts=8) == "holds"
    assert verdict("expert_mask", masks=tuple(masks[:1]), experts=8) == "unproven"


def test_the_layer_with_the_wrong_mask_is_the_one_that_is_told() -> None:
    good, bad = (MoERunner(routed_experts=on_rank(MAP, kernel)) for kernel in (TritonExperts(), AiterExperts()))
    assert facts_of.masks(look(List(Module(e=good), Module(e=bad)))) == (ExpertMask(rank=1, marked=7, local=4),)


def test_without_expert_parallelism_there_is_no_mask() -> None:
    held = routed(expert_map=None)
    assert facts_of.masks(look(Module(experts=MoERunner(routed_experts=held)))) is None


def test_the_activation_is_what_the_kernel_was_given() -> None:
    def experts(**given: Any) -> RoutedExperts:
        built = {"swiglu_alpha": 1.702, "swiglu_beta": 1.0, "swiglu_limit": 7.0}
        return routed(
            **built, quant_method=SimpleNamespace(moe_quant_config=SimpleNamespace(**given) if given else None)
        )

    assert facts_of.activation(look(Module(e=MoERunner(routed_experts=experts())))) == (1.702, 1.0, 7.0)
    lost = experts(gemm1_alpha=1.702, gemm1_beta=0.0, gemm1_clamp_limit=7.0)
    two = List(Module(e=MoERunner(routed_experts=experts())), Module(e=MoERunner(routed_experts=lost)))
    assert facts_of.activation(look(two)) == (1.702, 0.0, 7.0)
    assert verdict("fused_params", activation=(1.702, 0.0, 7.0)) == "broken"
    assert facts_of.activation(look(Module(e=MoERunner(routed_experts=routed())))) is None


class Codes:
    """A float8 dtype's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"


def cache(dtype: str, asked: str, impl: Any = None) -> Attention:
    return Attention(
        impl=impl or FlashImpl(),
        kv_cache=Tensor(4, 1, 128, 256, dtype=dtype),
        kv_cache_dtype=asked,
        attn_backend=FlashBackend,
    )


def with_caches(*layers: Attention, platform: str = "", monkeypatch: pytest.MonkeyPatch) -> facts_of.Worker:
    """A worker whose platform computes in ``platform``."""
    names = [f"layers.{n}.attn" for n in range(len(layers))]
    spec = SimpleNamespace(num_kv_heads=1, head_size=128)
    group = SimpleNamespace(layer_names=names, kv_cache_spec=spec)
    config = SimpleNamespace(
        compilation_config=SimpleNamespace(static_forward_context=dict(zip(names, layers, strict=True)))
    )
    current = SimpleNamespace(fp8_dtype=lambda: Codes(platform)) if platform else None
    monkeypatch.setitem(__import__("sys").modules, "vllm.platforms", SimpleNamespace(current_platform=current))
    runner = {"kv_cache_config": SimpleNamespace(kv_cache_groups=[group], num_blocks=4)}
    return look(Module(), runner=runner, vllm_config=config)


def test_a_cache_without_fp8_is_written_and_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kv(with_caches(cache("bfloat16", "auto"), monkeypatch=monkeypatch))
    assert found == CacheDtypes(writer="bfloat16", reader="bfloat16")
    assert verdict("kv_dtype", kv=found) == "holds"


def test_a_reader_of_the_other_flavour_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # gfx942 writes FNUZ; an impl that views the bytes as FN reads half of every value (vLLM issue 45562)
    wrong = FlashImpl(kv_cache_fp8_dtype=Codes("float8_e4m3fn"))
    right = FlashImpl(kv_cache_fp8_dtype=Codes("float8_e4m3fnuz"))
    layers = (cache("uint8", "fp8", right), cache("uint8", "fp8", wrong))
    found = kv(with_caches(*layers, platform="float8_e4m3fnuz", monkeypatch=monkeypatch))
    assert found is not None
    assert (found.writer, found.reader, found.platform) == ("float8_e4m3fnuz", "float8_e4m3fn", "float8_e4m3fnuz")
    assert verdict("kv_dtype", kv=found) == "broken"


def test_bytes_that_nobody_names_a_flavour_for_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kv(with_caches(cache("uint8", "fp8"), platform="float8_e4m3fn", monkeypatch=monkeypatch))
    assert found is not None
    assert found.reader is None
    assert verdict("kv_dtype", kv=found) == "unproven"


def load(layer: Module, name: str, *shards: Any) -> Loaded:
    seen = Loaded()
    for shard in shards:
        seen.linear(None, None, layer, layer._parameters[name], Tensor(1), shard)
    return seen


def test_slices_are_counted_by_parameter() -> None:
    qkv = linear(
        QKVParallelLinear, [4, 2, 2], 8, (8, 8), prefix="layers.0.qkv", weight_scale=Tensor(8, dtype="float32")
    )
    seen = load(qkv, "weight", "q", "v")
    for shard in "qkv":
        seen.linear(None, None, qkv, qkv._parameters["weight_scale"], Tensor(1), loaded_shard_id=shard)
    weight, scale = seen.params() or ()
    assert (weight.name, weight.declared, weight.loaded) == ("layers.0.qkv.weight", ("q", "k", "v"), ("q", "v"))
    assert scale.loaded == ("k", "q", "v")
    assert verdict("fused_params", fused=(weight, scale)) == "broken"
    assert seen.params() is None  # told once


def test_a_weight_that_came_in_one_piece_has_all_slices() -> None:
    merged = linear(MergedColumnParallelLinear, [4, 4], 8, (8, 8), prefix="up", output_sizes=[4, 4])
    (whole,) = load(merged, "weight", None).params() or ()
    (pair,) = load(merged, "weight", (0, 1)).params() or ()
    assert whole.declared == whole.loaded == pair.loaded == ("0", "1")
    indexed = linear(QKVParallelLinear, [4, 2, 2, 2, 1], 8, (11, 8), num_index_heads=1)
    (with_index,) = load(indexed, "weight", "q", "k", "v", "index_q").params() or ()
    assert set(with_index.declared) - set(with_index.loaded) == {"index_k"}


def test_a_missing_expert_of_this_rank_is_told_and_other_ranks_experts_are_not() -> None:
    manager = SimpleNamespace(get_local_expert_ids=lambda: [4, 5, 6, 7])
    held = routed(local=4, layer_name="layers.0.experts", expert_map_manager=manager)
    seen = Loaded()
    for expert in range(8):
        for shard in ("w1", "w3"):
            lost = (expert, shard) == (6, "w3")
            result = expert >= 4 and not lost
            seen.experts(None, result, held, held._parameters["w13_weight"], Tensor(1), "name", shard, expert_id=expert)
    (param,) = seen.params() or ()
    assert param.declared == ("w1 of 4 experts", "w3 of 4 experts")
    assert param.loaded == ("w1 of 4 experts", "w3 of 3 experts")
    assert verdict("fused_params", fused=(param,)) == "broken"


def sparse_model() -> tuple[dict[str, Any], SimpleNamespace]:
    """One dense and two sparse layers with their index caches, by name, and the configuration of their caches."""
    layers: dict[str, Any] = {"layers.0.attn": Attention(num_heads=16, num_kv_heads=1, head_size=128, impl=FlashImpl())}
    for n in (1, 2):
        cache = MiniMaxM3IndexerCache()
        layers[f"layers.{n}.attn"] = Attention(
            num_heads=16, num_kv_heads=1, head_size=128, impl=FlashImpl(), indexer=cache
        )
        layers[f"layers.{n}.indexer"] = cache
    spec = SimpleNamespace(num_kv_heads=1, head_size=128, dtype="torch.bfloat16")
    return layers, SimpleNamespace(
        kv_cache_groups=[SimpleNamespace(layer_names=list(layers), kv_cache_spec=spec)], num_blocks=4
    )


def test_a_connector_that_lacks_the_index_caches_is_told() -> None:
    layers, caches = sparse_model()
    config = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context=layers))
    seen = look(Module(), runner={"kv_cache_config": caches}, vllm_config=config)
    every = SimpleNamespace(connector_worker=SimpleNamespace(kv_caches=dict.fromkeys(layers)))
    lacks = SimpleNamespace(kv_caches={name: None for name in layers if "indexer" not in name})
    assert facts_of.caches(seen, every) == CacheCensus(1, 2, 2, dense_layers=1, sparse_layers=2)
    found = facts_of.caches(seen, lacks)
    assert found == CacheCensus(1, 2, 0, dense_layers=1, sparse_layers=2)
    assert verdict("kv_census", caches=found) == "broken"
    assert facts_of.caches(seen, None) is None


def test_groups_have_each_layer_s_own_heads_and_leave_index_caches_out() -> None:
    layers, caches = sparse_model()
    layers["layers.2.attn"].num_heads = 64  # a draft of another GQA ratio in the same group
    group = SimpleNamespace(layer_names=list(layers), kv_cache_spec=caches.kv_cache_groups[0].kv_cache_spec)
    config = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context=layers))
    runner = {"kv_cache_config": caches, "attn_groups": [[group]]}
    (found,) = facts_of.groups(look(Module(), runner=runner, vllm_config=config)) or ()
    assert [(g.layer, g.q_heads) for g in found] == [
        ("layers.0.attn", 16),
        ("layers.1.attn", 16),
        ("layers.2.attn", 64),
    ]
    assert verdict("attn_group_key", groups=(found,)) == "broken"


@pytest.mark.parametrize(
    ("dims", "layout", "tokens"),
    [((2, 512, 16), "head_major", 512), ((512, 2, 16), "token_major", 512), ((2, 2, 16), None, 2)],
)
def test_the_top_k_buffer_s_layout_is_told_where_its_dims_can_tell(
    dims: tuple[int, ...], layout: str | None, tokens: int
) -> None:
    model = Module(attn=Module(topk_indices_buffer=Tensor(*dims, dtype="int32"), num_idx_heads=2))
    assert facts_of.topk(look(model)) == TopkBuffer(buffer=layout, reader=None, heads=2, tokens=tokens)


def test_blocks_and_ranks_are_those_of_the_configuration() -> None:
    text = SimpleNamespace(sparse_attention_config={"sparse_block_size": 128})
    config = SimpleNamespace(
        cache_config=SimpleNamespace(block_size=64),
        model_config=SimpleNamespace(hf_text_config=text),
        parallel_config=SimpleNamespace(tensor_parallel_size=4, pipeline_parallel_size=1, data_parallel_size=2),
    )
    seen = look(Module(), vllm_config=config)
    assert verdict("block_equal", blocks=facts_of.blocks(seen)) == "broken"
    assert [(w.workers, w.ranks) for w in facts_of.workers(seen) or ()] == [(1, 8)]
    assert facts_of.blocks(look(Module())) is None


def test_one_fact_that_cannot_be_read_costs_no_other() -> None:
    probe = Probe(Level.LEDGER)
    broken = MoERunner(routed_experts=on_rank(MAP, TritonExperts()))
    broken.routed_experts.expert_map = Tensor(8, dtype="int32", values=None)  # tolist() gives nothing to slice
    held = worker(Module(experts=broken))
    probe._hosts[Role.WORKER] = lambda: held  # type: ignore[assignment]
    part = Gates(probe)
    part.captured()
    (gate,) = probe.told(records.Gate)
    assert (gate.facts.masks, gate.facts.experts) == (None, 8)
    (note,) = [n for n in probe.told(records.Note) if n.word == "gate_fact"]
    assert note.text.startswith("masks: TypeError")
