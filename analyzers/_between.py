"""Copies between a layer's cache insert and its attend: bytes that metadata (page ids) could stand for.

Order within a step is that of the host's launches; inside one graph launch, of the census where a kernel has no
record, else of the records. Only a copy whose last marker is an insert and whose next is an attend counts: a GEMM
between them ends the layer's attention part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._tally import View, alike
from m3probe.analyzers._tensors import arguments
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import FAMILIES, Family

_COPY, _INSERT, _ATTEND, _OTHER = 0, 1, 2, 3
_ATTENDS = [FAMILIES.index(f) for f in (Family.ATTENTION, Family.SPARSE_ATTENTION)]
_ENDS = [FAMILIES.index(f) for f in (Family.GEMM, Family.MOE_GEMM)]
_COPY_KERNEL = FAMILIES.index(Family.COPY)
# attention's own bookkeeping attends to nothing
_HELPER = re.compile(r"prepare_varlen|scheduler|metadata", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of at least a block between insert and attend: rows of transfers and of what ran, with their sums.

    ``unsized``: copies there whose bytes, or whose block to compare with, are not known.
    """

    transfers: Array
    ran: Array
    nbytes: int
    time_ns: int | None
    steps: int
    unsized: int


def copies_between(view: View, inserts: Array, block_bytes: int | None) -> Copies:
    """All such copies of at least ``block_bytes``; none is told apart where that is None."""
    kinds, sizes = _marked(view, inserts), copied_bytes(view)
    table = view.rec.transfers
    ran = np.flatnonzero((kinds != NONE) & (view.ran.step != NONE) & (view.ran.launch != NONE))
    moved = np.flatnonzero(_on_device(view) & (table["step"] != NONE) & (table["launch"] != NONE))
    kind = np.concatenate([kinds[ran], np.full(len(moved), _COPY)])
    size = np.concatenate([sizes[ran], table["payload_bytes"][moved]])
    there = _flagged(view, ran, moved, kind)
    unsized = there & ((size < 0) | (block_bytes is None))
    found = there & ~unsized & (size >= (block_bytes or 0))
    hit_ran, hit_moved = ran[found[: len(ran)]], moved[found[len(ran) :]]
    dur = np.concatenate([view.ran.dur_ns[hit_ran], table["dur_ns"][hit_moved]])
    steps = np.union1d(view.ran.step[hit_ran], table["step"][hit_moved])
    known = dur[dur >= 0]
    time_ns = int(known.sum()) if len(known) else None
    return Copies(hit_moved, hit_ran, int(size[found].sum()), time_ns, len(steps), int(unsized.sum()))


def _on_device(view: View) -> Array:
    """Mask over transfers: copies from the device's memory to its memory."""
    names = view.rec.transfers["name"]
    wanted = [i for i in np.unique(names).tolist() if re.search(r"\bDtoD\b", view.rec.strings[i])]
    return np.isin(names, wanted)


def _marked(view: View, inserts: Array) -> Array:
    """Kind of each execution that takes part in the order, -1 for the others."""
    ran, rec = view.ran, view.rec
    kinds = np.full(len(ran), NONE)
    kinds[ran.family == _COPY_KERNEL] = _COPY
    kinds[np.isin(ran.family, _ENDS)] = _OTHER
    helpers = [i for i in np.unique(ran.name).tolist() if _HELPER.search(rec.strings[i])]
    kinds[np.isin(ran.family, _ATTENDS) & ~np.isin(ran.name, helpers)] = _ATTEND
    kinds[inserts] = _INSERT
    return kinds


def copied_bytes(view: View) -> Array:
    """Bytes that each copy kernel writes by its operator's destination, -1 where it does not say."""
    ran = view.ran
    sizes = np.full(len(ran), NONE, dtype=np.int64)
    for group in alike(np.flatnonzero(ran.family == _COPY_KERNEL), ran.op, ran.dims, ran.types):
        row = int(group[0])
        args = arguments(view.text(ran.dims, row), view.text(ran.types, row))
        if view.text(ran.op, row).endswith("::copy_") and args and args[0].nbytes is not None:
            sizes[group] = args[0].nbytes
    return sizes


def _flagged(view: View, ran: Array, moved: Array, kind: Array) -> Array:
    """Mask over executions then transfers: copies that stand between an insert and an attend of their step."""
    rec = view.rec
    table = rec.transfers
    launch = np.concatenate([view.ran.launch[ran], table["launch"][moved]])
    step = np.concatenate([view.ran.step[ran], table["step"][moved]])
    order = np.lexsort((_inner(view, ran, moved), rec.launches["start_ns"][launch], step))
    kind, step = kind[order], step[order]
    mark = kind != _COPY
    at = np.arange(len(kind))
    before = np.maximum.accumulate(np.where(mark, at, -1))
    after = np.minimum.accumulate(np.where(mark, at, len(kind))[::-1])[::-1]
    inside = ~mark & (before >= 0) & (after < len(kind))
    rows = np.flatnonzero(inside)
    same = (step[before[rows]] == step[rows]) & (step[after[rows]] == step[rows])
    right = (kind[before[rows]] == _INSERT) & (kind[after[rows]] == _ATTEND)
    found = np.zeros(len(kind), dtype=bool)
    found[order[rows[same & right]]] = True
    return found


def _inner(view: View, ran: Array, moved: Array) -> Array:
    """Order inside one launch: start of the record, or the census position where one of its kernels has none."""
    ran_at, rec = view.ran.at(ran), view.rec
    lost = np.unique(ran_at.launch[ran_at.kernel == NONE])
    start = rec.kernels["start_ns"][np.maximum(ran_at.kernel, 0)] if len(rec.kernels) else ran_at.census
    inner: Array = np.where(np.isin(ran_at.launch, lost), ran_at.census, start)
    return np.concatenate([inner, rec.transfers["start_ns"][moved]])
