"""Replays of one place in equal steps, which must show the same kernels."""

from __future__ import annotations

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array

_PLACE = ("file", "rows", "requests", "ctx_reqs", "graph_launches")
"""Steps that agree in these replay the same graphs in the same order."""


def unequal_replays(rec: Recording) -> list[Array]:
    """Launch rows of each place whose replays show unlike kernels; replays matched to a census are left to it."""
    launches = rec.launches
    rows = np.flatnonzero(rec.graph_launches & (launches["step"] != NONE))
    if np.count_nonzero((launches["kernels"][rows] > 0) & (launches["graph"][rows] == NONE)) < 2:
        return []
    rows = rows[np.lexsort((launches["start_ns"][rows], launches["step"][rows]))]
    step = launches["step"][rows]
    begin = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    position = np.arange(len(rows)) - np.repeat(begin, np.diff(np.append(begin, len(rows))))
    place = np.stack([*(rec.steps[key][step].astype(np.int64) for key in _PLACE), position])
    shown = (launches["kernels"][rows] > 0) & (launches["graph"][rows] == NONE)
    rows, group = rows[shown], np.unique(place[:, shown], axis=1, return_inverse=True)[1].reshape(-1)
    unlike = np.zeros(len(group) + 1, dtype=bool)
    for content in contents(rec):
        low = np.full(len(group) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
        high = np.zeros(len(group) + 1, dtype=np.uint64)
        np.minimum.at(low, group, content[rows])
        np.maximum.at(high, group, content[rows])
        unlike |= low < high
    return [rows[group == one] for one in np.unique(group[unlike[group]]).tolist()]


def contents(rec: Recording) -> tuple[Array, Array]:
    """Kernels, and an order-free sum over their names, of each runtime call: equal for equal multisets of names."""
    linked = rec.kernels["launch"] != NONE
    launch, name = rec.kernels["launch"][linked], rec.kernels["name"][linked].astype(np.uint64)
    # splitmix64: neighbouring ids become unrelated numbers, so that their sums do not meet by chance
    mixed = (name + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    total = np.zeros(len(rec.launches), dtype=np.uint64)
    np.add.at(total, launch, mixed ^ (mixed >> np.uint64(31)))
    return rec.launches["kernels"].astype(np.uint64), total
