"""Device and layout of a server as its own processes say them: what a live recording without a trace has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from m3probe.errors import UnreadableInput
from m3probe.hardware import Accelerator, accelerators
from m3probe.model.model_config import ModelConfig, model_config_of
from m3probe.model.recording import Recording

HIDDEN = "(set)"
"""Stands where a guest keeps a value back: one whose name looks like that of a key."""


@dataclass(frozen=True, slots=True)
class ServedLayout:
    """Global sizes and how they are divided; ``ep`` is None where nothing tells it."""

    config: ModelConfig
    tp: int
    ep: int | None


def served_device(rec: Recording) -> Accelerator | None:
    """The one accelerator whose words stand in the device's name of all processes; a bare gfx target is none."""
    names = {one.process.device_name for one in rec.meta.served if one.process.device_name}
    said = set(re.split(r"[^A-Z0-9]+", names.pop().upper())) if len(names) == 1 else set()
    found = [a for a in accelerators().values() if said.issuperset(a.words) and said.isdisjoint(a.not_words)]
    return found[0] if len(found) == 1 else None


def served_layout(rec: Recording, kv_heads: int | None) -> ServedLayout | None:
    """From the configuration that the processes hold; None where it is not one whose shapes are known.

    Args:
        kv_heads: of the model map, for a configuration that keeps its own back.
    """
    found = {(_config(dict(one.config.model), kv_heads), one.process.tp) for one in rec.meta.served if one.config.model}
    config, tp = found.pop() if len(found) == 1 else (None, 0)
    return ServedLayout(config, tp, rec.meta.ep) if config and tp > 0 else None


def _config(text: dict[str, object], kv_heads: int | None) -> ModelConfig | None:
    if text.get("num_key_value_heads") == HIDDEN and kv_heads:
        text["num_key_value_heads"] = kv_heads
    try:
        return model_config_of(text, "the server's own configuration")
    except UnreadableInput:
        return None
