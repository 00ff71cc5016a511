"""``assert --live``: a running server recorded for as long as its rules are to be judged, and what becomes of that.

It arms as ``attach`` does, with the same refusals, and whatever happens the guests are disarmed before anything is judged.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.attach.asked import Asked, Told
from m3probe.errors import UnreadableInput
from m3probe.model.attach_report import AttachReport

STEPS = 200
"""Steps of the engine that are recorded where nobody says how many."""
IDLE_S = 60.0
"""A server that makes no step for so long makes none soon: a check in CI must end."""


@dataclass(slots=True)
class Recorder:
    """One recording to come. ``folder``: where it lies; ``kept``: whether it outlives the judgement."""

    asked: Asked
    told: Told
    folder: Path
    kept: bool

    def record(self) -> Path:
        """Record, and give the folder.

        Raises:
            UsageError, UnreadableInput: as ``attach``; no guest, or nothing was recorded.
            KeyboardInterrupt: Ctrl-C came; the server is as it was before.
        """
        from m3probe.attach.attaching import attach

        report = attach(replace(self.asked, out=self.folder), self.told)
        for loss in report.losses:
            self.told.say(f"lost: {loss}")
        if report.ended == "interrupted":
            raise KeyboardInterrupt
        if report.outcome == "nothing":
            raise UnreadableInput(
                "nothing was recorded", where=self.asked.target, next_move="Send requests while it records"
            )
        self.told.say(_ended(report))
        return self.folder

    def judged(self, status: int) -> None:
        """Keep what a rule did not hold on, so that it can be looked at."""
        if not self.kept and status in (1, 4):
            self.kept = True
            self.told.say(f"the recording is kept in {self.folder}")


@contextmanager
def recorder(asked: Asked, told: Told) -> Iterator[Recorder]:
    """A ``Recorder``; a temporary folder is removed at the end unless it is to be kept."""
    bounded = asked.steps is not None or asked.seconds is not None
    wanted = replace(asked, steps=asked.steps if bounded else STEPS, idle_s=IDLE_S, guests=True)
    folder = asked.out or Path(tempfile.mkdtemp(prefix="m3probe-live-"))
    made = Recorder(wanted, told, folder, kept=asked.out is not None)
    try:
        yield made
    finally:
        if not made.kept:
            shutil.rmtree(folder, ignore_errors=True)


def _ended(report: AttachReport) -> str:
    steps = f"{report.steps:,} steps" if report.steps >= 0 else "steps that nobody counts"
    why = {
        "idle": f"; then none ran for {IDLE_S:.0f} s: send requests meanwhile",
        "the server has ended": "; then the server ended",
    }.get(report.ended, "")
    return f"recorded {steps} in {report.seconds:.1f} s{why}"
