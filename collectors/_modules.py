"""Walks loaded models once: one record a module that holds weights or caches, as this rank has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from m3probe.collectors import _modules_linear as of
from m3probe.collectors._modules_bytes import Storages, own
from m3probe.collectors._modules_look import get, is_a, number
from m3probe.collectors._modules_moe import experts_of, moe
from m3probe.schema.records import Module

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)(?=\.|$)")
_ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}


class Walk:
    """One walk over all models of a worker; modules and storages that two models share belong to the first."""

    def __init__(self) -> None:
        self.storages = Storages()
        self._met: set[Any] = set()

    def modules(self, model: Any, *, draft: bool) -> Iterator[Module]:
        """Records of one model, in its own order."""
        named = list(model.named_modules(memo=self._met))
        found = dict(named)
        inner = {id(experts_of(m)): name for name, m in named if _is_moe(m)}
        gated = _outputs_of_gates(named)
        routers = {name for name, m in named if _is_router(name, m, gated)}
        for name, module in named:
            if inner.get(id(module), name) != name:
                continue  # the experts' weights belong to the runner's record
            kind = "router" if name in routers else kind_of(module)
            held = [*own(module), *(own(experts_of(module)) if kind == "moe" else ())]
            if kind != "other" or held:
                parent = found.get(_parent(name))
                yield self._record(name, module, kind, held, parent, draft=draft)

    def _record(self, name: str, module: Any, kind: str, held: list[Any], parent: Any, *, draft: bool) -> Module:
        values = describe(module, kind)
        facts: dict[str, Any] = values.pop("facts", {})
        size, sharer = self.storages.add(name, held)
        flags = of.flags(module, parent if kind == "moe" else None)
        facts |= {"flags": flags} if flags else {}
        facts |= {"shared_with": sharer} if sharer and not size else {}
        if "packed" in facts:
            size = size + values["N"] * values["K"] * _ITEMSIZE.get(values["dtype"], 0)
            facts["bytes_from"] = "N x K x dtype"
        return Module(
            name=name,
            cls=type(module).__name__,
            kind=kind,
            layer=layer_of(name),
            weight_bytes=size,
            draft=draft,
            facts=facts,
            **values,
        )


def kind_of(module: Any) -> str:
    """The kind of a module by what it is, not by its name."""
    if _is_moe(module):
        return "moe"
    if number(module, "num_embeddings_per_partition") > 0 or is_a(module, "Embedding"):
        return "lm_head" if is_a(module, "ParallelLMHead") else "embedding"
    if is_a(module, "LinearBase", "Linear"):
        return "linear"
    if get(module, "impl") is not None and callable(getattr(module, "get_kv_cache_spec", None)):
        return "attention"
    if "Norm" in type(module).__name__ and (
        get(module, "weight") is not None or get(module, "variance_epsilon") is not None
    ):
        return "norm"
    return "other"


def describe(module: Any, kind: str) -> of.Found:
    """Fields of a record that its kind has."""
    reader = {"moe": moe, "linear": of.linear, "router": of.linear, "attention": of.attention, "norm": of.norm}.get(
        kind
    )
    if reader is not None:
        return reader(module)
    return of.embedding(module) if kind in ("embedding", "lm_head") else {}


def layer_of(name: str) -> int:
    """Number of the decoder layer in a module's name; -1 outside of the layers."""
    found = _LAYER.findall(name)
    return int(found[-1]) if found else -1


def _is_moe(module: Any) -> bool:
    return experts_of(module) is not None and not (get(module, "routed_experts") is None and _inside_runner(module))


def _inside_runner(module: Any) -> bool:
    """Experts that a runner holds (0.24 to 0.33) have no router of their own."""
    return is_a(module, "RoutedExperts")


def _outputs_of_gates(named: list[tuple[str, Any]]) -> dict[str, set[int]]:
    """Experts by the modules that may hold their gate: the one around the experts, and their runner."""
    found: dict[str, set[int]] = {}
    for name, module in named:
        if _is_moe(module):
            for holder in (name, _parent(name)):
                found.setdefault(holder, set()).add(number(experts_of(module), "global_num_experts"))
    return found


def _is_router(name: str, module: Any, gated: dict[str, set[int]]) -> bool:
    """A gate: vLLM's own class, or a linear beside (or inside of) the experts with one output an expert."""
    if is_a(module, "GateLinear"):
        return True
    rows = number(module, "output_size", "out_features")
    return is_a(module, "LinearBase", "Linear") and rows > 1 and rows in gated.get(_parent(name), ())


def _parent(name: str) -> str:
    return name.rpartition(".")[0]
