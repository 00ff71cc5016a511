"""Events of one file to columns, window by window, without keeping the events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers.events import NO_TIME, NS_ABOVE, Event, to_ns

Int = npt.NDArray[np.int64]

CATEGORY: dict[str, str] = {
    "kernel": "kernels",
    "Kernel": "kernels",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
    "cuda_runtime": "launches",
    "cuda_driver": "launches",
    "hip_runtime": "launches",
    "Runtime": "launches",
    "cpu_op": "ops",
    "Operator": "ops",
    "user_annotation": "annotations",
    "gpu_user_annotation": "gpu_annotations",
    "python_function": "python",
}
"""Category of an event, in today's and in the 2021 dialect -> where it goes."""

_GRID = msgspec.json.Decoder(tuple[int, int, int])
_LAST_NUMBER = re.compile(r"(\d+)\D*$")
_INT64 = 2**63


class _Ids(dict[Any, int]):
    """Text (or raw JSON) -> id, asking ``intern`` once per distinct value."""

    def __init__(self, intern: Callable[[str], int]) -> None:
        super().__init__()
        self._intern = intern

    def __missing__(self, key: Any) -> int:
        # raw JSON is bytes and may be null; a name is text, and "null" is a name like another
        text = key if isinstance(key, str) else key.decode("utf-8", "backslashreplace")
        found = self[key] = NONE if not text or key == b"null" else self._intern(text)
        return found


class _Grids(dict[bytes, int]):
    def __init__(self, builder: RecordingBuilder) -> None:
        super().__init__()
        self._builder = builder

    def __missing__(self, key: bytes) -> int:
        try:
            value = _GRID.decode(key)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            value = None
        sound = value is not None and all(0 < n < 2**31 for n in value)
        found = self[key] = self._builder.dims.intern(value) if value and sound else NONE
        return found


class Gather:
    """Columns of one file; ``column(part, name)`` joins what the windows brought."""

    def __init__(self, builder: RecordingBuilder) -> None:
        self._ids = _Ids(builder.strings.intern)
        self._grids = _Grids(builder)
        self._parts: dict[tuple[str, str], list[Array]] = {}
        self.per_us = 0
        self.other_unit = 0
        """Time stamps that would be the other unit, by their size: damage, or two clocks in one file."""
        self.events_x = 0
        self.python_functions = 0

    def add(self, events: list[Event]) -> None:
        """Take one window of events."""
        buckets: dict[str, list[Event]] = {}
        for event in events:
            part = CATEGORY.get(event.cat)
            if event.ph != "X":
                continue
            self.events_x += 1
            if part is not None:
                buckets.setdefault(part, []).append(event)
        self.python_functions += len(buckets.pop("python", ()))
        if buckets and not self.per_us:
            self.per_us = _unit(buckets)
        for part, found in buckets.items():
            self._common(part, found)
            _PARTS.get(part, _nothing)(self, part, found)

    def column(self, part: str, name: str, dtype: str = "int64") -> Array:
        """One joined column; empty when the file has no such event."""
        parts = self._parts.get((part, name))
        return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)

    def time(self, part: str, name: str) -> Array:
        """``start_ns`` or ``dur_ns``, 0 where it is not known (see ``known``)."""
        values = self.column(part, name)
        return np.where(values == NO_TIME, 0, values)

    def known(self, part: str) -> Array:
        """Mask: both times were written and are times."""
        known: Array = (self.column(part, "start_ns") != NO_TIME) & (self.column(part, "dur_ns") != NO_TIME)
        return known

    def count(self, part: str) -> int:
        """Rows of a part."""
        return sum(len(a) for a in self._parts.get((part, "name"), ()))

    # --- one window -----------------------------------------------------------------------------

    def _put(self, part: str, name: str, values: Array) -> None:
        self._parts.setdefault((part, name), []).append(values)

    def _ints(self, part: str, name: str, values: Iterable[int], count: int) -> None:
        self._put(part, name, np.fromiter(values, dtype=np.int64, count=count))

    def _common(self, part: str, events: list[Event]) -> None:
        n = len(events)
        self._ints(part, "name", map(self._ids.__getitem__, [e.name for e in events]), n)
        start = to_ns([e.ts for e in events], self.per_us)
        if self.per_us == 1:
            self.other_unit += int(((start > 0) & (start < NS_ABOVE // 1000)).sum())
        self._put(part, "start_ns", start)
        self._put(part, "dur_ns", to_ns([e.dur for e in events], self.per_us))

    def host(self, part: str, events: list[Event]) -> None:
        """Process and thread."""
        n = len(events)
        self._ints(part, "pid", map(_number, [e.pid for e in events]), n)
        self._ints(part, "tid", map(_number, [e.tid for e in events]), n)

    def _device(self, part: str, events: list[Event]) -> None:
        n = len(events)
        devices = (_number(e.args.device if e.args.device >= 0 else e.pid) for e in events)
        self._ints(part, "device", (d if abs(d) < 2**31 else NONE for d in devices), n)
        self._ints(part, "stream", [_number(e.tid if e.args.stream == -1 else e.args.stream) for e in events], n)
        self._ints(part, "correlation", [_number(e.args.correlation) for e in events], n)

    def kernels(self, part: str, events: list[Event]) -> None:
        """Device columns and the launch grid."""
        self._device(part, events)
        self._grid(part, events)

    def _grid(self, part: str, events: list[Event]) -> None:
        rows = self._grids.__getitem__
        self._ints(part, "grid", map(rows, [bytes(e.args.grid) for e in events]), len(events))
        self._ints(part, "block", map(rows, [bytes(e.args.block) for e in events]), len(events))

    def transfers(self, part: str, events: list[Event]) -> None:
        """Device columns and bytes moved."""
        self._device(part, events)
        self._ints(part, "payload_bytes", [_number(e.args.payload_bytes) for e in events], len(events))

    def launches(self, part: str, events: list[Event]) -> None:
        """Host columns, correlation and, while capturing on ROCm, the kernel's name."""
        n = len(events)
        self.host(part, events)
        self._grid(part, events)
        self._ints(part, "correlation", [_number(e.args.correlation) for e in events], n)
        self._ints(part, "kernel", map(self._ids.__getitem__, [e.args.kernel for e in events]), n)

    def ops(self, part: str, events: list[Event]) -> None:
        """Host columns, shapes, and what a collective says of itself."""
        n = len(events)
        ids = self._ids.__getitem__
        self.host(part, events)
        args = [e.args for e in events]
        self._ints(part, "dims", map(ids, [bytes(a.dims) or bytes(a.dims_2021) for a in args]), n)
        self._ints(part, "types", map(ids, [bytes(a.types) for a in args]), n)
        self._ints(part, "strides", map(ids, [bytes(a.strides) for a in args]), n)
        self._ints(part, "collective", map(ids, [a.collective for a in args]), n)
        self._ints(part, "payload_dtype", map(ids, [a.payload_dtype for a in args]), n)
        self._ints(part, "payload_elems", [_number(a.payload_elems) for a in args], n)
        self._ints(part, "group_size", [_number(a.group_size) for a in args], n)


def _nothing(gather: Gather, part: str, events: list[Event]) -> None:
    """Parts that need no more than name and time."""


_PARTS: dict[str, Callable[[Gather, str, list[Event]], None]] = {
    "kernels": Gather.kernels,
    "memcpy": Gather.transfers,
    "memset": Gather.transfers,
    "launches": Gather.launches,
    "ops": Gather.ops,
    "annotations": Gather.host,
}


def _unit(buckets: dict[str, list[Event]]) -> int:
    """1000 when times are microseconds, 1 when they are ns.

    Told by the size of the middle time stamp (displayTimeUnit is no proof), so that one damaged time
    stamp does not decide for a whole file.
    """
    times = sorted(abs(t) for events in buckets.values() for e in events if (t := _float(e.ts)))
    return 1 if times and times[len(times) // 2] > NS_ABOVE else 1000


def _float(value: Any) -> float:
    try:
        return float(value) if value is not None else 0.0
    except (ValueError, OverflowError):
        return 0.0


def _number(value: int | float | str) -> int:
    """An id as int64: the last digits of text such as "stream 7", handles wrapped; -1 if none."""
    if type(value) is int and -_INT64 <= value < _INT64:
        return value
    if isinstance(value, str):
        found = _LAST_NUMBER.search(value)
        return _number(int(found.group(1))) if found else NONE
    wrapped = int(value) % (2 * _INT64)
    return wrapped - 2 * _INT64 if wrapped >= _INT64 else wrapped
