"""What ``m3probe attach`` and a guest say to each other: one frame each way per exchange, no pickle.

Frames are those of a recording (``schema.frames``). Both ends check by SO_PEERCRED that the other runs as the same user.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from m3probe.schema.roles import Level, Role

PROTOCOL = 1


class Message(msgspec.Struct, tag_field="m", gc=False, omit_defaults=True, kw_only=True):
    """What every message shares: nothing but its tag."""


class Hello(Message, tag="hello"):
    """Who are you? Answered by ``Status``."""

    protocol: int = PROTOCOL


class Arm(Message, tag="arm"):
    """Record into ``folder``; ``owner`` names who asks, so that a second one is refused with the first one's name."""

    folder: str
    owner: str
    windows: float = 0.0
    """Seconds during which full step rows are kept; 0: counts alone."""
    routing: bool = False
    overlap: bool = False


class Disarm(Message, tag="disarm"):
    """Stop recording and give every attribute back."""

    owner: str = ""


class Twin(Message, tag="twin"):
    """Run ``steps`` steps from step ``at`` on without replay (every rank at the same step); 0 steps take it back."""

    at: int
    steps: int


class ProfileWindow(Message, tag="profile"):
    """Open a profiler window of ``steps`` steps from step ``at`` on, into the recording's folder.

    ``most_bytes``: of the trace before compression. ``steps=0`` takes a window back that has not begun.
    """

    at: int
    steps: int
    most_bytes: int


class Verify(Message, tag="verify"):
    """Recompute one module in float32 at the next eager step."""

    module: str


class Status(Message, tag="status"):
    """How a guest stands. ``left_behind``: attributes it could not give back."""

    pid: int
    role: Role
    level: Level
    roles: tuple[Role, ...] = ()
    protocol: int = PROTOCOL
    m3probe: str = ""
    vllm: str = ""
    rank: int = -1
    step: int = -1
    captured: int = -1
    """Descriptors in the ledger; -1: capture was not watched."""
    late: bool = False
    folder: str = ""
    owner: str = ""
    records: int = 0
    bytes: int = 0
    stopped: str = ""
    """Why recording stopped by itself; empty: it did not."""
    seams: Mapping[str, str] = {}
    hooks: int = 0
    dropped: Mapping[str, int] = {}
    failed_hooks: Mapping[str, int] = {}
    left_behind: tuple[str, ...] = ()


class Done(Message, tag="done"):
    """A request was carried out, or will be at its step."""

    text: str = ""


class Refused(Message, tag="refused"):
    """A request was not carried out, and why."""

    text: str
    next_move: str = ""


Ask = Hello | Arm | Disarm | Twin | ProfileWindow | Verify
Answer = Status | Done | Refused
