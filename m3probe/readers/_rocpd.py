"""rocprofv3's database (rocpd): its tables as rows of processes, whatever the layout.

Every table is ``NAME_<uuid>``; a file that was put together has several sets of them, or several guids in one set. Two
things moved between versions and are looked for, never told by ``schema_version`` ("3" stands for two layouts): process,
agent and queue stand in the row or in ``rocpd_track`` (4.1), times in the row or in ``rocpd_timestamp``.
Read from rocm-systems 0c5fd9b and a195360 (share/rocprofiler-sdk-rocpd/*.sql) and from the writer, generateRocpd.cpp:
``stack_id`` of an event is the correlation of the call that caused it, an agent's ``id`` its node, a process's its pid, and
a ROCTX range's text stands in its event's ``extdata`` while its name is ``roctxRangePushA``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Device, RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers import _rocpd_regions
from m3probe.readers._process import Process, device_of_copies, spans
from m3probe.readers._rocpd_tables import Tables
from m3probe.readers._sqlite import Database
from m3probe.readers._sqlite_columns import Columns, in_int32, joined, names_of, or_else
from m3probe.readers._sqlite_dump import Dump, Ran, split
from m3probe.readers._sqlite_grids import grids

KIND = "rocpd-sqlite"
DISPATCH = "rocpd_kernel_dispatch"
_SIZES = tuple(f"{what}_size_{axis}" for what in ("grid", "workgroup") for axis in "xyz")
_KERNEL = ("kernel_id", "event_id", *_SIZES)
_COPY = ("name_id", "event_id", "size", "src_agent_id", "dst_agent_id")


def knows(db: Database) -> bool:
    """Whether the database has a table of dispatches."""
    return any(name.startswith(DISPATCH) for name in db.tables)


def read(db: Database, builder: RecordingBuilder) -> Dump:
    """All processes of the file.

    Raises:
        UnreadableInput: no set of tables holds a row.
    """
    dump = Dump(KIND)
    for name in sorted(name for name in db.tables if name.startswith(DISPATCH)):
        suffix = name.removeprefix(DISPATCH)
        for guid in _guids(db, suffix):
            columns = Columns(db, guid)
            _set(Tables(columns, suffix), builder, dump)
            dump.note(
                "bad_numbers",
                f"{columns.bad:,} cell(s) hold no whole number of 64 bits where one belongs: read as not known",
                columns.bad,
                lossy=True,
            )
    if not dump.processes:
        raise UnreadableInput(
            "a rocprofv3 database without a kernel, copy or API call",
            where=str(db.named),
            next_move="Record again with work running: rocprofv3 --kernel-trace --hip-trace --marker-trace",
        )
    return dump


def _guids(db: Database, suffix: str) -> list[str | None]:
    """Processes that must be read one at a time: only where ids are no keys of their tables they can repeat."""
    tables = [name for name in db.tables if name.startswith("rocpd_") and name.endswith(suffix)]
    if all(db.tables[name].get("id", True) for name in tables):
        return [None]
    texts = Columns(db)
    found = {row["guid"] for name in tables if "info_" in name for row in texts.cells(name, (), ("guid",))}
    return [*sorted(found)] or [None]


def _set(tables: Tables, builder: RecordingBuilder, dump: Dump) -> None:
    """One set of tables."""
    kernels = _kernels(tables, builder)
    copies = _copies(tables)
    regions = _rocpd_regions.read(tables, builder, dump)
    _names(tables, builder, kernels, copies)
    parts: dict[int, dict[str, dict[str, Array]]] = {}
    for part, columns in (("kernels", kernels), ("memcpy", copies), *regions.items()):
        if len(columns["pid"]):
            for pid, rows in split(columns["pid"], columns, tables.columns.db.named).items():
                parts.setdefault(pid, {})[part] = rows
    for key, found in sorted(parts.items()):
        dump.processes.append(_ran(tables, key, found, builder))
    known = {device.index for device in dump.devices}
    dump.devices += tuple(device for device in _devices(tables) if device.index not in known)
    dump.versions |= tables.versions()


def _ran(tables: Tables, key: int, found: dict[str, dict[str, Array]], builder: RecordingBuilder) -> Ran:
    process = Process()
    pid = tables.pid(key)
    if "kernels" in found:
        rows = found.pop("kernels")
        del rows["pid"]
        queue = rows.pop("queue")
        if not rows["stream"].any():  # streams were not recorded: all of them are the default one
            rows["stream"] = queue
        process.put("kernels", **rows)
    if "memcpy" in found:
        rows = found.pop("memcpy")
        src, dst = rows.pop("src"), rows.pop("dst")
        del rows["pid"]
        ran = np.unique(process.column("kernels", "device"))
        process.put("memcpy", **rows, device=device_of_copies(src, dst, ran))
    _rocpd_regions.put(process, found, pid, builder)
    return Ran(pid if pid >= 0 else None, process, tables.labels())


def _kernels(tables: Tables, builder: RecordingBuilder) -> dict[str, Array]:
    names = ("pid", "start_ns", "dur_ns", "device", "stream", "queue", "correlation", "kernel_id", "grid")
    return joined(_kernel_blocks(tables, builder), names, tables.most_rows(DISPATCH))


def _kernel_blocks(tables: Tables, builder: RecordingBuilder) -> Iterator[dict[str, Array]]:
    for block in tables.placed(DISPATCH, _KERNEL):
        start, dur = spans(block["start"], block["end"])
        grid, width = (np.stack([block[name] for name in part], axis=1) for part in (_SIZES[:3], _SIZES[3:]))
        yield {
            "pid": in_int32(block["pid"]).astype(np.int32),
            "start_ns": start,
            "dur_ns": dur,
            "device": tables.device(block["agent_id"]).astype(np.int32),
            "stream": or_else(block["stream_id"], 0),
            "queue": or_else(block["queue_id"], 0),
            "correlation": tables.correlation(block["event_id"]),
            "kernel_id": block["kernel_id"],
            "grid": grids(grid, width, builder, in_items=True).astype(np.int32),
        }


def _copies(tables: Tables) -> dict[str, Array]:
    names = ("pid", "start_ns", "dur_ns", "src", "dst", "stream", "correlation", "name_id", "payload_bytes")
    return joined(_copy_blocks(tables), names, tables.most_rows("rocpd_memory_copy"))


def _copy_blocks(tables: Tables) -> Iterator[dict[str, Array]]:
    for block in tables.placed("rocpd_memory_copy", _COPY):
        start, dur = spans(block["start"], block["end"])
        yield {
            "pid": in_int32(block["pid"]),
            "start_ns": start,
            "dur_ns": dur,
            "src": tables.gpu(block["src_agent_id"]),
            "dst": tables.gpu(block["dst_agent_id"]),
            "stream": or_else(block["stream_id"], 0),
            "correlation": tables.correlation(block["event_id"]),
            "name_id": block["name_id"],
            "payload_bytes": np.maximum(block["size"], NONE),
        }


def _names(tables: Tables, builder: RecordingBuilder, kernels: dict[str, Array], copies: dict[str, Array]) -> None:
    """Kernels by their symbol, demangled where rocprofv3 wrote it so; copies by their string."""
    wanted = np.unique(kernels["kernel_id"]).tolist()
    symbols = tables.texts("rocpd_info_kernel_symbol", "kernel_name", wanted)
    symbols = {key: text.removesuffix(".kd") for key, text in symbols.items()}
    shown = tables.texts("rocpd_info_kernel_symbol", "display_name", wanted)
    symbols |= {key: text for key, text in shown.items() if text}
    kernels["name"] = names_of(symbols, builder.strings).of("name", kernels.pop("kernel_id")).astype(np.int32)
    strings = tables.texts("rocpd_string", "string", np.unique(copies["name_id"]).tolist())
    copies["name"] = names_of(strings, builder.strings).of("name", copies.pop("name_id"))


def _devices(tables: Tables) -> Iterator[Device]:
    for agent in tables.gpus:
        yield Device(
            index=tables.numbers[agent["id"]],
            name=agent["product_name"] or agent["name"],
            units=NONE,
            compute_major=NONE,
            compute_minor=NONE,
            warp_size=NONE,
            memory_bytes=NONE,
        )
