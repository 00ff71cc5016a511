"""The end of a process, however it was started."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable


def at_exit(leave: Callable[[], None]) -> None:
    """Call ``leave`` when the interpreter ends.

    A child that ``multiprocessing`` forked ends by ``os._exit`` and runs no ``atexit`` function, but its own finalizers
    (Python 3.11 to 3.14; vLLM forks its engine and workers by default).
    """
    atexit.register(leave)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, leave, exitpriority=100)
