"""What a server's log says: configuration and choices. A log is never evidence of an execution.

Foreign text throughout: the presenter escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from m3probe.model.log_events import LogRun


class LogKind(StrEnum):
    """What a line states."""

    ATTENTION = "attention"
    SPARSE_ATTENTION = "sparse_attention"
    INDEXER = "indexer"
    INDEXER_CP = "indexer_cp"
    MOE = "moe"
    EXPERTS = "experts"
    """The class of a MoE backend's kernels."""
    LINEAR = "linear"
    ALL_REDUCE = "all_reduce"
    QUICK_REDUCE = "quick_reduce"
    GRAPHS = "graphs"
    CAPTURED = "captured"
    SHARED_EXPERT = "shared_expert"
    ROUTER = "router"
    MONOKERNEL = "monokernel"
    KV_TRANSFER = "kv_transfer"
    UNTUNED = "untuned"
    """A lookup in a tuned table that found no row."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One statement; lines that repeat it are counted.

    Args:
        value: what was chosen, as written; empty where the line says what was *not*: a refusal or a fallback.
        refused: what was refused, with the reason; empty where the line states a choice.
        details: what else the line holds (``kv_cache_dtype``, ``group``), as text.
        process: the label in front of the line; empty without one.
        rank: of the process; None where its label does not tell.
        number: line in the file, from 1.
    """

    kind: LogKind
    value: str
    text: str
    process: str
    rank: int | None
    number: int
    refused: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    count: int = 1


@dataclass(frozen=True, slots=True)
class LogCounts:
    """Lines by what they are; ``cut``: longer than is looked at; ``repaired``: not UTF-8, or with NUL bytes."""

    lines: int = 0
    records: int = 0
    foreign: int = 0
    unparsed: int = 0
    cut: int = 0
    repaired: int = 0
    beyond: int = 0
    """Statements that were counted and not kept, because the log holds too many different ones."""
    levels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerLog:
    """One log.

    Args:
        file: index into ``Recording.files``.
        asked: ``non-default args``; None where the line is not there. Values that are none of Python's plain ones are text.
        config: the engine's own line, with the same rule; None where it is not there.
        platform: ``rocm``, ``cuda``, ``cpu``, or empty.
        starts: how often an engine said its configuration: more than one server, or a restart.
        labels: distinct labels of processes in order; empty text for lines without one.
    """

    file: int
    path: str
    version: str = ""
    asked: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None
    architecture: str = ""
    platform: str = ""
    starts: int = 0
    ready: bool = False
    labels: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    said: tuple[LogLine, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    counts: LogCounts = field(default_factory=LogCounts)
    run: LogRun = field(default_factory=LogRun)
    """Its start, and what went wrong."""

    def of(self, *kinds: LogKind) -> list[LogLine]:
        """Statements of these kinds, in the order of the log."""
        return [line for line in self.said if line.kind in kinds]
