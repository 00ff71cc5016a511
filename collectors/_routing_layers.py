"""The MoE layers of a loaded model: how many bins a layer's histogram needs, and what cannot be seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PAD = 0
"""The first bin: ids below zero, which rows of padding have. Expert 0 is bin 1; the bin behind the last expert's is for ids
that no expert has."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One MoE layer, or (``experts`` 0) one sparse attention layer whose chosen blocks are compared with the next one's.

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


def sparse_layers_of(model: Any, first: int) -> dict[int, Layer]:
    """MiniMax M3's sparse layers that choose their blocks themselves, numbered from ``first`` on."""
    chosen = [
        module
        for module in model.modules()
        if type(module).__name__ == "MiniMaxM3SparseAttention"
        and not getattr(module, "skip_index_topk", False)
        and getattr(module, "topk_indices_buffer", None) is not None
    ]
    return {id(m): Layer(str(m.layer_name), 0, 0, first + number) for number, m in enumerate(chosen)}


def bins(layers: dict[int, Layer]) -> int:
    """Experts of the widest layer, and the two bins beside them."""
    return max((layer.experts + layer.shared for layer in layers.values()), default=0) + 2
