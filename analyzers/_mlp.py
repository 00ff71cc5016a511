"""Dense MLPs that run beside the grouped experts: the shared expert, when nothing fused it (method R2).

A plain MLP is an activation whose neighbours on its stream are ordinary GEMMs (gate/up before, down after); the
activation between two grouped GEMMs belongs to the routed experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._names import attention_anchors
from m3probe.analyzers._view import View, kernel_names, rows_named
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import FAMILIES, Family

_GEMM, _MOE, _ACT = (FAMILIES.index(f) for f in (Family.GEMM, Family.MOE_GEMM, Family.ACTIVATION))


@dataclass(frozen=True, slots=True)
class SharedMlps:
    """Plain MLPs inside MoE layers: rows of executions, [steps] MLPs and MoE layers.

    ``own_stream``: no grouped GEMM ran on theirs. Whether anything ran beside them, only times tell.
    """

    rows: Array
    mlps: Array
    moe_layers: Array
    own_stream: bool


def shared_mlps(view: View, steps: Array) -> SharedMlps:
    """Plain MLPs of these steps that lie in a layer with grouped GEMMs."""
    n = len(view.rec.steps)
    rows = _program_order(view, np.flatnonzero(view.rows_in(steps)))
    step = view.ex.step[rows]
    layer = _layer(view, rows, step)
    family = view.ex.family[rows]
    expert_layers = np.unique(np.stack([step, layer])[:, family == _MOE], axis=1)
    lane = _lane(view, rows)
    order = np.lexsort((lane, step))  # stable: program order inside a lane
    acts, low, high = _plain_mlps(view, rows[order], step[order], lane[order])
    key = layer * n + step  # one number per (layer, step)
    routed = np.isin(key[order][acts], expert_layers[1] * n + expert_layers[0])
    acts, low, high = acts[routed], low[routed], high[routed]
    covered = np.zeros(len(rows) + 1, dtype=np.int64)
    np.add.at(covered, low, 1)
    np.add.at(covered, high + 1, -1)
    inside = np.cumsum(covered[:-1]) > 0
    return SharedMlps(
        rows=rows[order][inside],
        mlps=np.bincount(step[order][acts], minlength=n)[steps],
        moe_layers=np.bincount(expert_layers[0], minlength=n)[steps],
        own_stream=bool(len(acts)) and not np.isin(lane[order][acts], lane[family == _MOE]).any(),
    )


def _program_order(view: View, rows: Array) -> Array:
    """Rows by step and issue: launch time, then place in the captured graph or, without a census, start time."""
    ex, rec = view.ex, view.rec
    kernel, launch, census = ex.kernel[rows], ex.launch[rows], ex.census[rows]
    issued = np.where(launch >= 0, rec.launches["start_ns"][launch], 0) if len(rec.launches) else np.zeros(len(rows))
    start = np.where(kernel >= 0, rec.kernels["start_ns"][kernel], 0) if len(rec.kernels) else np.zeros(len(rows))
    place = np.where(census >= 0, rec.graphs["position"][census], start) if len(rec.graphs) else start
    return rows[np.lexsort((place, issued, ex.step[rows]))]


def _lane(view: View, rows: Array) -> Array:
    """Stream of each row; the census knows none and its kernels share one lane."""
    kernel = view.ex.kernel[rows]
    if not len(view.rec.kernels):
        return np.full(len(rows), NONE)
    ids = np.unique(view.rec.kernels["stream"], return_inverse=True)[1]  # ROCm stream ids can be 64-bit handles
    in_census = view.ex.census[rows] >= 0
    return np.where((kernel >= 0) & ~in_census, ids[kernel], NONE)


def _layer(view: View, rows: Array, step: Array) -> Array:
    """Attention layers begun before each row, counted from the start of its step."""
    anchors = attention_anchors(kernel_names(view))
    begun = np.cumsum(rows_named(view, anchors)[rows])
    first = np.flatnonzero(np.append(True, step[1:] != step[:-1])) if len(step) else np.empty(0, dtype=np.int64)
    before: Array = np.repeat(np.append(0, begun)[first], np.diff(np.append(first, len(step))))
    layers: Array = begun - before
    return layers


def _plain_mlps(view: View, rows: Array, step: Array, lane: Array) -> tuple[Array, Array, Array]:
    """(activation, first row of gate/up, last row of down): positions in ``rows``, which are ordered by lane."""
    family = view.ex.family[rows]
    multiplies = (family == _GEMM) | (family == _MOE)
    position = np.arange(len(rows))
    before = np.maximum.accumulate(np.where(multiplies, position, NONE)) if len(rows) else position
    after = np.minimum.accumulate(np.where(multiplies, position, len(rows))[::-1])[::-1] if len(rows) else position
    acts = np.flatnonzero(family == _ACT)
    acts = acts[(before[acts] >= 0) & (after[acts] < len(rows))]
    low, high = before[acts], after[acts]
    together = (step[low] == step[high]) & (lane[low] == lane[high])
    plain = together & (family[low] == _GEMM) & (family[high] == _GEMM)
    acts, low, high = acts[plain], low[plain], high[plain]
    # a split-K GEMM is two launches: the product, then its reduction
    reduces = [i for i, name in kernel_names(view).items() if name.family is Family.GEMM and "reduce" in name.head]
    is_reduce = np.append(rows_named(view, reduces)[rows], False)
    return acts, np.where(is_reduce[low], np.maximum(low - 1, 0), low), np.where(is_reduce[high + 1], high + 1, high)
