"""Shared by the tests of paths attention: Attention paths on paper: settings, numbers and builds, worked out by ."""

from __future__ import annotations

from m3probe.schema.setup import Point
from m3probe.schema.verdicts import Phase

NESTED_ON = {"use_index_cache": True}
PREFILL = Point(Phase.PREFILL, 32768, 4)
MINE = (
    "aiter_sparse_pa",
    "draft_attention",
    "fp8_kv_cache",
    "fused_qknorm_rope_kv",
    "graph_replay",
    "index_reuse",
    "indexer",
    "kv_transfer",
    "sparse_attention",
    "spec_sparse_pa",
)


def eagle(tokens: int = 3, **more: str) -> dict[str, object]:
    return {"method": "eagle3", "model": "Inferact/MiniMax-M3-EAGLE3", "num_speculative_tokens": tokens, **more}
