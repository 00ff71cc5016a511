"""Lines of a vLLM log as the tests need them: written as 0.25.1 and 0.33 write them, MiniMax M3 on four MI355X."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from m3probe.model.recording import Recording
from m3probe.model.server_log import ServerLog
from m3probe.sources import open_recording

STAMP = "11-30 09:08:19"
ARGS: dict[str, Any] = {
    "model_tag": "MiniMaxAI/MiniMax-M3-MXFP8",
    "model": "MiniMaxAI/MiniMax-M3-MXFP8",
    "tensor_parallel_size": 4,
    "block_size": 128,
    "max_num_seqs": 64,
}
MODES = (
    "'mode': <CompilationMode.NONE: 0>, 'backend': 'inductor', 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, "
    "'cudagraph_capture_sizes': [1, 2, 4, 8, 16, 32, 64], 'max_cudagraph_capture_size': 64"
)


def record(text: str, label: str = "Worker_TP0 pid=700", level: str = "INFO", source: str = "core.py:114") -> str:
    """One record."""
    return f"({label}) {level} {STAMP} [{source}] {text}"


def args_line(**changed: Any) -> str:
    """``non-default args``; a value of None takes one away."""
    said = {key: value for key, value in {**ARGS, **changed}.items() if value is not None}
    return record(f"non-default args: {said!r}", "APIServer pid=1", source="utils.py:261")


def config_line(version: str = "0.33.0", modes: str = MODES, **changed: Any) -> str:
    """The engine's own line."""
    said = {
        "model": "'MiniMaxAI/MiniMax-M3-MXFP8'",
        "speculative_config": "None",
        "dtype": "torch.bfloat16",
        "max_seq_len": "8192",
        "tensor_parallel_size": "4",
        "pipeline_parallel_size": "1",
        "data_parallel_size": "1",
        "disable_custom_all_reduce": "False",
        "quantization": "mxfp8",
        "enforce_eager": "False",
        "kv_cache_dtype": "auto",
        "device_config": "cuda",
        "served_model_name": "org/some-name-120b",
        "compilation_config": f"{{{modes}}}",
        "kernel_config": "KernelConfig(ir_op_priority=Priority(rms_norm=['a', 'b']), moe_backend='aiter', linear_backend='auto')",
        **changed,
    }
    text = ", ".join(f"{key}={value}" for key, value in said.items())
    return record(f"Initializing a V1 LLM engine (v{version}) with config: {text}", "EngineCore_DP0 pid=500")


READY = record(
    "init engine (profile, create kv cache, warmup model) took 6.50 s", "EngineCore_DP0 pid=500", source="core.py:344"
)
START = (args_line(), config_line(), READY)
"""What a start that went well says of its configuration."""


def written(path: Path, *lines: str, end: str = "\n") -> Path:
    """A log of these lines."""
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


def opened(path: Path) -> ServerLog:
    """The one log of a file."""
    rec: Recording = open_recording([path])
    (log,) = rec.meta.logs
    return log


def log_of(tmp_path: Path, *lines: str, end: str = "\n") -> ServerLog:
    """Written and read."""
    return opened(written(tmp_path / "any.name", *lines, end=end))
