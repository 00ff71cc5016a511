"""Kernels of a graph under capture, read with the driver's calls: here a driver of Python functions answers them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from m3probe.collectors import _census_nodes as nodes

GRAPH, CHILD = 100, 101
KERNEL, MEMSET, GRAPH_NODE = 0, 2, 4
NAMES = {11: b"_Z3fooi", 12: b"triton_kernel"}


class Driver:
    """A stream that captures: a kernel, a memset, a child graph that holds one more kernel."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.status = 1
        self.fails: dict[str, int] = {}
        self.of = {GRAPH: [1, 2, 3], CHILD: [4]}
        self.kinds = {1: KERNEL, 2: MEMSET, 3: GRAPH_NODE, 4: KERNEL}
        self.mode = 0

    def __call__(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            self.called.append(name)
            return self.fails.get(name) or getattr(self, name)(*args)

        return call

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:  # noqa: N802 - the driver's names
        mode._obj.value, self.mode = self.mode, mode._obj.value
        return 0

    def cuStreamGetCaptureInfo_v2(self, stream: Any, status: Any, _id: Any, graph: Any, *_rest: Any) -> int:  # noqa: N802
        assert (stream.value, self.mode) == (7, 2), "read in relaxed mode"
        status._obj.value, graph._obj.value = self.status, GRAPH
        return 0

    def cuGraphGetNodes(self, graph: Any, found: Any, count: Any) -> int:  # noqa: N802
        held = self.of[graph.value]
        count._obj.value = len(held)
        for at, node in enumerate(held if found is not None else ()):
            found[at] = node
        return 0

    def cuGraphNodeGetType(self, node: Any, kind: Any) -> int:  # noqa: N802
        kind._obj.value = self.kinds[node.value]
        return 0

    def cuGraphChildGraphNodeGetGraph(self, _node: Any, graph: Any) -> int:  # noqa: N802
        graph._obj.value = CHILD
        return 0

    def cuGraphKernelNodeGetParams_v2(self, node: Any, params: Any) -> int:  # noqa: N802
        """Node 1 is a function of a module, node 4 a kernel of a library."""
        params._obj.func, params._obj.kern = (11, None) if node.value == 1 else (None, 12)
        params._obj.grid[:] = (node.value, 2, 1)
        return 0

    def cuFuncGetName(self, name: Any, function: Any) -> int:  # noqa: N802
        name._obj.value = NAMES[function.value]
        return 0

    cuKernelGetName = cuFuncGetName  # noqa: N815


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(nodes, "_function", made)
    return made


def test_kernels_come_in_order_with_those_of_child_graphs_and_without_memsets(driver: Driver) -> None:
    assert nodes.kernels(7) == [("foo(int)", (1, 2, 1)), ("triton_kernel", (4, 2, 1))]
    assert driver.mode == 0


def test_a_stream_that_captures_nothing_is_told(driver: Driver) -> None:
    driver.status = 0
    with pytest.raises(nodes.Unread, match="captures nothing"):
        nodes.kernels(7)
    assert driver.mode == 0


def test_a_call_that_fails_is_told_with_its_number_and_the_mode_is_given_back(driver: Driver) -> None:
    driver.fails["cuGraphGetNodes"] = 900
    with pytest.raises(nodes.Unread, match="cuGraphGetNodes: error 900"):
        nodes.kernels(7)
    assert driver.mode == 0


def test_without_a_driver_that_is_told() -> None:
    nodes._function.cache_clear()
    try:
        ctypes.CDLL(nodes.LIBRARY)
    except OSError:
        with pytest.raises(nodes.Unread, match=r"libcuda\.so\.1"):
            nodes.kernels(7)
    else:
        pytest.skip("a CUDA driver is installed here")


@pytest.mark.parametrize(
    ("mangled", "said"),
    [
        (b"_Z3fooi", "foo(int)"),
        (b"_ZN2at6native3barIfLi4EEEvPT_", "void at::native::bar<float, 4>(float*)"),
        (b"_Znope", "_Znope"),
        (b"nvjet_sm90_tst_64x8", "nvjet_sm90_tst_64x8"),
        (b"_Z" + b"1000" + b"a" * 1025, "_Z1000" + "a" * 1025),
        (b"\xff", "\\xff"),
    ],
)
def test_names_are_demangled_as_in_a_trace(mangled: bytes, said: str) -> None:
    assert nodes.readable(mangled) == said
