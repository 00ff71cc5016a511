"""One profiler window: torch's profiler around steps of the worker, in the worker's own thread.

torch keeps its profiler's state per thread, so the thread that opens it closes it. Writing the trace goes to a thread of
its own, but torch holds the interpreter's lock while it writes (torch 2.13: 9 ms a MB): that time counts as held.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

TRACE_SUFFIX = ".pt.trace.json.gz"


def annotation(scheduled: Any) -> str:
    """vLLM's own label of a step: ``execute_context_1(32)_generation_0(0)`` (requests, and tokens in brackets)."""
    new = {request.req_id for request in scheduled.scheduled_new_reqs}
    in_prefill = scheduled.scheduled_cached_reqs.is_context_phase
    requests, tokens = [0, 0], [0, 0]
    for name, count in scheduled.num_scheduled_tokens.items():
        which = 0 if name in new or in_prefill(name) else 1
        requests[which] += 1
        tokens[which] += count
    return f"execute_context_{requests[0]}({tokens[0]})_generation_{requests[1]}({tokens[1]})"


def busy(worker: Any) -> str:
    """Whose profiler runs here already; empty: nobody's."""
    own = getattr(worker, "profiler", None)
    if own is not None and (getattr(own, "_active", False) or getattr(own, "_running", False)):
        return "vLLM's own profiler runs (/start_profile)"
    torch = sys.modules.get("torch")
    if torch is not None and torch._C._autograd._profiler_enabled():  # noqa: SLF001 - there is no public question
        return "another torch profiler runs in this thread"
    return ""


def trace_name(worker: Any) -> str:
    """As vLLM names a rank's trace: ``dp0_pp0_tp1_dcp0_ep1_rank1.NANOSECONDS.pt.trace.json.gz``."""
    rank = getattr(worker, "rank", 0)
    utils = sys.modules.get("vllm.distributed.utils")
    said = getattr(utils, "get_worker_rank_suffix", lambda global_rank: f"rank{global_rank}")
    return f"{said(global_rank=rank)}.{time.time_ns()}{TRACE_SUFFIX}"


class Window:
    """From step ``at`` on, ``steps`` steps that had something to compute.

    Attributes:
        ran: such steps so far.
        running: the profiler is open.
        held_ns: how long the worker was held by opening, closing and writing.
    """

    def __init__(self, at: int, steps: int, most_bytes: int) -> None:
        self.at, self.steps, self.most_bytes = at, steps, most_bytes
        self.first = -1
        self.ran = 0
        self.held_ns = 0
        self.export_ns = -1
        self.bytes = -1
        self.path = ""
        self.failed = ""
        self.running = False
        self._profiler: Any = None

    def start(self, worker: Any, step: int) -> None:
        """Open the profiler. What it raises is kept in ``failed``."""
        begun = time.monotonic_ns()
        self.first = step
        self.failed = busy(worker)
        if self.failed:
            return
        try:
            profiler = sys.modules["torch"].profiler
            kinds = profiler.ProfilerActivity
            device = getattr(getattr(worker, "device", None), "type", "cpu")
            activities = [kinds.CPU] + [getattr(kinds, name) for name in ("CUDA", "XPU") if name.lower() == device]
            made = profiler.profile(activities=activities, record_shapes=True, with_stack=False)
            made.start()
            self._profiler, self.running = made, True
            version = getattr(sys.modules.get("vllm"), "__version__", "")
            if version:
                made.add_metadata_json("vllm_version", json.dumps(str(version)))
        except Exception as error:  # noqa: BLE001 - told in the recording; the step goes on without a profiler
            self.failed = f"the profiler did not start: {type(error).__name__}: {error}"
        self.held_ns += time.monotonic_ns() - begun

    def step(self, scheduled: Any) -> Any:
        """A step begins inside of the window: its label, entered."""
        label = sys.modules["torch"].profiler.record_function(annotation(scheduled))
        label.__enter__()
        return label

    def stop(self) -> None:
        """Close the profiler; it waits for the device."""
        begun = time.monotonic_ns()
        self.running = False
        try:
            self._profiler.stop()
        except Exception as error:  # noqa: BLE001 - as above
            self.failed = f"the profiler did not stop: {type(error).__name__}: {error}"
        self.held_ns += time.monotonic_ns() - begun

    def discard(self) -> None:
        """Close the profiler and drop what it saw."""
        self.stop()
        self._profiler = None

    def export(self, folder: Path, name: str) -> None:
        """Write the trace into ``folder``, compressed; in a thread that is not the worker's."""
        plain, packed = folder / f".{name}.part.json", folder / f".{name}.part"
        begun = time.monotonic_ns()
        try:
            self._profiler.export_chrome_trace(str(plain))
            self.held_ns += time.monotonic_ns() - begun
            self.bytes = plain.stat().st_size
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=5) as target:
                shutil.copyfileobj(source, target, 1 << 20)
            packed.rename(folder / name)
            self.path = name
        except Exception as error:  # noqa: BLE001 - a full disk, a folder that is gone
            self.failed = f"the trace was not written: {getattr(error, 'strerror', None) or error}"
            packed.unlink(missing_ok=True)
        finally:
            plain.unlink(missing_ok=True)
            self._profiler = None
            self.export_ns = time.monotonic_ns() - begun
