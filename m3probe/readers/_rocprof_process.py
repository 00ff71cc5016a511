"""Blocks of rocprofv3 records, CSV or JSON, to one process's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers._process import PARTS, Process

MOST_DEVICES = 1_024
"""No host has more; a larger number of agents is damage."""
_RCCL = re.compile(
    r"(?:nccl|mscclpp?)(AllReduce|AllGather|ReduceScatter|AllToAllv?|Broadcast|Bcast|Reduce|Gather|Scatter|Send|Recv)\w*"
)
_COLLECTIVES = {
    "AllReduce": "allreduce", "AllGather": "allgather", "ReduceScatter": "reduce_scatter", "AllToAll": "all_to_all",
    "AllToAllv": "all_to_allv", "Broadcast": "broadcast", "Bcast": "broadcast", "Reduce": "reduce", "Gather": "gather",
    "Scatter": "scatter", "Send": "send", "Recv": "recv",
}  # fmt: skip
"""RCCL's call -> the word that torch's profiler writes for it."""


class Gathered:
    """Columns of one process, block by block; ``memcpy`` blocks have ``src`` and ``dst`` instead of ``device``."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[Mapping[str, Array]]] = {}
        self.pid: int | None = None

    def add(self, part: str, **columns: Array) -> None:
        """One block of a part."""
        self._blocks.setdefault(part, []).append(columns)

    def merge(self, other: Gathered) -> None:
        """The records of another file of the same process."""
        for part, blocks in other._blocks.items():
            self._blocks.setdefault(part, []).extend(blocks)
        self.pid = self.pid if other.pid is None else other.pid

    def add_calls(self, words: list[str], columns: Mapping[str, Array], builder: RecordingBuilder) -> None:
        """API records by domain: RCCL's are ops, ROCTX's ranges, all others (HIP, HSA) calls of the host.

        Args:
            words: domain of each row (``HIP_RUNTIME_API_EXT``, ``RCCL_API``, ``MARKER_CORE_API``).
            columns: ``name start_ns dur_ns pid tid correlation``.
        """
        kinds = {word: _part(word) for word in set(words)}
        parts = np.array([kinds[word] for word in words])
        for part in set(kinds.values()) - {""}:
            rows = parts == part
            kept = {name: values[rows] for name, values in columns.items()}
            if part == "ops":
                kept["collective"] = collectives(kept["name"], builder)
            self.add(part, **{name: kept[name] for name in PARTS[part]})

    def process(self) -> Process:
        """All blocks joined; a copy is of the GPU that ran kernels, else of its source."""
        process = Process()
        for part, blocks in self._blocks.items():
            columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
            if part == "memcpy":
                ran = self._ran()
                src, dst = columns.pop("src"), columns.pop("dst")
                columns["device"] = np.where(~np.isin(src, ran) & np.isin(dst, ran), dst, src)
                if len(ran):  # a copy between others (host to host, or of a peer) is told by the process's first GPU
                    columns["device"] = np.where(np.isin(columns["device"], ran), columns["device"], ran[0])
            process.put(part, **columns)
        return process

    def records(self) -> int:
        """Rows of all parts."""
        return sum(len(block["name"]) for blocks in self._blocks.values() for block in blocks)

    def ranges(self) -> int:
        """ROCTX ranges and marks."""
        return sum(len(block["name"]) for block in self._blocks.get("annotations", ()))

    def _ran(self) -> Array:
        blocks = self._blocks.get("kernels", [])
        return np.unique(np.concatenate([block["device"] for block in blocks])) if blocks else np.empty(0, np.int64)


def _part(domain: str) -> str:
    if domain.startswith("MARKER"):
        return "" if "CONTROL" in domain or "NAME" in domain else "annotations"
    return "ops" if domain.startswith("RCCL") else "launches"


def collectives(names: Array, builder: RecordingBuilder) -> Array:
    """String id of the collective that each RCCL call is; -1 for calls that move nothing (groups, communicators)."""
    known = dict.fromkeys(np.unique(names).tolist(), NONE)
    for name in known:
        said = _RCCL.fullmatch(builder.strings[name])
        if said:
            known[name] = builder.strings.intern(_COLLECTIVES[said[1]])
    return np.array([known[name] for name in names.tolist()], dtype=np.int64)
