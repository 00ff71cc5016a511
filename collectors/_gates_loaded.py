"""Which slices of fused parameters a checkpoint filled, counted where vLLM's loaders put them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from m3probe.collectors._modules_look import get, is_a, number
from m3probe.schema.gates import FusedParam

QKV, INDEXED = ("q", "k", "v"), ("q", "k", "v", "index_q", "index_k")
EXPERT_SHARDS = {"w13": ("w1", "w3"), "w2": ("w2",)}


class Loaded:
    """Slices by parameter. Its hooks run while weights are loaded and at no other time."""

    def __init__(self) -> None:
        self._slices: dict[tuple[int, str], set[Any]] = {}
        self._layers: dict[int, Any] = {}

    def linear(self, _token: Any, _result: Any, layer: Any, param: Any, *args: Any, **names: Any) -> None:
        """After a fused projection's loader; without a shard id all slices came in one piece."""
        shard = names["loaded_shard_id"] if "loaded_shard_id" in names else args[1] if len(args) > 1 else None
        parts = declared(layer) if shard is None else shard if isinstance(shard, tuple) else (shard,)
        self._held(layer, param).update(str(part) for part in parts)

    def experts(self, _token: Any, result: Any, layer: Any, param: Any, *args: Any, **names: Any) -> None:
        """After the experts' loader: (loaded_weight, weight_name, shard_id, expert_id); False: not of this rank."""
        given = dict(zip(("loaded_weight", "weight_name", "shard_id", "expert_id"), args, strict=False)) | names
        if result is not False:
            self._held(layer, param).add((given["shard_id"], given["expert_id"]))

    def params(self) -> tuple[FusedParam, ...] | None:
        """One entry a fused parameter; None where no loader was seen (dummy weights, another loader, a late probe)."""
        found = [self._param(layer, name, slices) for (layer, name), slices in self._slices.items()]
        self._slices, self._layers = {}, {}
        return tuple(sorted((f for f in found if f is not None), key=lambda f: f.name)) or None

    def _held(self, layer: Any, param: Any) -> set[Any]:
        self._layers.setdefault(id(layer), layer)
        name = next((n for n, p in layer._parameters.items() if p is param), "")  # noqa: SLF001 - the layer's own, no copies
        return self._slices.setdefault((id(layer), name), set())

    def _param(self, at: int, name: str, slices: set[Any]) -> FusedParam | None:
        layer = self._layers[at]
        if is_a(layer, "LinearBase"):
            return FusedParam(f"{get(layer, 'prefix') or '?'}.{name}", declared(layer), tuple(sorted(slices)))
        return _expert_param(layer, name, slices)


def declared(layer: Any) -> tuple[str, ...]:
    """Slices that a fused projection is made of: heads by name, merged columns by number."""
    if is_a(layer, "QKVParallelLinear"):
        return INDEXED if number(layer, "num_index_heads", "total_num_index_heads") > 0 else QKV
    return tuple(str(n) for n in range(len(get(layer, "output_sizes") or ())))


def _expert_param(layer: Any, name: str, slices: set[Any]) -> FusedParam | None:
    """Slices as ``w1 of 128 experts``: one name of each, so that a missing expert is told by its number."""
    shards = EXPERT_SHARDS.get(name.partition("_")[0])
    local = _local_experts(layer)
    if shards is None or not local:
        return None
    loaded = [_said(shard, (e for s, e in slices if s == shard), local) for shard in shards]
    wanted = tuple(f"{shard} of {len(local)} experts" for shard in shards)
    return FusedParam(f"{get(layer, 'layer_name') or '?'}.{name}", wanted, tuple(loaded))


def _said(shard: str, experts: Iterable[int], local: frozenset[int]) -> str:
    return f"{shard} of {len(local.intersection(experts))} experts"


def _local_experts(layer: Any) -> frozenset[int]:
    """Global numbers of this rank's experts (fused shared experts come after them and are loaded like them)."""
    ask: Callable[[], Iterator[int]] | None = get(get(layer, "expert_map_manager"), "get_local_expert_ids")
    if ask is not None:
        return frozenset(ask())
    count = number(layer, "local_num_experts")
    return frozenset(range(count)) if count == number(layer, "global_num_experts") else frozenset()
