"""Seams of ``collectors/routing.py``: where rows have their experts."""

from m3probe.collectors._seams._seam import Seam

_MOE = "vllm.model_executor.layers.fused_moe"
_ALIGN = "moe_align_block_size"

SEAMS: dict[str, Seam] = {
    "route_step": Seam(
        "vllm.v1.worker.gpu_worker",
        "Worker.execute_model",
        "a step begins, and its counts are copied",
        ("scheduler_output",),
    ),
    "route_experts": Seam(
        f"{_MOE}.routed_experts", "RoutedExperts.forward_modular", "rows and their experts", ("x", "topk_ids")
    ),
    "route_align": Seam(
        f"{_MOE}.{_ALIGN}",
        _ALIGN,
        "rows of an expert are padded to blocks of this many",
        ("topk_ids", "block_size"),
        also=tuple(
            f"{_MOE}.{module}:{_ALIGN}"
            for module in (
                "fused_moe",
                "experts.triton_moe",
                "experts.mxfp8_native_moe",
                "experts.marlin_moe",
                "experts.fused_humming_moe",
                "experts.nvfp4_emulation_moe",
                "experts.rdna3_moe",
            )
        ),
    ),
    "route_blocks_triton": Seam(
        "vllm.models.minimax_m3.common.sparse_attention",
        "MiniMaxM3SparseTritonImpl.forward",
        "blocks that the indexer chose for a sparse layer",
        ("layer",),
    ),
    "route_blocks_aiter": Seam(
        "vllm.models.minimax_m3.amd.sparse_attention_msa",
        "MiniMaxM3SparseAiterPAImpl.forward",
        "the same where AITER attends",
        ("layer",),
    ),
}
