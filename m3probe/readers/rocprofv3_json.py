"""rocprofv3's JSON (``*_results.json``): kernels by symbol, agents by handle, calls by the tables of the same file."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.counter_tables import CounterHost
from m3probe.model.recording import Device, EventCounts, Note, RecordingBuilder, SourceFile
from m3probe.model.tables import NONE, Array
from m3probe.plugs import Progress, Reader
from m3probe.readers import _rocprof_json as form
from m3probe.readers import _rocprof_notes as notes
from m3probe.readers._counter_json import JsonCounters
from m3probe.readers._process import add_process, check_devices, spans, workgroups
from m3probe.readers._rocprof_agents import Agent, gfx_name, numbered, tell_ranks
from m3probe.readers._rocprof_numbers import as_int64
from m3probe.readers._rocprof_process import Gathered
from m3probe.readers.events import NO_TIME

KIND = "rocprofv3-json"
_GPU = 2
_APIS = ("hip_api", "hsa_api", "rccl_api", "marker_api")
_UNLISTED = 2**20
"""Device ids of agents that the file does not list."""


def sniff(_path: Path, head: bytes) -> bool:
    """Whether the object begins with rocprofv3's key."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith(b"{") and form.TOOL in text[:4096]


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the processes of one file.

    Raises:
        UnreadableInput: it is no such document, or names no process.
    """
    collecting = gc.isenabled()
    gc.disable()  # records hold no cycles
    try:
        results = form.Results(path)
        made = [
            (tool, one, one.gathered.process()) for tool in results.tools for one in [_Tool(tool, results, builder)]
        ]
    finally:
        if collecting:
            gc.enable()
    if not made:
        raise UnreadableInput("no process in it", where=str(path), next_move="Record again")
    if results.cut and not any(one.gathered.records() or one.counters.values for _, one, _ in made):
        raise UnreadableInput("cut before its first record", where=str(path), next_move="Record again")
    check_devices(sum(len(process.devices()) for _, _, process in made), path)
    steps, told = builder.rows("steps"), list(_notes(results, [one for _, one, _ in made]))
    for at, (_, one, process) in enumerate(made):
        lost = results.damage.lost if at == 0 else 0
        add_process(process, builder, one.file_of(path, results, lost, in_folder))
        one.counters.add(one.hosts(), in_folder=in_folder)
    ranges = sum(one.gathered.ranges() for _, one, _ in made)
    builder.note([*told, *notes.ranges(str(path), ranges, builder.rows("steps") - steps)])
    tell_ranks(builder)
    progress(path, results.size_bytes, results.size_bytes)


READER = Reader(title="rocprofv3 JSON", sniff=sniff, read=read, holds_kernels=True)


class _Tool:
    """One process of the file: its records as columns."""

    def __init__(self, tool: form.Tool, results: form.Results, builder: RecordingBuilder) -> None:
        self.builder = builder
        self.results = results
        self.gathered = Gathered()
        self.pid = tool.metadata.pid if 0 <= tool.metadata.pid < 2**63 else None
        self.agents = _agents(tool.agents)
        self.labels: dict[int, str] = {}
        self.unnamed = 0
        self._ids = {int(agent.handle): self._id(agent) for agent in self.agents}
        self._kinds = tool.strings.buffer_records
        self._symbols = {symbol.kernel_id: symbol for symbol in tool.kernel_symbols}
        self._names: dict[int, int] = {}
        self._dispatches(tool)
        for api in _APIS:
            said = {one.key: one.value for one in tool.strings.marker_api} if api == "marker_api" else {}
            for calls in results.records(tool.buffer_records.get(api), form.Call):
                self._calls(calls, said)
        for copies in results.records(tool.buffer_records.get("memory_copy"), form.Copy):
            self._copies(copies)
        self.counters = JsonCounters(tool, results, builder, self._name_of)
        self._meta()

    def hosts(self) -> list[CounterHost]:
        """What the file says of its GPUs."""
        gpus = [(agent.gfx, agent.device) for agent in self.agents if agent.device is not None]
        return [
            CounterHost(NONE, gfx, d.name, d.units if d.units > 0 else None, d.warp_size if d.warp_size > 0 else None)
            for gfx, d in gpus
        ]

    def file_of(
        self, path: Path, results: form.Results, lost: int, in_folder: bool
    ) -> Callable[[int | None], SourceFile]:
        """What is said of the file of one device; the records and losses of all stand at the first."""
        counts = iter([EventCounts(events_x=self.gathered.records(), lost_events=lost, truncated=results.cut)])
        gpus = {agent.handle: agent for agent in self.agents if agent.gpu >= 0}

        def made(device: int | None) -> SourceFile:
            handle = self.labels.get(device, "") if device is not None else ""
            agent = gpus.get(handle)
            return SourceFile(
                path=str(path),
                kind=KIND,
                role="rank",
                rank=None,
                world_size=None,
                base_time_ns=None,
                size_bytes=results.size_bytes,
                counts=next(counts, EventCounts()),
                in_folder=in_folder,
                pid=self.pid,
                device=handle,
                gpu=agent.gpu if agent else None,
                node=agent.node if agent and 0 <= agent.node < 2**31 else None,
            )

        return made

    def _id(self, agent: Agent) -> int:
        """Device of an agent: the number of the GPU; a CPU gets one that no GPU has."""
        number = agent.gpu if 0 <= agent.gpu < _UNLISTED else _UNLISTED + len(self.labels)
        number = number if number not in self.labels else _UNLISTED + len(self.labels)
        self.labels[number] = agent.handle
        return number

    def _devices(self, handles: list[int]) -> Array:
        for handle in set(handles) - self._ids.keys():
            self._ids[handle] = _UNLISTED + len(self.labels)
            self.labels[self._ids[handle]] = str(handle)
        return np.array([self._ids[handle] for handle in handles], dtype=np.int64)

    def _gpus(self, handles: list[int]) -> Array:
        """Devices of the ends of copies, -1 for a processor."""
        found = self._devices(handles)
        processors = [self._ids[int(agent.handle)] for agent in self.agents if agent.gpu < 0]
        return np.where(np.isin(found, processors), NONE, found)

    def _dispatches(self, tool: form.Tool) -> None:
        names = self._names
        for window in self.results.records(tool.buffer_records.get("kernel_dispatch"), form.Dispatch):
            infos = [one.dispatch_info for one in window]
            kernels = [info.kernel_id for info in infos]
            for kernel in set(kernels) - names.keys():
                self._name_of(kernel)
            streams = [(one.stream_id or one.dispatch_info.queue_id).handle for one in window]
            grid, group = (_sizes(sizes) for sizes in ([i.grid_size for i in infos], [i.workgroup_size for i in infos]))
            self.gathered.add(
                "kernels",
                name=np.array([names[kernel] for kernel in kernels], dtype=np.int64),
                **_timed(window),
                device=self._devices([info.agent_id.handle for info in infos]),
                stream=as_int64(streams, NONE)[0],
                grid=workgroups(grid, group, self.builder, in_items=True),
            )
            self.unnamed += sum(names[kernel] < 0 for kernel in kernels)

    def _name_of(self, kernel: int) -> int:
        """String id of a kernel's name, by its symbol; -1 where the file has none."""
        if kernel not in self._names:
            self._names[kernel] = self._name(self._symbols.get(kernel))
        return self._names[kernel]

    def _name(self, symbol: form.Symbol | None) -> int:
        if symbol is None:
            return NONE
        damage = self.results.damage
        found = form.text_of(symbol.formatted_kernel_name, damage)
        for other in (symbol.demangled_kernel_name, symbol.kernel_name):
            found = found or form.text_of(other, damage).removesuffix(" [clone .kd]").removesuffix(".kd")
        return self.builder.strings.intern(found) if found else NONE

    def _calls(self, calls: list[form.Call], said: dict[int, str]) -> None:
        intern = self.builder.strings.intern
        words = [self._kind(one.kind).kind for one in calls]
        names = [said.get(one.correlation_id.internal) or self._operation(one) for one in calls]
        columns = {
            "name": np.array([intern(name) if name else NONE for name in names], dtype=np.int64),
            **_timed(calls),
            "pid": np.full(len(calls), NONE if self.pid is None else self.pid, dtype=np.int64),
            "tid": as_int64([one.thread_id for one in calls], NONE)[0],
        }
        self.gathered.add_calls(words, columns, self.builder)

    def _copies(self, copies: list[form.Copy]) -> None:
        intern = self.builder.strings.intern
        self.gathered.add(
            "memcpy",
            name=np.array([intern(self._operation(one) or "MEMORY_COPY") for one in copies], dtype=np.int64),
            **_timed(copies),
            src=self._gpus([one.src_agent_id.handle for one in copies]),
            dst=self._gpus([one.dst_agent_id.handle for one in copies]),
            stream=as_int64([one.stream_id.handle if one.stream_id else 0 for one in copies], NONE)[0],
            payload_bytes=as_int64([one.payload_bytes for one in copies], NONE)[0],
        )

    def _kind(self, index: int) -> form.Kind:
        return self._kinds[index] if 0 <= index < len(self._kinds) else form.Kind()

    def _operation(self, one: form.Call) -> str:
        operations = self._kind(one.kind).operations
        return operations[one.operation] if 0 <= one.operation < len(operations) else ""

    def _meta(self) -> None:
        meta = self.builder.meta
        gpus = [agent for agent in self.agents if agent.device is not None]
        gfx = sorted({agent.gfx for agent in gpus if agent.gfx})
        devices = tuple(agent.device for agent in gpus if agent.device is not None)
        versions = {**meta.versions, "gfx": ", ".join(gfx)} if gfx else meta.versions
        self.builder.meta = replace(meta, devices=meta.devices or devices, versions=versions)


def _timed(window: list[form.Dispatch] | list[form.Call] | list[form.Copy]) -> dict[str, Array]:
    start, end = (
        as_int64(times, NO_TIME)[0]
        for times in ([one.start_timestamp for one in window], [one.end_timestamp for one in window])
    )
    start, dur = spans(start, end)
    return {
        "start_ns": start,
        "dur_ns": dur,
        "correlation": np.maximum(as_int64([one.correlation_id.internal for one in window], 0)[0], 0),
    }


def _sizes(sizes: list[form.Sizes]) -> Array:
    flat = [size for one in sizes for size in (one.x, one.y, one.z)]
    return as_int64(flat, NONE)[0].reshape(-1, 3)


def _agents(said: list[form.Agent]) -> list[Agent]:
    return numbered(
        [
            (
                Agent(
                    node=one.node_id,
                    logical=one.logical_node_id if one.logical_node_id >= 0 else one.node_id,
                    gpu=NONE,
                    handle=str(one.id.handle),
                    gfx=one.name or gfx_name(one.gfx_target_version),
                    device=_device(one) if one.type == _GPU else None,
                ),
                one.type == _GPU,
                one.logical_node_type_id if one.logical_node_type_id >= 0 else one.gpu_index,
            )
            for one in said
        ]
    )


def _device(one: form.Agent) -> Device:
    banks = [bank.get("size_in_bytes") for bank in one.mem_banks]
    sizes = [size for size in banks if isinstance(size, int) and 0 < size < 2**62]
    return Device(
        index=max(one.gpu_index, one.logical_node_type_id),
        name=one.product_name or one.name or gfx_name(one.gfx_target_version),
        units=one.cu_count if 0 < one.cu_count < 2**31 else NONE,
        compute_major=one.gfx_target_version // 10_000 or NONE,
        compute_minor=one.gfx_target_version // 100 % 100 if one.gfx_target_version else NONE,
        warp_size=one.wave_front_size,
        memory_bytes=sum(sizes) or NONE,
    )


def _notes(results: form.Results, tools: list[_Tool]) -> Iterator[Note]:
    path, damage = str(results.path), results.damage
    if results.cut:
        text = "truncated file: the tail is missing; figures cover only the records that were read"
        yield Note("truncated", text, path, lossy=True)
    if damage.lost:
        text = f"{damage.lost:,} record(s) are not as rocprofv3 writes them and are lost"
        yield Note("lost_events", text, path, damage.lost, lossy=True)
    if damage.bad_utf8:
        text = f"{damage.bad_utf8:,} byte sequence(s) are no UTF-8, written as \\xNN"
        yield Note("bad_utf8", text, path, damage.bad_utf8)
    if damage.control_bytes:
        text = f"control characters in names: raw control bytes in {damage.control_bytes:,} text(s), escaped"
        yield Note("control_bytes", text, path, damage.control_bytes)
    if damage.non_finite:
        text = f"non-finite numbers: {damage.non_finite:,} NaN or Infinity read as not known"
        yield Note("non_finite", text, path, damage.non_finite)
    unnamed = sum(one.unnamed for one in tools)
    if unnamed:
        yield Note(
            "unnamed_kernels", f"{unnamed:,} kernel(s) whose symbol is not in the file: without a name", path, unnamed
        )
