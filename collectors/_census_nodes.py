"""Kernels of a graph while it is being captured, read from its nodes with the CUDA driver's own calls.

On CUDA a launch inside of a capture names no kernel in torch's traces (torch 2.11, CUPTI 13), but the graph's nodes do.
``cuStreamGetCaptureInfo`` permits all reading of the graph before the capture ends (CUDA driver API 13.0, stream
management), so vLLM's graph needs no ``keep_graph``, and its memory is what it was.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

LIBRARY = "libcuda.so.1"
MOST_NODES = 1_000_000
_KERNEL, _CHILD = 0, 4
_ACTIVE, _RELAXED = 1, 2
_Pointer = ctypes.c_void_p


MOST_MANGLED = 1024
"""Longer names stay mangled in torch's traces (``kMaxSymbolSize`` of libkineto's ``Demangle.cpp``), and so here."""


class Node(NamedTuple):
    """One kernel node: its name as torch's traces write it, and its grid in blocks."""

    name: str
    grid: tuple[int, int, int]


class Unread(Exception):
    """The driver is not there, or refused a call: which one, and its number."""


class _Params(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS_v2`` of CUDA 12 and 13."""

    _fields_ = (
        ("func", _Pointer),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("params", _Pointer),
        ("extra", _Pointer),
        ("kern", _Pointer),
        ("ctx", _Pointer),
    )


def kernels(stream: int) -> list[Node]:
    """Kernels of the graph that ``stream`` (a ``CUstream``) captures into, in the order of their launches.

    Raises:
        Unread: nothing is captured there, or the driver does not tell.
    """
    held = ctypes.c_int(_RELAXED)
    _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(held))
    try:
        return list(_kernels(_captured(stream)))
    finally:
        _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(held))


def _captured(stream: int) -> _Pointer:
    status, number, graph, count = ctypes.c_int(), ctypes.c_uint64(), _Pointer(), ctypes.c_size_t()
    dependencies = _Pointer()
    _call(
        "cuStreamGetCaptureInfo_v2",
        _Pointer(stream),
        ctypes.byref(status),
        ctypes.byref(number),
        ctypes.byref(graph),
        ctypes.byref(dependencies),
        ctypes.byref(count),
    )
    if status.value != _ACTIVE or graph.value is None:
        raise Unread("this stream captures nothing")
    return graph


def _kernels(graph: _Pointer) -> Iterator[Node]:
    for node in _nodes(graph):
        kind = ctypes.c_int()
        _call("cuGraphNodeGetType", _Pointer(node), ctypes.byref(kind))
        if kind.value == _KERNEL:
            yield _kernel(node)
        elif kind.value == _CHILD:
            child = _Pointer()
            _call("cuGraphChildGraphNodeGetGraph", _Pointer(node), ctypes.byref(child))
            yield from _kernels(child)


def _nodes(graph: _Pointer) -> list[int]:
    count = ctypes.c_size_t()
    _call("cuGraphGetNodes", graph, None, ctypes.byref(count))
    if count.value > MOST_NODES:
        raise Unread(f"a graph of {count.value:,} nodes")
    found = (_Pointer * count.value)()
    if count.value:
        _call("cuGraphGetNodes", graph, found, ctypes.byref(count))
    return [node for node in found[: count.value] if node]


def _kernel(node: int) -> Node:
    params = _Params()
    _call("cuGraphKernelNodeGetParams_v2", _Pointer(node), ctypes.byref(params))
    name = ctypes.c_char_p()
    if params.kern:
        _call("cuKernelGetName", ctypes.byref(name), _Pointer(params.kern))
    else:
        _call("cuFuncGetName", ctypes.byref(name), _Pointer(params.func))
    x, y, z = params.grid
    return Node(readable(name.value or b""), (x, y, z))


@functools.cache
def readable(mangled: bytes) -> str:
    """Demangled by libstdc++, as libkineto does it: a census and a trace then have the same text for a kernel."""
    found = _demangled(mangled) if mangled.startswith(b"_Z") and len(mangled) <= MOST_MANGLED else None
    return (found or mangled).decode("utf-8", "backslashreplace")


def _demangled(mangled: bytes) -> bytes | None:
    """None where there is no libstdc++, or for what it does not know."""
    demangle, free = _demangler()
    if demangle is None:
        return None
    status = ctypes.c_int()
    text = demangle(mangled, None, None, ctypes.byref(status))
    if not text:
        return None
    try:
        return ctypes.string_at(text)
    finally:
        free(text)


@functools.cache
def _demangler() -> tuple[Any, Any]:
    try:
        demangle, free = getattr(ctypes.CDLL("libstdc++.so.6"), "__cxa_demangle"), ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None, None
    demangle.restype, free.argtypes, free.restype = _Pointer, (_Pointer,), None
    return demangle, free


def _call(name: str, *args: Any) -> None:
    code = _function(name)(*args)
    if code:
        raise Unread(f"{name}: error {code}")


@functools.cache
def _function(name: str) -> Any:
    try:
        found = getattr(ctypes.CDLL(LIBRARY), name)
    except (OSError, AttributeError) as error:
        raise Unread(f"{name}: {error}") from error
    found.restype = ctypes.c_int
    return found
