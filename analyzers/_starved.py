"""GEMMs that start fewer programs than the device has units: in decode the idle units cost as much as the busy ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from m3probe.analyzers import _figures as figures
from m3probe.analyzers._gemm import GemmGroup
from m3probe.analyzers._gemm_ops import GROUPED
from m3probe.analyzers._steptime import step_times
from m3probe.model.findings import Bound, Finding, evidence
from m3probe.model.recording import Recording
from m3probe.schema.verdicts import PHASES, Phase

_SHOWN = 4
_ADVICE = (
    "Give the full local shape to the tile choice: narrower N tiles or split-K until programs reach the units, and a "
    "larger K step so that each program's loop is short (vLLM 46117); keep a separate small-M regime for decode "
    "(vLLM 45725), and leave prefill's wide tiles alone."
)


@dataclass(frozen=True, slots=True)
class Launch:
    """How a group of GEMM calls fills the device.

    ``programs`` and ``k_loops`` follow from ``tile``; ``ran`` says that this tile is the one that ran (it stands in
    the kernel's name, or the kernel is the one the selector serves), not one that another kernel would have taken.
    """

    group: GemmGroup
    tile: str
    programs: int | None
    k_loops: int | None
    units: int | None
    ran: bool

    @property
    def workgroups(self) -> int | None:
        """Workgroups that really start: the recorded grid (it holds split-K), else the programs of the tile that ran."""
        if self.group.grid is not None:
            return prod(self.group.grid)
        return self.programs if self.ran else None

    @property
    def starved(self) -> bool:
        """Fewer workgroups than units; False where either is unknown."""
        return self.workgroups is not None and self.units is not None and self.workgroups < self.units

    def text(self) -> str:
        """``8x1536x6144: 96 of 132 (24 tiles)``."""
        shape = self.group.shape
        name = f"{shape.M}x{shape.N}x{shape.K}" if shape else f"shape unknown, {self.group.kernel[:60]}"
        tiles = f" ({self.programs} tiles)" if self.programs not in {None, self.workgroups} and self.ran else ""
        return f"{name}: {self.workgroups} of {self.units}{tiles}"


def starved_findings(rec: Recording, launches: Sequence[Launch], *, trusted: bool) -> Iterator[Finding]:
    """One finding for all starved GEMMs of decode, the most expensive first."""
    grouped = [x for x in launches if x.group.shape and x.group.shape.kind == GROUPED]
    decode = [x for x in launches if x.group.phase == Phase.DECODE and x not in grouped and x.workgroups and x.units]
    starved = sorted((x for x in decode if x.starved), key=lambda x: (-(x.group.time_ns or 0), -x.group.count))
    if not starved:
        return
    time_ns = sum(x.group.time_ns or 0 for x in starved)
    bound, words = _bound(rec, starved, time_ns) if time_ns else (None, "no kernel times")
    calls = sum(x.group.count for x in starved)
    claim = f"In decode {len(starved)} of {len(decode)} GEMM launches start fewer programs than the {starved[0].units} units"
    claim += f": {calls:,} calls, {words}"
    first = starved[0].group
    shown = "; ".join(x.text() for x in starved[:_SHOWN])
    more = f"; and {len(starved) - _SHOWN} more" if len(starved) > _SHOWN else ""
    yield Finding(
        id="shapes.starved.decode",
        question="shapes",
        verdict="starved",
        claim=claim,
        where="decode",
        evidence=(evidence(first.table, first.rows, f"{shown}{more}", f"at least {starved[0].units} programs"),),
        advice=_ADVICE,
        bound=bound,
        trusted=trusted,
    )


def _bound(rec: Recording, starved: Sequence[Launch], time_ns: int) -> tuple[Bound | None, str]:
    """At most all of their time, as a share of decode's step time (what the other findings are shares of)."""
    times = step_times(rec)
    steps = np.flatnonzero((rec.steps["phase"] == PHASES.index(Phase.DECODE)) & times.seen)
    window_ns = int(times.window_ns[steps].sum())
    kernels_ns = int(figures.step_kernel_time_ns(rec)[steps].sum())
    if not window_ns or not kernels_ns:
        return None, "no step times"
    idle_ns = sum((x.group.time_ns or 0) * (1 - (x.workgroups or 0) / (x.units or 1)) for x in starved)
    high = min(1.0, time_ns / window_ns)
    words = f"{high:.1%} of decode step time, {time_ns / kernels_ns:.1%} of its kernel time"
    words += f" ({idle_ns / kernels_ns:.1%} is what idle units would save if they did their part)"
    return Bound(0.0, high, "kernel time of these GEMMs / decode step time (Amdahl: they take no time)"), words
