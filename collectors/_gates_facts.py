"""Facts for correctness gates that a loaded worker's objects can tell; None where they cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from m3probe.collectors import _modules_linear as of
from m3probe.collectors._kv_layers import draft_layers, kind_of, spec_of, tensor_of
from m3probe.collectors._modules_look import cls, dtype, get, models, number, shape
from m3probe.collectors._modules_moe import experts_of
from m3probe.schema.gates import BlockSizes, CacheCensus, ExpertMask, GroupedLayer, TopkBuffer, WorkerGroup

REGISTERED = ("device_kv_caches", "kv_caches", "layer_name_to_local_kv_cache_metadata")
"""Where connectors keep what was registered with them: Mooncake and NIXL, MoRIIO and LMCache, MoRIIO."""


class Worker:
    """One worker's objects, looked up once."""

    def __init__(self, worker: Any) -> None:
        self.config = get(worker, "vllm_config")
        self.runner = get(worker, "model_runner")
        self.modules = [module for model, _draft in models(worker) for module in model.modules()]
        self.experts = [held for held in map(experts_of, self.modules) if held is not None]
        compilation = get(self.config, "compilation_config")
        self.layers: dict[str, Any] = get(compilation, "static_forward_context") or {}
        self.specs = dict(self._specs())

    def _specs(self) -> Iterator[tuple[str, Any]]:
        for group in get(get(self.runner, "kv_cache_config"), "kv_cache_groups") or ():
            for layer in group.layer_names:
                yield layer, spec_of(group.kv_cache_spec, layer)

    def sparse_config(self) -> dict[str, Any]:
        """``sparse_attention_config`` of the model's config.json; empty without one."""
        text = get(get(self.config, "model_config"), "hf_text_config")
        found = get(text, "sparse_attention_config")
        return found if isinstance(found, dict) else {}


def activation(worker: Worker) -> tuple[float, float, float] | None:
    """(alpha, beta, limit) as the experts' kernel has them, else as the layer was built; of the first layer that differs."""
    seen = [found for held in worker.experts if (found := _activation(held)) is not None]
    return next((one for one in seen if one != seen[0]), seen[0]) if seen else None


def _activation(held: Any) -> tuple[float, float, float] | None:
    quant = get(get(held, "quant_method"), "moe_quant_config")
    pairs = (("gemm1_alpha", "swiglu_alpha"), ("gemm1_beta", "swiglu_beta"), ("gemm1_clamp_limit", "swiglu_limit"))
    values = [get(quant, kernel) if quant is not None else get(held, layer) for kernel, layer in pairs]
    built = [get(held, layer) for _kernel, layer in pairs]
    if all(isinstance(v, (int, float)) for v in built):
        alpha, beta, limit = (v if isinstance(v, (int, float)) else b for v, b in zip(values, built, strict=True))
        return float(alpha), float(beta), float(limit)
    return None


def masks(worker: Worker) -> tuple[ExpertMask, ...] | None:
    """This rank's mask of the first layer whose mask is wrong, else of the first; None without expert parallelism."""
    found = [mask for held in worker.experts if (mask := _mask(held)) is not None]
    return (next((m for m in found if m.marked != m.local), found[0]),) if found else None


def _mask(held: Any) -> ExpertMask | None:
    tensor, experts = get(held, "expert_map"), number(held, "global_num_experts")
    parallel = get(get(held, "moe_config"), "moe_parallel_config")
    if tensor is None or experts < 0 or number(parallel, "ep_size") <= 1:
        return None
    values = tensor.tolist()[:experts]  # once, after load: the only read from the device
    marked = sum(v != 0 for v in values) if reads_mask(held) else sum(v >= 0 for v in values)
    return ExpertMask(rank=number(parallel, "ep_rank"), marked=marked, local=number(held, "local_num_experts"))


def reads_mask(held: Any) -> bool:
    """Whether the experts' kernel reads what it is given as 0 and 1, and not as slots with -1 for absent ones."""
    kernel = get(get(get(held, "quant_method"), "moe_kernel"), "fused_experts")
    said = get(kernel, "consumes_expert_mask")  # 0.32 and later
    return said if isinstance(said, bool) else "aiter" in cls(kernel).lower()


def experts(worker: Worker) -> int | None:
    """Experts over all ranks, redundant ones of EPLB included."""
    found = [number(held, "global_num_experts") for held in worker.experts]
    return found[0] if found and found[0] > 0 else None


def groups(worker: Worker) -> tuple[tuple[GroupedLayer, ...], ...] | None:
    """Attention groups; each layer with its own backend and heads, which the group's key must not mix."""
    drafts = draft_layers(worker.runner)
    found = []
    for held in get(worker.runner, "attn_groups") or ():
        for group in held if isinstance(held, (list, tuple)) else (held,):
            names = [n for n in group.layer_names if kind_of(worker.layers.get(n), group.kv_cache_spec) != "index"]
            layers = tuple(_grouped(worker, name, group.kv_cache_spec, name in drafts) for name in names)
            found += [layers] if layers else []
    return tuple(found) or None


def _grouped(worker: Worker, name: str, spec: Any, draft: bool) -> GroupedLayer:
    module, own = worker.layers.get(name), spec_of(worker.specs.get(name, spec), name)
    impl = get(module, "impl")
    heads = number(module, "num_heads") if number(module, "num_heads") > 0 else number(impl, "num_heads")
    kv = number(module, "num_kv_heads") if number(module, "num_kv_heads") > 0 else number(own, "num_kv_heads")
    size = number(module, "head_size") if number(module, "head_size") > 0 else number(own, "head_size")
    return GroupedLayer(
        layer=name,
        backend=of.backend(module) or None,
        kv_spec=f"{cls(own)} {kv} x {size} {dtype(own)}",
        q_heads=heads if heads > 0 else None,
        draft=draft,
    )


def blocks(worker: Worker) -> BlockSizes | None:
    """Tokens of a KV block as resolved, and of a sparse block; None for a model without sparse attention."""
    sparse = worker.sparse_config().get("sparse_block_size")
    kv = number(get(worker.config, "cache_config"), "block_size")
    return BlockSizes(kv if kv > 0 else None, sparse) if isinstance(sparse, int) else None


def caches(worker: Worker, connector: Any) -> CacheCensus | None:
    """Caches that the KV connector holds beside those that the model has; None without a connector or its list."""
    inner = get(connector, "connector_worker")
    held = [get(owner, name) for owner in (inner, connector) for name in REGISTERED if owner is not None]
    names = next((set(found) for found in held if isinstance(found, dict) and found), None)
    if names is None or not worker.specs:
        return None
    kinds = {layer: _kind(worker.layers.get(layer), spec) for layer, spec in worker.specs.items()}
    seen = [kinds[name] for name in names if name in kinds]
    has = list(kinds.values())
    return CacheCensus(
        dense=seen.count("dense"),
        sparse=seen.count("sparse"),
        index=seen.count("index"),
        dense_layers=has.count("dense"),
        sparse_layers=has.count("sparse"),
    )


def _kind(module: Any, spec: Any) -> str:
    kind = kind_of(module, spec)
    return kind if kind != "main" else "sparse" if get(module, "indexer") is not None else "dense"


def topk(worker: Worker) -> TopkBuffer | None:
    """The buffer of chosen block ids: its layout by its dims where they differ. What its reader takes is said nowhere."""
    for module in worker.modules:
        dims, heads = shape(get(module, "topk_indices_buffer")), number(module, "num_idx_heads")
        if len(dims) == 3 and heads > 0:
            tokens = dims[1] if dims[0] == heads else dims[0]
            layout = None if dims[0] == dims[1] else "head_major" if dims[0] == heads else "token_major"
            return TopkBuffer(buffer=layout, reader=None, heads=heads, tokens=tokens)
    return None


def workers(worker: Worker) -> tuple[WorkerGroup, ...] | None:
    """This server as one group: ranks = TP x PP x DP."""
    parallel = get(worker.config, "parallel_config")
    sizes = [number(parallel, f"{name}_parallel_size") for name in ("tensor", "pipeline", "data")]
    if min(sizes) < 1:
        return None
    return (WorkerGroup(name="this server", workers=1, ranks=sizes[0] * sizes[1] * sizes[2]),)


def caches_of(worker: Worker) -> Iterator[tuple[Any, Any, Any]]:
    """(layer, its bound cache, its spec) of main caches."""
    for name, spec in worker.specs.items():
        module = worker.layers.get(name)
        tensor = tensor_of(module)
        if tensor is not None and kind_of(module, spec) == "main":
            yield module, tensor, spec
