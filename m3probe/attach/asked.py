"""What ``attach`` was asked for, and how it tells what it does meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from m3probe.attach.proc import PROC
from m3probe.model.attach_report import Now


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line of ``attach``.

    Args:
        target: ``http(s)://...``, a pid, or ``auto``.
        seconds: end after so long; ``steps``: after so many steps; neither: at Ctrl-C.
        idle_s: end after so long without a step of the engine; None: wait for ever.
        guests: refuse a server none of whose processes has a guest, also where it is named by its address.
        once: look, record nothing.
        full_rows_s: seconds during which guests keep one row for each step.
        proc: where the kernel's view of processes lies.
    """

    target: str
    seconds: float | None = None
    steps: int | None = None
    idle_s: float | None = None
    guests: bool = False
    out: Path | None = None
    once: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    cacert: Path | None = None
    inject: bool = False
    take_over: bool = False
    twin: int | None = None
    profile: int | None = None
    force_profiler: bool = False
    full_rows_s: float = 0.0
    routing: bool = False
    overlap: bool = False
    proc: Path = PROC

    @property
    def by_url(self) -> bool:
        """Whether the server is named by its address."""
        return self.target.startswith(("http://", "https://"))


class Told(Protocol):
    """Where narration and progress go; both are for a person, the report holds all of it again."""

    def say(self, text: str) -> None:
        """One line."""

    def show(self, now: Now) -> None:
        """The recording as it stands, about once a second."""
