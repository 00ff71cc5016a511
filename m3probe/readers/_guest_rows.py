"""Records of one guest's file as columns of the live tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from m3probe.model.live_tables import LIVE_TABLES
from m3probe.model.recording import LARGEST_WALL_NS, RecordingBuilder
from m3probe.model.tables import NONE, TABLES, Array
from m3probe.schema import records

PLAIN: dict[type[records.Record], str] = {
    records.Process: "processes",
    records.Module: "modules",
    records.KvLayer: "kv_layers",
    records.KvPool: "kv_pools",
    records.Descriptor: "descriptors",
    records.StepRow: "step_rows",
    records.Dispatch: "dispatches",
    records.Collective: "collectives",
    records.KvTransfer: "kv_moves",
    records.Routing: "routing",
    records.Request: "requests",
    records.PrefixCache: "prefix_caches",
    records.Host: "hosts",
    records.Kernels: "windows",
    records.Verified: "verified",
    records.Seam: "seams",
}
"""Records that become one row each of a table whose columns are named like their fields."""

_MOST = 2**53
"""Calls, tokens or bytes; more is damage, and a thousand of them still add up within int64."""


def add_rows(found: dict[type[records.Record], list[Any]], builder: RecordingBuilder, file: int) -> None:
    """All records of one file, by type, into the builder's tables."""
    for kind, table in PLAIN.items():
        _add(builder, table, file, found.get(kind, []))
    _add(builder, "step_counts", file, list(_counts(found.get(records.StepCounts, []))))
    _add(builder, "draft_replays", file, list(_drafts(found.get(records.StepCounts, []))))
    _add(builder, "samples", file, list(_values(found.get(records.Sample, []))))


class _Row:
    """Attributes by name: what has no struct of its own."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def _counts(found: Iterable[records.StepCounts]) -> Iterator[_Row]:
    for record in found:
        for count in record.steps:
            yield _Row(mono_ns=record.mono_ns, **{name: getattr(count, name) for name in count.__struct_fields__})


def _drafts(found: Iterable[records.StepCounts]) -> Iterator[_Row]:
    for record in found:
        for descriptor, count in record.draft_replays.items():
            yield _Row(mono_ns=record.mono_ns, descriptor=descriptor, count=count)


def _values(found: Iterable[records.Sample]) -> Iterator[_Row]:
    for record in found:
        labels = "".join(f"{{{key}={value}}}" for key, value in sorted(record.labels.items()))
        for name, value in record.values.items():
            yield _Row(mono_ns=record.mono_ns, source=record.source, name=name + labels, value=value)


def _add(builder: RecordingBuilder, table: str, file: int, rows: list[Any]) -> None:
    if not rows:
        return
    columns: dict[str, Array] = {"file": np.full(len(rows), file, dtype=np.int32)}
    units = {name: unit for name, _dtype, unit, _meaning in LIVE_TABLES[table]}
    for column in TABLES[table]:
        if column.name != "file":
            convert = _counted if column.name == "count" else _converter(units[column.name], column.dtype, builder)
            values = [convert(getattr(row, column.name, None)) for row in rows]
            columns[column.name] = np.array(values, dtype=column.dtype)
    builder.add(table, columns)


def _counted(value: int | None) -> int:
    """How often, of a record that stands for several; one that counts what cannot be stands for itself."""
    return value if value is not None and 0 <= value <= _MOST else 1


def _converter(unit: str, dtype: str, builder: RecordingBuilder) -> Callable[[Any], Any]:
    if unit == "string id":
        return lambda value: builder.strings.intern(_text(value))
    if unit == "yes/no":
        return lambda value: NONE if value is None else int(bool(value))
    if dtype.startswith("float"):
        return lambda value: float("nan") if value is None else float(value)
    most = np.iinfo(dtype).max if dtype != "int64" else LARGEST_WALL_NS if unit == "ns" else _MOST
    return lambda value: int(value) if value is not None and abs(value) <= most else NONE


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
