"""Local GEMM shapes that both runs computed: calls a step, and time a call."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.model.compare_report import ShapeChange
from m3probe.model.compare_run import RunKept, ShapeCost


def shape_changes(a: RunKept, b: RunKept) -> tuple[ShapeChange, ...]:
    """Every shape of either run, the largest change of time a step first; one that a run lacks has no figure there."""
    return tuple(sorted(_rows(a, b), key=lambda row: (-_weight(row), row.phase, row.shape, row.op)))


def _rows(a: RunKept, b: RunKept) -> Iterator[ShapeChange]:
    sides = [_by_key(run) for run in (a, b)]
    for key in dict.fromkeys((*sides[0], *sides[1])):
        phase, op, shape = key
        costs = [side.get(key, []) for side in sides]
        steps = [run.steps.get(phase, 0) for run in (a, b)]
        counts = [sum(c.count for c in found) for found in costs]
        per_step = [n / s if s else None for n, s in zip(counts, steps, strict=True)]
        calls = [_call(found, n) for found, n in zip(costs, counts, strict=True)]
        ratio = calls[1] / calls[0] if calls[0] and calls[1] is not None else None
        yield ShapeChange(phase, op, shape, per_step[0], per_step[1], calls[0], calls[1], ratio)


def _by_key(run: RunKept) -> dict[tuple[str, str, str], list[ShapeCost]]:
    found: dict[tuple[str, str, str], list[ShapeCost]] = {}
    for cost in run.shapes:
        found.setdefault((cost.phase, cost.op, cost.shape), []).append(cost)
    return found


def _call(costs: list[ShapeCost], count: int) -> float | None:
    if not count or any(cost.time_ns is None for cost in costs):
        return None
    return sum(cost.time_ns or 0 for cost in costs) / count


def _weight(row: ShapeChange) -> float:
    times = (
        (row.per_step_before or 0.0) * (row.call_before_ns or 0.0),
        (row.per_step_after or 0.0) * (row.call_after_ns or 0.0),
    )
    return abs(times[1] - times[0])
