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
CONNECTORS = ["LMCacheConnectorV1", "MoRIIOConnector", "NixlConnector"]
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
}
_NEW: dict[str, Any] = {
    "index_skip_branch": {"skips": True},
    "qknorm_aiter": QKNORM,
    "breakable_rocm": ["DeepseekV41ForCausalLM"],
    "runner_v2_m3": True,
    "piecewise_refused": True,
    "draft_backend": {"v1_inherits": False, "v2_inherits": True, "v2_override": True},
    "block_size_pick": "all",
}
_ALL: dict[str, Any] = {"kv_cache_dtypes_m3": KV_DTYPES, "fp8_fnuz_archs": ["gfx94"], "kv_connectors": CONNECTORS}
RULES: dict[str, dict[str, Any]] = {
    "0.24.0": _ALL | _OLD | {"index_reuse": ABSENT},
    "0.25.1": _ALL | _OLD | {"index_reuse": {"flat": "silent"}},
    "0.32.0": _ALL
    | _NEW
    | {
        "sparse_pa": {"one_kv_head": True, "raises": True, "table_from": "indexer_aiter"},
        "fp8_indexer": INDEXER | {"name": "AITER", "mfma_columns": 16},
        "index_reuse": {"flat": "silent"},
        "indexer_cp": ABSENT,
        "moriio": {"equal_pages_with_hma": True},
    },
    "0.33.0": _ALL
    | _NEW
    | {
        "sparse_pa": {"one_kv_head": True, "raises": True, "table_from": "indexer_msa"},
        "fp8_indexer": INDEXER | {"name": "MSA", "mfma_columns": None},
        "index_reuse": {"flat": "raises"},
        "indexer_cp": {"flag": "attention_config.minimax_m3_indexer_cp"},
        "moriio": {"equal_pages_with_hma": False},
    },
}
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
