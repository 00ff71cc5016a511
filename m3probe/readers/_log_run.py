"""A log's start, troubles and statistics, put together while its lines are read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from m3probe.model.log_events import BUILDS, LogRun, Start, StartStep, Trouble, TroubleLine
from m3probe.readers._log_crash import Tracebacks
from m3probe.readers._log_lines import Line
from m3probe.readers._log_stats import StatRows
from m3probe.readers._log_time import Clock

MOST_STEPS = 500
MOST_TEXT = 400
MOST_MESSAGES = 200


@dataclass(slots=True)
class Run:
    """Filled line by line; ``told`` is what it comes to."""

    stats: StatRows = field(default_factory=StatRows)
    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    kv_tokens: dict[str, int] = field(default_factory=dict)
    modules: dict[str, None] = field(default_factory=dict)
    tuning: dict[str, float | None] = field(default_factory=dict)
    """When a process began to tune, by its label."""
    messages: list[str] = field(default_factory=list)
    ready: bool = False
    ready_at_s: int | None = None
    beyond: int = 0
    _steps: dict[tuple[str, ...], StartStep] = field(default_factory=dict)
    _troubles: dict[Trouble, TroubleLine] = field(default_factory=dict)

    def step(
        self, line: Line, clock: Clock, stage: Start, what: str, took_s: float | None, *, late: bool = False
    ) -> None:
        """A stage of the start; one that follows the ready line is late, until another start begins."""
        if stage in (Start.ASKED, Start.ENGINE) and self.ready:
            self.ready, self.ready_at_s = False, None
        late = late or (self.ready and stage in BUILDS)
        key = (stage, what, line.label, str(late), "" if took_s is None else str(line.number))
        known = self._steps.get(key)
        if known is not None:
            self._steps[key] = replace(known, count=known.count + 1)
        elif len(self._steps) >= MOST_STEPS:
            self.beyond += 1
        else:
            self._steps[key] = StartStep(stage, what[:MOST_TEXT], line.label, line.number, clock.now_s, took_s, late)
        if stage is Start.READY:
            self.ready, self.ready_at_s = True, clock.now_s

    def trouble(self, line: Line, clock: Clock, trouble: Trouble, text: str = "") -> None:
        """The first one is kept, the others counted."""
        known = self._troubles.get(trouble)
        if known is not None:
            self._troubles[trouble] = replace(known, count=known.count + 1)
            return
        said = (text or line.text)[:MOST_TEXT]
        self._troubles[trouble] = TroubleLine(trouble, said, line.label, line.number, clock.now_s)

    def told(self) -> LogRun:
        """The whole of it."""
        return LogRun(
            steps=tuple(self._steps.values()),
            steps_beyond=self.beyond,
            troubles=tuple(self._troubles.values()),
            tracebacks=self.tracebacks.count,
            raised=tuple(self.tracebacks.raised),
            kv_tokens=tuple(self.kv_tokens.items()),
            modules=tuple(self.modules),
            messages=tuple(self.messages),
            stats=len(self.stats),
            stats_beyond=self.stats.beyond,
            ready_at_s=self.ready_at_s,
        )
