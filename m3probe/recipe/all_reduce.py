"""The interval map rows -> all-reduce backend, with the workload's steps in it."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.fastpaths._all_reduce import intervals
from m3probe.model.recipe_report import BackendRange, WorkPoint
from m3probe.schema.setup import Setup


def ranges(setup: Setup, points: Sequence[WorkPoint]) -> tuple[BackendRange, ...]:
    """Every interval of the TP group's all-reduce; () where there is none (TP1)."""
    return tuple(
        BackendRange(
            first=found.first_row,
            last=found.last_row,
            backend=found.backend,
            why=found.why,
            points=tuple(
                p.label
                for p in points
                if found.first_row <= p.rows and (found.last_row is None or p.rows <= found.last_row)
            ),
        )
        for found in intervals(setup)
    )
