"""One run as ``compare`` keeps it: sums and words, no table, so that the next run can be read in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from m3probe.model.bench import BenchRun
from m3probe.model.findings import Bound
from m3probe.model.recipe_report import PathLine, Warned
from m3probe.model.report import TrustRow
from m3probe.schema.gates import GateFacts
from m3probe.schema.setup import Setup


@dataclass(frozen=True, slots=True)
class KernelCost:
    """One kernel in the steps of a group.

    Args:
        name: demangled.
        head: its own words without template arguments, lower case.
        count: executions in all steps of the group; ``time_ns`` their plain sum, None where the group has no times.
        shapes: local shapes that it computed, ``M x N x K``; empty where none is known.
    """

    name: str
    head: str
    family: str
    count: int
    time_ns: int | None
    shapes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepTimes:
    """How the times of a group's steps lie: from GPU start to the next step's, ns; quartiles by straight lines between."""

    phase: str
    rows: int | None
    steps: int
    low_ns: float
    q1_ns: float
    median_ns: float
    q3_ns: float
    high_ns: float


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps of one phase with about the same rows, of every rank.

    Args:
        rows: real tokens of a step, rounded up to a power of two; None where the trace does not say.
        mean_rows: their mean.
        steps: how many; those without a next one only where none of the phase has one: their time is not whole.
        window_ns: first GPU start to the next step's, summed; None where kernels may be missing or have no time.
        error_ns: standard error of the mean window; None of fewer than three steps.
        idle_ns: time of the windows without GPU work.
        copies_ns: plain sum of memcpy and memset.
        tokens: decode tokens, drafts included; None where it is not known.
    """

    phase: str
    rows: int | None
    mean_rows: float | None
    steps: int
    window_ns: int | None
    error_ns: float | None
    idle_ns: int | None
    copies: int
    copies_ns: int | None
    tokens: int | None
    kernels: tuple[KernelCost, ...]
    times: StepTimes | None = None
    """How the windows lie; None where ``window_ns`` is."""

    @property
    def step_ns(self) -> float | None:
        """Mean step time."""
        return None if self.window_ns is None or not self.steps else self.window_ns / self.steps

    @property
    def launched(self) -> int:
        """Kernels of all steps."""
        return sum(kernel.count for kernel in self.kernels)


@dataclass(frozen=True, slots=True)
class HostSteps:
    """Steps of one phase as hooks inside the server timed them, of one rank: means over graph modes.

    Args:
        modes: graph modes that the steps ran in.
        parts: ``prepare``, ``launch``, ``wait``, ``idle`` -> mean ns; together what a worker spends from one step to the
            next. A part that no hook took is not in it.
    """

    phase: str
    modes: tuple[str, ...]
    steps: float
    rows: float
    requests: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ShapeCost:
    """GEMM calls of one local shape in one phase; ``time_ns`` None where a call has none."""

    phase: str
    op: str
    shape: str
    count: int
    time_ns: int | None
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathSeen:
    """One fast path in one phase over all ranks.

    Args:
        ran: True: executed; False: surely not; None: nothing tells.
        verdict: the report's word; ``variant``: what ran, the fallback too.
        calls: of the fast path's variants in the phase.
        reasons: why the verdict is what it is.
    """

    id: str
    title: str
    phase: str
    ran: bool | None
    verdict: str
    variant: str
    calls: int
    steps: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The next bottleneck of one run: its finding, what that claims, and the level of the machine that it is on."""

    finding: str
    claim: str
    why: str
    level: str
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class RunKept:
    """Everything of one run that a comparison asks for.

    Args:
        name: what to call it.
        inputs: paths that were read, and the outcome of reading them.
        ranks: in what its ranks differ, one sentence a topic: then it is not one server.
        facts: topic of the contract -> what said it -> its value.
        setup: the server's configuration; None where nobody told it.
        stated: where ``setup`` is from.
        warnings: settings of it that do not do what they say.
        paper: how far each path gets on paper at this run's concurrency.
        hosts: step times of a live recording, as its hooks took them.
        failed: analyzers that failed.
    """

    name: str
    inputs: tuple[str, ...]
    outcome: str
    notes: tuple[str, ...]
    trust: TrustRow | None
    ranks: tuple[str, ...]
    facts: Mapping[str, Mapping[str, str]]
    setup: Setup | None
    stated: str
    warnings: tuple[Warned, ...]
    paper: tuple[PathLine, ...]
    groups: tuple[StepGroup, ...]
    shapes: tuple[ShapeCost, ...]
    steps: Mapping[str, int]
    paths: tuple[PathSeen, ...]
    bottleneck: Bottleneck | None
    bench: tuple[BenchRun, ...]
    gates: GateFacts = field(default_factory=GateFacts)
    hosts: tuple[HostSteps, ...] = ()
    failed: tuple[str, ...] = ()

    def ran(self, path: str, phase: str) -> bool | None:
        """Whether a path ran in a phase; None where nothing tells, or the phase was not recorded."""
        return next((p.ran for p in self.paths if (p.id, p.phase) == (path, phase)), None)
