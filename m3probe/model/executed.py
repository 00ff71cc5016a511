"""What ran: recorded kernels, and the census of graphs whose replays were counted.

One row per kernel execution. A recorded kernel of a matched replay takes op, dims and grid from the
census (a replay's record has none); a census kernel without a record is a row of its own, with no
time. Without a census the rows are the recorded kernels alone.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import Evidence


@dataclass(frozen=True, slots=True)
class Executed:
    """Columns of equal length, one row per kernel execution.

    ``name op dims types strides`` are string ids, ``grid`` a row of dims, ``step`` a row of steps,
    ``kernel`` a row of kernels (-1: known from the census alone), ``census`` a row of graphs (-1:
    recorded only), ``dur_ns`` -1 where no time is known.
    """

    name: Array
    family: Array
    file: Array
    step: Array
    launch: Array
    dur_ns: Array
    op: Array
    dims: Array
    types: Array
    strides: Array
    grid: Array
    kernel: Array
    census: Array

    def __len__(self) -> int:
        return len(self.name)

    def at(self, rows: Array) -> Executed:
        """The chosen rows (indices or a mask)."""
        return Executed(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @property
    def evidence(self) -> Evidence:
        """``census`` when any row rests on it alone, ``kernels`` otherwise, ``none`` without rows."""
        if not len(self):
            return Evidence.NONE
        return Evidence.CENSUS if (self.kernel == NONE).any() else Evidence.KERNELS


def executed(rec: Recording) -> Executed:
    """All kernel executions of a recording that its evidence proves."""
    recorded = _recorded(rec)
    if not len(rec.graphs):
        return recorded
    launches = np.flatnonzero(rec.launches["graph"] != NONE)
    first, last = _spans(rec.graphs["graph"])
    by_launch = _rows_by_launch(rec)
    only_census: list[tuple[int, Array]] = []
    for launch in launches.tolist():
        graph = int(rec.launches["graph"][launch])
        census = np.arange(first[graph], last[graph])
        rows = by_launch.get(launch, np.empty(0, dtype=np.int64))
        paired, left = _pair(recorded.name[rows], rec.graphs["name"][census])
        recorded.census[rows] = census[paired]
        if len(left):
            only_census.append((launch, census[left]))
    _fill_from_census(rec, recorded)
    return _joined(recorded, [_from_census(rec, launch, rows) for launch, rows in only_census])


def _recorded(rec: Recording) -> Executed:
    kernels, ops = rec.kernels, rec.ops
    op = kernels["op"]
    known = np.maximum(op, 0)

    def of_op(key: str) -> Array:
        values = ops[key]
        return np.where(op >= 0, values[known], NONE) if len(values) else np.full(len(op), NONE)

    return Executed(
        name=kernels["name"],
        family=kernels["family"],
        file=kernels["file"],
        step=kernels["step"],
        launch=kernels["launch"],
        dur_ns=np.where(kernels["timed"], kernels["dur_ns"], NONE),
        op=of_op("name"),
        dims=of_op("dims"),
        types=of_op("types"),
        strides=of_op("strides"),
        grid=kernels["grid"].copy(),
        kernel=np.arange(len(kernels)),
        census=np.full(len(kernels), NONE),
    )


def _spans(graph: Array) -> tuple[dict[int, int], dict[int, int]]:
    """First and one-past-last row of each graph id (rows of a graph are contiguous)."""
    starts = np.flatnonzero(np.append(True, graph[1:] != graph[:-1]))
    ends = np.append(starts[1:], len(graph))
    ids = graph[starts].tolist()
    return dict(zip(ids, starts.tolist(), strict=True)), dict(zip(ids, ends.tolist(), strict=True))


def _rows_by_launch(rec: Recording) -> dict[int, Array]:
    """Kernel rows of each graph launch, in order of start."""
    rows = np.flatnonzero(rec.kernels["in_graph"])
    launch = rec.kernels["launch"][rows]
    order = np.lexsort((rec.kernels["start_ns"][rows], launch))
    rows, launch = rows[order], launch[order]
    cuts = np.flatnonzero(np.diff(launch)) + 1
    groups = zip(np.split(launch, cuts), np.split(rows, cuts), strict=True)
    return {int(group[0]): part for group, part in groups if len(group)}


def _pair(recorded: Array, census: Array) -> tuple[Array, Array]:
    """Census index of each recorded name (k-th occurrence to k-th), and the census indices left over."""
    if len(recorded) == len(census) and (recorded == census).all():
        return np.arange(len(census)), np.empty(0, dtype=np.int64)
    waiting: dict[int, list[int]] = {}
    for index, name in enumerate(census.tolist()):
        waiting.setdefault(name, []).append(index)
    paired = [waiting[name].pop(0) for name in recorded.tolist()]
    left = sorted(index for rest in waiting.values() for index in rest)
    return np.array(paired, dtype=np.int64), np.array(left, dtype=np.int64)


def _fill_from_census(rec: Recording, recorded: Executed) -> None:
    rows = np.flatnonzero(recorded.census != NONE)
    census = recorded.census[rows]
    for key in ("op", "dims", "types", "strides", "grid"):
        getattr(recorded, key)[rows] = rec.graphs[key][census]


def _from_census(rec: Recording, launch: int, rows: Array) -> Executed:
    graphs, n = rec.graphs, len(rows)
    return Executed(
        name=graphs["name"][rows],
        family=graphs["family"][rows],
        file=np.full(n, rec.launches["file"][launch]),
        step=np.full(n, rec.launches["step"][launch]),
        launch=np.full(n, launch),
        dur_ns=np.full(n, NONE),
        op=graphs["op"][rows],
        dims=graphs["dims"][rows],
        types=graphs["types"][rows],
        strides=graphs["strides"][rows],
        grid=graphs["grid"][rows],
        kernel=np.full(n, NONE),
        census=rows,
    )


def _joined(recorded: Executed, more: list[Executed]) -> Executed:
    if not more:
        return recorded
    parts = [recorded, *more]
    return Executed(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Executed)})
