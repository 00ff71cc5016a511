"""Links inside one file: kernel -> launch -> op and step, all vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from m3probe.model.tables import GRAPH_LAUNCH, LAUNCH, NONE, OTHER_CALL, Array


def call_kind(name: str) -> int:
    """What a runtime or driver call does, from its name (CUDA and HIP spellings)."""
    if "GraphLaunch" in name:
        return GRAPH_LAUNCH
    return LAUNCH if "Launch" in name else OTHER_CALL


def launch_of(correlation: Array, call_correlation: Array, call_kinds: Array) -> npt.NDArray[np.int32]:
    """Row of the runtime call with the same correlation, int32 [len(correlation)]; -1 for none.

    A launch is preferred to another call of the same correlation; correlation 0 links nothing
    (ROCm/roctracer issue 100: communication kernels carry it).
    """
    result = np.full(len(correlation), NONE, dtype=np.int32)
    if not len(correlation) or not len(call_correlation):
        return result
    order = np.lexsort((-call_kinds.astype(np.int64), call_correlation))
    keys = call_correlation[order]
    at = np.minimum(np.searchsorted(keys, correlation), len(keys) - 1)
    hit = (keys[at] == correlation) & (correlation != 0)
    result[hit] = order[at[hit]]
    return result


def step_of(start_ns: Array, step_start_ns: Array) -> npt.NDArray[np.int32]:
    """Row of the step whose window [its start, next start) holds each time; -1 before the first."""
    if not len(step_start_ns):
        return np.full(len(start_ns), NONE, dtype=np.int32)
    return (np.searchsorted(step_start_ns, start_ns, side="right") - 1).astype(np.int32)


def innermost_op(
    call_thread: Array, call_start_ns: Array, op_thread: Array, op_start_ns: Array, op_dur_ns: Array
) -> npt.NDArray[np.int32]:
    """Row of the innermost op around each call on its own thread; -1 where there is none.

    Args:
        call_thread, op_thread: a key per (process, thread).
        call_start_ns, op_start_ns, op_dur_ns: times on one clock.
    """
    result = np.full(len(call_start_ns), NONE, dtype=np.int32)
    for thread in np.unique(call_thread):
        ops = np.flatnonzero(op_thread == thread)
        calls = np.flatnonzero(call_thread == thread)
        if len(ops):
            ops = ops[np.lexsort((-op_dur_ns[ops], op_start_ns[ops]))]
            result[calls] = _enclosing(call_start_ns[calls], ops, op_start_ns[ops], op_dur_ns[ops])
    return result


def _enclosing(times: Array, ops: Array, start: Array, dur: Array) -> npt.NDArray[np.int32]:
    end = start + dur
    parent = _parents(end)
    at = np.searchsorted(start, times, side="right") - 1
    while True:
        outside = (at >= 0) & (end[at] < times)
        if not outside.any():
            break
        at[outside] = parent[at[outside]]
    return np.where(at >= 0, ops[at], NONE).astype(np.int32)


def _parents(end: Array) -> npt.NDArray[np.int64]:
    """Row of the op around each op (rows sorted by start, longer first); -1 at the top."""
    parents = [NONE] * len(end)
    stack: list[tuple[int, int]] = []
    for row, finish in enumerate(end.tolist()):
        while stack and stack[-1][1] < finish:
            stack.pop()
        parents[row] = stack[-1][0] if stack else NONE
        stack.append((row, finish))
    return np.array(parents, dtype=np.int64)


def threads(pid: Array, tid: Array) -> npt.NDArray[np.int64]:
    """One key per (process, thread)."""
    return pid * np.int64(1_000_003) + tid
