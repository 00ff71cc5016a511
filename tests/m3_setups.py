"""Setups of MiniMax M3 for tests of paths: the model, and rules of four builds as read by hand in their source."""

from __future__ import annotations

import json
from typing import Any

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._state import PathState, state_at
from m3probe.schema.setup import Build, Held, ModelFacts, Point, Rule, RuleStatus, Setup
from m3probe.schema.verdicts import Phase

M3 = ModelFacts(
    name="MiniMaxAI/MiniMax-M3-MXFP8",
    is_minimax_m3=True,
    hidden_size=6144,
    layers=60,
    dense_layers=3,
    moe_layers=57,
    sparse_layers=57,
    q_heads=64,
    kv_heads=4,
    head_dim=128,
    index_heads=4,
    index_dim=128,
    index_score="max",
    sparse_block_tokens=128,
    sparse_topk_blocks=16,
    experts=128,
    top_k=4,
    shared_experts=1,
    max_positions=524288,
)
KV_DTYPES = ["bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]
INDEXER = {"gfx": "gfx950", "score": "max", "topk": 16, "block": 128, "dim": 128, "max_blocks": 8192}
M3_NAMES = ["MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"]
QKNORM = {"dtypes": ["auto", "fp8", "fp8_e4m3"]}
CONNECTORS = ["LMCacheConnectorV1", "MoRIIOConnector", "MultiConnector", "NixlConnector"]
ABSENT = object()
_OLD: dict[str, Any] = {
    "sparse_pa": ABSENT,
    "fp8_indexer": ABSENT,
    "index_skip_branch": ABSENT,
    "qknorm_aiter": ABSENT,
    "indexer_cp": ABSENT,
    "breakable_rocm": M3_NAMES,
    "runner_v2_m3": False,
    "piecewise_refused": False,
    "draft_backend": {"v1_inherits": False, "v2_inherits": True, "v2_override": False},
    "block_size_pick": "first",
    "moriio": {"equal_pages_with_hma": False},
    "index_dtypes": {"words": ["bf16", "fp8", "mxfp4", "nvfp4"], "open": False, "reaches": False},
}
_NEW: dict[str, Any] = {
    "index_skip_branch": {"skips": True},
    "qknorm_aiter": QKNORM,
    "breakable_rocm": ["DeepseekV41ForCausalLM"],
    "runner_v2_m3": True,
    "piecewise_refused": True,
    "draft_backend": {"v1_inherits": False, "v2_inherits": True, "v2_override": True},
    "block_size_pick": "all",
    "graph_sizes": {"decode_sizes": True, "v2_rounds": True},
}
_INDEX_WORDS = ["auto", "bf16", "fp8", "mxfp4", "nvfp4"]
_ALL: dict[str, Any] = {"kv_cache_dtypes_m3": KV_DTYPES, "fp8_fnuz_archs": ["gfx94"], "kv_connectors": CONNECTORS}
RULES: dict[str, dict[str, Any]] = {
    "0.24.0": _ALL | _OLD | {"index_reuse": ABSENT, "graph_sizes": {"decode_sizes": False, "v2_rounds": False}},
    "0.25.1": _ALL
    | _OLD
    | {"index_reuse": {"flat": "silent"}, "graph_sizes": {"decode_sizes": False, "v2_rounds": True}},
    "0.32.0": _ALL
    | _NEW
    | {
        "sparse_pa": {"one_kv_head": True, "raises": True, "table_from": "indexer_aiter"},
        "fp8_indexer": INDEXER | {"name": "AITER", "mfma_columns": 16},
        "index_reuse": {"flat": "silent"},
        "indexer_cp": ABSENT,
        "index_dtypes": {"words": _INDEX_WORDS, "open": False, "reaches": True},
        "moriio": {"equal_pages_with_hma": True},
    },
    "0.33.0": _ALL
    | _NEW
    | {
        "sparse_pa": {"one_kv_head": True, "raises": True, "table_from": "indexer_msa"},
        "fp8_indexer": INDEXER | {"name": "MSA", "mfma_columns": None},
        "index_reuse": {"flat": "raises"},
        "indexer_cp": {"flag": "attention_config.minimax_m3_indexer_cp"},
        "index_dtypes": {"words": _INDEX_WORDS, "open": True, "reaches": True},
        "moriio": {"equal_pages_with_hma": False},
    },
}
_QR_FOUR = {  # quick_all_reduce.py, _QR_MIN_SIZE in MiB: FP, INT8, INT6, INT4 (0.24)
    "float16": {"2": [1, 2, 2, 1], "4": [1, 16, 4, 2], "8": [16, 4, 4, 2]},
    "bfloat16": {"2": [2, 8, 8, 8], "4": [8, 64, 64, 16], "8": [16, 2048, 2048, 2048]},
}
_QR_FIVE = {  # the same with INT3 behind (0.25.1, 0.32, 0.33)
    "float16": {"2": [1, 2, 2, 1, 1], "4": [1, 16, 4, 2, 2], "8": [16, 4, 4, 2, 2]},
    "bfloat16": {"2": [2, 8, 8, 8, 8], "4": [8, 64, 64, 16, 16], "8": [16, 2048, 2048, 2048, 2048]},
}
_CUSTOM_AR = {"worlds": [2, 4, 6, 8], "most_world": 8, "max_bytes": 8388608, "strict": True, "align": 16}
_AR_ORDER = ["nccl_symm_mem", "quick_reduce", "flashinfer", "aiter_custom", "custom", "symm_mem", "pynccl"]
_FUSED_AR = {"max_rows": 80, "max_packs": 1024, "pack_bytes": 16, "max_bytes": {"2": None, "4": 262144, "8": 131072}}
_COMM: dict[str, Any] = {
    "qr_min_size_mb": _QR_FIVE,
    "qr_codecs": ["FP", "INT8", "INT6", "INT4", "INT3"],
    "qr_world_sizes": [2, 4, 8],
    "qr_archs": ["gfx94", "gfx95"],
    "qr_int3_worlds": [2],
    "qr_dtypes": ["float16", "bfloat16"],
    "qr_cast_default": True,
    "qr_flydsl_int4": ABSENT,
    "custom_ar": _CUSTOM_AR,
    "aiter_ar": {"env": "VLLM_ROCM_USE_AITER_CUSTOM_AR"},
    "all_reduce_order": _AR_ORDER,
    "fused_ar_norm": ABSENT,
}
_COMM_NEW = {"custom_ar": _CUSTOM_AR | {"worlds": [2, 4, 6, 8, 16]}, "fused_ar_norm": _FUSED_AR}
COMM: dict[str, dict[str, Any]] = {
    "0.24.0": _COMM
    | {
        "qr_min_size_mb": _QR_FOUR,
        "qr_codecs": ["FP", "INT8", "INT6", "INT4"],
        "qr_int3_worlds": ABSENT,
        "aiter_ar": ABSENT,
        "all_reduce_order": [name for name in _AR_ORDER if name != "aiter_custom"],
    },
    "0.25.1": _COMM,
    "0.32.0": _COMM | _COMM_NEW,
    "0.33.0": _COMM | _COMM_NEW | {"qr_flydsl_int4": {"dtype": "bfloat16", "align": 16}},
}
for _version, _rules in COMM.items():
    RULES[_version] |= _rules
_LINEAR_NAMES = [
    "auto",
    "cutlass",
    "flashinfer_cutlass",
    "flashinfer_cutedsl",
    "flashinfer_trtllm",
    "flashinfer_cudnn",
    "flashinfer_b12x",
    "marlin",
    "triton",
    "deep_gemm",
    "torch",
    "aiter",
    "machete",
    "fbgemm",
    "conch",
    "exllama",
    "emulation",
]
_XPU_LINEAR = ["humming", "xpu", "xpu_woq"]
_MXFP8_CLASSES = ["RocmDotScaledMxfp8LinearKernel", "EmulationMxfp8LinearKernel"]
_MXFP8_ORDER = ["FLASHINFER_TRTLLM", "DEEPGEMM", "MARLIN", "XPU"]
_MXFP8_NAMES = {
    "flashinfer_trtllm": ["FLASHINFER_TRTLLM"],
    "deep_gemm": ["DEEPGEMM"],
    "marlin": ["MARLIN"],
    "xpu": ["XPU"],
}
_MXFP8_NAMED = _MXFP8_NAMES | {"aiter": ["AITER_MXFP8"], "triton": ["TRITON_MXFP8"], "humming": ["HUMMING"]}
_MXFP4_ORDER = ["FLASHINFER_TRTLLM_MXFP4_BF16", "AITER_MXFP4_BF16", "AITER_MXFP4_FP8", "AITER_MXFP4_MXFP4", "TRITON"]
_MXFP4_NAMES = {  # the ROCm part of map_mxfp4_backend
    "triton": ["TRITON"],
    "triton_unfused": ["TRITON_UNFUSED"],
    "aiter": ["AITER_MXFP4_BF16", "AITER_MXFP4_FP8", "AITER_MXFP4_MXFP4"],
    "emulation": ["EMULATION"],
}
_MXFP4_0_32 = ["AITER_MXFP4_BF16", "AITER_TRITON_MXFP4_BF16", "AITER_MXFP4_FP8", "AITER_MXFP4_MXFP4"]
_AITER_MXFP8 = {
    "archs": ["gfx95", "gfx1250"],
    "aiter_env": True,
    "alpha": 1.702,
    "beta": 1.0,
    "activation_checked": True,
}
_FSE_SAYS = "shared-expert FSE quantization compatibility is not implemented for {cls}"
_FSE_0_32 = ["DeepseekV4FP8Config", "Fp8Config", "QuarkConfig"]
_ROUTER_0_32 = [[3072, 256], [4096, 8], [4096, 192], [6144, 128], [6144, 256]]
_MONO_SAYS = [  # DecodeConfig.refusal_reasons, amd/specialized_decode/runtime/spec.py, in its order
    "requires tensor parallel size 4",
    "does not support pipeline parallelism",
    "does not support data parallelism",
    "does not support decode context parallelism",
    "does not support prefill context parallelism",
    "does not support DBO or ubatching",
    "does not support expert parallelism",
    "does not support EPLB",
    "requires an FP8 KV cache",
    "requires KV cache block size 128",
    "does not support KV cache offloading",
    'requires indexer_kv_dtype "fp8"',
    "does not support LoRA",
    "does not support a KV connector",
    "requires Model Runner V2",
    "supports only EAGLE3 speculative decoding",
    "does not support sleep mode",
    "does not support weight transfer or updates",
    "does not support model weight offloading",
    "does not support stock torch.compile",
    "does not support cross-layer index reuse",
    "requires the default index_topk_freq",
    "does not support routed-expert capture",
    "requires --moe-backend aiter",
    "requires sparse attention on layers 3 through the last",
]
_MONO = {
    "rows": [1, 16],
    "tp": 4,
    "units": 256,
    "kv_dtypes": ["fp8", "fp8_e4m3"],
    "block": 128,
    "index_dtype": "fp8",
    "draft_method": "eagle3",
    "moe_backend": "aiter",
    "refusals": _MONO_SAYS,
}
_GEMM_OLD: dict[str, Any] = {
    "mxfp8_linear": {"order": _MXFP8_CLASSES, "k_align": 128, "archs": ["gfx95"]},
    "tile_selector": "two_bucket",
    "router_gemm": ABSENT,
    "monokernel": ABSENT,
}
_GEMM_NEW: dict[str, Any] = {
    "mxfp8_linear": {"order": _MXFP8_CLASSES, "k_align": 128, "archs": ["gfx95", "gfx1250"]},
    "linear_backend_map": {
        "names": [*_LINEAR_NAMES, *_XPU_LINEAR, "b12x"],
        "mxfp8": ["emulation"],
        "unmatched": "fallback",
        "per_quant": True,
    },
    "tile_selector": "select_cfg",
    "moe_backend_order": {
        "mxfp8": [*_MXFP8_ORDER, "AITER_MXFP8", "HUMMING", "TRITON_MXFP8", "EMULATION"],
        "mxfp4": [*_MXFP4_ORDER, "CUTLASS_MXFP4_MXFP4", "EMULATION"],
    },
}
GEMM: dict[str, dict[str, Any]] = {
    "0.24.0": _GEMM_OLD
    | {
        "linear_backend_map": {
            "names": _LINEAR_NAMES,
            "mxfp8": ["emulation"],
            "unmatched": "error",
            "per_quant": False,
        },
        "moe_backend_order": {
            "mxfp8": [*_MXFP8_ORDER, "NATIVE_MXFP8", "EMULATION"],
            "mxfp4": [*_MXFP4_ORDER, "TRITON_UNFUSED"],
        },
        "moe_backend_names": {"mxfp8": _MXFP8_NAMES, "mxfp4": _MXFP4_NAMES},
        "mxfp8_moe_aiter": ABSENT,
        "fse": ABSENT,
    },
    "0.25.1": _GEMM_OLD
    | {
        "linear_backend_map": {
            "names": [*_LINEAR_NAMES, *_XPU_LINEAR],
            "mxfp8": ["emulation"],
            "unmatched": "error",
            "per_quant": False,
        },
        "moe_backend_order": {
            "mxfp8": [*_MXFP8_ORDER, "AITER_MXFP8", "HUMMING", "TRITON_MXFP8", "EMULATION"],
            "mxfp4": [*_MXFP4_ORDER, "EMULATION", "TRITON_UNFUSED"],
        },
        "moe_backend_names": {"mxfp8": _MXFP8_NAMED, "mxfp4": _MXFP4_NAMES},
        "mxfp8_moe_aiter": {
            "archs": ["gfx95"],
            "aiter_env": False,
            "gate_mode": False,
            "alpha": None,
            "beta": None,
            "activation_checked": False,
        },
        "fse": {"check": False, "accepts": [], "refusal": None, "no_ep": True},
    },
    "0.32.0": _GEMM_NEW
    | {
        "router_gemm": {"max_rows": 32, "shapes": _ROUTER_0_32},
        "moe_backend_names": {"mxfp8": _MXFP8_NAMED, "mxfp4": _MXFP4_NAMES | {"aiter": _MXFP4_0_32}},
        "mxfp8_moe_aiter": _AITER_MXFP8 | {"gate_mode": False},
        "fse": {"check": True, "accepts": _FSE_0_32, "refusal": _FSE_SAYS, "no_ep": True},
        "monokernel": ABSENT,
    },
    "0.33.0": _GEMM_NEW
    | {
        "router_gemm": {"max_rows": 32, "shapes": None},
        "moe_backend_names": {
            "mxfp8": _MXFP8_NAMED,
            "mxfp4": _MXFP4_NAMES | {"aiter": [*_MXFP4_0_32, "AITER_TRITON_MXFP4_MXFP4"]},
        },
        "mxfp8_moe_aiter": _AITER_MXFP8 | {"gate_mode": True},
        "fse": {
            "check": True,
            "accepts": sorted([*_FSE_0_32, "DeepseekV41FP8Config", "ModelOptMxFp8Config"]),
            "refusal": _FSE_SAYS,
            "no_ep": True,
        },
        "monokernel": _MONO,
    },
}
for _version, _rules in GEMM.items():
    RULES[_version] |= _rules
_MOE_WORDS = [  # Literal MoEBackend of config/kernel.py
    "auto",
    "triton",
    "deep_gemm",
    "deep_gemm_mega_moe",
    "cutlass",
    "flashinfer_trtllm",
    "flashinfer_cutlass",
    "flashinfer_cutedsl",
    "flashinfer_b12x",
    "marlin",
    "humming",
    "triton_unfused",
    "aiter",
    "flydsl",
    "emulation",
]
_MOE_0_32 = [
    "auto",
    "triton",
    "batched_triton",
    "deep_gemm",
    "deep_gemm_mega_moe",
    "cutlass",
    "flashinfer_trtllm",
    "flashinfer_cutlass",
    "flashinfer_cutedsl",
    "flashinfer_moe_ep_cutedsl",
    "flashinfer_b12x",
    "b12x",
    "flashinfer_moe_ep_mega_deep_gemm",
    "marlin",
    "humming",
    "triton_unfused",
    "aiter",
    "aiter_mega_moe",
    "aiter_triton_mxfp4_bf16",
    "flydsl",
    "hpc",
    "emulation",
    "rdna3",
]
_QR_WORDS = ["FP", "INT8", "INT6", "INT4", "INT3", "NONE"]
_NUMBERS = [  # envs.py: bool(int(...)), maybe_convert_bool, maybe_convert_int, int, a function of its own, no VLLM_*
    "VLLM_BATCH_INVARIANT",
    "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_ROCM_QUICK_REDUCE_MIN_SIZE_BYTES_MB",
    "VLLM_ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB",
    "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB",
    "VLLM_ROCM_MOE_PADDING",
    "VLLM_PORT",
    "VLLM_DISABLE_COMPILE_CACHE",
    "LOCAL_RANK",
]
_CHOICES = {
    "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": {"words": _QR_WORDS, "case": True, "many": False},
    "VLLM_FLOAT32_MATMUL_PRECISION": {"words": ["highest", "high", "medium"], "case": False, "many": False},
    "VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS": {
        "words": ["container", "code_interpreter", "web_search_preview"],
        "case": True,
        "many": True,
    },
}
_FOUR_WORDS = {"words": [word for word in _QR_WORDS if word != "INT3"], "case": True, "many": False}
for _version, _rules in {
    "0.24.0": {
        "moe_backend_words": _MOE_WORDS,
        "env_choices": _CHOICES | {"VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": _FOUR_WORDS},
    },
    "0.25.1": {"moe_backend_words": [*_MOE_WORDS[:-1], "hpc", "emulation"]},
    "0.32.0": {"moe_backend_words": _MOE_0_32},
    "0.33.0": {"moe_backend_words": [*_MOE_0_32[:19], "aiter_triton_mxfp4_mxfp4", *_MOE_0_32[19:]]},
}.items():
    RULES[_version] |= {
        "env_int": _NUMBERS,
        "env_float": ["VLLM_LOG_STATS_INTERVAL", "VLLM_RAY_PER_WORKER_GPUS"],
        "env_choices": _CHOICES,
    } | _rules
VERSIONS = tuple(RULES)
OLD, NEW = ("0.24.0", "0.25.1"), ("0.32.0", "0.33.0")
GATED = {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "1"}
FP8_INDEX = {"--attention-config": json.dumps({"indexer_kv_dtype": "fp8"})}
NESTED = {"--hf-overrides": json.dumps({"text_config": {"use_index_cache": True, "index_topk_freq": 4}})}
FLAT = {"--hf-overrides": json.dumps({"use_index_cache": True, "index_topk_freq": 4})}


def build(version: str | None) -> Build:
    """One release by hand; None: a nightly, of which no rule is known."""
    if version is None:
        return Build()
    rules = RULES[version]
    made = {
        name: Rule(RuleStatus.ABSENT) if value is ABSENT else Rule(RuleStatus.BUNDLED, value)
        for name, value in rules.items()
    }
    return Build(version, made)


def setup(version: str | None = "0.33.0", tp: int = 4, **more: Any) -> Setup:
    """MiniMax M3 on MI355X at one build; flags get --block-size 128 unless they say otherwise."""
    flags = {"--block-size": 128} | more.pop("flags", {})
    return Setup(**{"build": build(version), "model": M3, "gfx": "gfx950", "tp": tp, "flags": flags} | more)


def decode(rows: int, requests: int | None = None) -> Point:
    """A uniform decode batch; one row per request unless told."""
    return Point(Phase.DECODE, rows, rows if requests is None else requests)


def at(path: str, made: Setup, point: Point | None = None) -> PathState:
    """The state of a path by its name."""
    return state_at(fast_paths()[path], made, point or decode(128))


def refusal(state: PathState) -> str:
    """The one refused need's sentence."""
    texts = state.of(Held.NO)
    assert len(texts) == 1, texts
    return texts[0]
