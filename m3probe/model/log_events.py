"""What a server's log tells of its start and of what went wrong, in the order of the log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Start(StrEnum):
    """A stage of a start; the line that tells it is written when the stage ends, but for ``ASKED`` and ``ENGINE``."""

    ASKED = "asked"
    """The front end has read its arguments: the first line of a start."""
    ENGINE = "engine"
    """The engine's process begins."""
    WEIGHTS = "weights"
    """Weights are read."""
    MODEL = "model"
    """The model is built, its weights read and laid out anew for the kernels."""
    COMPILE = "compile"
    """torch.compile, or the graphs that it kept."""
    JIT = "jit"
    """A kernel or a module that is built when it is first needed."""
    AUTOTUNE = "autotune"
    WARMUP = "warmup"
    KV_CACHE = "kv_cache"
    CAPTURE = "capture"
    ENGINE_READY = "engine_ready"
    READY = "ready"
    """The front end takes requests."""


BUILDS = frozenset({Start.COMPILE, Start.JIT, Start.AUTOTUNE, Start.CAPTURE})
"""Stages that delay whoever waits when they happen after the server was ready."""


@dataclass(frozen=True, slots=True)
class StartStep:
    """One line of the start.

    Args:
        what: of the stage; the module, the kernel, the range.
        at_s: seconds since the first record of the log, whole; None where no record stood before it.
        took_s: seconds that the line itself tells; None where it does not.
        late: after the server was ready.
        count: lines that tell the same of the same process.
    """

    stage: Start
    what: str
    process: str
    number: int
    at_s: int | None
    took_s: float | None = None
    late: bool = False
    count: int = 1


class Trouble(StrEnum):
    """Lines of fixed words that name a limit or a fault."""

    GPU_FAULT = "gpu_fault"
    STALL = "stall"
    """A worker waits for a message that does not come."""
    SQ_FULL = "sq_full"
    """The send queue of a network card is full."""
    NO_FILES = "too_many_open_files"
    FILE_LIMIT = "file_limit"
    """The limit on open files could not be raised: a warning at the start, not yet a failure."""
    START_FAILED = "start_failed"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class TroubleLine:
    """The first line of a kind, and how many there were."""

    trouble: Trouble
    text: str
    process: str
    number: int
    at_s: int | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Raised:
    """The last line of a traceback.

    Args:
        echo: it only says that another process failed.
        number: line at which the traceback begins.
    """

    process: str
    pid: int | None
    type: str
    text: str
    number: int
    at_s: int | None
    echo: bool = False


@dataclass(frozen=True, slots=True)
class LogRun:
    """A log's start and troubles.

    Args:
        kv_tokens: of each engine, the last line's.
        modules: AITER modules that were imported, in order. None told is no evidence: some processes log nothing of it.
        tracebacks: that begin in the log; ``raised`` keeps the first of them.
        messages: texts of the first records.
        stats_beyond: statistics lines that were counted and not kept.
    """

    steps: tuple[StartStep, ...] = ()
    steps_beyond: int = 0
    troubles: tuple[TroubleLine, ...] = ()
    tracebacks: int = 0
    raised: tuple[Raised, ...] = ()
    kv_tokens: tuple[tuple[str, int], ...] = ()
    modules: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stats: int = 0
    stats_beyond: int = 0
    ready_at_s: int | None = None

    def count(self, trouble: Trouble) -> int:
        """Lines of this kind."""
        return sum(line.count for line in self.troubles if line.trouble is trouble)

    def first(self, trouble: Trouble) -> TroubleLine | None:
        """The first of them."""
        return next((line for line in self.troubles if line.trouble is trouble), None)

    @property
    def first_cause(self) -> TroubleLine | Raised | None:
        """The earliest fault or exception that is not the echo of another one; None where there is none."""
        faults: list[TroubleLine | Raised] = [line for line in self.troubles if line.trouble is Trouble.GPU_FAULT]
        return min((*faults, *(one for one in self.raised if not one.echo)), key=lambda one: one.number, default=None)
