"""Sections of a running server's configuration -> the flags that fast paths read, and what the record does not tell.

A section holds every field of its class: a field that is not there is one that this build lacks. A section that is not
there tells nothing, and what hangs on its flags is unproven.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.fastpaths._m3 import RUNNER
from m3probe.fastpaths.index_reuse import KEYS
from m3probe.recipe.model_facts import HIDDEN

FLAGS: Mapping[str, Mapping[str, str]] = {
    "model": {
        "enforce_eager": "--enforce-eager",
        "dtype": "--dtype",
        "max_model_len": "--max-model-len",
        "quantization": "--quantization",
        "enable_sleep_mode": "--enable-sleep-mode",
        "enable_return_routed_experts": "--enable-return-routed-experts",
    },
    "cache": {"cache_dtype": "--kv-cache-dtype", "kv_offloading_size": "--kv-offloading-size"},
    "parallel": {
        "tensor_parallel_size": "--tensor-parallel-size",
        "pipeline_parallel_size": "--pipeline-parallel-size",
        "data_parallel_size": "--data-parallel-size",
        "nnodes": "--nnodes",
        "enable_expert_parallel": "--enable-expert-parallel",
        "disable_custom_all_reduce": "--disable-custom-all-reduce",
        "distributed_executor_backend": "--distributed-executor-backend",
        "decode_context_parallel_size": "--decode-context-parallel-size",
        "prefill_context_parallel_size": "--prefill-context-parallel-size",
        "enable_dbo": "--enable-dbo",
        "ubatch_size": "--ubatch-size",
        "enable_eplb": "--enable-eplb",
    },
    "scheduler": {
        "max_num_batched_tokens": "--max-num-batched-tokens",
        "max_num_seqs": "--max-num-seqs",
        "disable_hybrid_kv_cache_manager": "--disable-hybrid-kv-cache-manager",
    },
    "attention": {"backend": "--attention-backend"},
    "kernel": {"moe_backend": "--moe-backend", "linear_backend": "--linear-backend"},
    "engine": {"optimization_level": "--optimization-level", "use_v2_model_runner": RUNNER},
}
OBJECTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "attention": ("--attention-config", ("indexer_kv_dtype", "minimax_m3_indexer_cp")),
    "kernel": ("--kernel-config", ("linear_backend_per_quant", "monokernel")),
    "compilation": (
        "--compilation-config",
        ("mode", "cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size"),
    ),
}
"""Section -> the flag that takes a JSON object, and its keys."""
NEVER = ("--enable-lora", "--weight-transfer-config", "--performance-mode")
"""Flags whose configuration no guest writes down."""
ENUMS = frozenset({"dtype", "backend", "mode", "cudagraph_mode", "optimization_level"})
"""Written as ``torch.bfloat16`` or ``CUDAGraphMode.FULL`` where the class has no plain value."""
Sections = Mapping[str, Any]


def flags_of(sections: Sections, model: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(flags by their dashed names, those that the record leaves open)."""
    flags: dict[str, Any] = {}
    open_ = list(NEVER)
    for section, names in FLAGS.items():
        held = section_of(sections, section)
        for field, flag in names.items():
            value = None if held is None else word(field, held.get(field))
            if held is None or value == HIDDEN:
                open_.append(flag)
            elif value is not None:
                flags[flag] = value
    for section, (flag, keys) in OBJECTS.items():
        held = section_of(sections, section)
        if held is None:
            open_.append(flag)
            continue
        flags[flag] = {key: word(key, held[key]) for key in keys if held.get(key) not in (None, [], {}, HIDDEN)}
    for part in (_graphs, _block, _offload, _overrides, _transfer):
        part(sections, model, flags, open_)
    return flags, tuple(open_)


def section_of(sections: Sections, name: str) -> Mapping[str, Any] | None:
    """A section as a mapping; None where the record has none of that name."""
    found = sections.get(name)
    return found if isinstance(found, Mapping) else None


def word(field: str, value: Any) -> Any:
    """A value; an enum's member without its class."""
    return value.rpartition(".")[2] if field in ENUMS and isinstance(value, str) else value


def _graphs(_sections: Sections, _model: Mapping[str, Any], flags: dict[str, Any], open_: list[str]) -> None:
    """Sizes are listed wherever graphs are on; without them none may be worked out from defaults."""
    held = flags.get("--compilation-config")
    if held is None:
        return
    if not held.get("max_cudagraph_capture_size"):
        held.pop("max_cudagraph_capture_size", None)
    off = flags.get("--enforce-eager") is True or held.get("cudagraph_mode") == "NONE"
    asked = ("mode", "cudagraph_mode") if off else ("mode", "cudagraph_mode", "cudagraph_capture_sizes")
    open_ += [f"--compilation-config.{key}" for key in asked if key not in held]


def _block(sections: Sections, _model: Mapping[str, Any], flags: dict[str, Any], open_: list[str]) -> None:
    """A size that nobody gave stands for itself only once the backends were asked for theirs."""
    held = section_of(sections, "cache")
    if held is None or held.get("block_size") == HIDDEN:
        open_.append("--block-size")
        return
    settled = held.get("user_specified_block_size") is not False or held.get("_block_size_resolved") is True
    if settled and held.get("block_size") is not None:
        flags["--block-size"] = held["block_size"]


def _offload(sections: Sections, _model: Mapping[str, Any], flags: dict[str, Any], open_: list[str]) -> None:
    held = section_of(sections, "offload") or {}
    for part, field, flag in (
        ("uva", "cpu_offload_gb", "--cpu-offload-gb"),
        ("prefetch", "offload_group_size", "--offload-group-size"),
    ):
        inner = section_of(held, part)
        if inner is None:
            open_.append(flag)
        elif inner.get(field) is not None:
            flags[flag] = inner[field]


def _overrides(sections: Sections, model: Mapping[str, Any], flags: dict[str, Any], open_: list[str]) -> None:
    """What was overridden, and what of it the text model holds: a checkpoint may bring these keys itself."""
    held = section_of(sections, "model")
    given = None if held is None else held.get("hf_overrides") or {}
    if not isinstance(given, Mapping) or not (model or given):
        open_.append("--hf-overrides")  # a function, or no model to look at
        return
    nested = section_of(given, "text_config") or {}
    inner = {**nested, **{key: model[key] for key in KEYS if key in model}}
    both = {**given, **({"text_config": inner} if inner else {})}
    if both:
        flags["--hf-overrides"] = both


def _transfer(sections: Sections, _model: Mapping[str, Any], flags: dict[str, Any], _open: list[str]) -> None:
    """No section: the server has no connector."""
    held = section_of(sections, "kv_transfer") or {}
    if held.get("kv_connector"):
        told = {key: value for key, value in held.items() if key != "class" and value is not None}
        flags["--kv-transfer-config"] = told
