"""What ``attach --serve`` exports: the recording as it stands, and the parts of a report that become gauges.

The report comes from a process of its own as JSON; these are the keys of docs/report.schema.json that are read of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.model.attach_report import Now
from m3probe.model.findings import Bound


@dataclass(frozen=True, slots=True)
class ToldTrust:
    """``complete``, ``degraded`` or ``unusable``."""

    verdict: str


@dataclass(frozen=True, slots=True)
class ToldFinding:
    """One finding without its sentences, whose numbers change from report to report."""

    id: str
    question: str
    verdict: str
    confidence: str
    trusted: bool
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class ToldCell:
    """One fast path on one rank in one phase."""

    rank: int | None
    phase: str
    verdict: str
    steps: int
    executed: int


@dataclass(frozen=True, slots=True)
class ToldPath:
    """One fast path."""

    id: str
    verdict: str
    cells: tuple[ToldCell, ...] = ()


@dataclass(frozen=True, slots=True)
class ToldNext:
    """The finding to act on next."""

    finding: str
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class ToldReport:
    """One report; None where the analyzer of it did not run."""

    trust: ToldTrust | None = None
    paths: tuple[ToldPath, ...] | None = None
    findings: tuple[ToldFinding, ...] = ()
    next_bottleneck: ToldNext | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """One moment.

    Args:
        now: the recording; None before its first second.
        report: the last report on it; None before the first.
        age_s: of that report; ``took_s``: what it took to make.
        made: reports so far; ``failed``: of those, how many could not be made.
    """

    version: str
    now: Now | None = None
    report: ToldReport | None = None
    age_s: float | None = None
    took_s: float | None = None
    made: int = 0
    failed: int = 0
