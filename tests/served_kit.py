"""What a running vLLM 0.25.1 says of its configuration, cut to what paths read: MiniMax M3 with 9 layers, TP1, on an H200."""

from __future__ import annotations

from typing import Any

from m3probe.schema import records
from m3probe.schema.roles import Role

MODEL: dict[str, Any] = {
    "architectures": ["MiniMaxM3SparseForCausalLM"],
    "model_type": "minimax_m3_text",
    "hidden_size": 6144,
    "num_hidden_layers": 9,
    "num_attention_heads": 16,
    "num_key_value_heads": 1,
    "moe_layer_freq": [0, 0, 0, 1, 1, 1, 1, 1, 1],
    "sparse_attention_config": {"sparse_attention_freq": [0, 0, 0, 1, 1, 1, 1, 1, 1], "sparse_num_index_heads": 1},
    "dtype": "bfloat16",
}
SIZES = [1, 2, 4, 8, 16, 32, 64]
SECTIONS: dict[str, dict[str, Any]] = {
    "model": {
        "class": "ModelConfig", "model": "/models/m3", "dtype": "torch.bfloat16", "max_model_len": 8192,
        "quantization": None, "enforce_eager": False, "hf_overrides": {},
    },
    "cache": {"class": "CacheConfig", "block_size": 128, "user_specified_block_size": True, "cache_dtype": "auto"},
    "parallel": {
        "class": "ParallelConfig", "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1,
        "nnodes": 1, "enable_expert_parallel": False, "disable_custom_all_reduce": False,
        "decode_context_parallel_size": 1, "prefill_context_parallel_size": 1, "enable_dbo": False,
    },
    "scheduler": {"class": "SchedulerConfig", "max_num_batched_tokens": 8192, "max_num_seqs": 64},
    "compilation": {
        "class": "CompilationConfig", "mode": 0, "cudagraph_mode": "FULL_AND_PIECEWISE",
        "cudagraph_capture_sizes": SIZES, "max_cudagraph_capture_size": 64,
    },
    "attention": {"class": "AttentionConfig", "backend": None, "indexer_kv_dtype": "bf16"},
    "kernel": {"class": "KernelConfig", "moe_backend": "auto", "linear_backend": "auto"},
    "offload": {"uva": {"cpu_offload_gb": 0.0}, "prefetch": {"offload_group_size": 0}},
    "engine": {"optimization_level": 2, "use_v2_model_runner": False},
}  # fmt: skip
ON_CUDA = {"device": "cuda", "device_name": "NVIDIA H200", "gfx": "NVIDIA H200", "torch": "2.11.0+cu130"}
"""As a guest of m3probe 0.1.0 wrote it: torch for CUDA has the device's name where ROCm has its gfx."""
ON_ROCM = {"device": "cuda", "device_name": "AMD Instinct MI355X", "gfx": "gfx950", "torch": "2.10.0+rocm7.2"}
GRAPHS = {"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"}


def config(text: dict[str, Any] | None = None, without: tuple[str, ...] = (), **changed: Any) -> records.Config:
    """The record; ``changed``: fields by section, or anything else in a section's place; ``without``: sections it lacks."""
    sections: dict[str, Any] = {name: dict(held) for name, held in SECTIONS.items() if name not in without}
    for name, fields in changed.items():
        sections[name] = {**sections.get(name, {}), **fields} if isinstance(fields, dict) else fields
    return records.Config(sections=sections, model=MODEL if text is None else text)


def server(on: dict[str, str] | None = None, env: dict[str, str] | None = None, **values: Any) -> records.Process:
    """The worker that wrote it."""
    known = {"format": records.FORMAT, "vllm": "0.25.1", "tp": 1, "pp": 1, "dp": 1, "ep": 1, "rank": 0, "world_size": 1}
    where = ON_CUDA if on is None else on
    return records.Process(
        role=Role.WORKER,
        roles=(Role.WORKER,),
        pid=100,
        env=GRAPHS if env is None else env,
        **{**known, **where, **values},
    )
