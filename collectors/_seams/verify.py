"""Seams of ``collectors/verify.py``: one module's input and output, hooked on that module alone and only on request."""

from m3probe.collectors._seams._seam import Seam

SEAMS = {
    "verify_linear": Seam(
        "vllm.model_executor.layers.linear",
        "UnquantizedLinearMethod.apply",
        "input and output of one linear layer before its reduction; every quantisation method has it",
        ("layer", "x"),
    ),
    "verify_gate": Seam(
        "vllm.model_executor.layers.fused_moe.router.gate_linear",
        "GateLinear.forward",
        "input and logits of one router",
        ("x",),
    ),
    "verify_moe": Seam(
        "vllm.model_executor.layers.fused_moe.runner.moe_runner",
        "MoERunner._apply_quant_method",
        "rows, logits and this rank's share of one MoE layer's output",
        ("hidden_states", "router_logits"),
    ),
    "verify_norm": Seam("vllm.model_executor.custom_op", "CustomOp.forward", "input and output of one norm"),
}
