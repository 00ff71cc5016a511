"""How large a profiler window gets, asked before it is opened."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

EAGER_LAYER_BYTES = 180_000
"""Trace text of one layer in one eager step, shapes recorded, no stacks. H200 M3 with 4 layers: 711 KB a step (62
launches a layer, each an op of 390 B or several, a call of 210 B, a kernel of 570 B and two flow events of 130 B); a tiny
MoE on CPU: 103 KB."""
GRAPH_LAYER_BYTES = 60_000
"""The same where graphs were captured: a FULL replay has 7 KB a layer and a piecewise one 18 KB (MI300X, 36 layers), but
prefill may run eagerly."""
UNKNOWN_LAYERS = 100
SPARE_BYTES = 256 * 1024 * 1024
"""What a window leaves free on the disk."""


def expected(steps: int, layers: int, graphs: bool, seen: float = 0.0) -> int:
    """Bytes of the trace before it is compressed.

    Args:
        seen: bytes per step of the window before in this process; 0: there was none.
    """
    per_step = seen or (layers if layers > 0 else UNKNOWN_LAYERS) * (GRAPH_LAYER_BYTES if graphs else EAGER_LAYER_BYTES)
    return int(steps * per_step)


def too_large(size: int, most_bytes: int, folder: Path) -> str:
    """Why a trace of this size is not written; empty where it may be."""
    if size > most_bytes:
        return (
            f"the trace would take about {size / 1e6:,.0f} MB before compression, more than {most_bytes / 1e6:,.0f} MB"
        )
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"the disk of {folder} cannot be looked at: {error.strerror or error}"
    if free < size + SPARE_BYTES:
        return (
            f"the trace would take about {size / 1e6:,.0f} MB and {folder} has {free / 1e6:,.0f} MB free "
            f"({SPARE_BYTES / 1e6:,.0f} MB stay free)"
        )
    return ""


def layers(worker: Any) -> int:
    """Layers of the served model; -1 where its configuration does not say."""
    config = getattr(getattr(getattr(worker, "vllm_config", None), "model_config", None), "hf_text_config", None)
    found = getattr(config, "num_hidden_layers", -1)
    return found if isinstance(found, int) else -1


def captures(worker: Any) -> bool:
    """Whether vLLM captures graphs here: not on CPU, and not under --enforce-eager."""
    config = getattr(worker, "vllm_config", None)
    mode = getattr(getattr(config, "compilation_config", None), "cudagraph_mode", None)
    device = getattr(getattr(worker, "device", None), "type", "")
    eager = getattr(getattr(config, "model_config", None), "enforce_eager", False)
    return device == "cuda" and not eager and getattr(mode, "name", "NONE") not in {"NONE", ""}
