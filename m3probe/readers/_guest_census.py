"""The census that a guest took at capture, as rows of the ``graphs`` table."""

from __future__ import annotations

from typing import Any

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE
from m3probe.readers._families import families
from m3probe.schema import records
from m3probe.schema.verdicts import GRAPH_MODES


def add_census(found: dict[type[records.Record], list[Any]], builder: RecordingBuilder, file: int) -> None:
    """One graph per (descriptor, piece), kernels in launch order."""
    descriptors = {d.id: d for d in found.get(records.Descriptor, [])}
    modes = [str(mode) for mode in GRAPH_MODES]
    intern = builder.strings.intern
    for census in found.get(records.Census, []):
        if not census.kernels:
            continue
        of = descriptors.get(census.descriptor)
        count = len(census.kernels)
        names = np.array([intern(k.name) for k in census.kernels], dtype=np.int32)
        ops = np.array([intern(k.op) if k.op else NONE for k in census.kernels], dtype=np.int32)
        builder.add(
            "graphs",
            {
                "file": np.full(count, file),
                "graph": np.full(count, builder.graphs_seen),
                "position": np.arange(count),
                "mode": np.full(count, modes.index(of.mode) if of is not None and of.mode in modes else NONE),
                "padded_rows": np.full(count, of.padded_rows if of is not None else NONE),
                "name": names,
                "family": families(names, ops, builder),
                "op": ops,
                "dims": np.array([intern(k.dims) if k.dims else NONE for k in census.kernels]),
                "types": np.array([intern(k.types) if k.types else NONE for k in census.kernels]),
                "strides": np.full(count, NONE),
                "grid": np.array([builder.dims.intern(tuple(k.grid)) if k.grid else NONE for k in census.kernels]),
            },
        )
        builder.graphs_seen += 1
