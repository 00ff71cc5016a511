"""In an environment with vLLM: the model map of MiniMax M3 (AMD model file, published sizes) on the meta device.

Usage: m3_map.py FOLDER TP...    Prints the records for each pretended TP size. One process, no weights, no GPU: torch's
device properties say gfx950, and the group of one process says that it is rank 0 of TP. The experts are those of the CPU.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": "", "VLLM_LOGGING_LEVEL": "ERROR"}

import msgspec
import stand_in_torchvision  # noqa: F401
import torch
from vllm.config import set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel, parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.fused_moe.experts import cpu_moe
from vllm.model_executor.models import registry

from m3probe.collectors._modules import Walk

ARCHITECTURE = "MiniMaxM3SparseForCausalLM"
TEXT = {"architectures": [ARCHITECTURE], "model_type": "minimax_m3_text", "torch_dtype": "bfloat16"}
"""Whatever else a config.json has, M3's config class gives the published value for."""
VISION = {
    "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 128, "patch_size": 14,
    "image_size": 28, "num_channels": 3,
}  # fmt: skip


def engine_config(folder: Path):
    config = {
        "architectures": [ARCHITECTURE],
        "model_type": "minimax_m3_vl",
        "text_config": TEXT,
        "vision_config": VISION,
    }
    (folder / "config.json").write_text(json.dumps(config))
    asked = EngineArgs(
        model=str(folder),
        load_format="dummy",
        enforce_eager=True,
        max_model_len=512,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        hf_overrides={"architectures": [ARCHITECTURE]},
    )
    return asked.create_engine_config()


def stand_ins() -> None:
    fake = SimpleNamespace(
        gcnArchName="gfx950", multi_processor_count=256, total_memory=288 << 30, name="", warp_size=64
    )
    torch.cuda.get_device_properties = lambda *_args, **_kwargs: fake
    registry._run_in_subprocess = lambda inspect: inspect()  # a child would lack the stand-in
    for experts in (cpu_moe.CPUUnquantizedExperts, cpu_moe.X86CPUUnquantizedExperts):
        experts._supports_activation = staticmethod(lambda _activation: True)


def mapped(vllm_config, tp: int):
    group = parallel_state.get_tp_group()
    group.world_size, group.rank_in_group = tp, 0
    vllm_config.parallel_config.tensor_parallel_size = tp
    vllm_config.compilation_config.static_forward_context.clear()
    vllm_config.compilation_config.static_all_moe_layers.clear()
    build = importlib.import_module("vllm.models.minimax_m3.amd.model").MiniMaxM3SparseForCausalLM
    torch.set_default_dtype(torch.bfloat16)  # as vLLM's loader does
    with torch.device("meta"):
        model = build(vllm_config=vllm_config)
    return list(Walk().modules(model, draft=False))


stand_ins()
made = engine_config(Path(sys.argv[1]))
with set_current_vllm_config(made):
    init_distributed_environment(1, 0, f"file://{sys.argv[1]}/store", 0, "gloo")
    initialize_model_parallel(1, 1)
    found = {tp: mapped(made, int(tp)) for tp in sys.argv[2:]}
sys.stdout.write("OUTCOME " + msgspec.json.encode(found).decode() + "\n")
