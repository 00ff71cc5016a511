"""GEMMs that start fewer workgroups than the device has units.

That is a fact of the launch. That more workgroups would be faster is not: a GEMM of a few rows waits for its weights,
and memory can be busy before the units are. So only launches that leave more than a quarter of the units idle are
bounded, the bound is an upper one, and the confidence is never high.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from m3probe.analyzers._basis import basis, removable_share, step_share
from m3probe.analyzers._gemm import Calls, evidence_of
from m3probe.analyzers._gemm_ops import GROUPED, GemmShape
from m3probe.model.findings import Bound, Finding
from m3probe.model.recording import Recording
from m3probe.schema.verdicts import Phase

FILLED = 0.75
"""Share of the units from which on a launch is not counted in the bound: 128 of 132 is no loss worth a tile."""
_SHOWN = 4
_ADVICE = (
    "Measure before crediting it: decode GEMMs wait for memory. Give the full local shape to the tile choice: narrower "
    "N tiles or split-K until workgroups reach the units, and a larger K step so that each one's loop is short (vLLM "
    "46117); keep a separate small-M regime for decode (vLLM 45725), and leave prefill's wide tiles alone."
)


@dataclass(frozen=True, slots=True)
class Launch:
    """How calls of one shape, kernel and grid fill the device.

    ``tile``, ``programs`` and ``k_loops`` are those of the tile that ran (it stands in the kernel's name, or the kernel
    asked vLLM's selector); "" and None where nothing tells.
    """

    phase: Phase
    shape: GemmShape | None
    calls: tuple[Calls, ...]
    tile: str
    programs: int | None
    k_loops: int | None
    units: int | None

    @property
    def count(self) -> int:
        """How many calls."""
        return sum(part.count for part in self.calls)

    @property
    def grid(self) -> tuple[int, ...] | None:
        """Recorded workgroups; None when not recorded."""
        return self.calls[0].grid

    @property
    def workgroups(self) -> int | None:
        """Workgroups that start: the recorded grid (it holds split-K), else the programs of the tile that ran."""
        return prod(self.grid) if self.grid is not None else self.programs

    @property
    def filled(self) -> float | None:
        """Workgroups over units; None where either is unknown."""
        return self.workgroups / self.units if self.workgroups and self.units else None

    @property
    def kernels(self) -> list[int]:
        """Rows of all kernels that the calls computed with."""
        return [row for part in self.calls for row in part.launched.tolist()]

    @property
    def time_ns(self) -> int:
        """Their time, 0 where none has one."""
        return sum(part.time_ns or 0 for part in self.calls)

    def text(self) -> str:
        """``8x1536x6144: 96 of 132 (24 tiles), 54 launches``."""
        shape = self.shape
        name = f"{shape.M}x{shape.N}x{shape.K}" if shape else f"shape unknown, {self.calls[0].kernel[:60]}"
        tiles = f" ({self.programs} tiles)" if self.programs not in {None, self.workgroups} else ""
        return f"{name}: {self.workgroups} of {self.units}{tiles}, {self.count:,} launch{'es' * (self.count != 1)}"


def starved_findings(rec: Recording, launches: Sequence[Launch], *, trusted: bool) -> Iterator[Finding]:
    """One finding for all starved GEMMs of decode, the most expensive first."""
    decode = [x for x in launches if x.phase == Phase.DECODE and x.filled and not _grouped(x)]
    starved = sorted((x for x in decode if (x.filled or 1) < 1), key=lambda x: (-x.time_ns, -x.count))
    if not starved:
        return
    few = [x for x in starved if (x.filled or 1) < FILLED]
    bound, words = _bound(rec, few) if few else (None, "none of them leaves a quarter of the units idle")
    shown = "; ".join(x.text() for x in starved[:_SHOWN])
    more = f"; and {len(starved) - _SHOWN} more kinds" if len(starved) > _SHOWN else ""
    units = starved[0].units
    yield Finding(
        id="shapes.starved.decode",
        question="shapes",
        verdict="starved",
        claim=f"In decode {_sum(starved):,} of {_sum(decode):,} GEMM launches start fewer workgroups than the {units} units"
        f"{_time(starved)}; {words}",
        where="decode",
        evidence=evidence_of(
            [part for x in starved for part in x.calls], f"{shown}{more}", f"at least {units} workgroups"
        ),
        advice=_ADVICE,
        bound=bound,
        confidence="medium" if few else "low",
        trusted=trusted,
    )


def _grouped(launch: Launch) -> bool:
    return launch.shape is not None and launch.shape.kind == GROUPED


def _sum(launches: Sequence[Launch]) -> int:
    return sum(x.count for x in launches)


def _time(launches: Sequence[Launch]) -> str:
    time_ns = sum(x.time_ns for x in launches)
    return f" ({time_ns:,} ns with their split-K reductions)" if time_ns else ""


def _bound(rec: Recording, few: Sequence[Launch]) -> tuple[Bound | None, str]:
    """At most all of their time is won: an upper bound, for their weights must be read in any case."""
    words = f"{_sum(few):,} of them leave more than a quarter idle"
    base = basis(rec)
    rows = np.array([row for x in few for row in x.kernels], dtype=np.int64)
    if base is None or base.where != Phase.DECODE or not len(rows):
        return None, words
    bound = removable_share(rec, rows, base, more=" (Amdahl: as if they took no time)")
    return bound, f"{words} and take {100 * step_share(rec, rows, base):.1f} % of {base.name}"
