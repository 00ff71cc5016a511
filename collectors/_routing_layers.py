"""The MoE layers of a loaded model: how many bins a layer's histogram needs, and what cannot be seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PAD, WRONG = 0, 1
"""Bins behind the experts': ids below zero (rows of padding), ids that no expert has."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One MoE layer.

    Args:
        name: vLLM's.
        experts: routed experts over all ranks; with expert balancing physical ones.
        shared: fused shared experts; their ids follow the routed ones.
        row: of the tables of counts.
    """

    name: str
    experts: int
    shared: int
    row: int


def layers_of(model: Any) -> tuple[dict[int, Layer], list[str]]:
    """(layers by the id of their module, names of those that route inside of their kernel)."""
    found: dict[int, Layer] = {}
    monolithic: list[str] = []
    for module in model.modules():
        if not any(kind.__name__ == "RoutedExperts" for kind in type(module).__mro__):
            continue
        name = str(getattr(module, "layer_name", ""))
        if getattr(getattr(module, "quant_method", None), "is_monolithic", False):
            monolithic.append(name)
            continue
        shared = getattr(getattr(module, "expert_map_manager", None), "num_fused_shared_experts", 0)
        experts = getattr(module, "global_num_experts", -1)
        if isinstance(experts, int) and experts > 0:
            found[id(module)] = Layer(name, experts, shared if isinstance(shared, int) else 0, len(found))
    return found, monolithic


def bins(layers: dict[int, Layer]) -> int:
    """Experts of the widest layer, and the two bins behind them."""
    return max((layer.experts + layer.shared for layer in layers.values()), default=0) + 2
