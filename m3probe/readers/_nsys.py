"""The SQLite export of nsys: kernels, runtime calls, whole graphs, copies and NVTX ranges, by process.

Tables are made only for what was recorded, and columns grow with versions: each is looked for by name. Names are ids into
``StringIds``. A kernel's launch has its (process, correlation); a stream belongs to (process, device, context).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Device, RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers._collectives import collectives
from m3probe.readers._process import Process, spans
from m3probe.readers._sqlite import Database
from m3probe.readers._sqlite_columns import ABSENT, Columns, in_int32, joined, names_of, or_else
from m3probe.readers._sqlite_dump import Dump, Ran, constant, split
from m3probe.readers._sqlite_grids import grids

KIND = "nsys-sqlite"
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_KERNELS, _RUNTIME, _GRAPHS = (f"{_ACTIVITY}{what}" for what in ("KERNEL", "RUNTIME", "GRAPH_TRACE"))
_VERSION = re.compile(r"_v\d+(?:_ptsz|_ptds)?$")
_PUSH_POP, _START_END = 59, 60
_GRID, _BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
_PLACED = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_PARTS = {
    "kernels": (_KERNELS, (*_PLACED, "demangledName", "shortName", *_GRID, *_BLOCK)),
    "memcpy": (f"{_ACTIVITY}MEMCPY", (*_PLACED, "bytes", "copyKind")),
    "memset": (f"{_ACTIVITY}MEMSET", (*_PLACED, "bytes")),
    "whole_graphs": (_GRAPHS, (*_PLACED, "graphId")),
}
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
"""CUPTI's kinds of copies, named as torch's profiler names them."""
_WARNING = 50
"""Severity of a diagnostic that is more than information."""
_MOST_TOLD = 3
_LOST = re.compile(r"\b(lost|dropped|discarded)\b", re.IGNORECASE)
"""Words of a warning that records are missing. "Not all CUDA events might have been collected" is none: public reports
show it for helper processes of runs whose kernels were all there."""


def knows(db: Database) -> bool:
    """Whether the database has nsys's strings and a table of its activities."""
    return "StringIds" in db.tables and any(
        name.startswith(_ACTIVITY) or name in {"NVTX_EVENTS", "TARGET_INFO_GPU"} for name in db.tables
    )


def read(db: Database, builder: RecordingBuilder) -> Dump:
    """All processes of the file.

    Raises:
        UnreadableInput: nothing was recorded.
    """
    columns = Columns(db)
    dump = Dump(KIND)
    parts: dict[int, dict[str, dict[str, Array]]] = {}
    for part, found in _parts(columns, builder):
        if len(found["pid"]):
            for pid, rows in split(found.pop("pid"), found, db.named).items():
                parts.setdefault(pid, {})[part] = rows
    _one_process(parts)
    if not parts:
        move = "Record again with --trace=cuda,nvtx and work running, then export"
        raise UnreadableInput("an nsys export without a kernel, call or range", where=str(db.named), next_move=move)
    dump.processes += [_ran(pid, rows) for pid, rows in sorted(parts.items())]
    _tell(columns, dump)
    return dump


def _one_process(parts: dict[int, dict[str, dict[str, Array]]]) -> None:
    """Rows that are written without their process, where there is only one."""
    if 0 not in parts or len(parts) != 2:
        return
    mine = parts[next(pid for pid in parts if pid)]
    for part, rows in parts.pop(0).items():
        there = mine.get(part)
        mine[part] = (
            rows if there is None else {name: np.concatenate([there[name], values]) for name, values in rows.items()}
        )


def _parts(columns: Columns, builder: RecordingBuilder) -> Iterator[tuple[str, dict[str, Array]]]:
    for part, (table, names) in _PARTS.items():
        blocks = [_on_device(part, block, builder) for block in columns.blocks(table, names)]
        if blocks:
            found = joined(blocks, [*blocks[0]])
            _name(part, found, columns, builder)
            yield part, found
    calls = columns.whole(_RUNTIME, ("start", "end", "globalTid", "correlationId", "nameId"))
    if len(calls["start"]):
        yield "launches", _calls(calls, columns, builder)
    yield from _ranges(columns, builder)


def _on_device(part: str, block: dict[str, Array], builder: RecordingBuilder) -> dict[str, Array]:
    start, dur = spans(block["start"], block["end"])
    found = {
        "pid": _pid(block["globalPid"]),
        "start_ns": start,
        "dur_ns": dur,
        "device": in_int32(block["deviceId"]),
        # two contexts of one device number their streams alike
        "stream": or_else(block["streamId"], 0) + (np.maximum(in_int32(block["contextId"]), 1) - 1) * 2**32,
        "correlation": or_else(block["correlationId"], 0),
    }
    if part == "kernels":
        found["name"] = np.where(block["demangledName"] == ABSENT, block["shortName"], block["demangledName"])
        grid, width = (np.stack([block[name] for name in names], axis=1) for names in (_GRID, _BLOCK))
        found["grid"] = grids(grid, width, builder, in_items=False)
    elif part == "whole_graphs":
        found["graph"] = or_else(block["graphId"], NONE)
    else:
        found["payload_bytes"] = np.maximum(block["bytes"], NONE)
        found["name"] = block.get("copyKind", found["device"])
    return found


def _name(part: str, found: dict[str, Array], columns: Columns, builder: RecordingBuilder) -> None:
    """Strings of kernels; of copies by their kind."""
    if part == "whole_graphs":
        return
    distinct = np.unique(found["name"]).tolist()
    if part == "kernels":
        texts = columns.texts("StringIds", "id", "value", distinct)
    elif part == "memcpy":
        texts = {kind: f"Memcpy {_COPIES[kind]}" if kind in _COPIES else "Memcpy" for kind in distinct}
    else:
        texts = dict.fromkeys(distinct, "Memset")
    found["name"] = names_of(texts, builder.strings).of("name", found["name"])


def _calls(calls: dict[str, Array], columns: Columns, builder: RecordingBuilder) -> dict[str, Array]:
    start, dur = spans(calls["start"], calls["end"])
    texts = columns.texts("StringIds", "id", "value", np.unique(calls["nameId"]).tolist())
    plain = {key: _VERSION.sub("", text) for key, text in texts.items()}
    return {
        "pid": _pid(calls["globalTid"]),
        "tid": calls["globalTid"] & 0xFFFFFF,
        "start_ns": start,
        "dur_ns": dur,
        "name": names_of(plain, builder.strings).of("name", calls["nameId"]),
        "correlation": or_else(calls["correlationId"], 0),
    }


def _ranges(columns: Columns, builder: RecordingBuilder) -> Iterator[tuple[str, dict[str, Array]]]:
    """NVTX ranges with a text; NCCL's own are its calls."""
    table = "NVTX_EVENTS"
    said = columns.whole(table, ("start", "end", "eventType", "textId", "globalTid"))
    kinds = np.isin(said["eventType"], [_PUSH_POP, _START_END])
    texts = columns.texts("StringIds", "id", "value", np.unique(said["textId"][kinds]).tolist())
    name = names_of(texts, builder.strings).of("name", said["textId"])
    name = np.where(name == NONE, _own_texts(columns, table, len(name), builder), name)
    rows = np.flatnonzero(kinds & (name != NONE))
    end = np.where(said["end"] == NONE, ABSENT, said["end"])  # -1 or NULL: the range was open when recording ended
    start, dur = spans(said["start"], end)
    every = {
        "pid": _pid(said["globalTid"]),
        "tid": said["globalTid"] & 0xFFFFFF,
        "start_ns": start,
        "dur_ns": dur,
        "name": name,
        "collective": collectives(name, builder),
    }
    nccl = [i for i in np.unique(name[rows]).tolist() if builder.strings[i].startswith("nccl")]
    of_nccl = np.isin(name[rows], nccl)
    yield "ops", {key: values[rows[of_nccl]] for key, values in every.items()}
    del every["collective"]
    yield "annotations", {key: values[rows[~of_nccl]] for key, values in every.items()}


def _own_texts(columns: Columns, table: str, rows: int, builder: RecordingBuilder) -> Array:
    """String id of the text that stands in each row itself; rows that could not be read would shift them: then none."""
    found = np.full(rows, NONE, dtype=np.int64)
    if columns.db.has(table, "text"):
        texts = columns.column_of_texts(table, "text")
        if len(texts) == rows:
            found[:] = [builder.strings.intern(text) if text else NONE for text in texts]
    return found


def _pid(told: Array) -> Array:
    return np.where(told == ABSENT, NONE, (told >> 24) & 0xFFFFFF)


def _ran(pid: int, parts: dict[str, dict[str, Array]]) -> Ran:
    process = Process()
    graphs = parts.pop("whole_graphs", {})
    for part, rows in parts.items():
        host = {"pid": constant(pid, len(rows["name"]))} if "tid" in rows else {}
        process.put(part, **rows, **host)
    devices = sorted({*process.devices(), *np.unique(graphs.get("device", np.empty(0, dtype=np.int64))).tolist()})
    return Ran(pid if pid >= 0 else None, process, {device: f"GPU {device}" for device in devices}, graphs)


def _tell(columns: Columns, dump: Dump) -> None:
    wholes = sum(len(ran.whole_graphs.get("start_ns", ())) for ran in dump.processes)
    dump.note(
        "graphs_as_wholes",
        f"{wholes:,} graph launch(es) were recorded as wholes, so that no kernel inside them can be seen: capture with "
        "--cuda-graph-trace=node for kernels",
        wholes,
    )
    bad = columns.bad
    text = f"{bad:,} cell(s) hold no whole number of 64 bits where one belongs: read as not known"
    dump.note("bad_numbers", text, bad, lossy=True)
    told = [
        row for row in columns.cells("DIAGNOSTIC_EVENT", ("severity",), ("text",)) if (row["severity"] or 0) >= _WARNING
    ]
    for row in told[:_MOST_TOLD]:
        text = f"nsys warned while it recorded: {ascii(row['text'][:200])[1:-1]}"
        dump.note("nsys_says", text, lossy=bool(_LOST.search(row["text"][:200])))
    dump.note("nsys_says", f"nsys gave {len(told) - _MOST_TOLD:,} more warnings", max(len(told) - _MOST_TOLD, 0))
    dump.devices = tuple(_devices(columns))
    for row in columns.cells("META_DATA_EXPORT", (), ("name", "value")):
        if row["name"] == "EXPORT_SCHEMA_VERSION":
            dump.versions["nsys_schema"] = row["value"][:64]


def _devices(columns: Columns) -> Iterator[Device]:
    numbers = ("id", "totalMemory", "smCount", "computeMajor", "computeMinor")
    for row in columns.cells("TARGET_INFO_GPU", numbers, ("name",)):
        if row["id"] is not None and 0 <= row["id"] < 2**31:
            sizes = [row[name] if row[name] is not None and row[name] >= 0 else NONE for name in numbers[1:]]
            memory, units, major, minor = sizes
            yield Device(row["id"], row["name"], units, major, minor, NONE, memory)
