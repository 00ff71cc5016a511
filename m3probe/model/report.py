"""The report: typed rows of every question, findings, and the next bottleneck.

Each section's fields are top-level keys of ``analyze --json`` (docs/report.schema.json).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from m3probe.model.bench_report import BenchSection
from m3probe.model.clock import ClockSection
from m3probe.model.counter_report import CountersSection
from m3probe.model.device_report import DevicesSection
from m3probe.model.findings import Bound, Finding
from m3probe.model.idle_report import IdleSection
from m3probe.model.live_report import LiveSection
from m3probe.model.path_report import PathsSection
from m3probe.model.repeat_report import RepeatsSection
from m3probe.model.roofline_report import RooflineSection

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason against trust, in fixed words (``word``) and with its numbers (``text``).

    ``hides_kernels``: kernels may be missing from the evidence, so that path verdicts are unproven.
    """

    word: str
    text: str
    hides_kernels: bool = False


@dataclass(frozen=True, slots=True)
class TrustRow:
    """``complete | degraded | unusable`` and why."""

    verdict: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class TrustSection:
    """Can the evidence be trusted, and what could be seen at all."""

    trust: TrustRow
    coverage: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """Executions of one family.

    ``unrecorded`` of the ``count`` are known from the census alone, so that the recorded kernels of all families sum to
    ``kernel_count``. ``time_ns`` is None where a family has such executions; ``share`` is None for all families where
    kernels are missing from the recording.
    """

    family: str
    count: int
    time_ns: int | None
    share: float | None
    unrecorded: int = 0


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """Steps of one phase, of every rank.

    ``kernel_count`` counts records. ``incomplete_steps`` have, or may have, kernels that were not recorded: then
    ``kernel_time_ns``, ``step_time_ns`` and ``gpu_idle_share`` are None, as they are where kernels have no time.
    ``step_time_ns``: sum of the steps' windows, first GPU start to the next step's first GPU start.
    """

    phase: str
    steps: int
    kernel_count: int
    kernel_time_ns: int | None
    gpu_idle_share: float | None
    incomplete_steps: int = 0
    step_time_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals over all ranks (docs/words.md)."""

    kernel_count: int
    kernel_time_ns: int | None
    busy_union_ns: int | None
    gpu_span_ns: int | None
    graph_launches: int
    devices: tuple[int, ...]
    families: tuple[FamilyRow, ...]
    phases: tuple[PhaseRow, ...]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of one rank; times are None where kernels of it have no time or were not all recorded.

    ``gpu_start_ns`` and ``gpu_end_ns``: first start and last end of its own GPU work, on the clock of its file.
    ``step_time_ns``: its window, as in ``PhaseRow``; ``idle_ns``: the part of it without any GPU work.
    """

    rank: int | None
    name: str
    phase: str
    rows: int | None
    requests: int | None
    kernel_count: int
    kernel_time_ns: int | None
    graph_mode: str
    gpu_start_ns: int | None = None
    gpu_end_ns: int | None = None
    step_time_ns: int | None = None
    idle_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SummarySection:
    """What ran, in total and per step."""

    meta: Mapping[str, Any]
    summary: Summary
    steps: tuple[StepRow, ...]


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """One local GEMM shape of one phase; ``predicted`` is None where no model was matched.

    ``programs`` and ``k_loops`` are what the named tile gives; ``grid`` is what was recorded.
    """

    phase: str
    op: str
    M: int
    N: int
    K: int
    count: int
    predicted: bool | None
    module: str
    dtype: str
    tile: str
    programs: int | None
    units: int | None
    k_loops: int | None
    grid: tuple[int, ...] | None
    evidence: str


@dataclass(frozen=True, slots=True)
class ModelMatch:
    """The parallel layout whose whole set of local shapes was seen; ``ep`` is None where no shape tells it."""

    model: str
    tp: int
    ep: int | None
    notes: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapesSection:
    """Question 1."""

    shapes: tuple[ShapeRow, ...]
    model_match: ModelMatch | None


@dataclass(frozen=True, slots=True)
class PlaneRow:
    """One kind of traffic on one byte plane; ``bytes`` is None where the trace cannot prove it."""

    what: str
    count: int
    bytes: int | None
    time_ns: int | None
    dtype: str
    layout: str
    evidence: str


@dataclass(frozen=True, slots=True)
class BytePlanes:
    """The three planes, each judged by itself."""

    compute: tuple[PlaneRow, ...] = ()
    state: tuple[PlaneRow, ...] = ()
    comm: tuple[PlaneRow, ...] = ()
    not_provable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BytesSection:
    """Question 3."""

    bytes: BytePlanes


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue of one server; None is not known, never 0.

    Args:
        queue: ``client``, ``admission``, ``prefill``, ``kv_transfer`` (with its stage behind a dot), ``decode``, ``front_end``.
        server: which of several; empty where there is one.
        length_mean: sampled, or where ``basis`` is ``little`` throughput times time in it; ``growth_per_s`` by a straight line.
        arrivals_per_s: requests a second that came into it; ``served_per_s`` that left it; ``wait_ns``: mean time in it.
        trend: ``empty steady grows drains rose_and_fell``, or empty where too few samples tell.
        basis: ``sampled`` or ``little``.
    """

    queue: str
    server: str
    samples: int
    length_low: float | None
    length_mean: float | None
    length_most: float | None
    length_last: float | None
    growth_per_s: float | None
    arrivals_per_s: float | None
    served_per_s: float | None
    wait_ns: int | None
    trend: str
    basis: str


@dataclass(frozen=True, slots=True)
class QueuesSection:
    """Question 5: queue -> what is known, or which input would tell; and each queue that was measured, in figures."""

    queues: Mapping[str, str]
    queue_rows: tuple[QueueRow, ...] = ()


@dataclass(frozen=True, slots=True)
class NextBottleneck:
    """The finding to act on next."""

    finding: str
    bound: Bound | None
    why: str


@dataclass(frozen=True, slots=True)
class RankedRow:
    """One finding in the order in which to look at them.

    Args:
        place: from 1; where there is a next bottleneck, it is that.
        basis: what ``bound`` is a share of; empty without a bound.
        inside: the ranked share of time that this one lies in: the two are never added up.
        why: the reason of its place.
        counter_evidence: what would prove it wrong.
    """

    place: int
    finding: str
    bound: Bound | None
    basis: str
    confidence: str
    inside: str
    why: str
    counter_evidence: str


@dataclass(frozen=True, slots=True)
class BottleneckSection:
    """The ranking's result: the finding to act on (None where nothing trusted bounds anything), and all in order."""

    next_bottleneck: NextBottleneck | None
    ranking: tuple[RankedRow, ...] = ()


Section = (
    TrustSection
    | SummarySection
    | ShapesSection
    | RepeatsSection
    | BytesSection
    | PathsSection
    | QueuesSection
    | BottleneckSection
    | LiveSection
    | BenchSection
    | ClockSection
    | RooflineSection
    | IdleSection
    | DevicesSection
    | CountersSection
)
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an analyzer adds: sections of the report, and findings."""

    sections: tuple[Section, ...] = ()
    findings: tuple[Finding, ...] = ()

    def plus(self, other: Answer) -> Answer:
        """Both answers, in order."""
        return Answer(self.sections + other.sections, self.findings + other.findings)

    @property
    def hiding(self) -> tuple[str, ...]:
        """What may have hidden kernels from the evidence, by trust's reasons; () when nothing did."""
        said = self.section(TrustSection)
        return tuple(reason.text for reason in said.trust.reasons if reason.hides_kernels) if said else ()

    def section(self, kind: type[S]) -> S | None:
        """The section of one type, or None where its analyzer did not run."""
        return next((s for s in self.sections if isinstance(s, kind)), None)


@dataclass(frozen=True, slots=True)
class ReadNote:
    """A note on an input, as shown to the user."""

    word: str
    text: str
    path: str
    count: int


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """All answers, how reading ended, and what the user must be told first.

    What a question answers is None where its analyzer failed (a finding ``*.failed`` says why), never empty.
    """

    outcome: str
    notes: tuple[ReadNote, ...]
    answer: Answer
    schema_version: str = SCHEMA_VERSION

    def __repr__(self) -> str:
        trust, first = self.trust, self.next_bottleneck
        said = f"trust {trust.verdict if trust else 'not judged'}, next bottleneck {first.finding if first else 'none'}"
        return f"<Report {self.outcome}: {said}, {len(self.findings):,} findings>"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, in the analyzers' order; ``ranking`` has the order in which to look at them."""
        return self.answer.findings

    @property
    def next_bottleneck(self) -> NextBottleneck | None:
        """What to act on; None where nothing trusted bounds anything."""
        found = self.answer.section(BottleneckSection)
        return found.next_bottleneck if found else None

    @property
    def trust(self) -> TrustRow | None:
        """``complete | degraded | unusable``, with reasons."""
        found = self.answer.section(TrustSection)
        return found.trust if found else None

    @property
    def summary(self) -> Summary | None:
        """Totals, families and phases."""
        found = self.answer.section(SummarySection)
        return found.summary if found else None

    def section(self, kind: type[S]) -> S | None:
        """The typed section of one question: ``report.section(ShapesSection).shapes``."""
        return self.answer.section(kind)

    def df(self, rows: str) -> pd.DataFrame:
        """Rows as a DataFrame, a column for each field of their type, ``<NA>`` for what is not known.

        Args:
            rows: ``cells counters devices families findings paths phases planes queues ranking repeats roofline shapes
                steps unanswered``.

        Raises:
            UsageError: another word, or rows whose analyzer failed.
            MissingExtra: pandas is not installed (``pip install 'm3probe[df]'``).
        """
        from m3probe.model._dataframes import rows_df  # deferred with its pandas: no report needs it

        return rows_df(self.answer, rows)
