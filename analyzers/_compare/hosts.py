"""Step times that hooks inside two servers took: where a worker spends the time from one step to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from m3probe.model.compare_report import HostChange, Part
from m3probe.model.compare_run import HostSteps, RunKept
from m3probe.model.live_report import StepTimeRow

WORKING = ("prepare", "launch", "wait")
"""Of a worker, one after the other: what a step takes of it."""
IDLE = "idle"
"""Until its next step: the engine's planning and output, and, behind the last step of a server without requests, the wait
for the next one, which is no step time.
"""
PARTS = (*WORKING, IDLE)
ALIKE = 0.10


def host_steps(rows: Sequence[StepTimeRow]) -> tuple[HostSteps, ...]:
    """One row a phase: a phase may run in several graph modes, which is what two runs may differ in."""
    phases = dict.fromkeys(row.phase for row in rows)
    return tuple(_phase(phase, [row for row in rows if row.phase == phase and row.steps]) for phase in phases)


def _phase(phase: str, rows: Sequence[StepTimeRow]) -> HostSteps:
    steps = sum(row.steps for row in rows)

    def mean(values: Sequence[float | None]) -> float | None:
        told = [(v, row.steps) for v, row in zip(values, rows, strict=True) if v is not None]
        return sum(v * n for v, n in told) / steps if told and len(told) == len(rows) else None

    parts = {part: mean([getattr(row, f"{part}_ns") for row in rows]) for part in PARTS}
    return HostSteps(
        phase=phase,
        modes=tuple(dict.fromkeys(row.graph_mode for row in rows)),
        steps=steps,
        rows=mean([row.rows for row in rows]) or 0.0,
        requests=mean([row.requests for row in rows]) or 0.0,
        parts={part: ns for part, ns in parts.items() if ns is not None},
    )


def host_changes(a: RunKept, b: RunKept) -> tuple[HostChange, ...]:
    """Phases that both recordings timed."""
    after = {found.phase: found for found in b.hosts}
    return tuple(_change(found, after[found.phase]) for found in a.hosts if found.phase in after)


def _change(a: HostSteps, b: HostSteps) -> HostChange:
    alike = abs(a.rows - b.rows) <= ALIKE * max(a.rows, b.rows)
    before, after = (_working(s) for s in (a, b))
    known = before is not None and after is not None
    return HostChange(
        phase=a.phase,
        modes_before=a.modes,
        modes_after=b.modes,
        steps_before=a.steps,
        steps_after=b.steps,
        rows_before=a.rows,
        rows_after=b.rows,
        before_ns=before,
        after_ns=after,
        ratio=after / before if known and alike and before and after is not None else None,
        parts=tuple(_parts(a, b, after - before if before is not None and after is not None else None)),
    )


def _working(steps: HostSteps) -> float | None:
    known = [steps.parts[part] for part in WORKING if part in steps.parts]
    return sum(known) if len(known) == len(WORKING) else None


def _parts(a: HostSteps, b: HostSteps, delta: float | None) -> Iterator[Part]:
    for part in PARTS:
        before, after = a.parts.get(part), b.parts.get(part)
        change = None if before is None or after is None else after - before
        share = change / delta + 0.0 if change is not None and delta and part != IDLE else None
        yield Part("host", part, part, "", "", None, None, before, after, change, share)
