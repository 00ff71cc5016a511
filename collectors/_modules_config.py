"""The engine's configuration as plain data: what steers it, no keys, nothing that only fills pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from m3probe.collectors._modules_look import get, word
from m3probe.schema.records import Config
from m3probe.schema.secrets import hides

SECTIONS = (
    "model", "cache", "parallel", "scheduler", "compilation", "attention", "kernel", "speculative", "kv_transfer", "quant",
    "offload", "observability", "profiler", "device", "load",
)  # fmt: skip
"""``NAME_config`` of VllmConfig; a version that lacks one has no such section."""
LEFT_OUT = frozenset({
    "hf_config", "hf_text_config", "hf_image_processor_config", "static_forward_context", "static_all_moe_layers",
    "traced_files", "compilation_time", "bs_to_padded_graph_size", "target_model_config", "draft_model_config",
    "target_parallel_config", "draft_parallel_config", "enabled_custom_ops", "disabled_custom_ops", "inductor_passes",
})  # fmt: skip
"""Objects, copies of other sections, and state that grows while it serves."""
DEEPEST, MOST_ITEMS, MOST_TEXT = 5, 600, 500


def config(vllm_config: Any) -> Config:
    """All sections that are there, and the text model's config.json values."""
    sections = {name: section(found) for name, found in _sections(vllm_config)}
    for name in ("instance_id", "additional_config", "optimization_level", "use_v2_model_runner"):
        value = get(vllm_config, name)
        if value is not None:
            sections.setdefault("engine", {})[name] = plain(value)
    return Config(sections=sections, model=model(get(vllm_config, "model_config")))


def section(found: Any) -> dict[str, Any]:
    """One configuration object as a dict."""
    names = (
        [f.name for f in fields(found)] if is_dataclass(found) else [n for n in vars(found) if not n.startswith("_")]
    )
    told = {
        name: "(set)" if hides(name, get(found, name)) else get(found, name) for name in names if name not in LEFT_OUT
    }
    return {"class": type(found).__name__} | {name: plain(value) for name, value in told.items()}


def model(model_config: Any) -> dict[str, Any]:
    """config.json of the text model, with the architectures that the whole file names."""
    whole, text = get(model_config, "hf_config"), get(model_config, "hf_text_config")
    values = get(text, "to_dict")
    found = plain(values()) if callable(values) else {}
    names = get(whole, "architectures") or get(text, "architectures")
    found = found if isinstance(found, dict) else {}
    return found | ({"architectures": plain(names)} if names else {})


def plain(value: Any, depth: int = 0) -> Any:
    """Numbers, texts, lists and dicts of them; anything else as short text; keys for secrets are told as set."""
    if value is None or isinstance(value, (bool, int, float)):
        return value if isinstance(value, bool) or value is None else value.value if hasattr(value, "value") else value
    if isinstance(value, str):
        return str(value)[:MOST_TEXT]
    if depth < DEEPEST:
        if isinstance(value, Mapping):
            items = list(value.items())[:MOST_ITEMS]
            return {str(k): "(set)" if hides(str(k), v) else plain(v, depth + 1) for k, v in items}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item, depth + 1) for item in list(value)[:MOST_ITEMS]]
        if is_dataclass(value) and not isinstance(value, type):
            held = ((f.name, get(value, f.name)) for f in fields(value))
            return {name: plain(inner, depth + 1) for name, inner in held if not hides(name, inner)}
    return word(value)[:MOST_TEXT]


def _sections(vllm_config: Any) -> list[tuple[str, Any]]:
    named = ((name, get(vllm_config, f"{name}_config")) for name in SECTIONS)
    return [(name, found) for name, found in named if hasattr(found, "__dict__")]
