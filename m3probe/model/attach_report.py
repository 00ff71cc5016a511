"""What ``attach`` and ``verify`` found and did: what the text and ``--json`` show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Offer:
    """One address of the server.

    Args:
        state: ``gave``, ``absent``, ``refused`` or ``failed``.
        more: what would make it give more.
    """

    path: str
    state: str
    text: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """One process of the server, and what its guest says. Numbers are -1 where they are not known.

    Args:
        role: as its guest says, else as its command line does.
        state: ``dormant`` (a guest answers), ``recorded``, ``lost`` (it ended or fell silent while recording),
            ``refused`` (its guest would not), ``no guest``, ``zombie`` or ``gone``.
        text: why, or what to do.
        hooks_before: hooks that stand while nothing is recorded; ``hooks_armed``: at most while recording;
            ``hooks_after``: left after it. Equal first and last: every attribute was given back.
        seams: how each seam was found here: ``present``, ``changed`` or ``absent``.
    """

    pid: int
    role: str
    name: str
    state: str
    text: str = ""
    rank: int = -1
    vllm: str = ""
    injected: bool = False
    late: bool | None = None
    captured: int = -1
    steps: int = -1
    records: int = -1
    bytes: int = -1
    hooks_before: int = -1
    hooks_armed: int = -1
    hooks_after: int = -1
    left_behind: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    failed_hooks: Mapping[str, int] = field(default_factory=dict)
    stopped: str = ""
    fds: int = -1
    fd_soft: int = -1
    rocm: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    seams: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """A profiler window or a run of twin steps, as one process ended it; rates are steps per second."""

    kind: str
    pid: int
    state: str
    text: str = ""
    path: str = ""
    steps: int = -1
    before_steps_per_s: float | None = None
    after_steps_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class AttachReport:
    """One ``attach``.

    Args:
        outcome: ``looked`` (``--once``), ``recorded``, ``partial`` (something was lost) or ``nothing``.
        first: what must be known before anything is read out of the recording.
        losses: what is missing, each with its cause.
        differences: variables that differ between processes of the server.
        steps: steps of the server while it was recorded; -1 where nothing counts them.
    """

    target: str
    outcome: str
    url: str = ""
    version: str = ""
    first: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    processes: tuple[ProcessReport, ...] = ()
    differences: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    windows: tuple[Window, ...] = ()
    folder: str = ""
    seconds: float = 0.0
    steps: int = -1
    scrapes: int = 0
    bytes: int = 0
    ended: str = ""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class NowRow:
    """One process while it is recorded. ``rows``: rows of steps so far; -1 where it does not count any."""

    name: str
    state: str
    steps_per_s: float | None
    rows: int
    records: int
    bytes: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Now:
    """A recording in progress, in ``folder``."""

    seconds: float
    steps: int
    rows: tuple[NowRow, ...]
    running: float | None = None
    waiting: float | None = None
    folder: str = ""


@dataclass(frozen=True, slots=True)
class VerifiedRank:
    """One module on one rank against float32: ``holds``, ``broken`` or ``cannot verify``."""

    pid: int
    rank: int
    state: str
    cosine: float | None = None
    max_error: float | None = None
    rows: int = -1
    text: str = ""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """One ``verify``: every rank that was asked."""

    module: str
    ranks: tuple[VerifiedRank, ...]
    schema_version: int = SCHEMA_VERSION

    @property
    def exit_code(self) -> int:
        """1 where a rank is broken, else 4 where one could not be verified, else 0."""
        states = {rank.state for rank in self.ranks}
        return 1 if "broken" in states else 0 if states == {"holds"} else 4
