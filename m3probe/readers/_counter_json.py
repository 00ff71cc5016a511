"""Counters in rocprofv3's JSON: ``callback_records.counter_collection``, one record for each dispatch.

Read in rocprofiler-sdk's own tests of its output (ROCm/rocm-systems, ``projects/rocprofiler-sdk/tests/rocprofv3``): names of
counters by the handle in ``counters``, values in ``records``; its CSV adds up the records of one counter, and so do the sums here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import msgspec

from m3probe.model.counter_tables import CounterHost
from m3probe.model.recording import EventCounts, RecordingBuilder
from m3probe.readers import _rocprof_json as form
from m3probe.readers._beside import beside
from m3probe.readers._counter_rows import CounterRows
from m3probe.readers._csv_columns import Block

ROLE = "counters"
_MOST_NAMES = 100_000


class _Value(msgspec.Struct, gc=False, frozen=True):
    counter_id: form.Handle
    value: float | None = None


class _Info(form.DispatchInfo, gc=False, frozen=True):
    dispatch_id: int = -1
    private_segment_size: int = -1


class _Data(msgspec.Struct, gc=False, frozen=True):
    dispatch_info: _Info
    start_timestamp: int = 0
    end_timestamp: int = 0


class Counted(msgspec.Struct, gc=False, frozen=True):
    """One dispatch and what was counted in it."""

    dispatch_data: _Data
    records: list[_Value] = []
    arch_vgpr_count: int = -1
    accum_vgpr_count: int = -1
    sgpr_count: int = -1
    lds_block_size_v: int = -1


class JsonCounters:
    """The counters of one process of the file.

    Args:
        name_of: kernel id -> string id of its name, -1 where the file does not tell.
    """

    def __init__(
        self, tool: form.Tool, results: form.Results, builder: RecordingBuilder, name_of: Callable[[int], int]
    ) -> None:
        self.builder = builder
        self.path: Path = results.path
        self.size_bytes = results.size_bytes
        self.pid = tool.metadata.pid
        self.cut = results.cut
        self._rows = CounterRows(builder)
        self._name_of = name_of
        self._names = {one.id.handle: one.name[:256] for one in tool.counters[:_MOST_NAMES]}
        self.values = 0
        for window in results.records(tool.callback_records.get("counter_collection"), Counted):
            if window:
                self._window(window)

    def _window(self, window: Sequence[Counted]) -> None:
        lines = [(one, value) for one in window for value in one.records]
        if not lines:
            return
        strings, names = self.builder.strings, self._names
        infos = [one.dispatch_data.dispatch_info for one, _ in lines]
        data = [one.dispatch_data for one, _ in lines]
        kernels = {kernel: strings[self._name_of(kernel)] for kernel in {info.kernel_id for info in infos}}
        columns = {
            "dispatch_id": [str(info.dispatch_id) for info in infos],
            "agent_id": [str(info.agent_id.handle) for info in infos],
            "process_id": [str(self.pid)] * len(lines),
            "kernel_name": [kernels[info.kernel_id] for info in infos],
            "grid_size": [_product(info.grid_size) for info in infos],
            "workgroup_size": [_product(info.workgroup_size) for info in infos],
            "scratch_size": [str(info.private_segment_size) for info in infos],
            "arch_vgpr": [str(one.arch_vgpr_count) for one, _ in lines],
            "accum_vgpr": [str(one.accum_vgpr_count) for one, _ in lines],
            "sgpr": [str(one.sgpr_count) for one, _ in lines],
            "lds_block_size": [str(one.lds_block_size_v) for one, _ in lines],
            "start_timestamp": [str(one.start_timestamp) for one in data],
            "end_timestamp": [str(one.end_timestamp) for one in data],
            "counter_name": [names.get(v.counter_id.handle, f"counter {v.counter_id.handle}") for _, v in lines],
        }
        block = Block(self.path, columns, len(lines), lambda _cells: None)
        keys = list(zip(columns["dispatch_id"], columns["agent_id"], strict=True))
        rows, times = self._rows.dispatches(block, keys, "agent_id")
        cells = ["" if v.value is None else repr(v.value) for _, v in lines]
        self._rows.add(rows, block.ids(strings, "counter_name"), cells, times)
        self.values += len(lines)

    def add(self, hosts: Sequence[CounterHost], *, in_folder: bool) -> None:
        """Its entry beside the kernels' and its rows; nothing where nothing was counted.

        Args:
            hosts: of the GPUs that the file lists; they are one where they are alike.
        """
        if not self.values:
            return
        file = len(self.builder.files)
        entry = beside(self.path, "rocprofv3-json", ROLE, self.size_bytes, cut=self.cut, in_folder=in_folder)
        pid = self.pid if 0 <= self.pid < 2**63 else None
        counts = EventCounts(events_x=self.values, truncated=self.cut)
        self.builder.files.append(replace(entry, counts=counts, pid=pid))
        if len(set(hosts)) == 1:
            meta = self.builder.meta
            self.builder.meta = replace(meta, counter_hosts=(*meta.counter_hosts, replace(hosts[0], file=file)))
        self.builder.note(self._rows.notes(self.path))
        self._rows.finish(file)


def _product(sizes: form.Sizes) -> str:
    return str(prod((sizes.x, sizes.y, sizes.z))) if min(sizes.x, sizes.y, sizes.z) > 0 else ""
