"""rocprofv3's CSV files, ROCm 6.2 to 7.x and converted from rocpd: those of one process are read as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.recording import EventCounts, Note, RecordingBuilder, SourceFile
from m3probe.model.tables import NONE, Array
from m3probe.plugs import Progress, Reader
from m3probe.readers import _rocprof_csv as names
from m3probe.readers import _rocprof_notes as notes
from m3probe.readers._csv_columns import Block, CsvTable
from m3probe.readers._process import MOST_DEVICES, add_process, check_devices, spans, workgroups
from m3probe.readers._rocprof_agents import Agent, agent_of, numbered, scheme_of, tell_ranks
from m3probe.readers._rocprof_process import Gathered
from m3probe.readers._rocprof_stats import add_stats
from m3probe.readers.events import NO_TIME

KIND = "rocprofv3-csv"
_ODD_DEVICE = 2**30
"""Device ids of labels without a number."""


def sniff(_path: Path, head: bytes) -> bool:
    """Whether the header is one of rocprofv3's."""
    return bool(names.kind_of(names.header_of(head)))


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add one file and, of those that were offered, the others of its process.

    Raises:
        UnreadableInput: none of them can be read.
    """
    files = names.siblings(path, builder.offered)
    run = _Run(builder)
    failed: list[UnreadableInput] = []
    for file in files:
        try:
            run.take(file, in_folder=in_folder)
            progress(file, run.size_bytes, run.size_bytes)
        except UnreadableInput as error:
            failed.append(error)
    builder.joined.update(file for file in files if file != path)
    if len(failed) == len(files):
        raise failed[0]
    for fault in failed:
        text = f"left out, {fault.what}: what it holds is in no figure"
        builder.note([Note("unread", text, fault.where, lossy=True)])
    if run.tables:
        run.add(in_folder=in_folder)


READER = Reader(title="rocprofv3 CSV", sniff=sniff, read=read, holds_kernels=True)


@dataclass(slots=True)
class _Run:
    """The files of one process; several processes in one file where a Guid tells them apart (converted from rocpd)."""

    builder: RecordingBuilder
    tables: list[tuple[Path, str, CsvTable]] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Gathered] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)
    has_threads: bool = False
    allocations: int = 0
    size_bytes: int = 0

    def take(self, path: Path, *, in_folder: bool) -> None:
        """Read one file; what is read of one that fails midway is dropped.

        Raises:
            UnreadableInput: it is none of ours after all, or damaged beyond telling its rows.
        """
        table = CsvTable(path)
        found: dict[str, Gathered] = {}
        kind = ""
        for block in table:
            kind = kind or names.kind_of(table.header)
            if kind == names.STATS:
                add_stats(path, block, table, self.builder, in_folder=in_folder)
                return
            self._block(kind, block, found)
        kind = kind or names.kind_of(table.header)
        if kind in ("", names.STATS):
            what = "a table of totals without a row" if kind else "not a table of rocprofv3: its header is another"
            raise refused(what, path)
        for guid, gathered in found.items():
            self.processes.setdefault(guid, Gathered()).merge(gathered)
        self.has_threads = self.has_threads or (kind == names.KERNELS and "thread_id" in table.header)
        self.size_bytes += table.size_bytes
        self.tables.append((path, kind, table))

    def _block(self, kind: str, block: Block, found: dict[str, Gathered]) -> None:
        if kind == names.AGENTS:
            self._agents(block)
        elif kind == names.ALLOCATIONS:
            self.allocations += block.rows
        elif kind in (names.KERNELS, names.API, names.COPIES):
            make = {names.KERNELS: self._kernels, names.API: self._calls, names.COPIES: self._copies}[kind]
            guids = block.texts("guid")
            for guid in dict.fromkeys(guids):
                rows = np.array([one == guid for one in guids]) if guids.count(guid) < len(guids) else slice(None)
                if len(found) > MOST_DEVICES:
                    raise refused(f"more than {MOST_DEVICES:,} processes in one table", block.path)
                make(found.setdefault(guid, Gathered()), block, rows)

    def _kernels(self, process: Gathered, block: Block, rows: Array | slice) -> None:
        columns = self._timed(block, "kernel_name")
        columns["device"] = self._devices(block, "agent_id", "gpu_id")
        columns["stream"] = block.ints("stream_id", "queue_id")
        grid, group = (
            np.stack([block.ints(f"{size}_size_{axis}") for axis in "xyz"], axis=1) for size in ("grid", "workgroup")
        )
        columns["grid"] = workgroups(grid, group, self.builder, in_items=True)
        self.threads.update(np.unique(block.ints("thread_id", "tid")).tolist())
        if "pid" in block:
            process.pid = int(block.ints("pid")[rows][0])
        process.add("kernels", **{name: values[rows] for name, values in columns.items()})

    def _calls(self, process: Gathered, block: Block, rows: Array | slice) -> None:
        columns = self._timed(block, "function")
        columns |= {"pid": block.ints("process_id"), "tid": block.ints("thread_id")}
        if len(columns["pid"][rows]) and columns["pid"][rows][0] >= 0:
            process.pid = int(columns["pid"][rows][0])
        words = np.array(block.texts("domain"))[rows].tolist()
        process.add_calls(words, {name: values[rows] for name, values in columns.items()}, self.builder)

    def _copies(self, process: Gathered, block: Block, rows: Array | slice) -> None:
        columns = self._timed(block, "direction")
        columns |= {"src": self._devices(block, "source_agent_id")}
        columns |= {"dst": self._devices(block, "destination_agent_id")}
        columns |= {"stream": block.ints("stream_id", default=0), "payload_bytes": block.ints("size")}
        process.add("memcpy", **{name: values[rows] for name, values in columns.items()})

    def _timed(self, block: Block, name: str) -> dict[str, Array]:
        start, end = (block.ints(f"{edge}_timestamp", default=NO_TIME) for edge in ("start", "end"))
        start, dur = spans(start, end)
        link = np.maximum(block.ints("correlation_id", default=0), 0)
        return {"name": block.ids(self.builder.strings, name), "start_ns": start, "dur_ns": dur, "correlation": link}

    def _devices(self, block: Block, *columns: str) -> Array:
        """Device ids: the label's number, another where two labels share it."""
        labels = block.texts(*columns)
        for label in dict.fromkeys(labels):
            if label not in self.labels:
                number = scheme_of(label)[1]
                taken = number in self.labels.values() or not 0 <= number < _ODD_DEVICE
                self.labels[label] = _ODD_DEVICE + len(self.labels) if taken else number
            if len(self.labels) > 4 * MOST_DEVICES:
                raise refused(f"more than {4 * MOST_DEVICES:,} agents", block.path)
        return np.fromiter(map(self.labels.__getitem__, labels), dtype=np.int64, count=len(labels))

    def _agents(self, block: Block) -> None:
        node, of_type = block.ints("node_id"), block.ints("logical_node_type_id")
        logical = block.ints("logical_node_id") if "logical_node_id" in block else node
        types = block.texts("agent_type")
        rows = zip(node.tolist(), logical.tolist(), types, of_type.tolist(), strict=True)
        self.agents = numbered(
            [(Agent(n, at, NONE), kind.strip().upper() == "GPU", said) for n, at, kind, said in rows]
        )

    def add(self, *, in_folder: bool) -> None:
        """One file of the recording for each process and device; what is to be said of them."""
        path = next((path for path, kind, _ in self.tables if kind == names.KERNELS), self.tables[0][0])
        steps = self.builder.rows("steps")
        made = {guid: gathered.process() for guid, gathered in (self.processes or {"": Gathered()}).items()}
        check_devices(sum(len(process.devices()) for process in made.values()), path)
        for guid, process in made.items():
            pid = names.pid_of(path)
            if pid is None and guid in self.processes:
                pid = self.processes[guid].pid
            add_process(process, self.builder, self._file_of(path, pid, in_folder))
        told = [note for _, _, table in self.tables for note in table.notes()]
        told += notes.ranges(
            str(path), sum(one.ranges() for one in self.processes.values()), self.builder.rows("steps") - steps
        )
        told += notes.counted(str(path), self.threads if self.has_threads else None, self.processes, self.allocations)
        self.builder.note(told)
        tell_ranks(self.builder)

    def _file_of(self, path: Path, pid: int | None, in_folder: bool) -> Callable[[int | None], SourceFile]:
        """What is said of the file of one device; the records and losses of all stand at the first."""
        labels = {number: label for label, number in self.labels.items()}
        records = sum(table.rows for _, _, table in self.tables)
        lost = sum(table.bad_rows for _, _, table in self.tables)
        counts = iter(
            [EventCounts(events_x=records, lost_events=lost, truncated=any(t.cut for _, _, t in self.tables))]
        )

        def file_of(device: int | None) -> SourceFile:
            label = "" if device is None else labels.get(device, "")
            agent = agent_of(label, self.agents)
            return SourceFile(
                path=str(path),
                kind=KIND,
                role="rank",
                rank=None,
                world_size=None,
                base_time_ns=None,
                size_bytes=self.size_bytes,
                counts=next(counts, EventCounts()),
                in_folder=in_folder,
                pid=pid,
                device=label,
                gpu=agent.gpu if agent else None,
                node=agent.node if agent and agent.node >= 0 else None,
            )

        return file_of


def refused(what: str, path: Path) -> UnreadableInput:
    """The table cannot be what it seems."""
    return UnreadableInput(what, where=str(path), next_move="Record again")
