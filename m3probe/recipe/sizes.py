"""Local shapes, tiles and tuned keys, and the bytes of weights and caches that follow from a setup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from m3probe.fastpaths.fp8_kv_cache import bytes_per_token
from m3probe.model.m3_shapes import LocalGemm, illegal_reason, local_shapes
from m3probe.model.model_config import ModelConfig
from m3probe.model.recipe_report import MemoryLine, PathLine, ShapeLine, WorkPoint
from m3probe.model.tiles import native_refusal, select_tile
from m3probe.schema.setup import Setup, State

BYTES: Mapping[str, float] = {"bf16": 2.0, "fp8": 1.0, "mxfp8": 1 + 1 / 32, "mxfp4": 0.5 + 1 / 32}
"""Bytes per weight; the two MX forms carry one scale byte per 32 elements of K."""
UTILISATION = 0.92
"""--gpu-memory-utilization when unset: config/cache.py at 0.24, 0.25.1, 0.32 and 0.33."""
BLOCK_TOKENS = 128
NEVER_QUANTISED = ("router", "lm_head")


def illegal(config: ModelConfig | None, setup: Setup) -> str | None:
    """Why vLLM would not build this parallel layout; None when it would, or the model's sizes are not known."""
    return None if config is None else illegal_reason(config, setup.tp, setup.ep, dp=setup.dp)


def shapes(
    config: ModelConfig | None, setup: Setup, points: Sequence[WorkPoint], paths: Mapping[str, PathLine]
) -> tuple[ShapeLine, ...]:
    """Every weight of one rank with the tile that each point would take; () for an unknown model or illegal layout."""
    if config is None or illegal(config, setup):
        return ()
    return tuple(_shape(gemm, setup, points, paths) for gemm in gemms(config, setup, paths))


def gemms(config: ModelConfig, setup: Setup, paths: Mapping[str, PathLine]) -> tuple[LocalGemm, ...]:
    """The local weights, with shared-expert fusion and replicated index heads where those are eligible."""
    fused = paths["shared_expert_fusion"].state == State.ELIGIBLE
    return local_shapes(
        config, setup.tp, setup.ep, dp=setup.dp, fuse_shared_experts=fused, indexer_cp=replicated(paths)
    )


def replicated(paths: Mapping[str, PathLine]) -> bool:
    """Only the FP8 indexer's context parallelism keeps every index head on every rank; Triton's gathers at run time."""
    asked = paths["indexer"]
    return asked.state == State.ELIGIBLE and "minimax_m3_indexer_cp" in asked.asked and "fp8" in asked.asked


def _shape(gemm: LocalGemm, setup: Setup, points: Sequence[WorkPoint], paths: Mapping[str, PathLine]) -> ShapeLine:
    return ShapeLine(
        module=gemm.module,
        layers=gemm.layers,
        N=gemm.N,
        K=gemm.K,
        experts=gemm.experts,
        top_k=gemm.top_k,
        tiles=dict(_tiles(gemm, setup, points, paths)),
    )


def _tiles(
    gemm: LocalGemm, setup: Setup, points: Sequence[WorkPoint], paths: Mapping[str, PathLine]
) -> Iterator[tuple[str, str]]:
    """Tiles of the native MXFP8 kernel; another selector, or another kernel, has none to predict."""
    if paths["mxfp8_linear"].state != State.ELIGIBLE or gemm.kind != "linear" or gemm.module in NEVER_QUANTISED:
        return
    if setup.build.rule("tile_selector").value != "select_cfg" or native_refusal(gemm.K):
        return
    for point in points:
        tile = select_tile(point.rows, gemm.N, gemm.K, gfx=setup.gfx or "gfx950")
        yield (
            point.label,
            f"{tile.block_m} x {tile.block_n} x {tile.block_k}, {tile.warps} warps, {tile.stages} stages",
        )


def memory(
    config: ModelConfig | None, setup: Setup, hbm_bytes: float, paths: Mapping[str, PathLine]
) -> MemoryLine | None:
    """Cache bytes per token, weights and the most tokens that fit; None where the model's sizes are not known."""
    each = bytes_per_token(setup)
    if each is None:
        return None
    main, index = each
    weights = None if config is None or illegal(config, setup) else _weights(config, setup, paths)
    if weights is None or setup.pp > 1:  # a pipeline stage holds a part that depends on how layers are split
        return MemoryLine(main, index)
    budget = int(hbm_bytes * _utilisation(setup))
    blocks = max(0, budget - weights) // ((main + index) * BLOCK_TOKENS)
    return MemoryLine(main, index, weights, budget, blocks * BLOCK_TOKENS)


def _utilisation(setup: Setup) -> float:
    said = setup.flags.get("--gpu-memory-utilization")
    return UTILISATION if said is None or _bad_share(said) else float(said)


def _bad_share(said: Any) -> bool:
    try:
        return not 0 < float(said) <= 1
    except (TypeError, ValueError, OverflowError):
        return True


def unfit(setup: Setup, held: MemoryLine | None) -> Iterator[str]:
    """Why the engine would end while it loads: a share of memory that is none, or weights that do not fit."""
    said = setup.flags.get("--gpu-memory-utilization")
    if said is not None and _bad_share(said):
        yield f"--gpu-memory-utilization {str(said)[:40]}: a share above 0 and up to 1 is asked for"
    if held and held.weights is not None and held.budget is not None and held.weights >= held.budget:
        yield f"{held.weights / 1e9:,.1f} GB of weights do not fit in the {held.budget / 1e9:,.1f} GB of a rank"


def _weights(config: ModelConfig, setup: Setup, paths: Mapping[str, PathLine]) -> int | None:
    """Bytes of the predicted weights, and of the embedding, which is as large as the lm_head; norms are left out."""
    linear, moe = setup.model.linear_quant, setup.model.moe_quant
    if linear is None or linear not in BYTES or (config.num_experts and moe not in BYTES):
        return None
    total = 0.0
    for gemm in gemms(config, setup, paths):
        elements = gemm.layers * gemm.N * gemm.K * (gemm.experts or 1)
        total += elements * _bytes(gemm, linear, moe)
        total += elements * 2 if gemm.module == "lm_head" else 0
    return int(total)


def _bytes(gemm: LocalGemm, linear: str, moe: str | None) -> float:
    if gemm.module == "router":
        return 4.0
    if gemm.module == "lm_head":
        return 2.0
    return BYTES[moe or linear] if gemm.kind != "linear" or gemm.module.startswith("shared") else BYTES[linear]
