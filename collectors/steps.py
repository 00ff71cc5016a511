"""Steps: what each computed, by which graph, and where its time went; counts a second, full rows in windows."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from m3probe.collectors._capture_watch import watch_capture
from m3probe.collectors._descriptors import Descriptors, captured
from m3probe.collectors._now import NOW
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._seams.steps import SEAMS
from m3probe.collectors._steps_count import Done, counts, row
from m3probe.collectors._steps_engine import EngineSteps
from m3probe.collectors._steps_worker import WorkerSteps
from m3probe.collectors._twin import Twins
from m3probe.schema import control
from m3probe.schema.records import StepCounts
from m3probe.schema.roles import Role, Stage

if TYPE_CHECKING:
    from m3probe.collectors._probe import Probe

WINDOW = "M3PROBE_WINDOW_S"
"""Seconds of full step rows for a recording that ``M3PROBE=1`` begins."""


class Steps(Part):
    """Counts steps in a worker or in an engine."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.descriptors = Descriptors(probe.ledger)
        self._tap: WorkerSteps | EngineSteps | None = None
        self._twins: Twins | None = None
        self._told = 0
        self._until = 0.0

    def loaded(self) -> None:
        """A worker that has its model: from here to ``captured`` it warms up and captures."""
        if self.role is Role.WORKER:
            NOW.stage = Stage.WARMUP
            if not self.probe.late:
                watch_capture(self.probe, self.descriptors)

    def captured(self) -> None:
        """Number the graphs that there are now; one that a first capture left in the ledger has no replays."""
        if self.role is Role.WORKER:
            self.probe.unhook("graph_capture_v1", "graph_capture_breakable", "graph_capture_v2")
            worker = self.probe.host(Role.WORKER)
            for key, mode, runner in captured(getattr(worker, "model_runner", None)):
                self.descriptors.id(key, mode, runner)
            NOW.stage, NOW.descriptor, NOW.is_draft = Stage.EAGER, -1, False

    def arm(self) -> None:
        """Hooks on; the window of full rows begins."""
        self._told, self._until = 0, time.monotonic() + self._window()
        if self.role is Role.WORKER:
            self.probe.step = 0
            self._tap = WorkerSteps(self.probe, self.descriptors)
            self._twins = Twins(self.probe)
        else:
            self._tap = EngineSteps(self.probe)
        self._tap.arm()

    def tick(self) -> None:
        """The finished steps of the last second."""
        tap = self._tap
        if tap is None:
            return
        lost = tap.finished - self._told - len(tap.done)
        if lost > 0:
            self.probe.note("steps_lost", f"{lost} steps were not counted: the writer was late", lossy=True)
        done = [tap.done.popleft() for _ in range(len(tap.done))]
        if not done:
            return
        self.probe.put(StepCounts(mono_ns=time.monotonic_ns(), first=self._told, steps=counts(done, self.role)))
        self._told = tap.finished - len(tap.done)
        self._rows(done)

    def disarm(self) -> None:
        """Hooks are off: what is open is forgotten."""
        self._tap = self._twins = None

    def ask(self, message: control.Ask) -> control.Answer | None:
        """The eager twin."""
        if isinstance(message, control.Twin) and self.role is Role.WORKER:
            if self._twins is None:
                return control.Refused(text="nothing is recorded", next_move="Arm the probe first")
            return self._twins.plan(message)
        return None

    def _rows(self, done: list[Done]) -> None:
        if time.monotonic() < self._until:
            for step in done:
                self.probe.put(row(step, self.role))

    def _window(self) -> float:
        if self.probe.options.windows:
            return self.probe.options.windows
        try:
            return float(os.environ.get(WINDOW, "0"))
        except ValueError:
            self.probe.note("bad_window", f"{WINDOW} is no number of seconds: no full step rows")
            return 0.0


COLLECTOR = Collector(
    title="steps: phase, rows, graph mode and descriptor, and where their time went",
    roles=(Role.WORKER, Role.ENGINE),
    make=Steps,
    seams=tuple(SEAMS),
    order=10,
)
