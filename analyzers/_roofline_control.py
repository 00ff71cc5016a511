"""Choosing key blocks beside attending to them: index score, top-k, page table and index write against the attend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from m3probe.analyzers._basis import removable_share
from m3probe.analyzers._roofline_decode import ATTEND, Decode
from m3probe.analyzers._roofline_known import Model
from m3probe.analyzers._view import View, kernel_names, ms, rows_named
from m3probe.model.decode_floor import CONTROL, crossover_tokens
from m3probe.model.findings import Finding, evidence
from m3probe.model.roofline_report import ControlPlaneRow
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family, Phase

_WORDS = {
    "indexer.score": "index score",
    "indexer.topk": "top-k",
    "indexer.page_table": "page table",
    "kv_write.index": "index write",
}
"""Categories of kernels that choose blocks; other kernels of the family stand under their own."""


def control_plane(view: View, model: Model | None, decode: Decode | None) -> tuple[ControlPlaneRow, Array] | None:
    """Times from kernels, bytes from the floors; None where no sparse attention ran in a decode step with a time.

    Also the executions that choose.
    """
    steps = view.timed_steps(Phase.DECODE)
    inside = view.rows_in(steps)
    attends = inside & (view.ex.family == FAMILIES.index(Family.SPARSE_ATTENTION))
    if not len(steps) or not attends.any():
        return None
    parts: dict[str, float] = {}
    chosen = np.zeros(len(view.ex), dtype=bool)
    names = kernel_names(view)
    for category in sorted({n.category for n in names.values() if _chooses(n.category)}):
        rows = rows_named(view, [i for i, n in names.items() if n.category == category]) & inside
        if rows.any():
            chosen |= rows
            parts[_WORDS.get(category, category)] = view.time_ns(rows) / len(steps)
    picked = decode.total(CONTROL) if decode else None
    read = decode.total(ATTEND) if decode else None
    row = ControlPlaneRow(
        choose_ns=sum(parts.values()) if parts else None,
        attend_ns=view.time_ns(attends) / len(steps),
        choose_bytes=picked.bytes / len(decode.steps) if picked and decode else None,
        attend_bytes=read.bytes / len(decode.steps) if read and decode else None,
        context=decode.context if decode else None,
        crossover_tokens=crossover_tokens(model.config, model.rank, model.formats) if model else None,
        parts_ns=parts,
    )
    return row, np.flatnonzero(chosen)


def _chooses(category: str) -> bool:
    return category.startswith("indexer.") or category == "kv_write.index"


def control_finding(view: View, row: ControlPlaneRow, chosen: Array, model: Model | None) -> Iterator[Finding]:
    """What choosing costs beside attending; its bound is that of the choosing kernels."""
    if row.choose_ns is None or not row.attend_ns:
        return
    kernels = view.kernels_of(chosen)
    bound = None
    if view.decode is not None:
        bound = removable_share(view.rec, kernels, view.decode, more=" (as if blocks were chosen at no cost)")
        bound = replace(bound, high=max(bound.high, 0.0))
    more = row.choose_ns > row.attend_ns
    each = ", ".join(f"{name} {ms(ns)}" for name, ns in row.parts_ns.items())
    yield Finding(
        id="roofline.control_plane",
        question="roofline",
        verdict="above_attend" if more else "below_attend",
        claim=f"Choosing key blocks takes {ms(row.choose_ns)} of kernel time per decode step ({each}), the sparse attend that "
        f"it serves {ms(row.attend_ns)}: {row.choose_ns / row.attend_ns:,.2f} x{_bytes(row)}",
        where="decode",
        evidence=(evidence("kernels", kernels, f"{len(kernels):,} kernels that choose"),),
        advice=_advice(row, model),
        bound=bound,
        confidence="medium",
        trusted=view.trusted,
    )


def _bytes(row: ControlPlaneRow) -> str:
    if row.choose_bytes is None or not row.attend_bytes or row.context is None:
        return ""
    return (
        f"; at {row.context:,.0f} tokens it must move {row.choose_bytes / 1e6:,.2f} MB, the attend "
        f"{row.attend_bytes / 1e6:,.2f} MB ({row.choose_bytes / row.attend_bytes:,.2f} x)"
    )


def _advice(row: ControlPlaneRow, model: Model | None) -> str:
    edge = ""
    if row.crossover_tokens is not None and model is not None:
        edge = (
            f"A {model.formats.index} index beside a {model.formats.kv} KV cache reads at least what the attend reads "
            f"{f'from {row.crossover_tokens:,.0f} tokens on' if row.crossover_tokens else 'at any context'}. "
        )
    narrow = "" if model is not None and model.formats.index == "fp8" else "an FP8 index halves its bytes, "
    return (
        f"{edge}Longer contexts grow the choice, not the attend: {narrow}index_topk_freq skips it in "
        "most layers (it changes the model's work), and batched decode kernels (vLLM 45743, 55235) take its launches down"
    )
