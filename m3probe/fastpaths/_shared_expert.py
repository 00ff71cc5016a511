"""Whether the shared expert is fused with the routed ones, and the sizes that follow.

Sources: ``MiniMaxM3MoE`` (``models/minimax_m3/amd/model.py``) and ``is_shared_expert_quant_fse_compatible``
(``quantization/utils/config_utils.py``) at 0.25.1, 0.32, 0.33.
"""

from __future__ import annotations

from m3probe.fastpaths._experts import held_by_all
from m3probe.fastpaths._m3 import absent, build_name, no, unknown, yes
from m3probe.schema.setup import Met, Setup, met

FSE_ENV = "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS"


def fused_shared(setup: Setup) -> bool | None:
    """Whether the shared expert rides along as one more routed expert."""
    if not setup.on(FSE_ENV, default=False) or absent(setup, "fse"):
        return False
    rule = setup.build.rule("fse")
    if not rule.known:
        return None
    return held_by_all(tuple(check(setup) for check in (shared_there, shared_without_ep, shared_quant)))


def shared_there(setup: Setup) -> Met:
    """The model has a shared expert."""
    count = setup.model.shared_experts
    return met(None if count is None else count > 0, f"{count} shared expert per layer")


def shared_without_ep(setup: Setup) -> Met:
    """The shared slot is appended to the routed ones, which the expert map of EP does not hold."""
    if setup.expert_parallel:
        return no(f"--enable-expert-parallel (EP{setup.ep}): the shared slot is not in the expert map")
    return yes("no expert parallelism")


def shared_quant(setup: Setup) -> Met:
    """Quantisation classes that this build lets through, or its refusal word for word."""
    rule, cls = setup.build.rule("fse").value, setup.model.quant_config_class
    if not rule["check"]:
        return yes(f"{build_name(setup)} does not compare the quantisation of routed and shared experts")
    if cls is None:
        if setup.model.moe_quant == "bf16":
            return yes("nothing is quantised")
        return unknown("the quantisation config's class is not known")
    if cls in rule["accepts"]:
        return yes(f"{cls} is accepted, given that its exclude list treats routed and shared experts alike")
    return no(f"{build_name(setup)}: {rule['refusal'].format(cls=cls)}")


def experts_and_slots(setup: Setup) -> tuple[int, int] | None:
    """(experts, slots per row) of the rank's weights: 128/4, 129/5 with the shared expert fused, 128 / EP under EP."""
    model, fused = setup.model, fused_shared(setup)
    if model.experts is None or model.top_k is None or fused is None:
        return None
    more = (model.shared_experts or 0) if fused else 0
    return model.experts // setup.ep + more, model.top_k + more
