"""What the graphs of one capture trace hold, reduced at once: kernels in launch order, with op, shapes and grid.

Says the same as ``readers/_capture.py`` of the same trace, from the standard library and msgspec alone. On ROCm a launch
between BeginCapture and EndCapture carries its kernel's name (seen on MI300X, roctracer); CUDA's launches carry none, and
get theirs from the graph's nodes, which are made in the order of the launches (H200, CUDA 13.0, side streams too).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from m3probe.collectors._census_nodes import Node
from m3probe.schema.records import CensusKernel

CALLS = frozenset({"cuda_runtime", "cuda_driver"})
WORK_ITEM_CALLS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Their grid counts work-items; other calls' grids count workgroups."""
_NONE = msgspec.Raw(b"")


class _Args(msgspec.Struct, gc=False, frozen=True):
    kernel: str = ""
    grid: msgspec.Raw = _NONE
    block: msgspec.Raw = _NONE
    dims: msgspec.Raw = msgspec.field(default=_NONE, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NONE, name="Input type")


_NO_ARGS = _Args()


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: float = 0.0
    dur: float = 0.0
    args: _Args = _NO_ARGS


class _Trace(msgspec.Struct, gc=False):
    traceEvents: list[_Event] = []  # noqa: N815 - kineto's word


@dataclass(frozen=True, slots=True)
class Reduced:
    """Graphs in the order of their captures, launches that name no kernel included (name "")."""

    graphs: tuple[tuple[CensusKernel, ...], ...]

    @property
    def unnamed(self) -> int:
        """Launches inside of captures that name no kernel."""
        return sum(not kernel.name for graph in self.graphs for kernel in graph)

    def named(self) -> Reduced:
        """Without those."""
        return Reduced(tuple(tuple(kernel for kernel in graph if kernel.name) for graph in self.graphs))

    def with_nodes(self, nodes: Sequence[Sequence[Node]]) -> tuple[Reduced, int]:
        """Names and grids by the graphs' nodes; ops and shapes of the launches where there are as many of both.

        Returns: the graphs, and how many of them have no ops.
        """
        launched = self.graphs if len(self.graphs) == len(nodes) else [()] * len(nodes)
        graphs = [_of_nodes(calls, held) for calls, held in zip(launched, nodes, strict=True)]
        bare = sum(len(calls) != len(held) for calls, held in zip(launched, nodes, strict=True))
        return Reduced(tuple(graphs)), bare


def reduced(trace: bytes) -> Reduced:
    """The graphs of a kineto trace.

    Raises:
        msgspec.MsgspecError: it is no JSON object with events.
    """
    events = msgspec.json.decode(trace, type=_Trace).traceEvents
    calls = [e for e in events if e.ph == "X" and e.cat in CALLS]
    begins = sorted(_ns(e.ts) for e in calls if e.name.endswith("StreamBeginCapture"))
    ends = sorted(_ns(e.ts) for e in calls if e.name.endswith("StreamEndCapture"))
    graphs: list[list[CensusKernel]] = [[] for _ in begins]
    ops = _Ops([e for e in events if e.ph == "X" and e.cat == "cpu_op"])
    for launch in sorted((e for e in calls if _launches(e.name)), key=lambda e: _ns(e.ts)):
        window = bisect_right(begins, _ns(launch.ts)) - 1
        if window >= 0 and bisect_right(ends, _ns(launch.ts)) == window:
            graphs[window].append(_kernel(launch, ops.around(launch)))
    return Reduced(tuple(map(tuple, graphs)))


def _launches(call: str) -> bool:
    return "Launch" in call and "HostFunc" not in call


def _of_nodes(calls: Sequence[CensusKernel], nodes: Sequence[Node]) -> tuple[CensusKernel, ...]:
    if len(calls) != len(nodes):
        return tuple(CensusKernel(node.name, grid=node.grid) for node in nodes)
    pairs = zip(calls, nodes, strict=True)
    return tuple(CensusKernel(node.name, call.op, call.dims, call.types, node.grid) for call, node in pairs)


def _kernel(launch: _Event, op: _Event | None) -> CensusKernel:
    args = op.args if op is not None else _NO_ARGS
    name = op.name if op is not None else ""
    return CensusKernel(launch.args.kernel, name, _text(args.dims), _text(args.types), _grid(launch))


def _text(raw: msgspec.Raw) -> str:
    text = bytes(raw).decode("utf-8", "backslashreplace")
    return "" if text == "null" else text


def _sizes(raw: msgspec.Raw) -> tuple[int, ...]:
    try:
        found = msgspec.json.decode(raw, type=tuple[int, ...]) if bytes(raw) else ()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ()
    return found if all(0 < n < 2**31 for n in found) else ()


def _grid(launch: _Event) -> tuple[int, ...]:
    grid, block = _sizes(launch.args.grid), _sizes(launch.args.block)
    if launch.name not in WORK_ITEM_CALLS or not block:
        return grid
    return tuple(-(-items // width) for items, width in zip(grid, block, strict=False))


def _ns(microseconds: float) -> int:
    whole = int(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)


class _Ops:
    """Ops by thread, to find the innermost one around a call."""

    def __init__(self, ops: Sequence[_Event]) -> None:
        self._threads: dict[tuple[int | str, int | str], _Thread] = {}
        by_thread: dict[tuple[int | str, int | str], list[_Event]] = {}
        for op in ops:
            by_thread.setdefault((op.pid, op.tid), []).append(op)
        for key, found in by_thread.items():
            self._threads[key] = _Thread(sorted(found, key=lambda e: (_ns(e.ts), -_ns(e.dur))))

    def around(self, call: _Event) -> _Event | None:
        """The innermost op around a call on its own thread; None without one."""
        thread = self._threads.get((call.pid, call.tid))
        return thread.around(_ns(call.ts)) if thread is not None else None


class _Thread:
    def __init__(self, ops: list[_Event]) -> None:
        self._ops = ops
        self._starts = [_ns(op.ts) for op in ops]
        self._ends = [_ns(op.ts) + _ns(op.dur) for op in ops]
        self._parents: list[int] = []
        stack: list[int] = []
        for row, end in enumerate(self._ends):
            while stack and self._ends[stack[-1]] < end:
                stack.pop()
            self._parents.append(stack[-1] if stack else -1)
            stack.append(row)

    def around(self, at_ns: int) -> _Event | None:
        row = bisect_right(self._starts, at_ns) - 1
        while row >= 0 and self._ends[row] < at_ns:
            row = self._parents[row]
        return self._ops[row] if row >= 0 else None
