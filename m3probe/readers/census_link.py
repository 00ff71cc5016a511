"""Gives each graph launch of a recording the census graph that it replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from m3probe.kernels.census import CensusGraph, match_step
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array, Table
from m3probe.schema.verdicts import GRAPH_MODES


def with_census(rec: Recording) -> Recording:
    """The recording with ``launches.graph`` filled where a replay matches the census of its rank."""
    if not len(rec.graphs):
        return rec
    graph = rec.launches["graph"].copy()
    names = _replay_names(rec)
    for rank, census in _census_by_rank(rec).items():
        files = [i for i, f in enumerate(rec.files) if f.role == "rank" and (f.rank == rank or None in (f.rank, rank))]
        for step, replays in _launches_by_step(rec, files).items():
            rows = int(rec.steps["rows"][step]) if step >= 0 else NONE
            found = match_step([names.get(row, ()) for row in replays], rows, census)
            for row, match in zip(replays, found, strict=True):
                if match is not None:
                    graph[row] = match.graph
    launches = Table("launches", {**rec.launches.columns, "graph": graph})
    return replace(rec, tables={**rec.tables, "launches": launches})


def _census_by_rank(rec: Recording) -> dict[int | None, list[CensusGraph]]:
    table = rec.graphs
    found: dict[int | None, list[CensusGraph]] = {}
    for graph in np.unique(table["graph"]).tolist():
        rows = np.flatnonzero(table["graph"] == graph)
        first = rows[0]
        mode = int(table["mode"][first])
        found.setdefault(rec.files[int(table["file"][first])].rank, []).append(
            CensusGraph(
                graph=graph,
                mode=str(GRAPH_MODES[mode]) if mode >= 0 else "",
                padded_rows=int(table["padded_rows"][first]),
                names=tuple(table["name"][rows].tolist()),
            )
        )
    return found


def _launches_by_step(rec: Recording, files: list[int]) -> dict[int, list[int]]:
    table = rec.launches
    rows = np.flatnonzero(rec.graph_launches & np.isin(table["file"], files))
    rows = rows[np.argsort(table["start_ns"][rows], kind="stable")]
    found: dict[int, list[int]] = {}
    for row in rows.tolist():
        found.setdefault(int(table["step"][row]), []).append(row)
    return found


def _replay_names(rec: Recording) -> Mapping[int, tuple[int, ...]]:
    """Name ids of the recorded kernels of each graph launch, in start order."""
    rows = np.flatnonzero(rec.kernels["in_graph"])
    launch: Array = rec.kernels["launch"][rows]
    order = np.lexsort((rec.kernels["start_ns"][rows], launch))
    rows, launch = rows[order], launch[order]
    cuts = np.flatnonzero(np.diff(launch)) + 1
    names = rec.kernels["name"][rows]
    return {
        int(group[0]): tuple(part.tolist())
        for group, part in zip(np.split(launch, cuts), np.split(names, cuts), strict=True)
        if len(group)
    }
