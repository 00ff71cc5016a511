"""vLLM's own profiler, by its address: used only where no guest can open a window, and only if it is configured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from m3probe.attach import proc as processes
from m3probe.attach.fetch import OK, Client
from m3probe.attach.rocm import read_profiling
from m3probe.model.attach_report import Window

MOST_S = 30.0
"""A window is stopped after so long whatever its steps: traces grow without bound."""
EXPORT_S = 300.0
"""/stop_profile answers when every rank has written its trace."""


def window(client: Client, steps: int, turn: Callable[[], None], counted: Callable[[], int]) -> Window:
    """Open the profiler for about ``steps`` steps; the traces lie in the server's ``torch_profiler_dir``.

    Args:
        turn: lets one second of the recording pass.
        counted: steps so far; -1 where nothing counts them.
    """
    started = client.post("/start_profile", b"", within_s=30.0)
    if started.status != OK:
        return Window("profile", -1, "refused", started.error or f"/start_profile: HTTP {started.status}")
    first, until = counted(), time.monotonic() + MOST_S
    try:
        while time.monotonic() < until and counted() < first + steps:
            turn()
    finally:
        stopped = client.post("/stop_profile", b"", within_s=EXPORT_S)
    ran = counted() - first if first >= 0 else -1
    if stopped.status != OK:
        why = stopped.error or f"HTTP {stopped.status}"
        return Window("profile", -1, "failed", f"/stop_profile: {why}: it may still run", steps=ran)
    text = "by vLLM's own profiler: the traces are in the server's torch_profiler_dir, one for each rank"
    return Window("profile", -1, "done", text, steps=ran)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the profiler's libraries of the workers do: why there is to be no window, and what one would lose."""

    refusals: tuple[str, ...]
    losses: tuple[str, ...]


def reading(workers: Mapping[int, Mapping[str, str] | None], proc: Path = processes.PROC) -> Reading:
    """Read the libraries that are loaded; with no worker nothing can be read, which is a refusal of its own.

    Args:
        workers: pid -> its variables where they are known.
    """
    if not workers:
        return Reading(("which profiler libraries are loaded cannot be seen from the address alone",), ())
    builds = [read_profiling(pid, proc, env) for pid, env in sorted(workers.items())]
    refusals = [f"pid {build.pid}: {build.reason} [{build.report}]" for build in builds if build.refuse]
    refusals += [f"pid {build.pid}: its libraries cannot be read" for build in builds if not build.readable]
    losses = dict.fromkeys(known.text for build in builds for known in build.losses)
    return Reading(tuple(refusals), tuple(losses))
