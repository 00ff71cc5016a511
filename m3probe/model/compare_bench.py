"""What two sets of benchmark runs, and two recordings, say against each other: ratios with noise, laws, crossings.

``a`` is the run before, ``b`` the one after; a ratio is after over before. What is not known is None, never 0. Texts of
a client (labels) are foreign: the presenter escapes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricVerdict(StrEnum):
    """A metric of B against A's."""

    BETTER = "better"
    """By more than the noise."""
    WORSE = "worse"
    SAME = "same"
    """Within the noise; or within 0.1 % where the noise is not known: no effect seen."""
    UNPROVEN = "unproven"
    """They differ, and nothing says how far equal runs lie apart."""


@dataclass(frozen=True, slots=True)
class WorkloadPoint:
    """What was asked of the server; None where neither run says it.

    Args:
        isl: prompt tokens a request: the label of the run (``8192``), else the mean. ``osl`` alike for output tokens.
        concurrency: requests the client keeps in flight at most.
        request_rate: requests a second that were asked for; None where all were sent as the limit allows.
    """

    isl: str = ""
    osl: str = ""
    concurrency: int | None = None
    request_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One side's value of a metric at one point: the mean over its repeats.

    Args:
        repeats: runs it is the mean of.
        error: standard error of ``value``, in its unit; None where nothing tells.
        freedom: degrees of freedom of ``error``; None with it.
        error_of: what ``error`` was made from, in words (``3 runs``, ``640 requests of one run``), "" with None.
    """

    value: float
    repeats: int = 1
    error: float | None = None
    freedom: float | None = None
    error_of: str = ""


@dataclass(frozen=True, slots=True)
class MetricPair:
    """One metric at one point, before and after.

    Args:
        metric: ``output_per_gpu output total_per_gpu total requests goodput prefix_hit_rate ttft tpot itl e2el``.
        of: ``mean``, ``median`` or ``p99`` of a latency, "" of a rate.
        unit: ``tokens/s``, ``requests/s``, ``ms``, ``share``.
        higher_is_better: of throughputs; latencies are better low.
        ratio: b over a.
        ratio_error: its standard error; None where that of either side is not known.
        band: how far from 1 the ratio must be to count: two standard errors, more where few runs stand for them.
        verdict: with the noise. ``direction``: what the bare figures say, without it.
    """

    metric: str
    of: str
    unit: str
    higher_is_better: bool
    point: WorkloadPoint
    a: Sample
    b: Sample
    ratio: float
    ratio_error: float | None
    band: float | None
    verdict: MetricVerdict
    direction: MetricVerdict

    @property
    def gain(self) -> float:
        """By how much B is better, as a share of A's rate: 0.10 is a tenth more in a second, or the same in 1/1.1."""
        return (self.ratio if self.higher_is_better else 1 / self.ratio) - 1


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run, or a point of one side, that nothing is concluded from; ``side`` is ``a`` or ``b``."""

    side: str
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class EvalPair:
    """Two accuracies of one task, and how far apart two equal servers may be.

    Args:
        error: standard error of the difference. ``band``: two of them.
        verdict: ``same`` within the band.
    """

    task: str
    metric: str
    a: float
    b: float
    n_a: int | None
    n_b: int | None
    error: float | None
    band: float | None
    verdict: MetricVerdict
    claim: str


class Law(StrEnum):
    """How what is saved in a decode step depends on its rows."""

    AMORTISATION = "amortisation"
    """The same time in every step: a fixed cost."""
    BANDWIDTH = "bandwidth"
    """More with more rows: work per row."""
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class Saving:
    """One concurrency: time per output token before and after.

    Args:
        saved_ms: a_ms - b_ms. ``saved_us_per_layer``: of each expert layer, None where the layers are not known.
        rate_gain: a_ms over b_ms, less 1.
    """

    concurrency: int
    a_ms: float
    b_ms: float
    saved_ms: float
    rate_gain: float
    saved_us_per_layer: float | None = None


@dataclass(frozen=True, slots=True)
class Scaling:
    """The saving over concurrency, held against two laws by least squares.

    Args:
        of: ``mean`` or ``median`` TPOT.
        fixed_ms: the constant that fits best; ``fixed_residual_ms`` its root mean square residual.
        per_row_us: of ``saved = k * rows``; ``per_row_residual_ms`` alike.
        claim: in words, with the numbers. ``decide``: what would tell, or confirm it.
    """

    isl: str
    osl: str
    of: str
    points: tuple[Saving, ...]
    law: Law
    fixed_ms: float
    fixed_residual_ms: float
    per_row_us: float
    per_row_residual_ms: float
    claim: str
    decide: str


@dataclass(frozen=True, slots=True)
class GainPlace:
    """Which phase the gain sits in, by the client's figures: ``prefill decode both none unproven``."""

    phase: str
    claim: str


@dataclass(frozen=True, slots=True)
class ShareInterval:
    """The share of step time that a kernel had, from its own gain and the whole's (Amdahl).

    Args:
        low: the gain read as time saved; ``high``: as rate gained. Equal where the reading is known.
        arithmetic: the formula with its numbers, one for each of low and high.
        possible: False where a share above 1 comes out: the kernel's gain cannot have given the whole's.
        measured: the kernel's share in A's recording; None where none was given.
        verdict: of ``measured``: ``inside``, ``below``, ``above``; "" without it.
    """

    low: float
    high: float
    arithmetic: tuple[str, ...]
    possible: bool
    claim: str
    measured: float | None = None
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where the faster of two changes.

    Args:
        low: the last measured place of the old order; ``high``: the first one of the new.
        at: where they meet on straight lines in log-log between those two.
        b_faster_above: True where B is the faster one above it.
    """

    low: float
    high: float
    at: float
    b_faster_above: bool


@dataclass(frozen=True, slots=True)
class GatePlace:
    """A gate that the setup has, beside the crossing: ``at``, ``too_low``, ``too_high``, ``wrong_side``, ``unproven``."""

    gate: str
    threshold: int
    verdict: str
    claim: str


@dataclass(frozen=True, slots=True)
class SweepCrossing:
    """A metric of two sweeps over concurrency; ``b_better_at``: concurrencies at which B's figure is the better one."""

    metric: str
    of: str
    isl: str
    osl: str
    concurrencies: tuple[int, ...]
    b_better_at: tuple[int, ...]
    crossovers: tuple[Crossover, ...]
    gates: tuple[GatePlace, ...]
    claim: str


@dataclass(frozen=True, slots=True)
class BenchComparison:
    """All that two sets of runs say; empty ``pairs`` where no point was measured by both."""

    pairs: tuple[MetricPair, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    crossings: tuple[SweepCrossing, ...] = ()
    place: GainPlace | None = None
    evaluation: EvalPair | None = None
    notes: tuple[str, ...] = ()
    """What must be known before a ratio is believed, one sentence each."""

    @property
    def known(self) -> bool:
        """Whether anything could be held against anything."""
        return bool(self.pairs or self.evaluation)


@dataclass(frozen=True, slots=True)
class OpPoint:
    """One operation at M rows: mean ns per call and calls, of both; ``ratio`` is b over a."""

    M: int
    a_ns: float
    a_calls: int
    b_ns: float
    b_calls: int
    ratio: float


@dataclass(frozen=True, slots=True)
class GatePlan:
    """What calls of a recorded histogram would take behind a gate: B from ``threshold`` rows on, or up to it.

    Args:
        side: ``above`` (B for M >= threshold) or ``below`` (B for M <= threshold).
        total_ns: over all covered calls.
        gain: share of the better of always A and always B that it saves.
    """

    side: str
    threshold: int
    total_ns: float
    gain: float


@dataclass(frozen=True, slots=True)
class GateRun:
    """A gate simulated on a histogram.

    Args:
        histogram: ``a`` or ``b``: whose recording the calls are from.
        calls: all of it; ``covered``: those at an M that both measured.
        always_a_ns, always_b_ns: of the covered calls.
        best: the best threshold; None where neither ever wins by one (always the same is best).
        current: the gate in force as the setup says it, None where there is none or it is not known.
        gain_over_current: share of the current gate's time that the best saves.
        proven: whether at least 95 % of the calls are covered.
    """

    histogram: str
    calls: int
    covered: int
    always_a_ns: float
    always_b_ns: float
    best: GatePlan | None
    current: GatePlan | None
    gain_over_current: float | None
    proven: bool
    claim: str


@dataclass(frozen=True, slots=True)
class OpCrossing:
    """One operation over M in two recordings.

    Args:
        op: ``gemm``, ``grouped gemm``, ``batched gemm``, or a family of kernels by the rows of its step.
        shape: ``N x K`` (and experts), "" for a family.
        phase: of the steps where M is the rows of a step, else "".
        unit: what one time is of: ``call`` or ``step``.
        only_a, only_b: values of M that one of them alone measured.
    """

    op: str
    shape: str
    phase: str
    unit: str
    points: tuple[OpPoint, ...]
    only_a: tuple[int, ...]
    only_b: tuple[int, ...]
    crossovers: tuple[Crossover, ...]
    gates: tuple[GatePlace, ...]
    simulated: GateRun | None
    claim: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """All operations that both recordings timed at a common M, the one with the largest difference first."""

    ops: tuple[OpCrossing, ...] = ()
