"""Counted dispatches by kernel and grid: the mean of each counter over the dispatches that it was read of.

Passes of one program run the same dispatches, so that means over kernels join what single passes could not count together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array, Table

MOST_GROUPS = 1_000


@dataclass(slots=True)
class Group:
    """One kernel at one grid on one architecture.

    Args:
        dispatches: rows of ``counted``, of all passes that are files of their own.
        mean: counter -> mean of one dispatch; ``counted``: counter -> dispatches; ``time_ns``: of the runs that counted it.
        values: rows of ``counter_values``, the first of each counter.
    """

    kernel: str
    groups: int | None
    gfx: str
    dispatches: int
    mean: dict[str, float] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    time_ns: dict[str, float] = field(default_factory=dict)
    values: list[int] = field(default_factory=list)


def groups_of(rec: Recording, counters: Sequence[str], order_by: Sequence[str]) -> tuple[list[Group], int]:
    """(groups with one of the counters, how many more there are), most of ``order_by`` first."""
    table, values = rec.tables["counted"], rec.tables["counter_values"]
    targets, of_file = _targets(rec)
    keys = np.stack([of_file[table["file"]], table["name"], table["groups"]], axis=1)
    kinds, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    ids = {i: name for name in counters if (i := rec.strings.find(name)) != NONE}
    at = np.flatnonzero(np.isin(values["counter"], list(ids)))
    of = group[values["counted"][at]]
    heavy = np.isin(values["counter"][at], [rec.strings.find(name) for name in order_by])
    weight = np.bincount(of[heavy], weights=values["value"][at][heavy], minlength=len(kinds))
    present = np.unique(of)
    chosen = present[np.argsort(-weight[present], kind="stable")]
    sizes = np.bincount(group, minlength=len(kinds))
    found = {i: _group(rec, targets, kinds[i], int(sizes[i])) for i in chosen[:MOST_GROUPS].tolist()}
    keep = np.isin(of, list(found))
    at, of = at[keep], of[keep]
    order = np.lexsort((at, values["counter"][at], of))
    at, of = at[order], of[order]
    counter = values["counter"][at]
    edges = np.flatnonzero((of[1:] != of[:-1]) | (counter[1:] != counter[:-1])) + 1
    for rows, i in zip(np.split(at, edges), of[np.r_[0, edges]].tolist() if len(of) else (), strict=False):
        _mean(values, rows, ids[int(values["counter"][rows[0]])], found[i])
    return list(found.values()), max(len(chosen) - MOST_GROUPS, 0)


def _group(rec: Recording, targets: Sequence[str], kind: Array, dispatches: int) -> Group:
    gfx, name, groups = kind.tolist()
    return Group(rec.strings[name], None if groups == NONE else groups, targets[gfx], dispatches)


def _mean(values: Table, rows: Array, name: str, group: Group) -> None:
    """One counter of one group; a dispatch with several rows of it (its instances) counts once, their sum."""
    dispatches = len(np.unique(values["counted"][rows]))
    times = values["time_ns"][rows]
    group.mean[name] = float(values["value"][rows].sum()) / dispatches
    group.counted[name] = dispatches
    group.values.append(int(rows[0]))
    if (times > 0).any():
        group.time_ns[name] = float(times[times > 0].mean())


def _targets(rec: Recording) -> tuple[list[str], Array]:
    """(architectures, which of them each file is of): its own table's word, else the one word of the recording, else ""."""
    said = {host.gfx for host in rec.meta.counter_hosts if host.gfx} or {rec.meta.versions.get("gfx", "")}
    common = said.pop() if len(said) == 1 else ""
    own = {host.file: host.gfx for host in rec.meta.counter_hosts if host.gfx}
    words = [own.get(i, common) for i in range(len(rec.files))]
    targets = sorted({*words, ""})
    return targets, np.array([targets.index(word) for word in words], dtype=np.int64)
