"""Steps: what each computed, by which graph, and where its time went; counts a second, full rows in windows."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from m3probe.collectors import _steps_drafts
from m3probe.collectors._capture_watch import CaptureWatch
from m3probe.collectors._descriptors import Descriptors, captured
from m3probe.collectors._now import NOW
from m3probe.collectors._part import Collector, Part
from m3probe.collectors._seams.steps import SEAMS
from m3probe.collectors._steps_count import Done, counts, row
from m3probe.collectors._steps_engine import EngineSteps
from m3probe.collectors._steps_graphs import asked
from m3probe.collectors._steps_plan import EMPTY, forget
from m3probe.collectors._steps_worker import WorkerSteps, taken
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
        self._watch: CaptureWatch | None = None
        self._told = 0
        self._until = 0.0

    def loaded(self) -> None:
        """A worker that has its model: from here to ``captured`` it warms up and captures."""
        if self.role is Role.WORKER:
            NOW.stage = Stage.WARMUP
            if not self.probe.late:
                self._watch = CaptureWatch(self.probe, self.descriptors)
                self._watch.begin()
                _steps_drafts.watch_drafts(self.probe, self._runner())

    def captured(self) -> None:
        """Number the graphs that there are now; one that a first capture left in the ledger has no replays."""
        if self.role is Role.WORKER:
            if self._watch is not None:
                self._watch.end()
            self.probe.unhook(_steps_drafts.SEAM)
            for key, mode, runner in captured(self._runner()):
                self.descriptors.id(key, mode, runner)
            NOW.stage, NOW.descriptor, NOW.is_draft = Stage.EAGER, -1, False

    def arm(self) -> None:
        """Hooks on; the window of full rows begins."""
        self._told, self._until = 0, time.monotonic() + self._window()
        if self.role is Role.WORKER:
            self.probe.step = 0
            self._twins = Twins(self.probe)
            self._tap = WorkerSteps(self.probe, self.descriptors, self._twins)
        else:
            self._tap = EngineSteps(self.probe)
        self._tap.arm()

    def tick(self) -> None:
        """The finished steps of the last second."""
        tap = self._tap
        if tap is None:
            return
        lost, tap.lost = tap.lost, 0
        if lost:
            self.probe.note("steps_lost", f"{lost} steps were not counted: the writer was late", lossy=True)
        done = [tap.done.popleft() for _ in range(len(tap.done))]
        drafts = taken(tap.draft_replays) if isinstance(tap, WorkerSteps) else {}
        if done:
            first = self._told + lost
            told = counts(done, self.role)
            self.probe.put(StepCounts(mono_ns=time.monotonic_ns(), first=first, steps=told, draft_replays=drafts))
            self._told = first + len(done)
            self._rows(done)
            if self.role is Role.WORKER:
                for answer in asked(done):
                    self.probe.put(answer)

    def disarm(self) -> None:
        """Hooks are off: what is open is forgotten."""
        self._tap = self._twins = None
        forget()
        NOW.stage, NOW.phase, NOW.descriptor, NOW.rows, NOW.is_draft = Stage.EAGER, "unknown", -1, -1, False

    def ask(self, message: control.Ask) -> control.Answer | None:
        """The eager twin."""
        if isinstance(message, control.Twin) and self.role is Role.WORKER:
            if self._twins is None:
                return control.Refused(text="nothing is recorded", next_move="Arm the probe first")
            return self._twins.plan(message)
        return None

    def _rows(self, done: list[Done]) -> None:
        if time.monotonic() < self._until:
            for step in (s for s in done if s.plan is not EMPTY):
                self.probe.put(row(step, self.role))

    def _runner(self) -> Any:
        return getattr(self.probe.host(Role.WORKER), "model_runner", None)

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
