"""Talks to the guests on this host over their sockets, as ``m3probe attach`` does."""

from __future__ import annotations

import time
from pathlib import Path

from m3probe.attach.guests import ask
from m3probe.schema import control
from m3probe.schema.roles import Role
from m3probe.schema.sockets import run_folder


def tell(message: control.Ask) -> list[control.Answer]:
    """One message to each guest; one that refuses ends the run, unless another one of them carries it out."""
    answers = [ask(int(path.stem), path, message) for path in sorted(run_folder().glob("*.sock"))]
    if not answers or all(isinstance(answer, control.Refused) for answer in answers):
        raise SystemExit(f"{type(message).__name__}: {[a.text for a in answers] or 'no guest answers'}")
    return answers


def arm(folder: Path, windows: float = 0.0, **asked: bool) -> None:
    tell(control.Arm(folder=str(folder.resolve()), owner="benchmark", windows=windows, **asked))


def disarm() -> list[control.Status]:
    return [a for a in tell(control.Disarm(owner="benchmark")) if isinstance(a, control.Status)]


def step() -> int:
    """Steps that the worker has counted."""
    told = [a for a in tell(control.Hello()) if isinstance(a, control.Status) and Role.WORKER in a.roles]
    return max(a.step for a in told)


def profile(at: int, steps: int) -> None:
    tell(control.ProfileWindow(at=at, steps=steps, most_bytes=1 << 30))


def traced(folder: Path, within_s: float = 120.0) -> Path:
    """The trace of a window, once it is written."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found = sorted(folder.glob("*.pt.trace.json.gz"))
        if found:
            return found[-1]
        time.sleep(0.2)
    raise SystemExit(f"no trace in {folder} after {within_s:.0f} s")
