"""What ``m3probe compare`` answers (docs/compare.md, docs/compare.schema.json).

The first run is what the others are held against. Ratios are after/before; times are ns per step. None is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from m3probe.model.compare_bench import BenchComparison, Crossing
from m3probe.model.compare_run import Bottleneck, PathSeen, StepTimes
from m3probe.model.report import TrustRow

SCHEMA_VERSION = "1.0"
EQUAL, DIFFERS, UNKNOWN = "equal", "differs", "unknown"
SAME, AS_FAR, OTHER = "same", "same as far as known", "differs"
"""Verdicts of a contract."""
CORE = ("model", "GPUs", "workload", "concurrency")
"""Topics without which two figures may be of anything: a ratio of them is no speed-up even as far as known."""
BETTER, WORSE, NO_CHANGE, UNPROVEN = "better", "worse", "same", "unproven"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run: what was read, whether it can be trusted, and whether its ranks are one server.

    Args:
        steps: how its step times lie, a row for each phase and number of rows with times.
        paths: each fast path in each phase that was recorded.
    """

    name: str
    inputs: tuple[str, ...]
    outcome: str
    notes: tuple[str, ...]
    trust: TrustRow | None
    ranks: tuple[str, ...]
    configuration: str
    steps: tuple[StepTimes, ...] = ()
    paths: tuple[PathSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that two runs must share before a ratio of theirs is a speed-up.

    Args:
        state: ``equal differs unknown``.
        before: the first run's value, None where it is not known; ``after`` the other's.
        tell: which input would tell, where it is not known.
    """

    topic: str
    state: str
    before: str | None
    after: str | None
    tell: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting on which two runs differ; ``follows`` names the one that it is a consequence of."""

    name: str
    before: str
    after: str
    follows: str = ""


@dataclass(frozen=True, slots=True)
class Contract:
    """What two runs share.

    Args:
        verdict: ``same``, ``same as far as known`` or ``differs``.
        kind: ``controlled``, ``density`` (another number of GPUs or ranks), ``other hardware``, ``evolution`` (the
            build, the model's work or the load changed as well).
        claim: what may be said of their ratio, in one sentence.
        settings: what of the configuration differs; None where it is not known of both.
    """

    verdict: str
    kind: str
    claim: str
    topics: tuple[Topic, ...]
    settings: tuple[Setting, ...] | None

    @property
    def missing_core(self) -> tuple[str, ...]:
        """Topics of the core that are not known."""
        return tuple(t.topic for t in self.topics if t.state == UNKNOWN and t.topic in CORE)

    @property
    def comparable(self) -> bool:
        """Whether a ratio may be called a speed-up, as far as known: nothing differs, and the core of it is known."""
        return self.verdict != OTHER and not self.missing_core


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step's time in both runs, per step.

    Args:
        what: ``family``, ``kernel``, ``idle``, ``copies``, ``overlap``, or ``host``: a part of a worker's step.
        match: kernels: ``same`` name, ``variant`` (same function, other template or tile), ``replaced`` (same shape, or
            all that is left of one family), ``only before``, ``only after``.
        delta_ns: after - before, per step; None without times.
        share: of the step time's change; above 1 or below 0 where other parts go the other way.
    """

    what: str
    name: str
    name_after: str
    family: str
    match: str
    count_before: float | None
    count_after: float | None
    before_ns: float | None
    after_ns: float | None
    delta_ns: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """Steps of one phase with about the same rows, before and after.

    Args:
        verdict: ``better worse same unproven`` by the standard errors of both mean step times.
        explained: share of the change that kernels, copies and idle time sum to; the rest is overlap of streams.
        arithmetic: the sums with their numbers.
        doubt: why the change may be the host's noise and none of the runs' own; "" where nothing speaks for that.
    """

    phase: str
    rows: int | None
    steps_before: int
    steps_after: int
    before_ns: float | None
    after_ns: float | None
    ratio: float | None
    delta_ns: float | None
    error_ns: float | None
    verdict: str
    launches_before: float
    launches_after: float
    idle_before: float | None
    idle_after: float | None
    ns_per_token_before: float | None
    ns_per_token_after: float | None
    explained: float | None
    arithmetic: tuple[str, ...]
    parts: tuple[Part, ...]
    families: tuple[Part, ...]
    kernels: tuple[Part, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class HostChange:
    """Steps of one phase of two live recordings, by the clock of a worker; means without a known noise.

    Args:
        before_ns: ``prepare``, ``launch`` and ``wait`` together, ``after_ns`` alike: idle time holds the wait for the next
            request as well.
        ratio: of them; None where mean rows differ by more than 10 %, or a part is not known of both.
        parts: ``prepare``, ``launch``, ``wait``, ``idle``.
    """

    phase: str
    modes_before: tuple[str, ...]
    modes_after: tuple[str, ...]
    steps_before: float
    steps_after: float
    rows_before: float
    rows_after: float
    before_ns: float | None
    after_ns: float | None
    ratio: float | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """One local GEMM shape: calls a step and time a call."""

    phase: str
    op: str
    shape: str
    per_step_before: float | None
    per_step_after: float | None
    call_before_ns: float | None
    call_after_ns: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class PathChange:
    """One fast path of which verdict or variant differs in a phase; ``ran`` is None where nothing tells."""

    id: str
    title: str
    phase: str
    before: str
    after: str
    variant_before: str
    variant_after: str
    ran_before: bool | None
    ran_after: bool | None
    calls_before: float | None
    calls_after: float | None


@dataclass(frozen=True, slots=True)
class Credit:
    """What a change of speed in one phase may be put down to.

    Args:
        phase: ``prefill``, ``decode``, or empty for all that was measured.
        verdict: ``credited``, ``bundle``, ``not its``, ``suspect not executed``, ``refused`` (the contract differs),
            ``unproven``.
        what: a path, a setting, or the bundle's members.
        tell: what would prove it.
        share: of the traced step's change, that of the kernels and the idle time which the paths act on; None where it
            is not known. ``delta_ns``: after - before of them, per step.
    """

    phase: str
    verdict: str
    what: tuple[str, ...]
    text: str
    tell: str = ""
    share: float | None = None
    delta_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """Where the bottleneck is before and after; ``verdict``: ``moved``, ``stays`` or ``unproven``."""

    verdict: str
    text: str
    before: Bottleneck | None
    after: Bottleneck | None


@dataclass(frozen=True, slots=True)
class Pair:
    """A run held against the first one.

    Args:
        answer: one sentence: what changed, or why nothing may be said.
        beside: what traced steps say where the clients' figures decide, one sentence each: a second opinion.
        metrics: the clients' figures with their noise; None where a run has none.
        mix: what is to be known of the rows that steps of both had.
        crossing: where one run's kernels overtake the other's; None where nothing tells.
    """

    before: str
    after: str
    answer: str
    contract: Contract
    metrics: BenchComparison | None
    mix: tuple[str, ...]
    phases: tuple[PhaseChange, ...]
    hosts: tuple[HostChange, ...]
    shapes: tuple[ShapeChange, ...]
    paths: tuple[PathChange, ...]
    credits: tuple[Credit, ...]
    moved: Moved
    crossing: Crossing | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrailRow:
    """One run of the trail: its headline figure, and its next bottleneck with its level."""

    run: str
    figure: str
    value: float | None
    finding: str
    claim: str
    level: str


@dataclass(frozen=True, slots=True)
class Required:
    """One ``--require``: ``holds``, ``failed`` or ``inconclusive``, and why."""

    word: str
    outcome: str
    why: str


@dataclass(frozen=True, slots=True)
class CompareReport:
    """The whole answer."""

    runs: tuple[RunRow, ...]
    pairs: tuple[Pair, ...]
    trail: tuple[TrailRow, ...]
    required: tuple[Required, ...] = ()
    schema_version: str = SCHEMA_VERSION
