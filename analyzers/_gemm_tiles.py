"""What a GEMM kernel's name and launch grid say: its tile, its workgroups, and whether it only finishes another GEMM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class NamedTile:
    """Rows, columns and depth of one program's block in elements, as the kernel's name states them."""

    block_m: int
    block_n: int
    block_k: int
    text: str


# Column-major libraries name the side along N first: recorded grids hold ceil(N / first) x ceil(M / second) programs
# (MI300X: MT448x32x64 on N=201088, M=32: 449 x 1; H200: nvjet 64x8 on N=6144, M=8: 96 x 1).
_COLUMNS_FIRST = (
    re.compile(r"^Cijk_.*?_(MT)(\d+)x(\d+)x(\d+)"),
    re.compile(r"^nvjet_\w*?()(\d+)x(\d+)_(\d+)x\d+_"),
    re.compile(r"_(tilesize)(\d+)x(\d+)x(\d+)"),
    re.compile(r"cutlass_\w*?_()(\d+)x(\d+)_(\d+)x\d+_[nt]{2}(?:_|\b)"),
)
_ROWS_FIRST = (
    re.compile(r"^flydsl_.*?_(t)(\d+)x(\d+)x(\d+)"),
    re.compile(r"^_matmul_ogs_\w*?_()(\d+)x(\d+)x(\d+)x\d+"),
)
_FINISHES = re.compile(r"splitKreduce|splitk_reduce|split_k_reduce|execute_split_k_kernel|PostGSU", re.IGNORECASE)


@lru_cache(maxsize=4096)
def named_tile(name: str) -> NamedTile | None:
    """The tile that a kernel's name states; None when it states none."""
    for patterns, columns_first in ((_COLUMNS_FIRST, True), (_ROWS_FIRST, False)):
        for pattern in patterns:
            said = pattern.search(name)
            if said:
                first, second, depth = (int(said[i]) for i in (2, 3, 4))
                m, n = (second, first) if columns_first else (first, second)
                return NamedTile(m, n, depth, f"{said[1]}{first}x{second}x{depth}")
    return None


@lru_cache(maxsize=4096)
def finishes_another(name: str) -> bool:
    """Whether a kernel only adds up the parts of a split-K GEMM."""
    return bool(_FINISHES.search(name))
