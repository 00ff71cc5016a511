"""The rules of vLLM's source that paths are judged by: their ids, and the form of each value.

A value is plain JSON data, None where the build has no such thing (status ``absent``). ``m3probe.vllm_source`` reads
them from a tree by ``ast`` and holds bundled tables of four releases; ``m3probe.fastpaths`` asks for them by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RULES: Mapping[str, str] = MappingProxyType(
    {
        # communication
        "qr_min_size_mb": '{"float16": {"2": [MiB per codec of qr_codecs], "4": [...], "8": [...]}, "bfloat16": {...}}',
        "qr_codecs": '["FP", "INT8", "INT6", "INT4", "INT3"] in the order of the size lists; NONE left out',
        "qr_world_sizes": "[2, 4, 8]",
        "qr_archs": '["gfx94", "gfx95"], prefixes of the GPU\'s name',
        "qr_int3_worlds": "[2]; absent where there is no INT3",
        "qr_dtypes": '["float16", "bfloat16"]',
        "qr_cast_default": "true: VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16 when unset",
        "qr_flydsl_int4": '{"dtype": "bfloat16", "align": 16}; absent where AITER\'s FlyDSL INT4 is not called',
        "custom_ar": '{"worlds": [...], "most_world": 8, "max_bytes": 8388608, "strict": true, "align": 16} '
        "(strict: bytes < max_bytes)",
        "aiter_ar": '{"env": "VLLM_ROCM_USE_AITER_CUSTOM_AR"}: replaces custom_ar when AITER and this are on',
        "all_reduce_order": '["nccl_symm_mem", "quick_reduce", "flashinfer", "aiter_custom", "custom", "symm_mem", '
        '"pynccl"] in the order asked by all_reduce(), not the order of the log line',
        "fused_ar_norm": '{"max_rows": 80, "max_packs": 1024, "pack_bytes": 16, "max_bytes": {"2": null, "4": 262144, '
        '"8": 131072}} (bytes < max)',
        # dense GEMMs
        "mxfp8_linear": '{"order": [class names on ROCm], "k_align": 128, "archs": ["gfx95", ...]}',
        "linear_backend_map": '{"names": [every --linear-backend], "mxfp8": [names that keep an MXFP8 kernel on ROCm], '
        '"unmatched": "error" | "fallback", "per_quant": bool}',
        "tile_selector": '"select_cfg" (0.32, 0.33: one function with the regimes of m3probe/model/tiles.py) | '
        '"two_bucket" (0.24, 0.25.1: split at M 1024 inside the launcher)',
        "router_gemm": '{"max_rows": 32, "shapes": [[hidden, experts], ...] sorted, or null for any}; absent where ROCm '
        "has none",
        # experts
        "moe_backend_order": '{"mxfp8": [enum members in the order of auto on ROCm], "mxfp4": [...]}',
        "moe_backend_names": '{"mxfp8": {"aiter": [enum members], ...}, "mxfp4": {...}}: what --moe-backend names become',
        "moe_backend_words": "[every --moe-backend that the command line takes, whatever the checkpoint]",
        "mxfp8_moe_aiter": '{"archs": [...], "aiter_env": bool, "gate_mode": bool, "alpha": 1.702, "beta": 1.0, '
        '"activation_checked": bool}; alpha and beta null where they are not asked; absent in 0.24',
        "fse": '{"check": bool, "accepts": [quant config classes], "refusal": sentence with {cls}, "no_ep": true}; '
        "without a check accepts is [] and refusal null: nothing is asked; absent where M3's model file has no fusion",
        "monokernel": '{"rows": [1, 16], "tp": 4, "units": 256, "kv_dtypes": ["fp8", "fp8_e4m3"], "block": 128, '
        '"index_dtype": "fp8", "draft_method": "eagle3", "moe_backend": "aiter", "refusals": [every sentence of '
        "refusal_reasons in its order]}; absent before 0.33",
        # attention, cache, graphs
        "sparse_pa": '{"one_kv_head": true, "raises": true, "table_from": "indexer_aiter" | "indexer_msa"}',
        "fp8_indexer": '{"name": "AITER" | "MSA", "gfx": "gfx950", "score": "max", "topk": 16, "block": 128, '
        '"dim": 128, "max_blocks": 8192, "mfma_columns": 16 | null}',
        "indexer_cp": '{"flag": "attention_config.minimax_m3_indexer_cp"}',
        "index_dtypes": '{"words": ["bf16", "fp8", ...], "open": bool, "reaches": bool} of indexer_kv_dtype: what config '
        "validation takes (open: any other word too), and whether the ROCm model hands it to its indexer",
        "index_reuse": '{"flat": "raises" | "silent"}: what a top-level --hf-overrides does',
        "index_skip_branch": '{"skips": true}: the fused op takes skip_index_branch',
        "qknorm_aiter": '{"dtypes": ["auto", "fp8", "fp8_e4m3"]}',
        "breakable_rocm": "[architectures that turn breakable graphs on by default on ROCm]",
        "runner_v2_m3": "bool: Model Runner V2 is the default for MiniMax M3",
        "piecewise_refused": "bool: PIECEWISE with nothing to capture is overridden instead of running eager",
        "graph_sizes": '{"decode_sizes": bool, "v2_rounds": bool}: sizes of whole drafting requests stand beside the grid; '
        "Model Runner V2 rounds each size up to whole requests by itself",
        "draft_backend": '{"v1_inherits": bool, "v2_inherits": bool, "v2_override": bool}',
        "block_size_pick": '"all" | "first": whose block size is taken when --block-size is not set',
        "moriio": '{"equal_pages_with_hma": bool}: raises on unequal pages with the hybrid cache manager on',
        "kv_connectors": "[registered connector names]",
        "kv_cache_dtypes_m3": '["bfloat16", "fp8", ...] of the sparse layers, auto left out',
        "fp8_fnuz_archs": '["gfx94"]',
        # the command line and environment
        "env_registry": "[every VLLM_* name of vllm/envs.py]",
        "env_int": "[names, others than VLLM_* too, whose text goes through int() or bool(int())]: all are read at start",
        "env_float": "[the same with float()]",
        "env_choices": '{name: {"words": [...], "case": bool: it counts, "many": bool: a list joined by commas}}',
        "cli_flags": "[every --flag that vllm serve takes, dashed, and its short forms (-tp, -O); --no- forms left out]",
        "cli_switches": "[those of cli_flags that take no value: store_true, or a --no- form exists]",
    }
)
