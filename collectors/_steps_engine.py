"""Steps as the engine plans them and takes their tokens in: two hooks a step."""

from __future__ import annotations

from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from m3probe.collectors._patch import around
from m3probe.collectors._steps_count import Done
from m3probe.collectors._steps_plan import EMPTY, plan_of
from m3probe.collectors._steps_worker import MOST_WAITING
from m3probe.schema.roles import Stage

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

MOST_OPEN = 64
"""Plans whose result is still out: as many as batches in flight (pipeline stages, or two with async scheduling)."""


class EngineSteps:
    """The hooks of one scheduler, and the finished steps that wait to be counted."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.done: deque[Done] = deque(maxlen=MOST_WAITING)
        self.lost = 0
        self._open: dict[int, tuple[int, int, int, Any]] = {}
        self._updating = 0
        self._planned = 0
        self._last_end = 0

    def arm(self) -> None:
        """Put the hooks on."""
        patches = self.probe.patches
        self.probe.hook(
            "step_schedule",
            around(patches, "step_schedule", before=lambda *_a, **_k: monotonic_ns(), after=self._plans),
        )
        self.probe.hook(
            "step_update", around(patches, "step_update", before=lambda *_a, **_k: monotonic_ns(), after=self._updated)
        )

    def _plans(self, started: int, output: Any, *_args: Any, **_kwargs: Any) -> None:
        now = monotonic_ns()
        if len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open)))  # its result never came: the engine dropped the batch
        if output.total_num_scheduled_tokens:
            self._open[id(output)] = (started, now, self._planned, plan_of(output))
            self._planned += 1

    def _updated(
        self, started: int, _result: Any, _scheduler: Any, scheduler_output: Any, *_args: Any, **_kwargs: Any
    ) -> None:
        found = self._open.pop(id(scheduler_output), None)
        if found is None:
            return
        planned_at, planned, step, plan = found
        now = monotonic_ns()
        if len(self.done) == MOST_WAITING:
            self.lost += 1
        self.done.append(
            Done(
                step=step,
                plan=plan or EMPTY,
                mode="",
                descriptor=-1,
                padded_rows=plan.rows,
                replays=0,
                spec_on_prefill=-1 if plan.spec_rows else 0,
                stage=Stage.EAGER,
                t0=planned_at,
                t1=planned,
                t2=started,
                t3=now,
                t4=0,
                idle_ns=planned_at - self._last_end if self._last_end and planned_at > self._last_end else -1,
            )
        )
        self._last_end = now
