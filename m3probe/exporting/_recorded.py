"""The tables of a recording as columns to write: each id resolved, each unknown null."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from m3probe.exporting._grid import BOOL, FLOAT, INT, INTS, SHAPES, TEXT, Out, OutTable, coded, of_values, plain
from m3probe.kernels.demangle import demangle
from m3probe.model.clock import clocks
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, TABLES, Array, Column, Table
from m3probe.schema.verdicts import FAMILIES, GRAPH_MODES, PHASES

_WORDS: dict[str, tuple[str, ...]] = {
    "index into PHASES": tuple(map(str, PHASES)),
    "index into FAMILIES": tuple(map(str, FAMILIES)),
    "index into GRAPH_MODES": tuple(map(str, GRAPH_MODES)),
    "0 other, 1 launch, 2 graph launch": ("other", "launch", "graph launch"),
    "0 memcpy, 1 memset": ("memcpy", "memset"),
}
"""Unit of a column of small numbers -> what they stand for."""
_MEASURED = frozenset({"start_ns", "dur_ns", "end_ns"})
"""-1 may be measured here: a damaged record has a negative duration, and a clock may count from below 0."""
_OWN_MEANING = {("log_stats", "engine")}
"""Negative numbers here are words of their own, as the column's meaning says."""
_KERNEL_NAMES = ("kernels", "graphs")


def recorded(rec: Recording) -> Iterator[OutTable]:
    """Every table with rows, in the order of ``TABLES``; then the files and notes."""
    for name, table in rec.tables.items():
        if len(table):
            yield OutTable(name, f"table {name} of the recording", len(table), tuple(_columns(rec, table)))
    yield _files(rec)
    if rec.notes:
        yield _notes(rec)


def _columns(rec: Recording, table: Table) -> Iterator[Out]:
    yield plain("row", INT, "row", "number of the row, which other tables name", np.arange(len(table)))
    if "file" in table.columns:
        ranks = rec.file_ranks[table["file"]] if len(rec.files) else np.full(len(table), NONE)
        yield plain("rank", INT, "rank", "of the file", ranks, ranks == NONE)
    for column in TABLES[table.name]:
        yield from _column(rec, table, column)
    if table.name in _KERNEL_NAMES:
        yield _readable(rec, table)


def _column(rec: Recording, table: Table, column: Column) -> Iterator[Out]:
    name, unit, meaning, values = column.name, column.unit, column.meaning, table[column.name]
    if unit == "string id":
        if name == "dims":
            yield _shapes(rec, values)
            name = "dims_json"
        yield coded(name, TEXT, "", meaning, values, rec.strings.texts)
    elif unit == "row of dims":
        yield coded(name, INTS, "workgroups", meaning, values, rec.dims.values)
    elif unit in _WORDS:
        yield coded(name, TEXT, "", meaning, np.where(values < 0, NONE, values), _WORDS[unit])
    elif column.dtype == "bool":
        yield plain(name, BOOL, unit, meaning, values)
    elif unit == "yes/no":
        yield plain(name, BOOL, "", meaning, values > 0, values < 0)
    elif column.dtype.startswith("float"):
        written = table.name == "metrics"  # NaN is a value of a page
        yield plain(name, FLOAT, unit, meaning, values, None if written else np.isnan(values))
    else:
        yield plain(name, INT, unit, meaning, values, _unknown(table, name))


def _unknown(table: Table, name: str) -> Array:
    """What of a column of whole numbers is not known."""
    if name in _MEASURED:
        # 0 stands for a time that was not written, in records without a whole time
        untimed: Array = ~table["timed"] if "timed" in table.columns else np.zeros(len(table), dtype=bool)
        unwritten: Array = untimed & (table[name] == 0)
        return unwritten
    if (table.name, name) in _OWN_MEANING:
        return np.zeros(len(table), dtype=bool)
    unknown: Array = table[name] == NONE
    return unknown


def _readable(rec: Recording, table: Table) -> Out:
    used = np.unique(table["name"])
    texts: list[str] = [""] * len(rec.strings)
    for i in used[used >= 0].tolist():
        texts[i] = demangle(rec.strings[i])
    return coded("kernel", TEXT, "", "the name demangled, without the suffix .kd", table["name"], texts)


def _shapes(rec: Recording, ids: Array) -> Out:
    """``Input Dims`` as lists of numbers; null where an argument is a list of tensors (``dims_json`` has it)."""
    parsed: list[Any] = [None] * len(rec.strings)
    for i in np.unique(ids).tolist():
        parsed[i] = _numbers(rec.strings[i]) if i >= 0 else None
    known = np.array([value is not None for value in parsed], dtype=bool)
    kept = np.where((ids >= 0) & known[np.maximum(ids, 0)], ids, NONE) if len(parsed) else ids
    return coded("dims", SHAPES, "elements", "Input Dims: one list for each argument", kept, parsed)


def _numbers(text: str) -> tuple[tuple[int, ...], ...] | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    if not isinstance(said, list) or not all(isinstance(shape, list) for shape in said):
        return None
    sizes = [size for shape in said for size in shape]
    if not all(type(size) is int and -(2**63) <= size < 2**63 for size in sizes):
        return None
    return tuple(tuple(shape) for shape in said)


def _files(rec: Recording) -> OutTable:
    ties = {clock.file: clock for clock in clocks(rec)}
    at = range(len(rec.files))
    own = [(file, ties.get(i)) for i, file in enumerate(rec.files)]
    columns = (
        of_values("file", INT, "id", "what the tables call it", at),
        of_values("path", TEXT, "", "as it was given or found", [f.path for f, _ in own]),
        of_values("kind", TEXT, "", "format", [f.kind for f, _ in own]),
        of_values("role", TEXT, "", "rank, frontend, capture, guest, log, bench ...", [f.role for f, _ in own]),
        of_values("rank", INT, "rank", "of its process", [f.rank for f, _ in own]),
        of_values("size_bytes", INT, "bytes", "on disk", [f.size_bytes for f, _ in own]),
        of_values("clock", TEXT, "", "aligned, assumed or unaligned", [c and str(c.state) for _, c in own]),
        of_values(
            "wall_offset_ns", INT, "ns", "added to a time of the file: wall time since 1970",
            [c and c.offset_ns for _, c in own],
        ),
    )  # fmt: skip
    return OutTable("files", "files that were read", len(rec.files), columns)


def _notes(rec: Recording) -> OutTable:
    columns = (
        of_values("word", TEXT, "", "kind of note", [n.word for n in rec.notes]),
        of_values("text", TEXT, "", "in a sentence", [n.text for n in rec.notes]),
        of_values("path", TEXT, "", "of the input", [n.path for n in rec.notes]),
        of_values("count", INT, "", "how often", [n.count for n in rec.notes]),
        of_values("lossy", BOOL, "", "something of the input is lost", [n.lossy for n in rec.notes]),
    )
    return OutTable("notes", "what was noted while reading", len(rec.notes), columns)
