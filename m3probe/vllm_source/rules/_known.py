"""Shapes of the guards that rules are read from, as they stand in 0.24.0, 0.25.1, 0.32.0 and 0.33.0.

A rule gives the numbers of a guard; that the guard asks them as a path assumes (which comparison, joined by ``and`` or
``or``, refusing or accepting) is its shape. A guard of another shape has moved, whatever numbers it holds. The shapes
were taken by ``fingerprint`` after the guards of all four releases had been read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from m3probe.vllm_source.look import Moved
from m3probe.vllm_source.shape import fingerprint
from m3probe.vllm_source.tree import Source

# guard -> fingerprint -> releases that hold it
KNOWN: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "_can_use_aiter_fused_ar_rms": {
            "9994286347c56ac5": "0.32.0, 0.33.0",
        },
        "_filter_by_activation": {
            "72ca0b605fd45754": "0.24.0, 0.25.1",
            "bcd37b505e61c21b": "0.32.0, 0.33.0",
        },
        "_filter_kernels_by_backend": {
            "2d3b13137c8f26de": "0.32.0, 0.33.0",
        },
        "_fuse_shared_experts_enabled": {
            "b23c80f4c3cb95eb": "0.25.1",
        },
        "_get_linear_backend": {
            "273c1a869f74719d": "0.24.0, 0.25.1",
            "0b75c9e3eccb2216": "0.32.0, 0.33.0",
        },
        "_init_candidates": {
            "690660d6c3d5cae0": "0.24.0",
            "90d7d84b4489b063": "0.25.1",
            "3461230046deab85": "0.32.0, 0.33.0",
        },
        "_resolve_backend_kernels": {
            "3e5fe5e158aa27af": "0.32.0, 0.33.0",
        },
        "_rocm_arch_available": {
            "78cd3cf35e7bf783": "0.24.0, 0.25.1, 0.32.0, 0.33.0",
        },
        "_select_cfg": {
            "de24ba682efe43a2": "0.32.0, 0.33.0",
        },
        "_select_rocm_mxfp8_backend": {
            "17155f9c4f4016c8": "0.24.0",
            "fe148dc5023a9481": "0.25.1",
        },
        "_set_cudagraph_sizes": {
            "6bfb6fd9da69a4a9": "0.24.0, 0.25.1",
            "9824250acb7e3d85": "0.32.0, 0.33.0",
        },
        "_should_skip_index_topk": {
            "dda561c12cb4cfef": "0.25.1, 0.32.0, 0.33.0",
        },
        "_supports_current_device": {
            "f5f02970b5d80859": "0.25.1",
            "f7228236ddab11f7": "0.32.0",
            "e516955ca4f942c3": "0.33.0",
        },
        "_use_flydsl_int4": {
            "1f99c82ae48ed8d9": "0.33.0",
        },
        "adjust_cudagraph_sizes_for_spec_decode": {
            "42c39bdac2e7d9e3": "0.24.0, 0.25.1",
            "85c753f3e4315e25": "0.32.0, 0.33.0",
        },
        "all_reduce": {
            "fbea7b4dca98463b": "0.24.0",
            "9025a871ddadb79d": "0.25.1",
            "e2c7fb6b6e52a46b": "0.32.0, 0.33.0",
        },
        "allow_fp32_router_gemm": {
            "230956ed23789705": "0.32.0",
            "be87ce0ae68f916e": "0.33.0",
        },
        "apply_draft_overrides": {
            "9ae8fb3da1997ef8": "0.32.0, 0.33.0",
        },
        "block_size_pick": {
            "13c0ad66c56ad0b2": "0.24.0, 0.25.1",
            "dfc945372193193c": "0.32.0, 0.33.0",
        },
        "custom_unless_aiter": {
            "bf195db9a74c7109": "0.25.1, 0.32.0, 0.33.0",
        },
        "fp32_router_gemm_dispatch_impl": {
            "f53b86ac1ae102d2": "0.32.0",
            "e723e8ba4e927db3": "0.33.0",
        },
        "fp32_router_inputs": {
            "074fd4034eff5c5e": "0.32.0",
            "a5fb64d31cc40b69": "0.33.0",
        },
        "fse_ModelOptMxFp8Config": {
            "0da0a17a475016c1": "0.33.0",
        },
        "fse_QuarkConfig": {
            "96bd5c881f6513eb": "0.32.0",
            "40b33c2cac106310": "0.32.0, 0.33.0",
            "419510ec2e389f33": "0.33.0",
        },
        "fse_start": {
            "1d1e6281a2d4fbdc": "0.32.0, 0.33.0",
        },
        "fused_qknorm_idxrqknorm_enabled": {
            "73ba388a15a8a10b": "0.32.0, 0.33.0",
        },
        "index_cache_overrides": {
            "4ff798940119ef8e": "0.33.0",
        },
        "indexer_unsupported_reason": {
            "4600dcd1d34f584e": "0.32.0",
            "67b15533ab7b84ea": "0.33.0",
        },
        "int3_world": {
            "07a29f22d7d379e1": "0.25.1, 0.32.0, 0.33.0",
        },
        "is_custom_all_reduce_enabled": {
            "9fc06ec40ab4a8ec": "0.25.1, 0.32.0, 0.33.0",
        },
        "linear_backend_filter": {
            "6a851df1626ff145": "0.24.0, 0.25.1",
        },
        "minimax_m3_use_aiter_sparse_pa": {
            "e42e613a4ccee672": "0.32.0, 0.33.0",
        },
        "moriio_pages": {
            "fa9491e7678d4a29": "0.32.0",
        },
        "mxfp8_is_supported": {
            "f562366f8c781bf0": "0.24.0, 0.25.1, 0.32.0, 0.33.0",
        },
        "mxfp8_is_supported_config": {
            "54b1efa6b836b44b": "0.25.1",
            "19427ab03b440c81": "0.32.0",
            "c26c32393671913d": "0.33.0",
        },
        "piecewise_override": {
            "7eb9ca2be8f097bd": "0.32.0, 0.33.0",
        },
        "refusal_reasons": {
            "b59b0c24de05a77b": "0.33.0",
        },
        "select_indexer_impl_cls": {
            "2bd646cd40e26f77": "0.24.0, 0.25.1",
            "ed49180c0dc18936": "0.32.0",
            "31e9a314a3c80c44": "0.33.0",
        },
        "select_mxfp4_moe_backend": {
            "d7fbb99c3042e478": "0.24.0, 0.25.1",
            "467d94c3d131f543": "0.32.0",
            "7f215d67a72441bb": "0.33.0",
        },
        "select_mxfp8_moe_backend": {
            "4b4bfa9af109ee27": "0.24.0, 0.25.1",
            "075a93549044aca0": "0.32.0, 0.33.0",
        },
        "should_custom_ar": {
            "907237e88c7cd6a5": "0.24.0, 0.25.1",
            "de8f38d420fb5ebc": "0.32.0, 0.33.0",
        },
        "should_quick_allreduce": {
            "23a2f12a9fa1bf6e": "0.24.0, 0.25.1, 0.32.0, 0.33.0",
        },
        "use_1stage_fused_ar_rms": {
            "fb31058a8ee22047": "0.32.0, 0.33.0",
        },
    }
)


def same_shape(source: Source, node: ast.AST, guard: str, read: Iterable[ast.AST] = ()) -> None:
    """Go on only where a guard has a known shape, apart from the nodes that are read.

    Raises:
        Moved: it has another.
    """
    print_ = fingerprint(node, read)
    if print_ not in KNOWN.get(guard, {}):
        raise Moved(f"{source.where(node)}: {guard} has another shape ({print_})")
