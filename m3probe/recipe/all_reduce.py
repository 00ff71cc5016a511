"""The interval map rows -> all-reduce backend, with the workload's steps in it."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.fastpaths._all_reduce import intervals
from m3probe.fastpaths._capture import launched
from m3probe.model.recipe_report import BackendRange, WorkPoint
from m3probe.recipe.points import point_of
from m3probe.schema.setup import Setup


def ranges(setup: Setup, points: Sequence[WorkPoint]) -> tuple[BackendRange, ...]:
    """Every interval of the TP group's all-reduce; () where there is none (TP1).

    A step stands where its launched rows are: a graph replays the size that it was captured with. It stands in two
    intervals where that is not known.
    """
    launch = {p.label: launched(setup, point_of(p)) for p in points}
    return tuple(
        BackendRange(
            first=found.first_row,
            last=found.last_row,
            backend=found.backend,
            why=found.why,
            points=tuple(
                label
                for label, (fewest, most) in launch.items()
                if found.first_row <= most and (found.last_row is None or fewest <= found.last_row)
            ),
        )
        for found in intervals(setup)
    )
