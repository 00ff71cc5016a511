"""How many layers launch a family, read from kernels that run once per layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._names import KernelName, attention_anchors, is_index_score, moe_anchors
from m3probe.analyzers._view import View, kernel_names, rows_named
from m3probe.model.tables import Array
from m3probe.schema.verdicts import Family, Phase

_EVERY_LAYER = {
    Family.GEMM,
    Family.NORM,
    Family.ROPE_KV,
    Family.KV_WRITE,
    Family.ACTIVATION,
    Family.QUANT,
    Family.COMM,
}


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of each kind that ran in a step; None where no anchor tells. ``index``: layers that choose blocks."""

    dense: int | None
    sparse: int | None
    moe: int | None
    index: int | None

    @property
    def all(self) -> int | None:
        """Layers with attention of either kind."""
        return (self.dense or 0) + (self.sparse or 0) or None

    def of(self, family: Family, per_step: float) -> int | None:
        """Layers that launch a family ``per_step`` times; None where that cannot be told."""
        own = {
            Family.ATTENTION: self.dense,
            Family.SPARSE_ATTENTION: self.sparse,
            Family.INDEXER: self.index or self.sparse,
            Family.MOE_GEMM: self.moe,
            Family.MOE_ROUTE: self.moe,
        }
        if family in own:
            return own[family]
        if family not in _EVERY_LAYER or self.all is None:
            return None
        if per_step >= self.all:
            return self.all
        # fewer than one per layer: the kind of layer that it matches exactly, if any
        return next((n for n in (self.dense, self.sparse, self.moe) if n == per_step), None)


def layers(view: View) -> Layers:
    """Layers from decode steps, else prefill, else mixed ones; the model's own counts where no kernel tells.

    Steps of unknown phase tell nothing: a profiler's step may hold any number of passes through the layers.
    """
    phases = (Phase.DECODE, Phase.PREFILL, Phase.MIXED)
    steps = next((rows for rows in map(view.steps, phases) if len(rows)), np.empty(0, dtype=np.int64))
    names = kernel_names(view)
    model = view.rec.meta.model

    def attention(family: Family) -> int | None:
        return _sum_of(view, steps, attention_anchors(names, family))

    found = Layers(
        dense=attention(Family.ATTENTION),
        sparse=attention(Family.SPARSE_ATTENTION),
        moe=_moe(view, steps, names),
        index=_sum_of(view, steps, (i for i, n in names.items() if is_index_score(n))),
    )
    if model is None or found.all is not None:
        return found
    sparse = model.sparse_attention_layers
    return Layers(model.num_layers - sparse or None, sparse or None, model.sparse_layers or None, found.index)


def _moe(view: View, steps: Array, names: Mapping[int, KernelName]) -> int | None:
    for kernels in moe_anchors(names):
        known = [count for count in (_sum_of(view, steps, ids) for ids in kernels) if count]
        if known:
            return max(known)
    return None


def _sum_of(view: View, steps: Array, chosen: Iterable[int]) -> int | None:
    """Launches of these names in most steps; None when there are none or no count holds for more than half.

    Nothing is averaged: a step at the edge of the recording may show only a part of its layers.
    """
    ids = list(chosen)
    if not ids or not len(steps):
        return None
    rows = rows_named(view, ids) & view.rows_in(steps)
    counts = np.bincount(view.ex.step[rows], minlength=len(view.rec.steps))[steps]
    values, often = np.unique(counts, return_counts=True)
    most = int(np.argmax(often))
    return int(values[most]) if values[most] and 2 * often[most] > len(counts) else None
