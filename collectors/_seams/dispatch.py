"""Seams of ``collectors/dispatch.py``: predicates of fast paths, the branches taken, and which layer runs.

``ask_*`` is a predicate, ``ran_*`` a branch, ``in_*`` a call whose branch is told by what runs inside, ``at_*`` a layer.
A name that a module got by ``from X import f`` is patched where it is called from.
"""

from m3probe.collectors._seams._seam import Seam

_COMM = "vllm.distributed.device_communicators"
_MOE = "vllm.model_executor.layers.fused_moe"
_LINEAR = "vllm.model_executor.kernels.linear.mxfp8"
_M3 = "vllm.models.minimax_m3"
_MONO = f"{_M3}.amd.specialized_decode"

ALL_REDUCE: dict[str, Seam] = {
    "in_all_reduce": Seam(f"{_COMM}.cuda_communicator", "CudaCommunicator.all_reduce", "one all-reduce", ("input_",)),
    "in_all_reduce_cpu": Seam(f"{_COMM}.cpu_communicator", "CpuCommunicator.all_reduce", "one on CPU", ("input_",)),
    "ask_quick": Seam(
        f"{_COMM}.quick_all_reduce", "QuickAllReduce.should_quick_allreduce", "does QuickReduce take it?", ("inp",)
    ),
    "ran_quick": Seam(
        f"{_COMM}.quick_all_reduce", "QuickAllReduce.quick_all_reduce", "QuickReduce, by codec", ("inp",)
    ),
    "ask_aiter_ar": Seam(
        f"{_COMM}.aiter_custom_all_reduce", "AiterCustomAllreduce.should_custom_ar", "does AITER's take it?", ("inp",)
    ),
    "ran_aiter_ar": Seam(
        f"{_COMM}.aiter_custom_all_reduce", "AiterCustomAllreduce.custom_all_reduce", "AITER's, from 0.25.1 on"
    ),
    "ask_custom_ar": Seam(
        f"{_COMM}.custom_all_reduce", "CustomAllreduce.should_custom_ar", "does vLLM's take it?", ("inp",)
    ),
    "ran_custom_ar": Seam(
        f"{_COMM}.custom_all_reduce", "CustomAllreduce.custom_all_reduce", "vLLM's; None: it refused"
    ),
    "ran_symm_ar": Seam(f"{_COMM}.symm_mem", "SymmMemCommunicator.all_reduce", "symmetric memory"),
    "ran_flashinfer_ar": Seam(f"{_COMM}.flashinfer_all_reduce", "FlashInferAllReduce.all_reduce", "FlashInfer"),
    "ran_nccl_ar": Seam(f"{_COMM}.pynccl", "PyNcclCommunicator.all_reduce", "RCCL or NCCL; None: it is switched off"),
    "ask_fused_ar": Seam(
        "vllm.model_executor.layers.fused_allreduce_gemma_rms_norm",
        "_can_use_aiter_fused_ar_rms",
        "may all-reduce and norm be one kernel? (from 0.32 on)",
        ("hidden_states",),
    ),
    "ran_fused_ar": Seam(
        "aiter.dist.device_communicators.custom_all_reduce",
        "CustomAllreduce.custom_fused_ar_rms",
        "all-reduce and norm in one AITER call; None: it refused",
    ),
}
ATTENTION: dict[str, Seam] = {
    "ask_qknorm": Seam(
        "vllm._aiter_ops",
        "rocm_aiter_ops.fused_qknorm_idxrqknorm_enabled",
        "may AITER's QK-norm run? (from 0.32 on)",
        ("kv_cache_dtype", "k_scale", "v_scale"),
    ),
    "ran_qknorm_aiter": Seam("vllm._aiter_ops", "rocm_aiter_ops.fused_qknorm_idxrqknorm", "AITER's QK-norm", ("qkv",)),
    "ran_qknorm_vllm": Seam("vllm._custom_ops", "fused_minimax_m3_qknorm_rope_kv_insert", "vLLM's op", ("qkv",)),
    "ran_sparse_decode": Seam(
        f"{_M3}.common.sparse_attention",
        "minimax_m3_sparse_attn_decode",
        "Triton attend, decode rows",
        ("q", "decode_query_len"),
        also=(f"{_M3}.nvidia.sparse_attention_msa:minimax_m3_sparse_attn_decode",),
    ),
    "ran_sparse_prefill": Seam(
        f"{_M3}.common.sparse_attention", "minimax_m3_sparse_attn", "Triton attend, prefill rows", ("q",)
    ),
    "ran_sparse_decode_aiter": Seam(
        f"{_M3}.amd.ops.sparse_pa",
        "minimax_m3_sparse_attn_decode_aiter",
        "AITER attend, decode rows; its caller imports it in each call",
        ("q", "decode_query_len"),
    ),
    "ran_sparse_prefill_aiter": Seam(
        f"{_M3}.amd.ops.sparse_pa", "minimax_m3_sparse_attn_prefill_aiter", "AITER attend, prefill rows", ("q",)
    ),
    "ran_sparse_msa": Seam(
        f"{_M3}.nvidia.sparse_attention_msa", "MiniMaxM3SparseMSAImpl.forward", "MSA attend of Blackwell", ("layer",)
    ),
    "ran_index_decode": Seam(
        f"{_M3}.common.indexer", "minimax_m3_index_decode", "Triton indexer, decode rows", ("idx_q", "decode_query_len")
    ),
    "ran_index_prefill": Seam(
        f"{_M3}.common.indexer",
        "minimax_m3_index_score",
        "Triton indexer, prefill rows",
        ("idx_q",),
        also=(f"{_M3}.amd.indexer_context_parallel:minimax_m3_index_score",),
    ),
    "ran_index_cp": Seam(
        f"{_M3}.amd.indexer_context_parallel",
        "IndexerCPDecode.__call__",
        "context-parallel indexer (0.33)",
        ("local_q",),
    ),
    "ran_index_msa_decode": Seam(
        f"{_M3}.amd.indexer_msa", "MiniMaxM3IndexerMSAImpl._decode", "FP8 indexer, decode rows (0.33)", ("index_query",)
    ),
    "ran_index_msa_prefill": Seam(
        f"{_M3}.amd.indexer_msa",
        "MiniMaxM3IndexerMSAImpl._prefill",
        "FP8 indexer, prefill rows (0.33)",
        ("index_query",),
    ),
    "ran_index_aiter": Seam(
        f"{_M3}.amd.indexer_aiter", "MiniMaxM3IndexerAiterImpl.forward", "FP8 indexer of 0.32", ("index_query",)
    ),
    "ran_index_nvidia": Seam(
        f"{_M3}.nvidia.indexer_msa", "MiniMaxM3IndexerMSAImpl.forward", "MSA indexer of Blackwell", ("index_query",)
    ),
} | {
    f"at_attend_{name}": Seam(f"{_M3}.{module}", f"{cls}.forward", "a sparse layer attends; does it reuse?", ("layer",))
    for name, module, cls in (
        ("triton", "common.sparse_attention", "MiniMaxM3SparseTritonImpl"),
        ("aiter", "amd.sparse_attention_msa", "MiniMaxM3SparseAiterPAImpl"),
    )
}
EXPERTS: dict[str, Seam] = {
    "ran_experts": Seam(f"{_MOE}.routed_experts", "RoutedExperts.forward_modular", "experts after routing", ("x",)),
    "ran_experts_monolithic": Seam(
        f"{_MOE}.routed_experts", "RoutedExperts.forward_monolithic", "routing and experts in one", ("x",)
    ),
    "in_router_gemm": Seam(f"{_MOE}.router.gate_linear", "GateLinear.forward", "one router GEMM", ("x",)),
    "ran_router_rocm": Seam(
        f"{_MOE}.router.rocm_fp32_router_gemm", "rocm_fp32_router_gemm", "FP32 kernel, imported in each call"
    ),
    "ran_router_terms": Seam(f"{_MOE}.router.bf16x3_router_gemm_rocm", "bf16x3_router_gemm", "three BF16 terms"),
    "ran_router_cuda": Seam("vllm._custom_ops", "fp32_router_gemm", "FP32 kernel of CUDA"),
    "ran_shared_mlp": Seam(f"{_M3}.amd.model", "MiniMaxM3MLP.forward", "a dense MLP; the shared expert's is unfused"),
    "ran_shared_mlp_nvidia": Seam(f"{_M3}.nvidia.model", "MiniMaxM3MLP.forward", "the same in NVIDIA's model file"),
    "ask_monokernel": Seam(f"{_MONO}.runtime.decode", "decide_step", "does this step take it? (0.33)", ("rows",)),
    "ran_monokernel": Seam(
        f"{_MONO}.mono.runner", "FfnRunner.__call__", "one launch per sparse layer (0.33)", ("part",)
    ),
    "ran_mxfp8_native": Seam(
        f"{_LINEAR}.rocm_native",
        "RocmDotScaledMxfp8LinearKernel.apply_weights",
        "native MXFP8 linear, or F.linear inside it where K is no multiple of 128",
        ("layer", "x"),
    ),
    "ran_mxfp8_emulated": Seam(
        f"{_LINEAR}.emulation", "EmulationMxfp8LinearKernel.apply_weights", "MXFP8 linear by F.linear", ("layer", "x")
    ),
    "ran_fmoe_table": Seam(
        "aiter.fused_moe", "get_2stage_cfgs", "key of AITER's tuned MoE table", ("token", "inter_dim")
    ),
    "ran_gemm_table": Seam(
        "aiter.ops.gemm_op_a8w8", "get_GEMM_config_with_quant_type", "key of AITER's tuned GEMM table", ("M", "N", "K")
    ),
    "at_layer": Seam(f"{_M3}.amd.model", "MiniMaxM3DecoderLayer.forward", "which layer of MiniMax M3 runs"),
    "at_moe": Seam(f"{_MOE}.runner.moe_runner", "MoERunner._forward_impl", "which MoE layer runs"),
}
LOADING: dict[str, Seam] = {
    "ask_sparse_pa": Seam(
        f"{_M3}.common.sparse_attention",
        "minimax_m3_use_aiter_sparse_pa",
        "is AITER's sparse attention asked for? (from 0.32 on)",
        ("num_kv_heads",),
        also=(
            f"{_M3}.amd.model:minimax_m3_use_aiter_sparse_pa",
            f"{_M3}.amd.mtp:minimax_m3_use_aiter_sparse_pa",
        ),
        early=True,
    ),
    "ask_index_msa": Seam(
        f"{_M3}.amd.indexer_msa", "msa_indexer_unsupported_reason", "why not the FP8 indexer (0.33)?", early=True
    ),
    "ask_index_aiter": Seam(
        f"{_M3}.amd.indexer_aiter", "aiter_indexer_unsupported_reason", "why not the FP8 indexer (0.32)?", early=True
    ),
    "ask_fse": Seam(
        "vllm.model_executor.layers.quantization.utils.config_utils",
        "is_shared_expert_quant_fse_compatible",
        "may the shared expert be fused? (from 0.32 on)",
        also=(
            f"{_M3}.amd.model:is_shared_expert_quant_fse_compatible",
            f"{_MOE}.utils:is_shared_expert_quant_fse_compatible",
        ),
        early=True,
    ),
}
SEAMS: dict[str, Seam] = ALL_REDUCE | ATTENTION | EXPERTS | LOADING
