"""What a database of any profiler gives: processes with their rows, what to say of them, what the host has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from m3probe.model.recording import Device, Note
from m3probe.model.tables import Array
from m3probe.readers._process import Process, check_devices
from m3probe.readers._smi_rows import Sample


@dataclass(slots=True)
class Ran:
    """One process.

    Args:
        labels: device -> how the profiler names it.
        whole_graphs: columns of the table ``whole_graphs`` that a format knows, by name; empty where graphs are recorded
            kernel by kernel.
    """

    pid: int | None
    process: Process
    labels: dict[int, str] = field(default_factory=dict)
    whole_graphs: dict[str, Array] = field(default_factory=dict)


@dataclass(slots=True)
class Dump:
    """All that was read of one file."""

    kind: str
    processes: list[Ran] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    devices: tuple[Device, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    samples: Sequence[Sample] = ()

    def note(self, word: str, text: str, count: int = 1, *, lossy: bool = False, quiet: bool = False) -> None:
        """Remember what the user must be told; nothing where nothing is counted."""
        if count:
            self.notes.append(Note(word, text, count=count, lossy=lossy, quiet=quiet))


def split(pids: Array, columns: dict[str, Array], path: Path) -> dict[int, dict[str, Array]]:
    """Columns by process; not copied where there is one process.

    Raises:
        UnreadableInput: more processes than one file can be of.
    """
    distinct = np.unique(pids).tolist()
    check_devices(len(distinct), path)
    if len(distinct) == 1:
        return {distinct[0]: columns}
    return {pid: {name: values[pids == pid] for name, values in columns.items()} for pid in distinct}


def constant(value: int, rows: int) -> Array:
    """One value in every row, held once."""
    return np.broadcast_to(np.int64(value), (rows,))
