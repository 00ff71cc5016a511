"""Equal rows put together: groups of kernel executions, and the lines of a byte plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.model.executed import Executed
from m3probe.model.recording import Recording
from m3probe.model.report import PlaneRow
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import PHASES, Evidence, Phase


@dataclass(frozen=True, slots=True)
class View:
    """A recording, what ran in it, and the phase of each execution (index into PHASES)."""

    rec: Recording
    ran: Executed
    phase: Array

    def text(self, column: Array, row: int) -> str:
        """A string column's text at one row, "" where it is not known."""
        return self.rec.strings[int(column[row])]

    @property
    def unrecorded(self) -> Array:
        """Mask: executions that the census alone proves, and that have no time."""
        mask: Array = self.ran.kernel == NONE
        return mask

    @property
    def replayed(self) -> Array:
        """Mask: executions that a graph launch started."""
        launch = self.ran.launch
        if not len(self.rec.launches):
            return np.zeros(len(launch), dtype=bool)
        mask: Array = (launch != NONE) & self.rec.graph_launches[np.maximum(launch, 0)]
        return mask

    def why_silent(self, row: int) -> str:
        """Why the launch of one execution shows no argument."""
        name, launch = self.text(self.ran.op, row), int(self.ran.launch[row])
        if name:
            return f"inside {name}, which does not show it"
        if launch == NONE:
            return "without a recorded launch"
        if self.rec.graph_launches[launch] and self.ran.census[row] == NONE:
            return "replayed from a graph without a census"
        return "launched outside of any recorded operator"

    def evidence(self, rows: Array) -> Evidence:
        """What proves these executions."""
        return Evidence.CENSUS if (self.ran.kernel[rows] == NONE).any() else Evidence.KERNELS

    def time_ns(self, rows: Array) -> int | None:
        """Kernel time of these executions; None where none has a time."""
        dur = self.ran.dur_ns[rows]
        return int(dur[dur >= 0].sum()) if (dur >= 0).any() else None


def view(rec: Recording, ran: Executed) -> View:
    """The view that all planes share."""
    return View(rec, ran, phases(rec, ran.step))


def phases(rec: Recording, step: Array) -> Array:
    """Phase (index into PHASES) of events by their step; ``unknown`` outside of steps."""
    unknown = PHASES.index(Phase.UNKNOWN)
    if not len(rec.steps):
        return np.full(len(step), unknown, dtype=np.int8)
    return np.where(step == NONE, unknown, rec.steps["phase"][np.maximum(step, 0)])


def alike(rows: Array, *columns: Array) -> list[Array]:
    """``rows`` in groups that agree in every column (columns are of the whole table)."""
    if not len(rows):
        return []
    key = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        values, code = np.unique(column[rows], return_inverse=True)
        key = np.unique(key * len(values) + code, return_inverse=True)[1]
    order = np.argsort(key, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(key[order])) + 1)


@dataclass(slots=True)
class _Line:
    count: int = 0
    bytes: int | None = None
    time_ns: int | None = None


class Lines:
    """Lines of one plane; those equal in all their words are added up.

    What has bytes is never put together with what has none, nor what was recorded with what the census alone proves:
    a sum over a part would read as the whole.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str, str, bool, str], _Line] = {}

    def add(
        self,
        what: str,
        count: int,
        *,
        nbytes: int | None = None,
        time_ns: int | None = None,
        dtype: str = "",
        layout: str = "",
        evidence: str,
    ) -> None:
        """Add to a line."""
        line = self._lines.setdefault((what, dtype, layout, nbytes is None, str(evidence)), _Line())
        line.count += count
        if nbytes is not None:
            line.bytes = (line.bytes or 0) + nbytes
        if time_ns is not None:
            line.time_ns = (line.time_ns or 0) + time_ns

    def rows(self) -> tuple[PlaneRow, ...]:
        """The lines, in order of their words."""
        return tuple(
            PlaneRow(what, line.count, line.bytes, line.time_ns, dtype, layout, proof)
            for (what, dtype, layout, _, proof), line in sorted(self._lines.items())
        )


def phase_of(rows: Array, phase: Array) -> str:
    """The phase of a group, as its word."""
    return str(PHASES[int(phase[rows[0]])])
