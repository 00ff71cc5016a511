"""Graphs that lost the same kernels in every replay: they show fewer layers than the eager steps beside them.

Replays that lose alike are equal to each other, so that only the model tells. Layers are counted by kernels that run
once per layer, sparse attention and MoE alone, and only what cannot be another way of running is taken as loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._names import KernelName, is_attention_anchor, moe_anchors, names_of
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import Family


@dataclass(frozen=True, slots=True)
class Uneven:
    """One file whose graph steps show ``in_graph`` layers of a kind where its eager steps show ``eager``."""

    file: int
    kind: str
    in_graph: int
    eager: int
    steps: int


def uneven_files(rec: Recording) -> list[Uneven]:
    """Files in which kernels of every replay are missing.

    Fires only where every graph step of the file has the same count, every eager step of one pass has another, larger
    one, and the larger is no multiple of the smaller: micro-batches and chunks run every layer a whole number of times.
    Graphs with a census are left to it.
    """
    steps = rec.steps
    owned = rec.kernels["step"] >= 0
    working = np.isin(np.arange(len(steps)), rec.kernels["step"][owned])
    told = rec.launches["step"][rec.graph_launches & (rec.launches["graph"] != NONE)]
    graphed = working & (steps["graph_launches"] == 1)  # one launch holds all layers; of several, some may run eagerly
    graphed &= ~np.isin(np.arange(len(steps)), told)
    eager = working & (steps["graph_launches"] == 0) & (steps["rows"] >= 0)
    files = [f for f in np.unique(steps["file"][graphed]).tolist() if (eager & (steps["file"] == f)).any()]
    if not files:
        return []
    names = names_of(rec.strings, rec.kernels["name"][owned], rec.kernels["family"][owned])
    kinds = [(kind, _per_step(rec, ids)) for kind, ids in _anchors(names)]
    return [found for file in files if (found := _first(rec, file, kinds, graphed, eager))]


def _first(rec: Recording, file: int, kinds: list[tuple[str, Array]], graphed: Array, eager: Array) -> Uneven | None:
    here = rec.steps["file"] == file
    for kind, count in kinds:
        inside, beside = np.unique(count[here & graphed]), np.unique(count[here & eager])
        if len(inside) == len(beside) == 1 and 0 < inside[0] < beside[0] and beside[0] % inside[0]:
            return Uneven(file, kind, int(inside[0]), int(beside[0]), int((here & graphed).sum()))
    return None


def _anchors(names: Mapping[int, KernelName]) -> Iterator[tuple[str, Iterable[int]]]:
    yield (
        "sparse attention",
        [i for i, n in names.items() if n.family is Family.SPARSE_ATTENTION and is_attention_anchor(n)],
    )
    for kernels in moe_anchors(names):
        for ids in kernels:
            yield "MoE", ids


def _per_step(rec: Recording, names: Iterable[int]) -> Array:
    rows = np.isin(rec.kernels["name"], list(names)) & (rec.kernels["step"] >= 0)
    return np.bincount(rec.kernels["step"][rows], minlength=len(rec.steps))
