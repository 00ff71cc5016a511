"""Hardware counters per dispatch: rocprofiler-compute's tables, and rocprofv3's ``counter_collection.csv``.

rocprofiler-compute (3, seen on an MI350) writes one wide table a pass, ``pmc_perf_N.csv`` and ``SQ_*.csv``, and all
counters again in ``pmc_perf.csv``, there with mean times: the tables of one folder are one run, and a counter that several
of them hold is taken once, from its pass. rocprofv3 writes one row for each counter and dispatch (6.2 and 7.x).
"""

from __future__ import annotations

import csv
import gc
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.counter_tables import CounterHost
from m3probe.model.recording import EventCounts, Note, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers._beside import beside
from m3probe.readers._counter_host import of_agents, of_sysinfo
from m3probe.readers._counter_rows import CounterRows
from m3probe.readers._csv_columns import Block, CsvTable
from m3probe.readers.chunks import Chunks

WIDE_KIND, LONG_KIND, ROLE = "counters", "rocprofv3-csv", "counters"
LONG, WIDE, HOST = "one row a counter", "one column a counter", "system"
_NAME = re.compile(r"(?:pmc_perf(?:_\d+)?|pmc_dispatch_info|SQ_\w+|sysinfo)\.csv(?:\.gz)?")
_DESCRIBES = re.compile(
    r"(?:dispatch_id|gpu_id|queue_id|pid|tid|grid_size|workgroup_size|lds_per_workgroup|scratch_per_workitem|arch_vgpr"
    r"|accum_vgpr|sgpr|wave_size|kernel_name|start_timestamp|end_timestamp|correlation_id|kernel_id|node)(?:_\d+)?"
)
"""Columns of a wide table that count nothing; a merged table repeats a pass's own under a number: ``Kernel_ID_3``."""


def sniff(_path: Path, head: bytes) -> bool:
    """Whether the header's first names are those of a table of counters, or of the system that they were read on."""
    return bool(_kind_of(head[:4096].split(b"\n", 1)[0]))


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add one table and, of those that were offered, the others of its run.

    Raises:
        UnreadableInput: none of them can be read.
    """
    files = _siblings(path, builder)
    run = _Run(builder)
    failed: list[UnreadableInput] = []
    collecting = gc.isenabled()
    gc.disable()  # rows hold no cycles
    try:
        for file in files:
            try:
                run.take(file)
                progress(file, run.size_bytes, run.size_bytes)
            except UnreadableInput as error:
                failed.append(error)
    finally:
        if collecting:
            gc.enable()
    builder.joined.update(file for file in files if file != path)
    if len(failed) == len(files):
        raise failed[0]
    for fault in failed:
        builder.note([Note("unread", f"left out, {fault.what}: its counters are missing", fault.where, lossy=True)])
    run.finish(path, in_folder=in_folder)


READER = Reader(title="hardware counters", sniff=sniff, read=read)


class _Run:
    """The tables of one run."""

    def __init__(self, builder: RecordingBuilder) -> None:
        self.builder = builder
        self.rows = CounterRows(builder)
        self.tables: list[CsvTable] = []
        self.kinds: set[str] = set()
        self.size_bytes = 0
        self.channels = 0
        self._taken: set[str] = set()

    def take(self, path: Path) -> None:
        """Read one table.

        Raises:
            UnreadableInput: it is damaged beyond telling its rows, or no table of counters after all.
        """
        table = CsvTable(path)
        kind = ""
        for block in table:
            kind = kind or _kind_of(",".join(table.header[:64]).encode())
            if kind == HOST and HOST not in self.kinds:
                self._host(block)
            elif kind == LONG:
                self._long(block)
            elif kind == WIDE:
                self._wide(block, table)
            self.kinds.add(kind)
        kind = kind or _kind_of(",".join(table.header[:64]).encode())
        if not kind:
            raise UnreadableInput("not a table of counters", where=str(path), next_move="Record again")
        self.kinds.add(kind)
        if kind == WIDE:
            self._taken.update(table.header)
        self.size_bytes += table.size_bytes
        self.tables.append(table)

    def _host(self, block: Block) -> None:
        self._add_host(of_sysinfo(block, len(self.builder.files)))

    def _add_host(self, host: CounterHost) -> None:
        meta = self.builder.meta
        self.builder.meta = replace(meta, counter_hosts=(*meta.counter_hosts, host))

    def _long(self, block: Block) -> None:
        keys = list(zip(block.texts("process_id"), block.texts("dispatch_id"), block.texts("agent_id"), strict=True))
        rows, times = self.rows.dispatches(block, keys, "agent_id")
        names = block.ids(self.builder.strings, "counter_name")
        self.rows.add(rows, names, block.texts("counter_value"), times)

    def _wide(self, block: Block, table: CsvTable) -> None:
        keys = list(zip(block.texts("gpu_id"), block.texts("dispatch_id"), block.texts("kernel_name"), strict=True))
        rows, times = self.rows.dispatches(block, keys, "gpu_id")
        channels = 0
        for lower, name in dict(
            zip(table.header, table.names, strict=True)
        ).items():  # a name that stands twice counts once
            if "[" in name:
                channels += 1
            elif lower not in self._taken and not _DESCRIBES.fullmatch(lower):
                counter = self.builder.strings.intern(name)
                self.rows.add(rows, np.full(block.rows, counter), block.texts(lower), times)
        self.channels = max(self.channels, channels)

    def finish(self, path: Path, *, in_folder: bool) -> None:
        """The file's entry, what was lost, and the rows."""
        wide = WIDE in self.kinds or HOST in self.kinds
        path = next((t.path for t in self.tables if t.path.name.startswith("pmc_perf.csv")), path)
        file = len(self.builder.files)
        cut = any(table.cut for table in self.tables)
        entry = beside(path, WIDE_KIND if wide else LONG_KIND, ROLE, self.size_bytes, cut=cut, in_folder=in_folder)
        counts = EventCounts(events_x=sum(table.rows for table in self.tables), truncated=cut)
        self.builder.files.append(replace(entry, counts=counts, pid=None if wide else self.rows.pid))
        if not wide:
            self._agents(path, file)
        self.builder.note([*(note for table in self.tables for note in table.notes()), *self.rows.notes(path)])
        self.builder.note(self._said(path))
        self.rows.finish(file)

    def _agents(self, path: Path, file: int) -> None:
        """The GPUs by the table beside it; a damaged one is told where that table itself is read."""
        other = path.with_name(path.name.replace("counter_collection", "agent_info"))
        if other == path or other not in self.builder.offered:
            return
        try:
            host = next((of_agents(block, file) for block in CsvTable(other)), None)
        except UnreadableInput:
            return
        if host:
            self._add_host(host)

    def _said(self, path: Path) -> Iterator[Note]:
        if self.channels:
            text = (
                f"{self.channels:,} columns of single channels (NAME[n]) are not read: the sums over all channels are"
            )
            yield Note("channels", text, str(path), self.channels, quiet=True)


def _kind_of(line: bytes) -> str:
    """Which table a header is of; "" for any other."""
    try:
        cells = next(csv.reader([line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").rstrip("\r")]), [])
    except csv.Error:
        return ""
    names = {cell.strip().lower() for cell in cells}
    tests = {
        LONG: {"dispatch_id", "kernel_name", "counter_name", "counter_value"} <= names,
        WIDE: {"dispatch_id", "kernel_name", "gpu_id"} <= names
        and ({"arch_vgpr", "wave_size"} & names or len(names) == 3),
        HOST: {"workload_name", "gpu_arch", "compute_partition"} <= names,
    }
    return next((kind for kind, holds in tests.items() if holds), "")


def _siblings(path: Path, builder: RecordingBuilder) -> list[Path]:
    """The tables of the same run: passes first, for their times are those of one run, then those that repeat them."""
    if not _NAME.fullmatch(path.name):
        return [path]
    found = {p for p in builder.offered if p.parent == path.parent and _NAME.fullmatch(p.name) and _is_ours(p)} | {path}
    return sorted(found, key=lambda p: (p.name.startswith(("pmc_perf.csv", "pmc_dispatch_info")), p.name))


def _is_ours(path: Path) -> bool:
    try:
        return sniff(path, next(iter(Chunks(path)), b""))
    except UnreadableInput:
        return True  # taking it says what is wrong with it
