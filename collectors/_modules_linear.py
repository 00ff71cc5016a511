"""Facts of linear layers, embeddings, norms and attention layers, as this rank holds them."""

from __future__ import annotations

from typing import Any

from m3probe.collectors._modules_look import cls, dtype, get, is_a, number, plain, shape, word

KERNELS = "vllm.model_executor.kernels."
FLAGS = (
    "is_fused_shared_expert_enabled", "use_aiter_moe_fse", "skip_index_topk", "indexer_emits_table", "use_fused_qknorm",
    "disable_index_value", "use_fp8_kv",
)  # fmt: skip
"""Decisions of MiniMax M3's model files, made once while building: booleans of a module or of its parent."""

Found = dict[str, Any]
"""Fields of ``records.Module`` that are known."""


def linear(layer: Any) -> Found:
    """N and K of the local GEMM from the partition sizes: a packed or quantised weight has other dims."""
    n, k = linear_size(layer)
    facts = {"global": [number(layer, "output_size", "out_features"), number(layer, "input_size", "in_features")]}
    facts |= _parts(layer) | plain(layer, {"reduce_results": "reduce_results", "gather_output": "gathers"})
    facts |= plain(layer, {"tp_rank": "tp_rank", "tp_size": "tp_size"}) | _stored(layer, (n, k))
    return {
        "N": n,
        "K": k,
        "dtype": weight_dtype(layer),
        "quant": quant(layer),
        "kernel": kernel(layer),
        "facts": facts,
    }


def linear_size(layer: Any) -> tuple[int, int]:
    """(N, K) of this rank; -1 where unknown."""
    sizes = get(layer, "output_partition_sizes")
    n = sum(sizes) if sizes else number(layer, "output_size_per_partition", "output_size", "out_features")
    return n, number(layer, "input_size_per_partition", "input_size", "in_features")


def embedding(layer: Any) -> Found:
    """Rows of the local vocabulary (padded) and columns of an embedding or LM head."""
    rows = number(layer, "num_embeddings_per_partition", "num_embeddings")
    names = {"org_vocab_size": "vocabulary", "num_embeddings_padded": "padded", "tp_size": "tp_size"}
    found = {"N": rows, "K": number(layer, "embedding_dim"), "dtype": weight_dtype(layer), "quant": quant(layer)}
    return {**found, "kernel": kernel(layer), "facts": plain(layer, names)}


def norm(layer: Any) -> Found:
    """N is the width; the weight of a Gemma norm is used as 1 + w."""
    weight = get(layer, "weight")
    width = shape(weight)[-1] if shape(weight) else number(layer, "hidden_size")
    facts = plain(layer, {"variance_epsilon": "eps", "eps": "eps"}) | {"gemma": "gemma" in cls(layer).lower()}
    return {"N": width, "dtype": dtype(weight), "facts": facts}


def attention(layer: Any) -> Found:
    """Heads of this rank, backend, and the dtypes of its cache."""
    impl = get(layer, "impl")
    names = {
        "num_heads": "heads", "num_kv_heads": "kv_heads", "head_size": "head_size", "head_dim": "head_size",
        "kv_cache_dtype": "kv_dtype", "sliding_window": "sliding_window", "layer_name": "layer_name",
        "kv_sharing_target_layer_name": "shares_kv_of", "num_idx_heads": "index_heads", "total_num_heads": "heads_all",
        "total_num_kv_heads": "kv_heads_all",
    }  # fmt: skip
    facts = plain(impl, names) | plain(layer, names) | {"backend": backend(layer)}
    indexer = get(get(layer, "indexer"), "impl") or get(layer, "indexer")
    facts |= {"indexer": cls(indexer)} if indexer is not None else {}
    return {"kernel": cls(impl), "dtype": dtype(get(layer, "dtype")), "facts": facts}


def backend(layer: Any) -> str:
    """Name of an attention layer's backend, as vLLM's log has it."""
    found = get(layer, "attn_backend", "backend_cls")
    if found is None and callable(getattr(layer, "get_attn_backend", None)):
        found = _tried(layer.get_attn_backend)
    name = _tried(found.get_name) if callable(getattr(found, "get_name", None)) else None
    return str(name or (found.__name__ if isinstance(found, type) else "") or word(get(layer, "backend") or ""))


def flags(*owners: Any) -> dict[str, bool]:
    """Fusion decisions of a module and of the one that holds it."""
    found: dict[str, bool] = {}
    for owner in owners:
        seen = {name: get(owner, name) for name in FLAGS}
        found = {name: value for name, value in seen.items() if isinstance(value, bool)} | found
    return found


def quant(layer: Any) -> str:
    """Class of the quantisation method, with its scheme where the method is only a frame for one."""
    method, scheme = cls(get(layer, "quant_method")), cls(get(layer, "scheme"))
    return f"{method}/{scheme}" if scheme else method


def kernel(layer: Any) -> str:
    """What computes it: a class of vLLM's linear kernels, else the function that the method was given."""
    method = get(layer, "quant_method")
    for owner in (get(layer, "scheme"), method):
        for value in vars(owner).values() if hasattr(owner, "__dict__") else ():
            if type(value).__module__.startswith(KERNELS):
                return type(value).__name__
    return str(getattr(get(method, "_gemm_impl"), "__name__", ""))


def weight_dtype(layer: Any) -> str:
    """Of the weight; what it was made with where the weight was given away to a packed handle."""
    weight = get(layer, "weight", "weight_packed", "qweight")
    return dtype(weight) if weight is not None and weight.numel() else dtype(get(layer, "params_dtype") or weight)


def _parts(layer: Any) -> Found:
    """How N is made up, and KV heads that several ranks hold."""
    sizes = get(layer, "output_partition_sizes")
    found: Found = {"parts": [int(n) for n in sizes]} if sizes and len(sizes) > 1 else {}
    names = {
        "num_heads": "heads", "num_kv_heads": "kv_heads", "head_size": "head_size", "num_kv_head_replicas": "kv_replicas",
        "num_index_heads": "index_heads", "total_num_kv_heads": "kv_heads_all",
    }  # fmt: skip
    return found | (plain(layer, names) if is_a(layer, "QKVParallelLinear") else {})


def _stored(layer: Any, size: tuple[int, int]) -> Found:
    """Dims of the weight where they are not N and K: padding, packing, a transpose, or nothing left here."""
    weight = get(layer, "weight", "weight_packed", "qweight")
    if weight is None:
        return {}
    if not weight.numel():
        return {"packed": "the weight is inside a handle of the CPU's GEMM library"}
    found = shape(weight)
    return {} if found == size else {"stored": list(found)}


def _tried(method: Any) -> Any:
    try:
        return method()
    except Exception:  # noqa: BLE001 - an abstract backend
        return None
