"""Parts of one process's file to linked rows of a recording: the same for every format that has them."""

from __future__ import annotations

from dataclasses import fields
from typing import Protocol

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import GRAPH_LAUNCH, LONGEST_NS, NONE, Array
from m3probe.readers import _link, _steps
from m3probe.readers._families import families
from m3probe.readers._grid import WORK_ITEM_CALLS, in_workgroups
from m3probe.readers.events import NO_TIME
from m3probe.schema.verdicts import GRAPH_MODES, PHASES, GraphMode

_MODES = list(GRAPH_MODES)
_STEP_NUMBERS = tuple(f.name for f in fields(_steps.StepName) if f.name != "phase")


class Parts(Protocol):
    """Columns of one file by part: ``kernels memcpy memset launches ops annotations``."""

    def column(self, part: str, name: str, dtype: str = "int64") -> Array:
        """One column; empty where the file has no such event."""

    def time(self, part: str, name: str) -> Array:
        """``start_ns`` or ``dur_ns``, 0 where it is not known."""

    def known(self, part: str) -> Array:
        """Mask: both times were written and are times."""

    def count(self, part: str) -> int:
        """Rows of a part."""


class Rows:
    """One rank's rows, linked, added to the builder with absolute row references.

    Args:
        parts: what the file holds.
        file: index into ``Recording.files``.
    """

    def __init__(self, parts: Parts, builder: RecordingBuilder, file: int) -> None:
        self.g = parts
        self.b = builder
        self.file = file
        self.offset = {table: builder.rows(table) for table in ("steps", "launches", "ops")}
        calls = [builder.strings[i] if i >= 0 else "" for i in self._names("launches")]
        self.call_kind = np.array([_link.call_kind(name) for name in calls], dtype=np.int8)
        self.work_items = np.array([name in WORK_ITEM_CALLS for name in calls], dtype=bool)

    def add(self) -> None:
        """Steps, kernels, transfers, launches and ops."""
        call_start = self.g.time("launches", "start_ns")
        order, parsed = self._ordered_steps()
        step_start = self.g.column("annotations", "start_ns")[order]
        dated = self.g.column("launches", "start_ns") != NO_TIME
        call_step = np.where(dated, _link.step_of(call_start, step_start), NONE)
        call_op = self._call_ops(call_start)
        linked = self._kernels(call_step, call_op)
        for kind, part in enumerate(("memcpy", "memset")):
            self._transfers(kind, part, call_step, call_op)
        self._launches(call_step, call_op, linked)
        self._ops()
        self._steps(order, parsed, call_step)

    def _names(self, part: str) -> list[int]:
        names: list[int] = self.g.column(part, "name").tolist()
        return names

    def _call_ops(self, call_start: Array) -> Array:
        g = self.g
        return _link.innermost_op(
            _link.threads(g.column("launches", "pid"), g.column("launches", "tid")),
            call_start,
            _link.threads(g.column("ops", "pid"), g.column("ops", "tid")),
            g.time("ops", "start_ns"),
            g.time("ops", "dur_ns"),
        )

    def _where(self, part: str) -> dict[str, Array]:
        found = {"name": self.g.column(part, "name")}
        found |= {key: self.g.time(part, key) for key in ("start_ns", "dur_ns")}
        found["file"] = np.full(len(found["name"]), self.file, dtype=np.int32)
        return found

    def _host(self, part: str) -> dict[str, Array]:
        return {key: self.g.column(part, key) for key in ("pid", "tid")}

    def _linked(self, part: str, call_step: Array, call_op: Array) -> tuple[dict[str, Array], Array]:
        """Device columns of ``part`` and the local launch row of each."""
        columns = {key: self.g.column(part, key) for key in ("device", "stream", "correlation")}
        launch = _link.launch_of(columns["correlation"], self.g.column("launches", "correlation"), self.call_kind)
        graph = _take(self.call_kind, launch, 0) == GRAPH_LAUNCH
        columns["launch"] = _absolute(launch, self.offset["launches"])
        columns["step"] = _absolute(_take(call_step, launch, NONE), self.offset["steps"])
        columns["op"] = np.where(graph, NONE, _absolute(_take(call_op, launch, NONE), self.offset["ops"]))
        columns["in_graph"] = graph
        return columns, launch

    def _kernels(self, call_step: Array, call_op: Array) -> Array:
        columns, launch = self._linked("kernels", call_step, call_op)
        where = self._where("kernels")
        op = np.where(columns["op"] >= 0, columns["op"] - self.offset["ops"], NONE)
        columns["family"] = families(where["name"], _take(self.g.column("ops", "name"), op, NONE), self.b)
        columns["timed"] = self.g.known("kernels") & (where["start_ns"] != 0) & plausible(where["dur_ns"])
        work_items = _take(self.work_items, launch, 0).astype(bool)
        columns["grid"] = in_workgroups(
            self.g.column("kernels", "grid"), self.g.column("kernels", "block"), work_items, self.b
        )
        self.b.add("kernels", {**where, **columns})
        return launch

    def _transfers(self, kind: int, part: str, call_step: Array, call_op: Array) -> None:
        columns, _ = self._linked(part, call_step, call_op)
        where = self._where(part)
        columns["kind"] = np.full(len(where["name"]), kind, dtype=np.int8)
        columns["payload_bytes"] = self.g.column(part, "payload_bytes")
        self.b.add("transfers", {**where, **columns})

    def _launches(self, call_step: Array, call_op: Array, linked: Array) -> None:
        where = self._where("launches")
        n = len(where["name"])
        self.b.add(
            "launches",
            {
                **where,
                **self._host("launches"),
                "correlation": self.g.column("launches", "correlation"),
                "kind": self.call_kind,
                "step": _absolute(call_step, self.offset["steps"]),
                "op": _absolute(call_op, self.offset["ops"]),
                "kernels": np.bincount(linked[linked >= 0], minlength=n),
                "graph": np.full(n, NONE, dtype=np.int32),
            },
        )

    def _ops(self) -> None:
        keys = ("dims", "types", "strides", "collective", "payload_elems", "payload_dtype", "group_size")
        columns = {key: self.g.column("ops", key) for key in keys}
        self.b.add("ops", {**self._where("ops"), **self._host("ops"), **columns})

    def _ordered_steps(self) -> tuple[list[int], list[_steps.StepName]]:
        """Annotation rows that are steps, in order of time, and what each says."""
        names = self._names("annotations")
        texts = self.b.strings.texts
        said = {i: _steps.parse(texts[i]) for i in set(names) if i >= 0}
        dated = (self.g.column("annotations", "start_ns") != NO_TIME).tolist()
        rows = [row for row, name in enumerate(names) if said.get(name) is not None and dated[row]]
        if not rows:
            profiler = {i: texts[i].startswith(_steps.PROFILER_STEP) for i in set(names) if i >= 0}
            rows = [row for row, name in enumerate(names) if profiler.get(name)]
            said = {i: _steps.StepName() for i in profiler}
        start = self.g.time("annotations", "start_ns").tolist()
        dur = self.g.time("annotations", "dur_ns").tolist()
        rows.sort(key=lambda row: (start[row], -dur[row]))
        kept: list[int] = []
        parsed: list[_steps.StepName] = []
        for row in rows:
            step = said[names[row]] or _steps.StepName()
            if kept and start[row] + dur[row] <= start[kept[-1]] + dur[kept[-1]]:
                parsed[-1] = parsed[-1].filled_from(step)  # nested: the outermost is the step
            else:
                kept.append(row)
                parsed.append(step)
        return kept, parsed

    def _steps(self, order: list[int], parsed: list[_steps.StepName], call_step: Array) -> None:
        at = np.array(order, dtype=np.int64)
        where = {key: values[at] for key, values in self._where("annotations").items()}
        host = {key: values[at] for key, values in self._host("annotations").items()}
        launches = call_step[(self.call_kind == GRAPH_LAUNCH) & (call_step >= 0)]
        graphs = np.bincount(launches, minlength=len(at))
        end = np.append(where["start_ns"][1:], self._last_ns()) if len(at) else where["start_ns"]
        numbers = {key: np.array([getattr(step, key) for step in parsed], dtype=np.int64) for key in _STEP_NUMBERS}
        phases = np.array([PHASES.index(step.phase) for step in parsed], dtype=np.int8)
        modes = np.array([_MODES.index(_mode(int(n))) for n in graphs], dtype=np.int8)
        extra = {"end_ns": end, "phase": phases, "graph_launches": graphs, "graph_mode": modes}
        self.b.add("steps", {**where, **host, **numbers, **extra})

    def _last_ns(self) -> int:
        ends = [
            int((self.g.time(part, "start_ns") + self.g.time(part, "dur_ns")).max())
            for part in ("kernels", "memcpy", "memset", "launches", "ops", "annotations")
            if self.g.count(part)
        ]
        return max(ends, default=0)


def plausible(dur_ns: Array) -> Array:
    """Mask: no negative duration, and none that is damage."""
    found: Array = (dur_ns >= 0) & (dur_ns < LONGEST_NS)
    return found


def _mode(graph_launches: int) -> GraphMode:
    if graph_launches == 0:
        return GraphMode.NONE
    return GraphMode.FULL if graph_launches == 1 else GraphMode.PIECEWISE


def _take(values: Array, rows: Array, default: int) -> Array:
    """``values[rows]``, ``default`` where a row is -1."""
    if not len(values):
        return np.full(len(rows), default, dtype=values.dtype)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], default)


def _absolute(rows: Array, offset: int) -> Array:
    return np.where(rows >= 0, rows + offset, NONE).astype(np.int32)
