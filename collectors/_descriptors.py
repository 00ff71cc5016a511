"""Padded batches that graphs were captured for: vLLM's own keys, numbered in this process.

Read from what vLLM holds after capture (``CUDAGraphWrapper``, ``BreakableCUDAGraphWrapper``, ``CudaGraphManager.graphs``),
so that a first capture that only sampled memory (0.32, 0.33) leaves nothing behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from m3probe.schema.records import Descriptor

V1 = ("vllm.compilation.cuda_graph", "CUDAGraphWrapper")
BREAKABLE = ("vllm.compilation.breakable_cudagraph", "BreakableCUDAGraphWrapper")
NONE, PIECEWISE = "NONE", "PIECEWISE"


class Descriptors:
    """vLLM's keys <-> ids.

    Args:
        tell: gets each descriptor once.
    """

    def __init__(self, tell: Callable[[Descriptor], None]) -> None:
        self._ids: dict[Any, int] = {}
        self._tell = tell

    def id(self, key: Any, mode: str, runner: str, *, draft: bool = False) -> int:
        """The number of a key, new when it was not met before; -1 for mode NONE.

        ``draft``: a draft model's graphs have keys that equal the target's.
        """
        if mode == NONE:
            return -1
        found = self._ids.get((key, mode, draft))
        if found is None:
            found = self._ids[key, mode, draft] = len(self._ids)
            self._tell(described(found, key, mode, runner, draft=draft))
        return found

    def __len__(self) -> int:
        return len(self._ids)


def described(number: int, key: Any, mode: str, runner: str, *, draft: bool = False) -> Descriptor:
    """A ``BatchDescriptor`` (V1, breakable) or ``BatchExecutionDescriptor`` (V2) as a record."""
    uniform = getattr(key, "uniform", None)
    if uniform is None and hasattr(key, "uniform_token_count"):
        uniform = key.uniform_token_count is not None
    return Descriptor(
        id=number,
        mode=mode,
        padded_rows=_int(getattr(key, "num_tokens", -1)),
        requests=_int(getattr(key, "num_reqs", -1)),
        uniform=uniform,
        runner=runner,
        draft=draft,
        text=str(key)[:200],
    )


def captured(runner: Any) -> Iterator[tuple[Any, str, str]]:
    """(key, mode, runner) of every graph that a model runner holds now, in the keys by which it dispatches."""
    manager = getattr(runner, "cudagraph_manager", None)
    if manager is not None:
        yield from _of_manager(manager)
        return
    for wrapper in _instances(V1):
        mode = mode_name(getattr(wrapper, "runtime_mode", None))
        for key, entry in list(getattr(wrapper, "concrete_cudagraph_entries", {}).items()):
            if getattr(entry, "cudagraph", None) is not None:
                yield key, mode, "v1"
    for wrapper in _instances(BREAKABLE):
        for entry in list(getattr(wrapper, "entries", {}).values()):
            if getattr(entry, "capture", None) is not None:
                yield entry.batch_descriptor, _mode_of(runner, entry.batch_descriptor), "breakable"


def _mode_of(runner: Any, key: Any) -> str:
    """Under which mode V1 dispatches a breakable graph: until 0.25.1 one wrapper took FULL and PIECEWISE."""
    keys = getattr(getattr(runner, "cudagraph_dispatcher", None), "cudagraph_keys", {})
    return next((mode_name(mode) for mode, held in keys.items() if key in held), PIECEWISE)


def _of_manager(manager: Any) -> Iterator[tuple[Any, str, str]]:
    """V2 keeps FULL graphs by descriptor; pieces lie in the breakable wrapper under keys it does not dispatch by."""
    graphs = getattr(manager, "graphs", {})
    for keys in list(getattr(manager, "_capture_descs", {}).values()):
        for key in keys:
            mode = mode_name(getattr(key, "cg_mode", None))
            if key in graphs or (mode == PIECEWISE and getattr(manager, "_graphs_captured", False)):
                yield key, mode, "v2"


def _instances(where: tuple[str, str]) -> list[Any]:
    kind = getattr(sys.modules.get(where[0]), where[1], None)
    return list(getattr(kind, "_all_instances", ()))


def mode_name(mode: Any) -> str:
    """``NONE``, ``FULL`` or ``PIECEWISE`` of a ``CUDAGraphMode``."""
    return str(getattr(mode, "name", NONE))


def _int(value: Any) -> int:
    return value if isinstance(value, int) else -1
