"""Shared by the tests of paths comm: Communication paths on paper: sizes, worlds, settings and builds, work."""

from __future__ import annotations

from m3probe.fastpaths._all_reduce import intervals
from m3probe.schema.setup import Point, Setup
from m3probe.schema.verdicts import Phase

QR, CUSTOM, FUSED = "quick_reduce", "custom_all_reduce", "fused_allreduce_norm"
MINE = (QR, CUSTOM, FUSED)
Q = "VLLM_ROCM_QUICK_REDUCE_"
QUANT, CAST, MIN_MB, MAX_MB, KB = (
    f"{Q}QUANTIZATION",
    f"{Q}CAST_BF16_TO_FP16",
    f"{Q}MIN_SIZE_BYTES_MB",
    f"{Q}MAX_SIZE_BYTES_MB",
    f"{Q}QUANTIZATION_MIN_SIZE_KB",
)
AITER = {"VLLM_ROCM_USE_AITER": "1"}
INVARIANT = {"VLLM_BATCH_INVARIANT": "1"}
ROW = 12_288
EAGLE = {"method": "eagle3", "num_speculative_tokens": 3}


def env(codec: str, cast: str | None = None, **more: str) -> dict[str, str]:
    return {QUANT: codec} | ({} if cast is None else {CAST: cast}) | {Q + name: value for name, value in more.items()}


def prefill(rows: int) -> Point:
    """One request's chunk: eager on 0.32 and 0.33, so its rows are what the kernels get."""
    return Point(Phase.PREFILL, rows, 1)


def bands(made: Setup) -> list[tuple[int, int | None, str | None]]:
    return [(i.first_row, i.last_row, i.backend) for i in intervals(made)]


FIRST_ROWS: dict[tuple[str, int], tuple[int | None, ...]] = {
    ("float16", 2): (86, 171, 171, 86, 86),
    ("float16", 4): (86, 1366, 342, 171, None),
    ("float16", 8): (1366, 342, 342, 171, None),
    ("bfloat16", 2): (171, 683, 683, 683, 683),
    ("bfloat16", 4): (683, 5462, 5462, 1366, None),
    ("bfloat16", 8): (1366, None, None, None, None),
}
