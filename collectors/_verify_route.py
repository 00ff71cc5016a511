"""Routing in float32: which experts a row goes to, and with which weights.

Sources: vLLM 0.24 to 0.33, ``fused_moe/router``: fused_topk, fused_topk_bias, grouped_topk, cpu_router.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from m3probe.collectors._modules_look import cls, get, number
from m3probe.collectors._quant import Unknown

ROUTERS = frozenset({"FusedTopKRouter", "FusedTopKBiasRouter", "GroupedTopKRouter", "CPURouter"})
TIES = (1e-6, 2.5e-7)
"""Scores nearer than this (relative) may be ordered either way by a kernel's float32: such rows are left out. The second,
two steps of float32, where the first leaves no row (weights of noise)."""


@dataclass(frozen=True, slots=True)
class Routing:
    """How a router scores and chooses."""

    top_k: int
    scoring: str
    renormalize: bool
    scale: float = 1.0
    bias: Any = None
    groups: int = 0
    group_top_k: int = 0
    shared: int = 0
    shared_weight: float = 1.0
    experts: int = 0


def routing_of(router: Any, experts: Any) -> Routing:
    """What a live router does.

    Raises:
        Unknown: it is of another kind, or its choice is not a function of the logits alone.
    """
    if cls(router) not in ROUTERS:
        raise Unknown(f"rows are routed by {cls(router) or 'the kernel itself'}")
    odd = [
        name for name in ("custom_routing_function", "_hash_indices_table", "bias_vl") if get(router, name) is not None
    ]
    scoring = get(router, "scoring_func") or get(experts, "scoring_func")
    if odd or scoring not in ("softmax", "sigmoid"):
        raise Unknown(f"rows are routed by {', '.join(odd) or scoring}")
    bias = get(router, "e_score_correction_bias")
    grouped = get(router, "use_grouped_topk") is True or cls(router) == "GroupedTopKRouter"
    return Routing(
        top_k=number(router, "top_k"),
        scoring=str(scoring),
        renormalize=bool(get(router, "renormalize")),
        scale=float(get(router, "routed_scaling_factor") or 1.0),
        bias=None if bias is None else bias.detach().float().cpu(),
        groups=max(number(router, "num_expert_group"), 1) if grouped else 0,
        group_top_k=max(number(router, "topk_group"), 1) if grouped else 0,
        shared=max(number(router, "num_fused_shared_experts"), 0),
        shared_weight=float(get(router, "shared_expert_weight") or 1.0),
        experts=number(router, "global_num_experts"),
    )


def route(logits: Any, how: Routing) -> tuple[Any, Any, Any]:
    """Weights and expert numbers [rows, k] of logits [rows, experts], and which rows have no tie at the border."""
    torch: Any = sys.modules["torch"]
    logits = logits.double()
    scores = torch.softmax(logits, -1) if how.scoring == "softmax" else logits.sigmoid()
    choice = scores if how.bias is None else scores + how.bias
    if how.groups > 1:
        choice = choice.masked_fill(~_in_groups(choice, how), float("-inf"))
    best, order = choice.sort(dim=-1, descending=True)
    ids = order[:, : how.top_k]
    weights = scores.gather(1, ids)
    if how.renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    weights = weights * how.scale
    clear = _clear(best, how.top_k)
    if how.shared:
        slots = torch.arange(how.experts, how.experts + how.shared).expand(len(ids), -1)
        ids = torch.cat((ids, slots), -1)
        weights = torch.cat((weights, torch.full(slots.shape, how.shared_weight)), -1)
    return weights.float(), ids, clear


def _clear(best: Any, top_k: int) -> Any:
    """Rows whose last chosen expert is ahead of the first that was not chosen; ``best``: scores in falling order."""
    torch: Any = sys.modules["torch"]
    clear = torch.ones(len(best), dtype=torch.bool)
    for tie in TIES if top_k < best.shape[1] else ():
        last, first_out = best[:, top_k - 1], best[:, top_k]
        clear = (last - first_out) > tie * last.abs()
        if bool(clear.any()):
            break
    return clear


def _in_groups(choice: Any, how: Routing) -> Any:
    """Mask of experts in the groups that a row may choose from: by their best, with a bias by the sum of their best two."""
    torch: Any = sys.modules["torch"]
    parts = choice.view(len(choice), how.groups, -1)
    rank = parts.max(-1).values if how.bias is None else parts.topk(min(2, parts.shape[-1]), -1).values.sum(-1)
    chosen = torch.zeros_like(rank, dtype=torch.bool).scatter_(1, rank.topk(how.group_top_k, -1).indices, value=True)
    return chosen.unsqueeze(-1).expand_as(parts).reshape(choice.shape)
