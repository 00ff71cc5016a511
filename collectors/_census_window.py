"""A profiler window around the capture of one descriptor; its trace is reduced and removed at once."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from m3probe.collectors._census_nodes import Node, kernels
from m3probe.collectors._census_reduce import Reduced, reduced


class CaptureWindow:
    """Opens and closes torch's profiler in the thread that captures; what fails is raised to the caller.

    Attributes:
        spent_ns: what all windows have cost start-up.
        nodes: kernels of each graph whose capture has ended in this window, where they were read.
    """

    def __init__(self) -> None:
        self.spent_ns = 0
        self.nodes: list[list[Node]] = []
        self._profiler: Any = None

    @property
    def running(self) -> bool:
        """The profiler is open."""
        return self._profiler is not None

    def open(self) -> None:
        """Before the capture begins: opening it inside would add its own calls to the graph."""
        begun = time.monotonic_ns()
        profiler = sys.modules["torch"].profiler
        kinds = profiler.ProfilerActivity
        made = profiler.profile(activities=[kinds.CPU, kinds.CUDA], record_shapes=True, with_stack=False)
        made.start()
        self._profiler, self.nodes = made, []
        self.spent_ns += time.monotonic_ns() - begun

    def read_nodes(self) -> None:
        """Before a capture ends, in its thread and on its stream.

        Raises:
            Unread: see ``_census_nodes.kernels``.
        """
        begun = time.monotonic_ns()
        self.nodes.append(kernels(sys.modules["torch"].cuda.current_stream().cuda_stream))
        self.spent_ns += time.monotonic_ns() - begun

    def close(self) -> Reduced:
        """After the capture has ended: what its graphs hold."""
        begun = time.monotonic_ns()
        made, self._profiler = self._profiler, None
        made.stop()
        handle, name = tempfile.mkstemp(prefix="m3probe-census-", suffix=".json")
        os.close(handle)
        path = Path(name)
        try:
            made.export_chrome_trace(name)
            return reduced(path.read_bytes())
        finally:
            path.unlink(missing_ok=True)
            self.spent_ns += time.monotonic_ns() - begun
