"""Facts of a mixture of experts as this rank holds it: sizes of one expert, how many, and how rows are routed."""

from __future__ import annotations

from typing import Any

from m3probe.collectors._modules_linear import Found
from m3probe.collectors._modules_look import cls, dtype, get, number, plain, shape, word

W13 = ("w13_weight", "w13_weight_packed", "w13_qweight")
W2 = ("w2_weight", "w2_weight_packed", "w2_qweight")


def experts_of(module: Any) -> Any:
    """What holds the experts' weights: the runner's ``routed_experts`` (0.24 to 0.33), or the module itself."""
    inner = get(module, "routed_experts")
    if inner is not None:
        return inner
    return module if get(module, *W13) is not None else None


def moe(runner: Any) -> Found:
    """N and K are those of one expert's w13; ``facts["w2"]`` is [N, K] of its w2."""
    held = experts_of(runner)
    config = get(held, "moe_config") or get(runner, "moe_config")
    hidden = number(config, "hidden_dim") if number(config, "hidden_dim") > 0 else number(held, "hidden_size")
    inner = number(config, "intermediate_size_per_partition")
    inner = inner if inner > 0 else number(held, "intermediate_size_per_partition")
    gated = get(config, "is_act_and_mul") is not False
    w13 = get(held, *W13)
    facts = _counts(held, config) | _routing(held) | _kernel_facts(held)
    facts |= {
        "w2": [hidden, inner],
        "gated": gated,
        "w13_stored": list(shape(w13)),
        "w2_stored": list(shape(get(held, *W2))),
    }
    facts |= _padding(config, hidden, inner)
    return {
        "N": inner * (2 if gated else 1) if inner > 0 else -1,
        "K": hidden,
        "dtype": dtype(w13),
        "quant": cls(get(held, "quant_method")),
        "kernel": kernel(held),
        "facts": facts,
    }


def kernel(held: Any) -> str:
    """Class of the fused experts; the method's choice where the kernel is built at the first step."""
    method = get(held, "quant_method")
    experts = get(get(method, "moe_kernel"), "fused_experts") or get(method, "fused_experts")
    chosen = get(method, "experts_cls")
    return cls(experts) if experts is not None else chosen.__name__ if isinstance(chosen, type) else ""


def fused_shared(held: Any) -> int:
    """Shared experts that stand among the routed ones; -1 where it cannot be told.

    By the weights where they have more slots than the rank has routed experts, else by the placement's own count.
    """
    local, slots = number(held, "local_num_experts"), shape(get(held, *W13))
    if slots and 0 < local < slots[0]:
        return slots[0] - local
    return number(get(held, "expert_map_manager"), "num_fused_shared_experts")


def _counts(held: Any, config: Any) -> Found:
    logical = number(config, "num_logical_experts")
    experts = logical if logical > 0 else number(held, "global_num_experts")
    found = {"experts": experts, "top_k": number(held, "top_k"), "local_experts": number(held, "local_num_experts")}
    physical, fused = number(held, "global_num_experts"), fused_shared(held)
    found |= {"physical_experts": physical} if physical != experts else {}
    if fused > 0:
        found |= {"fused_shared": fused, "top_k_with_shared": found["top_k"] + fused}
    parallel = get(config, "moe_parallel_config")
    names = {n: n for n in ("tp_size", "tp_rank", "ep_size", "ep_rank", "dp_size", "use_ep", "enable_eplb")}
    return found | plain(parallel, names)


def _routing(held: Any) -> Found:
    names = {
        "scoring_func": "scoring", "renormalize": "renormalize", "use_grouped_topk": "grouped", "num_expert_group": "groups",
        "topk_group": "topk_groups", "routed_scaling_factor": "routed_scale", "swiglu_alpha": "alpha", "swiglu_beta": "beta",
        "swiglu_limit": "limit", "apply_router_weight_on_input": "weight_on_input",
    }  # fmt: skip
    found = plain(held, names) | {"activation": word(get(held, "activation") or "")}
    return found | {"bias": get(held, "e_score_correction_bias") is not None}


def _kernel_facts(held: Any) -> Found:
    method = get(held, "quant_method")
    prepare = get(get(method, "moe_kernel"), "prepare_finalize")
    found = {"prepare_finalize": cls(prepare)} if prepare is not None else {}
    names = [name for name in vars(method) if name.endswith("_backend")] if hasattr(method, "__dict__") else []
    backend = get(method, *names)
    return found | ({"backend": word(backend)} if backend is not None else {})


def _padding(config: Any, hidden: int, inner: int) -> Found:
    """Rows and columns that a kernel's alignment added to what the model has."""
    given = (number(config, "hidden_dim_unpadded"), number(config, "intermediate_size_per_partition_unpadded"))
    added = {"hidden": hidden - given[0], "intermediate": inner - given[1]}
    return {"padding": {n: v for n, v in added.items() if v > 0}} if min(given) > 0 and max(added.values()) > 0 else {}
