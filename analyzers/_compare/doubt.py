"""Whether a traced change of step time is the device's: idle time of two windows under a profiler is the host's noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from m3probe.fastpaths import fast_paths
from m3probe.model.compare_report import BETTER, WORSE, HostChange, PhaseChange
from m3probe.model.compare_run import RunKept

MOST = 0.5
"""Share of the change that idle time must make up before it is doubted."""
AGREES = 0.5
"""Share of the traced change that a worker's clock, without a profiler, must show as well."""
LAUNCHES_MOVED = 0.01
REPLAY = "graph_replay"


def doubted(
    changes: Sequence[PhaseChange], hosts: Sequence[HostChange], a: RunKept, b: RunKept
) -> tuple[PhaseChange, ...]:
    """The changes, each with the reason why it may be none of the runs' own."""
    clocks = {host.phase: host for host in hosts}
    return tuple(replace(change, doubt=_doubt(change, clocks.get(change.phase), a, b)) for change in changes)


def _doubt(change: PhaseChange, clock: HostChange | None, a: RunKept, b: RunKept) -> str:
    idle = next((part.share for part in change.parts if part.what == "idle"), None)
    if change.verdict not in (BETTER, WORSE) or idle is None or idle < MOST:
        return ""
    if _launched_otherwise(change, a, b) or _confirmed(change, clock):
        return ""
    clocked = (
        ""
        if clock is None or clock.ratio is None
        else f"; without a profiler a worker's clock says x {clock.ratio:.3f}"
    )
    return f"{100 * idle:.0f} % of it is idle time under a profiler, which may be the host's noise{clocked}"


def _launched_otherwise(change: PhaseChange, a: RunKept, b: RunKept) -> bool:
    """A path that acts on launches ran in one alone; or launches changed that no graph makes."""
    phase = change.phase
    acting = [name for name, path in fast_paths().items() if path.launches]
    if any({a.ran(name, phase), b.ran(name, phase)} == {True, False} for name in acting):
        return True
    replayed = a.ran(REPLAY, phase) is True and b.ran(REPLAY, phase) is True
    moved = abs(change.launches_after - change.launches_before) > LAUNCHES_MOVED * change.launches_before
    return moved and not replayed


def _confirmed(change: PhaseChange, clock: HostChange | None) -> bool:
    if clock is None or clock.ratio is None or change.ratio is None:
        return False
    return (clock.ratio - 1) / (change.ratio - 1) >= AGREES
