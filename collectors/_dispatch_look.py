"""What was selected, read once from the loaded model: classes, switches and limits, no call.

It needs no hook at loading, so a probe that comes late sees it as well. The count of a record is of modules.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from m3probe.collectors._dispatch_read import backend, codec_name, experts_of
from m3probe.schema.records import Dispatch
from m3probe.schema.roles import Stage

MODEL, COMM, CONFIG, CACHE = "model", "communicator", "config", "kv_cache"
"""Seams of what is read and not called: the module tree, the TP group's communicator, the configuration, bound caches."""
_SPARSE = {
    "MiniMaxM3SparseAiterPAImpl": "AITER page-16",
    "MiniMaxM3SparseMSAImpl": "MSA",
    "MiniMaxM3SparseTritonImpl": "Triton",
}
_INDEXERS = {
    "MiniMaxM3IndexerAiterImpl": "FP8 (AITER, MSA)",
    "MiniMaxM3IndexerTritonCPImpl": "Triton CP",
    "MiniMaxM3IndexerTritonImpl": "Triton",
}
_CONNECTORS = (("MoRIIO", "MoRIIO"), ("Nixl", "NIXL"), ("LMCache", "LMCache"))
_DTYPES = {"bfloat16": "BF16", "float16": "FP16", "float32": "FP32"}
Seen = tuple[str, str, tuple[tuple[str, Any], ...]]
"""path, variant, facts"""


def of_model(model: Any) -> list[Dispatch]:
    """Choices that the model's modules hold."""
    seen = Counter(fact for module in model.modules() for fact in _of_module(module))
    return list(_records(seen, MODEL))


def _of_module(module: Any) -> Iterator[Seen]:
    kind = type(module).__name__
    if kind == "RoutedExperts":
        method = getattr(module, "quant_method", None)
        for path, variant in experts_of(method):
            yield path, variant, (("backend", backend(method)),)
    elif kind == "MiniMaxM3MoE":
        fused = getattr(module, "is_fused_shared_expert_enabled", getattr(module, "shared_experts", None) is None)
        in_top_k = (("appended_by_aiter", bool(getattr(module, "use_aiter_moe_fse", False))),)
        yield "shared_expert_fusion", "fused" if fused else "separate MLP", in_top_k
    elif kind == "MiniMaxM3SparseAttention":
        yield from _of_sparse(module)
    elif type(getattr(getattr(module, "quant_method", None), "kernel", None)).__name__.endswith("Mxfp8LinearKernel"):
        yield "mxfp8_linear", _linear(module), (("kernel", type(module.quant_method.kernel).__name__),)


def _of_sparse(module: Any) -> Iterator[Seen]:
    impl = type(getattr(module, "impl", None)).__name__
    for path in ("sparse_attention", "aiter_sparse_pa"):
        yield path, _SPARSE.get(impl, impl), ()
    yield "index_reuse", "reuse" if getattr(module, "skip_index_topk", False) else "every layer chooses", ()
    indexer = type(getattr(getattr(module, "indexer", None), "impl", None))
    rocm = ".amd." in indexer.__module__  # the MSA indexers of both vendors have one name
    msa = "FP8 (AITER, MSA)" if rocm else "MSA (NVIDIA)"
    word = msa if indexer.__name__ == "MiniMaxM3IndexerMSAImpl" else _INDEXERS.get(indexer.__name__, indexer.__name__)
    yield "indexer", word, (("context_parallel", bool(getattr(module, "indexer_cp", "CP" in word))),)


def _linear(module: Any) -> str:
    """By the weight that loading left: the native class keeps BF16 weights where K is no multiple of 128."""
    kernel, weight = type(module.quant_method.kernel).__name__, getattr(module, "weight", None)
    if kernel != "RocmDotScaledMxfp8LinearKernel":
        return "emulation" if kernel == "EmulationMxfp8LinearKernel" else kernel
    return "native" if weight is not None and weight.element_size() == 1 else "emulation"


def of_communicator(group: Any) -> list[Dispatch]:
    """All-reduces that the tensor-parallel group has, with their limits; empty for one rank."""
    comm = getattr(group, "device_communicator", None)
    if comm is None or getattr(group, "world_size", 1) < 2:
        return []
    told = []
    for attribute, path, variant in (
        ("qr_comm", "quick_reduce", ""),
        ("aiter_ar_comm", "custom_all_reduce", "AITER"),
        ("ca_comm", "custom_all_reduce", "vLLM"),
    ):
        made = getattr(comm, attribute, None)
        if made is not None:
            built, facts = not made.disabled, _limits(made)
            told.append(Dispatch(path=path, seam=COMM, variant=variant, eligible=built, stage=Stage.LOAD, facts=facts))
    return told


def _limits(comm: Any) -> dict[str, Any]:
    names = ("world_size", "fully_connected", "max_size", "qr_min_size", "qr_max_size", "use_fp16_kernels")
    facts = {name: getattr(comm, name) for name in names if isinstance(getattr(comm, name, None), int | float)}
    level = getattr(comm, "qr_quant_level", None)
    return facts | ({"codec": codec_name(comm, level.value)} if level is not None else {})


def of_config(config: Any) -> list[Dispatch]:
    """The graph mode in force and the KV connector."""
    mode = getattr(getattr(getattr(config, "compilation_config", None), "cudagraph_mode", None), "name", "")
    told = []
    if mode:
        variant = "eager" if mode == "NONE" else ""
        told.append(
            Dispatch(
                path="graph_replay",
                seam=CONFIG,
                variant=variant,
                eligible=mode != "NONE",
                stage=Stage.LOAD,
                facts={"mode": mode},
            )
        )
    connector = str(getattr(getattr(config, "kv_transfer_config", None), "kv_connector", None) or "")
    if connector:
        variant = next((word for begin, word in _CONNECTORS if connector.startswith(begin)), connector)
        told.append(Dispatch(path="kv_transfer", seam=CONFIG, variant=variant, stage=Stage.LOAD))
    return told


def of_caches(layers: Mapping[str, Any], draft: Iterable[str]) -> list[Dispatch]:
    """Dtype of each layer's cache, and the attention backend of drafted layers.

    Args:
        layers: vLLM's attention layers by name.
        draft: names of those that belong to a drafter.
    """
    seen: Counter[Seen] = Counter()
    names = set(draft)
    for name, layer in layers.items():
        word = _cache_word(layer)
        if word and "Indexer" not in type(layer).__name__:
            seen["fp8_kv_cache", word, (("kv_cache_dtype", str(getattr(layer, "kv_cache_dtype", ""))),)] += 1
        if name in names:
            seen["draft_attention", _backend(layer), (("impl", type(getattr(layer, "impl", None)).__name__),)] += 1
    return list(_records(seen, CACHE))


def _cache_word(layer: Any) -> str:
    """``FP8`` also where the bytes are kept as uint8 and viewed by the attend."""
    cache = getattr(layer, "kv_cache", None)
    while isinstance(cache, list | tuple):
        cache = cache[0] if cache else None
    if cache is None or not getattr(cache, "numel", lambda: 0)():
        return ""
    dtype, asked = str(cache.dtype).removeprefix("torch."), str(getattr(layer, "kv_cache_dtype", ""))
    return "FP8" if dtype.startswith("float8") or asked.startswith("fp8") else _DTYPES.get(dtype, dtype)


def _backend(layer: Any) -> str:
    found = getattr(layer, "attn_backend", None)
    get_name = getattr(found, "get_name", None)
    return str(get_name()) if get_name is not None else type(getattr(layer, "impl", None)).__name__


def drafted(runner: Any) -> Iterable[str]:
    """Names of a drafter's attention layers: V2's speculator, else V1's proposer."""
    for holder, attribute in (("speculator", "draft_attn_layer_names"), ("drafter", "_draft_attn_layer_names")):
        names = getattr(getattr(runner, holder, None), attribute, None)
        if names:
            return list(names)
    return []


def is_compiled(model: Any) -> bool:
    """Whether a part of the model runs as code that torch.compile made (a hook in it is not called)."""
    wrapper = getattr(sys.modules.get("vllm.compilation.wrapper"), "TorchCompileWithNoGuardsWrapper", None)
    if wrapper is None:
        return False
    return any(isinstance(m, wrapper) and not getattr(m, "do_not_compile", False) for m in model.modules())


def _records(seen: Mapping[Seen, int], seam: str) -> Iterator[Dispatch]:
    for (path, variant, facts), count in seen.items():
        yield Dispatch(
            path=path, seam=seam, variant=variant, stage=Stage.LOAD, count=count, layers=count, facts=dict(facts)
        )
