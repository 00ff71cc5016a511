"""Which tile vLLM's native MXFP8 linear kernel takes for a local shape, and what launch follows from it.

Holds for vLLM 0.33.0, ``model_executor/kernels/linear/mxfp8/rocm_native.py`` (``_select_cfg``), restated by
regime and compared with it over a grid of shapes.  The tiles were tuned upstream for triton 3.7 and 3.8 on
gfx950, so a tile says what will be launched, not what is fastest elsewhere.  Layers whose weight scales repeat
over 32 rows take another kernel of that file, and so no tile of this one.
"""

from __future__ import annotations

from dataclasses import dataclass

HOLDS_FOR_VLLM = "0.33.0"
K_ALIGN = 128  # elements of K; the kernel's loop over K is unmasked


@dataclass(frozen=True)
class Tile:
    """Rows, columns and depth of one program's block (elements), waves per program and pipeline stages."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int


def native_refusal(K: int) -> str | None:
    """Why a layer of this depth never reaches the kernel: its weight becomes BF16 once, at load; else None."""
    return f"K {K} is not a multiple of {K_ALIGN}" if K % K_ALIGN else None


def select_tile(M: int, N: int, K: int, *, gfx: str = "gfx950") -> Tile:
    """The tile for a local GEMM of M rows, N columns and depth K (`native_refusal` says whether it runs at all).

    Args:
        gfx: gfx950 leaves LDS for two pipeline stages at a block of 256 in K; other CDNA4 targets take three.

    Raises:
        ValueError: a size below 1.
    """
    if min(M, N, K) < 1:
        raise ValueError(f"sizes must be at least 1, got M={M} N={N} K={K}")
    if M <= 64:
        return _decode(K)
    if (M <= 128 and N <= 1536) or (M <= 256 and N <= 1280):
        return _narrow(K)
    if M <= 256:
        return Tile(64, 64, _deepest(K, (512, 256) if K > 1024 else (256,)), 8, 2)
    tall_stages = 2 if gfx == "gfx950" else 3
    return _shallow_prefill(M, N, K, tall_stages) if K <= 1024 else _deep_prefill(M, N, K, tall_stages)


def _deepest(K: int, choices: tuple[int, ...]) -> int:
    """The first of ``choices`` that divides K, else 128."""
    return next((block for block in choices if K % block == 0), K_ALIGN)


def _decode(K: int) -> Tile:
    """Up to 64 rows: 16 columns give most programs, so that all units stream weights; depth saves loop turns."""
    block_k = _deepest(K, (1024, 512, 256))
    if block_k <= 256:
        return Tile(16, 32, block_k, 4, 3)
    return Tile(16, 16, block_k, 2, 2 if block_k == 1024 else 3)


def _narrow(K: int) -> Tile:
    """65 to 256 rows on few columns: square tiles would leave most units without a program."""
    block_k = _deepest(K, (1024, 512, 256))
    return Tile(16, 16, block_k, 2, 2 if block_k == 1024 else 3)


def _tall_programs(M: int, N: int) -> int:
    """Programs that tiles of 256 x 128 would give, upstream's measure of how well a launch fills the device."""
    return -(-M // 256) * -(-N // 128)


def _shallow_prefill(M: int, N: int, K: int, tall_stages: int) -> Tile:
    """More than 256 rows, K up to 1024: a block of 256 in K pays only at full depth and with the device full."""
    if K == 1024 and M >= 4096 and _tall_programs(M, N) >= 256:
        return Tile(128, 128, 256, 8, tall_stages)
    return Tile(128, 128, 128, 8, 3)


def _deep_prefill(M: int, N: int, K: int, tall_stages: int) -> Tile:
    """More than 256 rows, K above 1024; without a block of 256 in K the tile widens instead."""
    aligned = K % 256 == 0
    if M <= 1024:
        return Tile(128, 64, 256 if aligned else 128, 8, 3)
    if not aligned:
        return Tile(128, 256, 128, 8, 3)
    full = _tall_programs(M, N) >= 128 and (K >= 4096 or M >= 4096)
    if full or 1280 < N <= 1536:
        return Tile(128, 128, 256, 8, tall_stages)
    return Tile(128, 64, 256, 8, 3) if N <= 1024 else Tile(128, 128, 256, 8, 2)


def programs(M: int, N: int, tile: Tile) -> int:
    """Programs (workgroups) of the launch: blocks of rows times blocks of columns, each rounded up."""
    return -(-M // tile.block_m) * -(-N // tile.block_n)


def k_loops(K: int, tile: Tile) -> int:
    """Turns of each program's loop over K.

    Raises:
        ValueError: the block does not divide K, which the unmasked loop cannot handle.
    """
    if K % tile.block_k:
        raise ValueError(f"a block of {tile.block_k} does not divide K {K}")
    return K // tile.block_k
