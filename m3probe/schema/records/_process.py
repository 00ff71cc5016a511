"""Who writes, and how the recording itself went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.schema.records._base import Record
from m3probe.schema.roles import Role


class Process(Record, tag="process"):
    """First record of a file, again when more becomes known (the last holds): who wrote it. ``*_rank`` and sizes are -1 where the process has none.

    ``env``: variables of vLLM, AITER, the GPU runtime and m3probe as this process sees them, no others.
    """

    format: int = 0
    """Always written by this version: a default that equals it would be left out, and read as the next one's."""
    m3probe: str = ""
    role: Role = Role.UNKNOWN
    """The one nearest to the device of ``roles``: with one GPU vLLM runs engine and worker in one process."""
    roles: tuple[Role, ...] = ()
    pid: int = -1
    ppid: int = -1
    host: str = ""
    started_ns: int = -1
    rank: int = -1
    local_rank: int = -1
    tp_rank: int = -1
    pp_rank: int = -1
    dp_rank: int = -1
    ep_rank: int = -1
    world_size: int = -1
    tp: int = -1
    pp: int = -1
    dp: int = -1
    ep: int = -1
    engine: int = -1
    """Index of the engine (data-parallel replica) that it belongs to."""
    vllm: str = ""
    torch: str = ""
    python: str = ""
    device: str = ""
    device_name: str = ""
    gfx: str = ""
    late: bool = False
    """The probe came after load and capture: what they would have told is missing."""
    env: Mapping[str, str] = {}


class Clock(Record, tag="clock"):
    """The two clocks, read together; written with every flush that has something to say, at least each 10 s."""

    mono_ns: int
    wall_ns: int


class Config(Record, tag="config"):
    """The engine's configuration as this process holds it: plain data by section, values that are none as text."""

    sections: Mapping[str, Any]
    model: Mapping[str, Any] = {}
    """The text model's config.json values."""


class Seam(Record, tag="seam"):
    """How a seam was found here: ``present``, ``changed`` or ``absent``; ``hooked``: a wrapper stands on it now."""

    id: str
    state: str
    hooked: bool = False
    text: str = ""


class Note(Record, tag="note"):
    """Something the reader of the recording must be told; ``lossy``: facts are missing because of it."""

    word: str
    text: str
    count: int = 1
    lossy: bool = False
    mono_ns: int = -1


class End(Record, tag="end"):
    """Last record of a file that was closed in order; without it the process died, or still writes."""

    mono_ns: int
    reason: str
    dropped: Mapping[str, int] = {}
    failed_hooks: Mapping[str, int] = {}
    left_behind: tuple[str, ...] = ()
    """Attributes that could not be given back, because another party replaced them meanwhile."""
