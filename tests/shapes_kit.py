"""Shared by the tests of shapes analyzer: Question 1 on traces written by hand and on the real ones: which M, N,."""

from __future__ import annotations

from typing import Any

from builders import kernel, launch, op, step

from m3probe.analyzers.shapes import judge
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, ModelMatch, ShapeRow, ShapesSection

DECODE = "execute_context_0(0)_generation_8(8)"
PREFILL = "execute_context_1(4000)_generation_0(0)"
BF16 = ["c10::BFloat16", "c10::BFloat16"]
GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float>"
UNITS = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132, "warpSize": 32}]}
M3_KERNEL = "_fused_minimax_m3_qknorm_rope_kernel"
# (N, K) -> calls per decode step, from the model: 3 dense and 6 sparse layers of a TP4 rank, vocabulary whole.
H200_STEP = {
    (2560, 6144): 6,  # qkv of sparse layers
    (2304, 6144): 3,  # qkv of dense layers
    (6144, 2048): 9,  # o_proj
    (1536, 6144): 6,  # shared gate_up
    (6144, 768): 6,  # shared down
    (6144, 6144): 3,  # dense gate_up
    (6144, 3072): 3,  # dense down
    (200064, 6144): 1,  # lm_head
    (128, 6144): 6,  # router
}


def mm(M: int, N: int, K: int) -> list[list[int]]:
    return [[M, K], [K, N]]


def call(
    at: float, number: int, name: str, dims: Any, types: Any = BF16, *, kernels: tuple[str, ...] = (GEMM,), **args: Any
):
    """An operator of 20 us that launches kernels of 10 us each."""
    events = [op(at, 20.0, name, dims, types)]
    for i, text in enumerate(kernels):
        events += [
            launch(at + 1 + 3 * i, 10 * number + i),
            kernel(at + 40 + 10 * i, 10.0, 10 * number + i, text, **args),
        ]
    return events


def linears(pairs: Any, M: int = 8, **args: Any) -> list[dict[str, Any]]:
    """One decode step with a mm of each (N, K)."""
    events = [step(0.0, 100.0 * len(pairs) + 50, DECODE)]
    for i, (N, K) in enumerate(pairs):
        events += call(100.0 * i + 1, i + 1, "aten::mm", mm(M, N, K), **args)
    return events


def answer(
    rec: Recording, so_far: Answer | None = None
) -> tuple[tuple[ShapeRow, ...], ModelMatch | None, dict[str, Finding]]:
    got = judge(rec, so_far or Answer())
    section = got.section(ShapesSection)
    assert section is not None
    return section.shapes, section.model_match, {finding.id: finding for finding in got.findings}


def counted(rows: tuple[ShapeRow, ...]) -> dict[tuple[str, int, int, int], int]:
    return {(row.phase, row.M, row.N, row.K): row.count for row in rows}
