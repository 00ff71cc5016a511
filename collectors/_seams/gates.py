"""Seams of ``collectors/gates.py``: which slices of fused parameters the checkpoint filled."""

from m3probe.collectors._seams._seam import Seam

LINEAR, EXPERTS = "vllm.model_executor.layers.linear", "vllm.model_executor.layers.fused_moe.routed_experts"
_WHY = "which slices of a fused projection the loader filled"
_NEEDS = ("param", "loaded_shard_id")

SEAMS = {
    "load_merged": Seam(LINEAR, "MergedColumnParallelLinear.weight_loader", _WHY, _NEEDS, early=True),
    "load_merged_v2": Seam(LINEAR, "MergedColumnParallelLinear.weight_loader_v2", _WHY, _NEEDS, early=True),
    "load_qkv": Seam(LINEAR, "QKVParallelLinear.weight_loader", _WHY, _NEEDS, early=True),
    "load_qkv_v2": Seam(LINEAR, "QKVParallelLinear.weight_loader_v2", _WHY, _NEEDS, early=True),
    "load_qkv_index": Seam(
        LINEAR, "MinimaxM3QKVParallelLinearWithIndexer.weight_loader", "the same with index heads", _NEEDS, early=True
    ),
    "load_qkv_index_v2": Seam(
        LINEAR,
        "MinimaxM3QKVParallelLinearWithIndexer.weight_loader_v2",
        "the same with index heads",
        _NEEDS,
        early=True,
    ),
    "load_experts": Seam(
        EXPERTS,
        "RoutedExperts.weight_loader",
        "which slices of which experts the loader filled",
        ("param", "shard_id", "expert_id"),
        early=True,
    ),
}
