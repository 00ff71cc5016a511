"""RPD databases (``.rpd``): calls, operations on devices, and the links between them.

Schema 2 was seen in two real files. The later one (rocmProfileData 2e6a354) keeps a call's arguments in ``rocpd_ustring``
and tells its domain. Only operations of the type ``KernelExecution`` are kernels; ``Task`` is what roctracer wrote for
the nodes of a graph, without a name. Ids may be session << 32 | n.
"""

from __future__ import annotations

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array
from m3probe.readers._collectives import collectives
from m3probe.readers._grid import WORK_ITEM_CALLS
from m3probe.readers._process import Process, check_devices, spans
from m3probe.readers._smi_rows import MOST_ROWS, Sample
from m3probe.readers._sqlite import Database
from m3probe.readers._sqlite_columns import ABSENT, Columns, Ids, in_int32, names_of, or_else
from m3probe.readers._sqlite_dump import Dump, Ran, constant
from m3probe.readers._sqlite_grids import grids

KIND = "rpd-sqlite"
_KERNEL, _COPY, _FILL = "KernelExecution", "Copy", "FillBuffer"
_MARKERS = frozenset({"UserMarker", "roctx", "roctxRangePush", "roctxRangePushA", "roctxRangeStartA"})
"""Calls whose arguments are the text of a range that the program marked."""
_OPERATORS = ("aten::", "c10d::", "vllm::", "torch::", "prims::", "_C::", "_C_cache_ops::", "triton::")
"""Ranges that torch's autograd hooks mark: operators, not steps."""
_GRID = ("gridX", "gridY", "gridZ")
_BLOCK = ("workgroupX", "workgroupY", "workgroupZ")
_CLOCKS = {"sclk": "clock_mhz", "mclk": "memory_clock_mhz"}


def knows(db: Database) -> bool:
    """Whether the database has calls and operations of RPD."""
    return "rocpd_op" in db.tables and "rocpd_api" in db.tables


def read(db: Database, builder: RecordingBuilder) -> Dump:
    """All processes of the file.

    Raises:
        UnreadableInput: no operation and no call is in it.
    """
    found = _Rpd(Columns(db), builder)
    dump = Dump(KIND)
    found.tell(dump)
    if not len(found.ops["id"]) and not len(found.calls["id"]):
        move = "Record again with work running between start and stop of the tracer"
        raise UnreadableInput("an RPD database without an operation or a call", where=str(db.named), next_move=move)
    pids = np.unique(np.concatenate([found.calls["pid"], found.op_pid])).tolist()
    check_devices(len(pids), db.named)
    for pid in pids:
        dump.processes.append(found.ran(pid))
    dump.samples = found.samples()
    said = {row["tag"]: row["value"] for row in found.columns.cells("rocpd_metadata", (), ("tag", "value"))}
    dump.versions = {f"rpd_{tag}": said[tag][:64] for tag in ("schema_version", "session_count") if said.get(tag)}
    return dump


class _Rpd:
    """Columns of the whole file; strings by id, calls by id."""

    def __init__(self, columns: Columns, builder: RecordingBuilder) -> None:
        self.columns, self._b = columns, builder
        self.calls = columns.whole("rocpd_api", ("id", "pid", "tid", "start", "end", "apiName_id", "args_id"))
        names = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
        self.ops = columns.whole("rocpd_op", names)
        used = [self.calls["apiName_id"], self.ops["description_id"], self.ops["opType_id"]]
        self._texts = columns.texts("rocpd_string", "id", "string", np.unique(np.concatenate(used)).tolist())
        self._strings = names_of(self._texts, builder.strings)
        self._by_id = Ids(self.calls["id"], row=np.arange(len(self.calls["id"])))
        links = columns.whole("rocpd_api_ops", ("op_id", "api_id"))
        cause = Ids(links["op_id"], api=links["api_id"]).of("api", self.ops["id"], ABSENT)
        self._call = self._by_id.of("row", cause)
        self._cause = np.where(self._call >= 0, cause, 0)
        self.op_pid = self._pids()
        self._kind = self._kinds()
        self._call_part, self._call_name = self._called()

    def _pids(self) -> Array:
        """Process of each operation: its call's; without a call, that of the device's other operations."""
        gpu, linked = self.ops["gpuId"], self._call >= 0
        pid = np.where(linked, self.calls["pid"][self._call] if len(self.calls["pid"]) else NONE, NONE)
        fallback = int(self.calls["pid"][0]) if len(self.calls["pid"]) else NONE
        owner = Ids(gpu[linked], pid=pid[linked]).of("pid", gpu, fallback)
        return np.where(linked, pid, owner)

    def _kinds(self) -> Array:
        """0 other, 1 kernel, 2 copy, 3 fill."""
        words = {key: _kind(self._texts.get(key, "")) for key in np.unique(self.ops["opType_id"]).tolist()}
        ids, kinds = np.array([*words], dtype=np.int64), np.array([*words.values()], dtype=np.int64)
        return Ids(ids, kind=kinds).of("kind", self.ops["opType_id"], 0)

    def _called(self) -> tuple[Array, Array]:
        """(0 call, 1 range, 2 operator or collective; string id of the name) of each call."""
        name = self._strings.of("name", self.calls["apiName_id"])
        ids = [key for key, text in self._texts.items() if text in _MARKERS]
        marks = np.isin(self.calls["apiName_id"], np.array(ids, dtype=np.int64))
        table = "rocpd_ustring" if "rocpd_ustring" in self.columns.db.tables else "rocpd_string"
        texts = self.columns.texts(table, "id", "string", np.unique(self.calls["args_id"][marks]).tolist())
        said = names_of(texts, self._b.strings).of("name", self.calls["args_id"])
        name = np.where(marks, said, name)
        texts_of = self._b.strings.texts
        ops = [i for i in np.unique(name).tolist() if i >= 0 and texts_of[i].startswith((*_OPERATORS, "nccl"))]
        return np.where(np.isin(name, ops), 2, marks.astype(np.int64)), name

    def ran(self, pid: int) -> Ran:
        """One process."""
        process = Process()
        mine = self.op_pid == pid
        kernels = np.flatnonzero(mine & (self._kind == 1))
        process.put("kernels", **self._on_device(kernels), grid=self._grids(kernels))
        sizes = self.columns.whole("rocpd_copyapi", ("api_ptr_id", "size"))
        moved = Ids(sizes["api_ptr_id"], size=sizes["size"])
        for kind, part in ((2, "memcpy"), (3, "memset")):
            rows = np.flatnonzero(mine & (self._kind == kind))
            payload = np.maximum(moved.of("size", self._cause[rows]), NONE)
            columns = self._on_device(rows)
            columns["name"] = self._strings.of("name", self.ops["opType_id"][rows])
            process.put(part, **columns, payload_bytes=payload)
        for number, part in enumerate(("launches", "annotations", "ops")):
            self._put_host(process, part, np.flatnonzero((self.calls["pid"] == pid) & (self._call_part == number)), pid)
        return Ran(pid if pid >= 0 else None, process, {gpu: f"GPU {gpu}" for gpu in process.devices()})

    def _on_device(self, rows: Array) -> dict[str, Array]:
        start, dur = spans(self.ops["start"][rows], self.ops["end"][rows])
        return {
            "name": self._strings.of("name", self.ops["description_id"][rows]),
            "start_ns": start,
            "dur_ns": dur,
            "device": in_int32(self.ops["gpuId"][rows]),
            "stream": or_else(self.ops["queueId"][rows], 0),
            "correlation": self._cause[rows],
        }

    def _put_host(self, process: Process, part: str, rows: Array, pid: int) -> None:
        start, dur = spans(self.calls["start"][rows], self.calls["end"][rows])
        name = self._call_name[rows]
        more = {"launches": {"correlation": self.calls["id"][rows]}, "annotations": {}}.get(part)
        more = {"collective": collectives(name, self._b)} if more is None else more
        tid = or_else(self.calls["tid"][rows], NONE)
        process.put(part, name=name, start_ns=start, dur_ns=dur, tid=tid, pid=constant(pid, len(rows)), **more)

    def _grids(self, kernels: Array) -> Array:
        """Row of dims of each kernel.

        roctracer kept what the call was given: workgroups, but of the calls that take work-items. Later tracers keep the
        dispatch's work-items whatever the call; then every grid is a multiple of its block.
        """
        said = self.columns.whole("rocpd_kernelapi", ("api_ptr_id", *_GRID, *_BLOCK))
        grid, block = (np.stack([said[name] for name in part], axis=1) for part in (_GRID, _BLOCK))
        calls = self._strings.of("name", self.calls["apiName_id"])
        name = Ids(self.calls["id"], name=calls).of("name", said["api_ptr_id"])
        items = np.isin(name, [self._b.strings.find(call) for call in WORK_ITEM_CALLS])
        known = (block > 0).all(axis=1) & ~items
        if known.any() and (grid[known] % block[known] == 0).all():
            items[known] = True
        rows = np.full(len(grid), NONE, dtype=np.int64)
        for mask in (items, ~items):
            if mask.any():
                rows[mask] = grids(grid[mask], block[mask], self._b, in_items=bool(items[mask][0]))
        return Ids(said["api_ptr_id"], grid=rows).of("grid", self._cause[kernels])

    def tell(self, dump: Dump) -> None:
        """What is in the file and no kernel, copy or fill; what could not be read."""
        others = self._kind == 0
        count = int(others.sum())
        types = sorted({self._texts.get(key, "?") for key in np.unique(self.ops["opType_id"][others]).tolist()})
        shown = ascii(", ".join(types[:4]))[1:-1][:120]
        text = f"{count:,} operation(s) of type {shown} are no kernels: they have no name and are in no figure"
        dump.note("other_operations", text, count)
        bad = self.columns.bad
        text = f"{bad:,} cell(s) hold no whole number of 64 bits where one belongs: read as not known"
        dump.note("bad_numbers", text, bad, lossy=True)

    def samples(self) -> list[Sample]:
        """Clocks that the tracer watched, one sample each time one changed; its times are the trace's, not a date's."""
        found: list[Sample] = []
        for said in self.columns.cells("rocpd_monitor", ("deviceId",), ("deviceType", "monitorType", "value")):
            column, gpu = _CLOCKS.get(said["monitorType"]), said["deviceId"]
            sound = said["deviceType"] == "gpu" and gpu is not None and 0 <= gpu < 2**31 and len(said["value"]) < 10
            if column and sound and said["value"].isascii() and said["value"].isdigit() and len(found) < MOST_ROWS:
                found.append(Sample(gpu, len(found), figures={column: float(said["value"])}))
        return found


def _kind(word: str) -> int:
    if word == _KERNEL:
        return 1
    return 2 if word.startswith(_COPY) else 3 if word == _FILL else 0
