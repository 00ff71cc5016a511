"""Caches of a worker: one record a layer, and the pool with each allocation counted once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from m3probe.collectors._modules_look import cls, dtype, get, number, shape, word
from m3probe.schema.records import KvLayer, KvPool


class Caches:
    """Reads a worker after its caches were allocated; nothing is told where it has none."""

    def __init__(self, worker: Any) -> None:
        self._runner = get(worker, "model_runner")
        self._config = get(self._runner, "kv_cache_config")
        compilation = get(get(worker, "vllm_config"), "compilation_config")
        self._modules: dict[str, Any] = get(compilation, "static_forward_context") or {}
        self._storages: dict[int, int] = {}
        self._bytes = 0
        self._draft = draft_layers(self._runner)

    def records(self) -> Iterator[KvLayer | KvPool]:
        """Layers in the order of their groups, then the pool."""
        groups = get(self._config, "kv_cache_groups") or ()
        for index, group in enumerate(groups):
            for layer in group.layer_names:
                yield self._layer(index, layer, spec_of(group.kv_cache_spec, layer))
        blocks = number(self._config, "num_blocks")
        if groups and blocks >= 0:
            sizes = {number(group.kv_cache_spec, "block_size") for group in groups}
            size = sizes.pop() if len(sizes) == 1 else -1
            yield KvPool(blocks=blocks, bytes=self._bytes, block_tokens=size, groups=len(groups))

    def _layer(self, group: int, layer: str, spec: Any) -> KvLayer:
        module = self._modules.get(layer)
        tensor = tensor_of(module)
        page = number(spec, "page_size_bytes")
        real = number(spec, "unpadded_page_size_bytes", "real_page_size_bytes")
        return KvLayer(
            layer=layer,
            kind=kind_of(module, spec),
            spec=cls(spec),
            group=group,
            block_tokens=number(spec, "block_size"),
            kv_heads=number(spec, "num_kv_heads"),
            head_size=number(spec, "head_size"),
            dtype=dtype(spec),
            page_bytes=page,
            real_page_bytes=real if real > 0 else page,
            shape=shape(tensor),
            storage=self._storage(tensor),
            draft=layer in self._draft or get(spec, "is_draft") is True,
        )

    def _storage(self, tensor: Any) -> int:
        if tensor is None or tensor.is_meta:
            return -1
        held = tensor.untyped_storage()
        at = held.data_ptr()
        if at not in self._storages:
            self._storages[at] = len(self._storages)
            self._bytes += held.nbytes()
        return self._storages[at]


def spec_of(spec: Any, layer: str) -> Any:
    """The layer's own spec where a group holds layers of several sizes."""
    return (get(spec, "kv_cache_specs") or {}).get(layer, spec)


def kind_of(module: Any, spec: Any) -> str:
    """``index`` for keys of an indexer, ``main`` for keys and values, ``other`` for states that are neither."""
    role = word(get(spec, "cache_role") or "").lower()  # 0.33
    if "indexer" in role or "Indexer" in cls(module):
        return "index"
    return "main" if number(spec, "num_kv_heads") > 0 and number(spec, "head_size") > 0 else "other"


def tensor_of(module: Any) -> Any:
    """The cache that is bound to a layer; None before it is there."""
    held = get(module, "kv_cache")
    held = held[0] if isinstance(held, (list, tuple)) and held else held
    return held if callable(getattr(held, "untyped_storage", None)) and held.numel() else None


def draft_layers(runner: Any) -> frozenset[str]:
    """Attention layers of the draft model, as the drafter names them (V2, V1)."""
    drafter = get(runner, "speculator", "drafter")
    return frozenset(get(drafter, "draft_attn_layer_names", "_draft_attn_layer_names") or ())
