"""Rows of a trace file as the Chrome events that torch's profiler writes, so that every reader of those takes them.

Times are microseconds with three decimals: a nanosecond is the last digit. Names stay as they were recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from m3probe.exporting._kernel_tracks import FAMILY_WORDS
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array, Table


class Texts:
    """Strings of a recording as JSON, each made once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._quoted: dict[int, str] = {}
        self._raw: dict[int, str] = {}

    def quoted(self, index: int) -> str:
        """As a JSON string, in ASCII: a lone surrogate stays what it is."""
        found = self._quoted.get(index)
        if found is None:
            found = self._quoted[index] = json.dumps(self._texts[index] if index >= 0 else "")
        return found

    def raw(self, index: int) -> str:
        """What is JSON already; as a string where it is damaged."""
        found = self._raw.get(index)
        if found is None:
            text = self._texts[index]
            found = self._raw[index] = text if _is_json(text) else json.dumps(text)
        return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
        text.encode()
    except ValueError:  # UnicodeEncodeError is one
        return False
    return True


def us(time_ns: int) -> str:
    """A time in microseconds: ``-1.500`` for -1,500 ns."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' if time_ns < 0 else ''}{whole}.{rest:03d}"


def events(rec: Recording, file: int) -> Iterator[str]:
    """All events of one trace file: steps, operators, calls, kernels, copies."""
    texts = Texts(rec.strings.texts)
    yield from _steps(rec, file, texts)
    yield from _ops(rec, file, texts)
    yield from _launches(rec, file, texts)
    yield from _kernels(rec, file, texts)
    yield from _transfers(rec, file, texts)


def _rows(table: Table, file: int) -> Array:
    return np.flatnonzero(table["file"] == file)


def _lists(table: Table, rows: Array, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name][rows].tolist() for name in names), strict=True)


def _times(start: int, dur: int, *, timed: bool = True) -> str:
    """``ts`` and ``dur``; 0 stands for a time that was not written, in a record without a whole time."""
    said = f',"ts":{us(start)}' if timed or start else ""
    return said + (f',"dur":{us(dur)}' if timed or dur else "")


def _steps(rec: Recording, file: int, texts: Texts) -> Iterator[str]:
    table = rec.steps
    rows = _rows(table, file)
    columns = ("name", "start_ns", "dur_ns", "pid", "tid")
    for name, start, dur, pid, tid in _lists(table, rows, *columns):
        yield (
            f'{{"ph":"X","cat":"user_annotation","name":{texts.quoted(name)},"pid":{pid},"tid":{tid}{_times(start, dur)}}}'
        )
    if len(rows):  # the last step runs to the end of the file, which something that is no step may have told
        last = rows[-1]
        at, pid, tid = (int(table[key][last]) for key in ("end_ns", "pid", "tid"))
        yield (
            f'{{"ph":"X","cat":"user_annotation","name":"end of the file","pid":{pid},"tid":{tid},"ts":{us(at)},"dur":0}}'
        )


def _ops(rec: Recording, file: int, texts: Texts) -> Iterator[str]:
    columns = (
        "name", "start_ns", "dur_ns", "pid", "tid", "dims", "types", "strides", "collective", "payload_elems",
        "payload_dtype", "group_size",
    )  # fmt: skip
    for name, start, dur, pid, tid, dims, types, strides, *comm in _lists(rec.ops, _rows(rec.ops, file), *columns):
        args = [
            f'"{key}":{texts.raw(text)}'
            for key, text in (("Input Dims", dims), ("Input type", types), ("Input Strides", strides))
            if text >= 0
        ]
        args += _collective(texts, *comm)
        yield (
            f'{{"ph":"X","cat":"cpu_op","name":{texts.quoted(name)},"pid":{pid},"tid":{tid}'
            f'{_times(start, dur, timed=start != 0)},"args":{{{",".join(args)}}}}}'
        )


def _collective(texts: Texts, name: int, elems: int, dtype: int, size: int) -> list[str]:
    said = [f'"{key}":{texts.quoted(text)}' for key, text in (("Collective name", name), ("dtype", dtype)) if text >= 0]
    return said + [f'"{key}":{n}' for key, n in (("In msg nelems", elems), ("Group size", size)) if n != NONE]


def _launches(rec: Recording, file: int, texts: Texts) -> Iterator[str]:
    columns = ("name", "start_ns", "dur_ns", "pid", "tid", "correlation")
    for name, start, dur, pid, tid, correlation in _lists(rec.launches, _rows(rec.launches, file), *columns):
        yield (
            f'{{"ph":"X","cat":"cuda_runtime","name":{texts.quoted(name)},"pid":{pid},"tid":{tid}'
            f'{_times(start, dur, timed=start != 0)},"args":{{"correlation":{correlation}}}}}'
        )


def _kernels(rec: Recording, file: int, texts: Texts) -> Iterator[str]:
    columns = ("name", "start_ns", "dur_ns", "device", "stream", "correlation", "family", "timed", "grid")
    grids = [f',"grid":[{",".join(map(str, grid))}]' for grid in rec.dims.values]
    rows = _lists(rec.kernels, _rows(rec.kernels, file), *columns)
    for name, start, dur, device, stream, correlation, family, timed, grid in rows:
        yield (
            f'{{"ph":"X","cat":"kernel","name":{texts.quoted(name)},"pid":{device},"tid":{stream}'
            f'{_times(start, dur, timed=timed)},"args":{{"device":{device},"stream":{stream},"correlation":{correlation},'
            f'"family":"{FAMILY_WORDS[family]}"{grids[grid] if grid >= 0 else ""}}}}}'
        )


def _transfers(rec: Recording, file: int, texts: Texts) -> Iterator[str]:
    columns = ("name", "start_ns", "dur_ns", "device", "stream", "correlation", "kind", "payload_bytes")
    rows = _lists(rec.transfers, _rows(rec.transfers, file), *columns)
    for name, start, dur, device, stream, correlation, kind, size in rows:
        moved = f',"bytes":{size}' if size != NONE else ""
        yield (
            f'{{"ph":"X","cat":"{("gpu_memcpy", "gpu_memset")[kind]}","name":{texts.quoted(name)},"pid":{device},'
            f'"tid":{stream}{_times(start, dur, timed=start != 0)},"args":{{"device":{device},"stream":{stream},'
            f'"correlation":{correlation}{moved}}}}}'
        )
