"""What one process did, as formats beside kineto tell it: plain columns; each device it used becomes a rank's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.recording import RecordingBuilder, SourceFile
from m3probe.model.tables import NONE, Array
from m3probe.readers._rows import Rows
from m3probe.readers.events import LARGEST_NS, NO_TIME

Columns = Mapping[str, Array]

_TIMED = ("name", "start_ns", "dur_ns")
_DEVICE = ("device", "stream", "correlation")
_HOST = ("pid", "tid")
PARTS: Mapping[str, tuple[str, ...]] = {
    "kernels": (*_TIMED, *_DEVICE, "grid"),
    "memcpy": (*_TIMED, *_DEVICE, "payload_bytes"),
    "memset": (*_TIMED, *_DEVICE, "payload_bytes"),
    "launches": (*_TIMED, *_HOST, "correlation"),
    "ops": (*_TIMED, *_HOST, "collective"),
    "annotations": (*_TIMED, *_HOST),
}
"""part -> its columns, all int64. ``name``, ``collective``: string ids; ``grid``: row of dims, in workgroups, -1 where it
is not written; ``correlation``: unique in the process, 0 links nothing; a time that was not written is ``NO_TIME``."""
MOST_DEVICES = 1_024
"""Devices of the processes of one file: no host has more, a larger number is damage."""
_ABSENT = ("block", "dims", "types", "strides", "payload_elems", "payload_dtype", "group_size", "collective", "grid")


@dataclass(slots=True)
class Process:
    """One process's records by part; a part that was not recorded is left out.

    Raises:
        ValueError: a part has other columns than ``PARTS`` says, or columns of unequal length.
    """

    parts: dict[str, Columns] = field(default_factory=dict)

    def put(self, part: str, **columns: Array) -> None:
        """The rows of one part."""
        if columns.keys() != set(PARTS[part]) or len({len(values) for values in columns.values()}) > 1:
            raise ValueError(f"part {part}: columns {sorted(columns)}")
        self.parts[part] = columns

    def column(self, part: str, name: str, dtype: str = "int64") -> Array:
        """One column; -1 in every row where formats of this kind have none."""
        found = self.parts.get(part)
        if found is None:
            return np.empty(0, dtype=dtype)
        if name not in found and name in _ABSENT:
            return np.full(self.count(part), NONE, dtype=np.int64)
        return found[name]

    def time(self, part: str, name: str) -> Array:
        """``start_ns`` or ``dur_ns``, 0 where it is not known."""
        values = self.column(part, name)
        return np.where(values == NO_TIME, 0, values)

    def known(self, part: str) -> Array:
        """Mask: both times were written."""
        found: Array = (self.column(part, "start_ns") != NO_TIME) & (self.column(part, "dur_ns") != NO_TIME)
        return found

    def count(self, part: str) -> int:
        """Rows of a part."""
        return len(self.parts[part]["name"]) if part in self.parts else 0

    def devices(self) -> list[int]:
        """Devices with a kernel, copy or fill, in order."""
        found: list[int] = np.unique(np.concatenate([self.column(part, "device") for part in _ON_DEVICE])).tolist()
        return found

    def of_device(self, device: int, *, first: bool) -> Process:
        """The rows of one device: its kernels, and the calls that launched them; calls of no device go to the first.

        Ranges and operators stand for every device: what a process calls a step is one on each of them, and nothing says
        which device a call of RCCL was for.
        """
        only = Process(
            {part: rows for part, rows in self.parts.items() if part not in (*_ON_DEVICE, "launches", "ops")}
        )
        for part in _ON_DEVICE:
            if part in self.parts:
                only.parts[part] = _taken(self.parts[part], self.column(part, "device") == device)
        if "launches" in self.parts:
            only.parts["launches"] = _taken(self.parts["launches"], self._calls_of(device, first=first))
        if "ops" in self.parts:
            only.parts["ops"] = self.parts["ops"]
        return only

    def _calls_of(self, device: int, *, first: bool) -> Array:
        link = self.column("launches", "correlation")
        here, elsewhere = (
            np.concatenate(
                [self.column(p, "correlation")[(self.column(p, "device") == device) == wanted] for p in _ON_DEVICE]
            )
            for wanted in (True, False)
        )
        mine = np.isin(link, here[here != 0])
        found: Array = mine | ~np.isin(link, elsewhere[elsewhere != 0]) if first else mine
        return found


_ON_DEVICE = ("kernels", "memcpy", "memset")


def add_process(
    process: Process, builder: RecordingBuilder, file_of: Callable[[int | None], SourceFile]
) -> list[SourceFile]:
    """Add its rows, one file for each device; the files.

    Args:
        file_of: device (None: it used none) -> what is said of the file, its rank among them.
    """
    devices: list[int | None] = [*process.devices()] or [None]
    files = []
    for device in devices:
        file = file_of(device)
        only = process
        if device is not None and len(devices) > 1:
            only = process.of_device(device, first=device == devices[0])
        builder.files.append(file)
        Rows(only, builder, len(builder.files) - 1).add()
        files.append(file)
    return files


def check_devices(devices: int, path: Path) -> None:
    """Whether so many devices, or processes with one each, can be of one file.

    Raises:
        UnreadableInput: there are more than ``MOST_DEVICES``.
    """
    if devices > MOST_DEVICES:
        what = f"kernels on more than {MOST_DEVICES:,} devices"
        raise UnreadableInput(what, where=str(path), next_move="No host has so many: record again")


def spans(start: Array, end: Array) -> tuple[Array, Array]:
    """(start_ns, dur_ns) of int64 times; ``NO_TIME`` where one is missing or damage."""
    sound_start, sound_end = ((times >= -LARGEST_NS) & (times <= LARGEST_NS) for times in (start, end))
    start = np.where(sound_start, start, NO_TIME)
    dur = np.where(sound_start & sound_end, np.where(sound_end, end, 0) - np.where(sound_start, start, 0), NO_TIME)
    return start, dur


def device_of_copies(src: Array, dst: Array, ran: Array) -> Array:
    """The device that tells each copy: of source and destination the one that ran kernels, else the source.

    Args:
        src, dst: devices, -1 for a processor.
        ran: devices with kernels; of several none of which the copy touches (host to host, or of a peer) the first.
    """
    device = np.where(src == NONE, dst, src)
    device = np.where(~np.isin(device, ran) & np.isin(dst, ran), dst, device)
    return np.where(~np.isin(device, ran), ran[0], device) if len(ran) else device


def workgroups(grid: Array, block: Array, builder: RecordingBuilder, *, in_items: bool) -> Array:
    """Rows of dims.

    Args:
        grid, block: int64 [kernels, 3]; a size below 1 is not known.
        in_items: the grid counts work-items (rocprofv3, RPD), not workgroups (nsys).
    """
    sizes = -(-grid // np.maximum(block, 1)) if in_items else grid
    sound = (sizes > 0).all(axis=1) & (sizes < 2**31).all(axis=1) & ((block > 0).all(axis=1) if in_items else True)
    found = np.full(len(grid), NONE, dtype=np.int64)
    if sound.any():
        distinct, where = np.unique(sizes[sound], axis=0, return_inverse=True)
        rows = np.array([builder.dims.intern(tuple(size)) for size in distinct.tolist()], dtype=np.int64)
        found[sound] = rows[where.reshape(-1)]
    return found


def _taken(columns: Columns, mask: Array) -> Columns:
    return {name: values[mask] for name, values in columns.items()}
