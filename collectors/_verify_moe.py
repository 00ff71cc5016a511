"""Experts in float32: what this rank's share of a MoE layer's output has to be, before it is reduced over ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from m3probe.collectors._modules_look import cls, get, number, shape, word
from m3probe.collectors._modules_moe import W2, W13, experts_of
from m3probe.collectors._quant import Unknown, weight_of
from m3probe.collectors._quant_packed import cpu_packer, unpacked
from m3probe.collectors._verify_route import Routing, route, routing_of

IN_ORDER = frozenset({
    "TritonExperts", "BatchedTritonExperts", "NaiveBatchedExperts", "Mxfp8EmulationTritonExperts", "Mxfp8NativeTritonExperts",
})  # fmt: skip
"""Kernels that take w13 as [gates; ups] and w2 as they were loaded."""
ALONE = frozenset({"", "MoEPrepareAndFinalizeNoDPEPModular", "MoEPrepareAndFinalizeNoDPEPMonolithic"})
"""Ways of handing rows over in which a rank computes with its own experts alone."""

Matrix = Callable[[int], Any]
"""Slot -> float32 [N, K]."""


@dataclass(frozen=True, slots=True)
class Experts:
    """All that one rank's share is computed from."""

    routing: Routing
    slots: dict[int, int]
    """Expert number -> slot here; experts of other ranks are not in it."""
    w13: Matrix
    w2: Matrix
    activate: Callable[[Any], Any]
    bias13: Any = None
    bias2: Any = None
    weight_on_input: bool = False
    text: str = ""


def output(experts: Experts, rows: Any, logits: Any) -> tuple[Any, Any]:
    """(this rank's share [rows, hidden], rows without a tie), float32 on the host."""
    torch: Any = sys.modules["torch"]
    x = rows.float()
    weights, ids, clear = route(logits, experts.routing)
    total = torch.zeros_like(x)
    for expert in ids.unique().tolist():
        slot = experts.slots.get(expert)
        if slot is not None:
            row, at = (ids == expert).nonzero(as_tuple=True)
            weight = weights[row, at].unsqueeze(-1)
            total.index_add_(0, row, _one(experts, slot, x[row], weight))
    return total, clear


def _one(experts: Experts, slot: int, x: Any, weight: Any) -> Any:
    inner = (x * weight if experts.weight_on_input else x) @ experts.w13(slot).T
    inner = experts.activate(inner if experts.bias13 is None else inner + experts.bias13[slot])
    out = inner @ experts.w2(slot).T
    out = out if experts.bias2 is None else out + experts.bias2[slot]
    return out if experts.weight_on_input else out * weight


def experts_for(runner: Any) -> Experts:
    """The reference of a live MoE runner.

    Raises:
        Unknown: its kernel, routing, activation or placement is not known.
    """
    held = experts_of(runner)
    method = get(held, "quant_method")
    kernel = get(get(method, "moe_kernel"), "fused_experts")
    handing = cls(get(get(method, "moe_kernel"), "prepare_finalize"))
    if handing not in ALONE:
        raise Unknown(f"experts of other ranks take part ({handing})")
    slots, text = placement(held)
    w13, w2 = _matrices(held, kernel)
    bias13, bias2 = (get(held, f"{name}_bias") for name in ("w13", "w2"))
    return Experts(
        routing=routing_of(get(runner, "router"), held),
        slots=slots,
        w13=w13,
        w2=w2,
        activate=activation(held),
        bias13=None if bias13 is None else bias13.detach().float().cpu(),
        bias2=None if bias2 is None else bias2.detach().float().cpu(),
        weight_on_input=get(held, "apply_router_weight_on_input") is True,
        text=text,
    )


def placement(held: Any) -> tuple[dict[int, int], str]:
    """Where each expert has to be on this rank by its place in the group, and how the module's own map differs from it.

    Raises:
        Unknown: experts move while it serves (EPLB).
    """
    parallel = get(get(held, "moe_config"), "moe_parallel_config")
    experts, size, rank = (
        number(held, "global_num_experts"),
        max(number(parallel, "ep_size"), 1),
        number(parallel, "ep_rank"),
    )
    if get(parallel, "enable_eplb") is True:
        raise Unknown("experts move between ranks while it serves (EPLB)")
    strategy = get(get(held, "expert_map_manager"), "placement_strategy") or "linear"
    mine = mine_of(experts, size, max(rank, 0), str(strategy))
    slots = {expert: slot for slot, expert in enumerate(mine)}
    shared = shape(get(held, *W13))[0] - len(mine) if shape(get(held, *W13)) else 0
    slots |= {experts + n: len(mine) + n for n in range(max(shared, 0))}
    return slots, _map_text(held, mine, size)


def mine_of(experts: int, ranks: int, rank: int, strategy: str) -> list[int]:
    """Expert numbers of one rank in the order of their slots: in one piece, the first ranks one more; or every n-th."""
    if strategy == "round_robin":
        return list(range(rank, experts, ranks))
    each, more = divmod(experts, ranks)
    start = rank * each + min(rank, more)
    return list(range(start, start + each + (rank < more)))


def activation(held: Any) -> Callable[[Any], Any]:
    """[rows, 2 I] -> [rows, I], by the module's own name for it.

    Raises:
        Unknown: another activation.
    """
    torch: Any = sys.modules["torch"]
    functional, name = torch.nn.functional, word(get(held, "activation") or "")
    plain = {
        "silu": functional.silu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    }
    if name in plain:
        return lambda x: plain[name](x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]
    alpha, beta, limit = (get(held, f"swiglu_{value}") for value in ("alpha", "beta", "limit"))
    if name == "swigluoai_uninterleave" and None not in (alpha, beta, limit):
        return lambda x: swiglu_oai(x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :], alpha, beta, limit)
    if name == "swigluoai":
        values = (1.702 if alpha is None else alpha, 1.0 if beta is None else beta, 7.0 if limit is None else limit)
        return lambda x: swiglu_oai(x[:, ::2], x[:, 1::2], *values)
    raise Unknown(f"the activation {name or '?'}")


def swiglu_oai(gate: Any, up: Any, alpha: float, beta: float, limit: float) -> Any:
    """Clamped SwiGLU of GPT-OSS and MiniMax M3."""
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate * (gate * alpha).sigmoid() * (up + beta)


def _matrices(held: Any, kernel: Any) -> tuple[Matrix, Matrix]:
    sizes = _sizes(held)
    if cls(kernel).endswith("CPUUnquantizedExperts"):
        pack = cpu_packer(kernel)
        if get(kernel, "_use_zentorch") is True:
            raise Unknown("the layout of expert weights in zentorch")
        tensors = [get(held, *names) for names in (W13, W2)]
        w13, w2 = ((lambda slot, t=tensor: unpacked(t[slot].detach(), pack).float()) for tensor in tensors)
        return w13, w2
    if cls(kernel) not in IN_ORDER:
        raise Unknown(f"the layout of expert weights in {cls(kernel) or 'a kernel that is not there yet'}")
    return (
        lambda slot: weight_of(held, "w13_", sizes[0], slot),
        lambda slot: weight_of(held, "w2_", sizes[1], slot),
    )


def _sizes(held: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """(N, K) of one expert's w13 and w2 as stored, padding included."""
    config = get(held, "moe_config")
    hidden, inner = number(config, "hidden_dim"), number(config, "intermediate_size_per_partition")
    return (inner * (1 if get(config, "is_act_and_mul") is False else 2), hidden), (hidden, inner)


def _map_text(held: Any, mine: list[int], ranks: int) -> str:
    tensor = get(held, "expert_map")
    if ranks == 1 or tensor is None:
        return ""
    values = tensor.tolist()
    mask = set(values) <= {0, 1} and len(values) > len(mine)
    wanted = [
        int(e in mine) if mask else mine.index(e) if e in mine else -1
        for e in range(number(held, "global_num_experts"))
    ]
    wrong = [str(e) for e, (has, want) in enumerate(zip(values, wanted, strict=False)) if has != want]
    return f"the expert map differs from this rank's placement at experts {', '.join(wrong[:8])}" if wrong else ""
