"""NCCL's and RCCL's calls by the word that torch's profiler writes for each collective."""

from __future__ import annotations

import re

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array

_CALL = re.compile(r"(?:nccl|mscclpp?)([A-Z]\w*?)(?:_impl)?")
_WORDS = {
    "AllReduce": "allreduce",
    "AllReduceWithBias": "allreduce",
    "AllGather": "allgather",
    "ReduceScatter": "reduce_scatter",
    "AllToAll": "all_to_all",
    "AllToAllv": "all_to_allv",
    "Broadcast": "broadcast",
    "Bcast": "broadcast",
    "Reduce": "reduce",
    "Gather": "gather",
    "Scatter": "scatter",
    "Send": "send",
    "Recv": "recv",
}


def collectives(names: Array, builder: RecordingBuilder) -> Array:
    """String id of the collective that each call is; -1 for calls that move nothing (groups, communicators)."""
    distinct, where = np.unique(names, return_inverse=True)
    found = np.full(len(distinct), NONE, dtype=np.int64)
    for row, name in enumerate(distinct.tolist()):
        said = _CALL.fullmatch(builder.strings[name])
        if said and said[1] in _WORDS:
            found[row] = builder.strings.intern(_WORDS[said[1]])
    result: Array = found[where.reshape(-1)]
    return result
