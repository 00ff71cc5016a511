"""Blocks of rocprofv3 records, CSV or JSON, to one process's columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import Array
from m3probe.readers._collectives import collectives
from m3probe.readers._process import PARTS, Process, device_of_copies


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
        """All blocks joined."""
        process = Process()
        for part, blocks in self._blocks.items():
            columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
            if part == "memcpy":
                columns["device"] = device_of_copies(columns.pop("src"), columns.pop("dst"), self._ran())
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
