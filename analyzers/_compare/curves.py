"""Times of a recording's operations by their rows: what two recordings are held against each other by.

A GEMM is a family of shapes of one N and K, timed per call. Attention and the other families have no M of their own:
their kernel time in a step stands beside the rows of that step, prefill and decode apart. Attention grows with context
too, so that two recordings must be of one workload before their attention is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from m3probe.analyzers._basis import timed_steps
from m3probe.analyzers._figures import timed
from m3probe.analyzers._gemm import gemms
from m3probe.analyzers._gemm_ops import BATCHED, GROUPED, LINEAR
from m3probe.analyzers._ledger import is_live, worker_steps
from m3probe.analyzers._ledger_shapes import shape_rows
from m3probe.analyzers._steptime import StepTimes, step_times
from m3probe.model.executed import executed
from m3probe.model.recording import Recording
from m3probe.schema.setup import Setup
from m3probe.schema.verdicts import FAMILIES, Family, Phase

WORDS = {LINEAR: "gemm", GROUPED: "grouped gemm", BATCHED: "batched gemm"}
CALL, STEP = "call", "step"
WHOLE_STEP = "whole step"
_BY_ROWS = (Family.ATTENTION, Family.SPARSE_ATTENTION, Family.INDEXER, Family.MOE_GEMM, Family.GEMM, Family.COMM)
_HAVE_SHAPES = {str(Family.GEMM): "gemm", str(Family.MOE_GEMM): "grouped gemm"}
_PHASES = (Phase.DECODE, Phase.PREFILL)


@dataclass(frozen=True, slots=True)
class OpKey:
    """One operation: ``gemm`` with N, K and experts (1: none), or a family with its phase."""

    op: str
    N: int = 0
    K: int = 0
    groups: int = 1
    phase: str = ""

    @property
    def unit(self) -> str:
        """What one time is of."""
        return STEP if self.phase else CALL

    @property
    def shape(self) -> str:
        """``N 2560 K 6144``; "" for a family."""
        experts = f" x {self.groups:,}" if self.groups > 1 else ""
        return f"N {self.N:,} K {self.K:,}{experts}" if self.N else ""


@dataclass(slots=True)
class Curve:
    """M -> [ns of all calls, calls] of those with a time; ``seen``: M -> calls, with a time or without."""

    timed: dict[int, list[int]] = field(default_factory=dict)
    seen: Counter[int] = field(default_factory=Counter)

    def add(self, M: int, time_ns: int | None, calls: int) -> None:
        """Calls of one size; without a time they are only counted."""
        self.seen[M] += calls
        if time_ns is not None and time_ns > 0:
            held = self.timed.setdefault(M, [0, 0])
            held[0] += time_ns
            held[1] += calls

    def mean_ns(self) -> dict[int, float]:
        """M -> ns of one call."""
        return {M: total / calls for M, (total, calls) in self.timed.items()}


@dataclass(frozen=True, slots=True)
class Curves:
    """All that crossing needs of a recording, so that the recording itself need not be kept.

    Args:
        counted: operation -> M -> calls, of all counted steps of a live recording; empty without one.
    """

    by_op: dict[OpKey, Curve]
    counted: dict[OpKey, Counter[int]]
    setup: Setup | None

    def histogram(self, key: OpKey) -> Counter[int]:
        """M -> calls: of the counted steps where there are some, else of the trace."""
        return self.counted.get(key) or (self.by_op[key].seen if key in self.by_op else Counter())


def curves(rec: Recording) -> Curves:
    """The times by rows of every operation of a recording that has any."""
    found: dict[OpKey, Curve] = {}
    for key, M, time_ns, calls in (*_gemms(rec), *_families(rec)):
        found.setdefault(key, Curve()).add(M, time_ns, calls)
    return Curves(found, _counted(rec) if is_live(rec) else {}, rec.meta.setup)


def _gemms(rec: Recording) -> Iterator[tuple[OpKey, int, int | None, int]]:
    for group in gemms(rec, executed(rec)).shaped:
        shape = group.shape
        if shape is None:
            continue
        key = OpKey(WORDS.get(shape.kind, shape.kind), shape.N, shape.K, shape.groups)
        for part in group.calls:
            if part.shapes()[0] == shape:  # both GEMMs of an expert layer are one call
                yield key, shape.M, part.time_ns, part.count


def _families(rec: Recording) -> Iterator[tuple[OpKey, int, int | None, int]]:
    times = step_times(rec)
    kernels = rec.kernels
    rows = timed(rec)
    step, family, dur = kernels["step"][rows], kernels["family"][rows], kernels["dur_ns"][rows]
    inside = step >= 0
    for phase in _PHASES:
        steps = timed_steps(rec, times, phase)
        known = steps[rec.steps["rows"][steps] > 0]
        if not len(known):
            continue
        yield from _whole_steps(rec, times, phase)
        for word in _BY_ROWS:
            own = inside & (family == FAMILIES.index(word))
            total = np.bincount(step[own], weights=dur[own], minlength=len(rec.steps))
            for one in known[total[known] > 0].tolist():
                yield OpKey(str(word), phase=str(phase)), int(rec.steps["rows"][one]), int(total[one]), 1


def _whole_steps(rec: Recording, times: StepTimes, phase: Phase) -> Iterator[tuple[OpKey, int, int | None, int]]:
    """Step times of steps that another follows: the last one's wait is not known."""
    steps = timed_steps(rec, times, phase)
    for one in steps[times.followed[steps] & (rec.steps["rows"][steps] > 0)].tolist():
        yield OpKey(WHOLE_STEP, phase=str(phase)), int(rec.steps["rows"][one]), int(times.window_ns[one]), 1


def _counted(rec: Recording) -> dict[OpKey, Counter[int]]:
    """Calls by M of all steps that guests counted; grouped GEMMs are left out, whose rows are counted after routing there."""
    found: dict[OpKey, Counter[int]] = {}
    for row in shape_rows(rec):
        if row.op == LINEAR and row.M and row.N and row.K:
            found.setdefault(OpKey("gemm", row.N, row.K), Counter())[row.M] += row.count
    for kind in worker_steps(rec):
        if kind.exact and kind.phase in [str(phase) for phase in _PHASES]:
            for op in (WHOLE_STEP, *map(str, _BY_ROWS)):
                found.setdefault(OpKey(op, phase=kind.phase), Counter())[kind.padded_rows] += kind.steps
    return found


def without_doubles(keys: set[OpKey]) -> set[OpKey]:
    """Without families whose GEMMs stand there by shape."""
    shaped = {key.op for key in keys if key.N}
    return {key for key in keys if _HAVE_SHAPES.get(key.op) not in shaped or key.N}
