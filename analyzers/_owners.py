"""Which GEMM call each kernel belongs to: the operator that launched it, or the GEMM before it on its stream."""

from __future__ import annotations

import numpy as np

from m3probe.model.executed import Executed
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array


def owners(rec: Recording, rows: Executed, gemm_op: Array, computes: Array, finishes: Array) -> Array:
    """Index (into ``rows``) of the row that stands for the call of each row; its own for one that stands, -1 for none.

    Args:
        rec: the recording.
        rows: kernels of GEMM operators, and GEMM kernels elsewhere.
        gemm_op: mask, the kernel's operator multiplies matrices.
        computes: mask, families that can be the GEMM itself; what prepares operands belongs to no call.
        finishes: mask, kernels that only add up the parts of a split-K GEMM.
    """
    owner = np.full(len(rows), NONE, dtype=np.int64)
    op_row = np.full(len(rows), NONE, dtype=np.int64)
    recorded = (rows.census == NONE) & (rows.kernel != NONE)
    op_row[recorded] = rec.kernels["op"][rows.kernel[recorded]]
    by_op = gemm_op & (op_row != NONE)
    _by_operator(owner, np.flatnonzero(by_op & computes), op_row, finishes)
    single = ~by_op & computes & ~finishes
    owner[single] = np.flatnonzero(single)
    _by_stream(rec, rows, owner, single, ~by_op & finishes)
    return owner


def _by_operator(owner: Array, rows: Array, op_row: Array, finishes: Array) -> None:
    """An operator's first kernel that computes stands for the call; one that only has finishing kernels is none."""
    rows = rows[np.lexsort((finishes[rows], op_row[rows]))]
    _, first, place = np.unique(op_row[rows], return_index=True, return_inverse=True)
    stands = rows[first]
    owner[rows] = np.where(finishes[stands], NONE, stands)[place]


def _by_stream(rec: Recording, rows: Executed, owner: Array, single: Array, finishing: Array) -> None:
    """A finishing kernel belongs to the GEMM before it on its stream, in the same replay where it was replayed."""
    at = np.flatnonzero((single | finishing) & (rows.kernel != NONE))
    if not len(at):
        return
    kernels, kernel = rec.kernels, rows.kernel[at]
    order = np.lexsort((kernels["start_ns"][kernel], *(kernels[key][kernel] for key in ("stream", "device", "file"))))
    at, kernel = at[order], kernel[order]
    before = np.maximum.accumulate(np.where(single[at], np.arange(len(at)), -1))
    asks = np.flatnonzero(finishing[at] & (before >= 0))
    gemm = before[asks]
    same = np.ones(len(asks), dtype=bool)
    for key in ("stream", "device", "file", "step", "in_graph"):
        same &= kernels[key][kernel[asks]] == kernels[key][kernel[gemm]]
    replayed = kernels["in_graph"][kernel[asks]]
    same &= ~replayed | (kernels["launch"][kernel[asks]] == kernels["launch"][kernel[gemm]])
    owner[at[asks[same]]] = at[gemm[same]]
