"""What each seam says: one row a seam, and one hook for all of them.

Variants are the catalogue's words (``m3probe/fastpaths``); where Python cannot tell which of several ran, all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from m3probe.collectors import _dispatch_read as read
from m3probe.collectors import _dispatch_reasons as why
from m3probe.collectors._dispatch_read import Args, Kwargs, Reader, of, payload, rows, tokens


@dataclass(frozen=True, slots=True)
class Branch:
    """How one seam is read.

    Args:
        says: (path, variant) pairs; nothing said, nothing recorded.
        size: rows or bytes of the call.
        unit: of ``size``.
        eligible: what a predicate said; None for a branch that was taken.
        reason: why it said no.
        facts: pairs that tell calls of one size apart.
        holds: it is told by what runs inside; the word for it when nothing that is known did.
        inside: its word is told by the seams that hold it, and not as a record of its own.
        layer: which layer runs until it returns.
        loading: it is called while the model is built.
        gpu: none of its kernels exists on CPU, where a hook would be cost alone.
    """

    says: Reader | None = None
    size: Reader | None = None
    unit: str = "rows"
    eligible: Reader | None = None
    reason: Reader | None = None
    facts: Reader | None = None
    holds: str = ""
    inside: tuple[str, ...] = ()
    layer: Callable[[Args, Kwargs], str] | None = None
    loading: bool = False
    gpu: bool = False


_PATHS = ("custom_all_reduce", "quick_reduce")
_INPUT, _INP = payload(1, "input_"), payload(1, "inp")
_IN_REDUCE = ("in_all_reduce",)


def _asks(path: str, size: Reader | None, reason: Reader, unit: str = "rows", *, loading: bool = False) -> Branch:
    return Branch(of("", path), size, unit, eligible=read.ok, reason=reason, loading=loading)


def _refuses(path: str, reason: Reader) -> Branch:
    """A predicate that returns why not: None is a yes."""
    return Branch(of("", path), eligible=lambda _a, _k, result: result is None, reason=reason, loading=True)


ALL_REDUCE: dict[str, Branch] = {
    "in_all_reduce": Branch(read.tensor_parallel(read.inside(*_PATHS)), _INPUT, "bytes", holds="torch.distributed"),
    "in_all_reduce_cpu": Branch(read.tensor_parallel(read.cpu_reduce), _INPUT, "bytes"),
    "ask_quick": _asks("quick_reduce", _INP, why.quick, "bytes"),
    "ran_quick": Branch(read.codec, inside=_IN_REDUCE),
    "ask_aiter_ar": _asks("custom_all_reduce", _INP, why.aiter_custom, "bytes"),
    "ran_aiter_ar": Branch(read.unless_none("AITER"), inside=_IN_REDUCE),
    "ask_custom_ar": _asks("custom_all_reduce", _INP, why.custom, "bytes"),
    "ran_custom_ar": Branch(read.unless_none("vLLM"), inside=_IN_REDUCE),
    "ran_symm_ar": Branch(read.unless_none("symmetric memory"), inside=_IN_REDUCE),
    "ran_flashinfer_ar": Branch(read.unless_none("FlashInfer"), inside=_IN_REDUCE),
    "ran_nccl_ar": Branch(read.nccl_ran, inside=_IN_REDUCE),
    "ask_fused_ar": _asks("fused_allreduce_norm", payload(0, "hidden_states"), why.fused_norm, "bytes"),
    "ran_fused_ar": Branch(read.fused_norm, payload(1, "inp"), "bytes"),
}
_TRITON, _PAGE16, _FP8_INDEX = "Triton", "AITER page-16", "FP8 (AITER, MSA)"
_SPARSE = ("sparse_attention", "aiter_sparse_pa")
ATTENTION: dict[str, Branch] = {
    "ask_qknorm": _asks("fused_qknorm_rope_kv", None, why.qknorm),
    "ran_qknorm_aiter": Branch(of("AITER", "fused_qknorm_rope_kv"), rows(1, "qkv"), facts=read.index_branch(19)),
    "ran_qknorm_vllm": Branch(of("vLLM op", "fused_qknorm_rope_kv"), rows(0, "qkv"), facts=read.index_branch(11)),
    "ran_sparse_decode": Branch(read.attend_decode(_TRITON), tokens(0, "q")),
    "ran_sparse_prefill": Branch(of(_TRITON, *_SPARSE), tokens(0, "q")),
    "ran_sparse_decode_aiter": Branch(read.attend_decode(_PAGE16), tokens(0, "q")),
    "ran_sparse_prefill_aiter": Branch(of(_PAGE16, *_SPARSE), tokens(0, "q")),
    "ran_sparse_msa": Branch(read.msa, tokens(2, "query")),
    "ran_index_decode": Branch(of(_TRITON, "indexer"), tokens(0, "idx_q")),
    "ran_index_prefill": Branch(of(_TRITON, "indexer"), tokens(0, "idx_q")),
    "ran_index_cp": Branch(of("Triton CP", "indexer"), tokens(1, "local_q")),
    "ran_index_msa_decode": Branch(of(_FP8_INDEX, "indexer"), tokens(1, "index_query")),
    "ran_index_msa_prefill": Branch(of(_FP8_INDEX, "indexer"), tokens(1, "index_query")),
    "ran_index_aiter": Branch(read.index_aiter, tokens(1, "index_query")),
    "ran_index_nvidia": Branch(read.index_nvidia, tokens(1, "index_query")),
    "at_attend_triton": Branch(read.reuse, tokens(2, "query"), layer=read.sparse_layer),
    "at_attend_aiter": Branch(read.reuse, tokens(2, "query"), layer=read.sparse_layer),
}
_IN_ROUTER = ("in_router_gemm",)
EXPERTS: dict[str, Branch] = {
    "ran_experts": Branch(read.experts, rows(1, "x")),
    "ran_experts_monolithic": Branch(read.experts, rows(1, "x")),
    "in_router_gemm": Branch(read.inside("router_gemm"), rows(1, "x"), holds="another GEMM", gpu=True),
    "ran_router_rocm": Branch(lambda _a, _k, _r: "FP32 kernel", inside=_IN_ROUTER, gpu=True),
    "ran_router_terms": Branch(lambda _a, _k, _r: "three BF16 terms", inside=_IN_ROUTER, gpu=True),
    "ran_router_cuda": Branch(lambda _a, _k, _r: "FP32 kernel (CUDA)", inside=_IN_ROUTER, gpu=True),
    "ran_shared_mlp": Branch(read.shared_mlp, rows(1, "x")),
    "ran_shared_mlp_nvidia": Branch(read.shared_mlp, rows(1, "x")),
    "ask_monokernel": Branch(
        of("", "monokernel"),
        read.number(1, "rows"),
        eligible=lambda _a, _k, result: bool(result.use_mono),
        reason=why.decision,
    ),
    "ran_monokernel": Branch(of("monokernel", "monokernel", "moe_backend"), rows(1, "part")),
    "ran_mxfp8_native": Branch(read.linear, rows(2, "x")),
    "ran_mxfp8_emulated": Branch(of("emulation", "mxfp8_linear"), rows(2, "x")),
    "ran_fmoe_table": Branch(of("", "tuned_table"), read.number(0, "token"), facts=read.moe_key),
    "ran_gemm_table": Branch(read.gemm_row, read.number(0, "M"), facts=read.gemm_key),
    "at_layer": Branch(layer=lambda args, _k: str(getattr(args[0], "layer_id", ""))),
    "at_moe": Branch(layer=lambda args, _k: str(getattr(args[0], "layer_name", ""))),
}
LOADING: dict[str, Branch] = {
    "ask_sparse_pa": _asks("aiter_sparse_pa", None, why.not_asked, loading=True),
    "ask_index_msa": _refuses("indexer", why.said),
    "ask_index_aiter": _refuses("indexer", why.said),
    "ask_fse": Branch(
        of("", "shared_expert_fusion"),
        eligible=lambda _a, _k, result: bool(result[0]),
        reason=lambda _a, _k, result: str(result[1] or why.OTHER),
        loading=True,
    ),
}
BRANCHES: dict[str, Branch] = ALL_REDUCE | ATTENTION | EXPERTS | LOADING
