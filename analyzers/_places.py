"""Places of a recording where a path can run: its steps, and each rank's trace as one where none has steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.schema.verdicts import PHASES, PathVerdict, Phase

_LEFT_OUT = (Phase.EMPTY, Phase.WARMUP, Phase.CAPTURE, Phase.DUMMY)
"""Steps that compute no tokens of a request: a path missing in them means nothing."""


@dataclass(frozen=True, slots=True)
class Places:
    """Columns of equal length: the steps in order, then one row for each rank file without steps.

    ``file``; ``phase`` as index into PHASES; ``rows`` of tokens (-1 not known); ``is_step``; ``whole``: file -> its
    row when it has no steps, else -1.
    """

    file: Array
    phase: Array
    rows: Array
    is_step: Array
    whole: Array

    def __len__(self) -> int:
        return len(self.file)

    def of(self, step: Array, file: Array) -> Array:
        """Place of each event by its step (-1) and file; -1 outside of all places."""
        return np.where(step != NONE, step, self.whole[file]) if len(step) else np.empty(0, dtype=np.int64)

    def count(self, place: Array) -> Array:
        """Events per place, int64 [places]."""
        return np.bincount(place[place >= 0], minlength=len(self)).astype(np.int64)

    def groups(self) -> list[tuple[int, Phase, Array]]:
        """(file, phase, places) in which a path may run, phases in their fixed order."""
        phases = [(i, phase) for i, phase in enumerate(PHASES) if phase not in _LEFT_OUT]
        found = [
            (file, phase, np.flatnonzero((self.file == file) & (self.phase == i)))
            for i, phase in phases
            for file in np.unique(self.file).tolist()
        ]
        return [group for group in found if len(group[2])]


def places(rec: Recording) -> Places:
    """All places of a recording."""
    steps = rec.steps
    busy = np.union1d(rec.kernels["file"], rec.launches["file"])
    rank_files = [i for i, f in enumerate(rec.files) if f.role == "rank"]
    bare = np.array([i for i in rank_files if i in busy and not (steps["file"] == i).any()], dtype=np.int64)
    whole = np.full(len(rec.files), NONE, dtype=np.int64)
    whole[bare] = len(steps) + np.arange(len(bare))
    unknown = PHASES.index(Phase.UNKNOWN)
    return Places(
        file=np.concatenate([steps["file"], bare]).astype(np.int64),
        phase=np.concatenate([steps["phase"], np.full(len(bare), unknown)]).astype(np.int64),
        rows=np.concatenate([steps["rows"], np.full(len(bare), NONE)]).astype(np.int64),
        is_step=np.arange(len(steps) + len(bare)) < len(steps),
        whole=whole,
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """One path in one (rank file, phase).

    Arrays hold places: ``at`` all, ``ran`` those with a call, ``hidden`` those without one whose graph launches show
    nothing. ``steps`` is 0 where the trace has no steps; ``told``: whether runtime calls were recorded at all.
    """

    file: int
    phase: Phase
    at: Array
    ran: Array
    hidden: Array
    steps: int
    told: bool

    @property
    def verdict(self) -> PathVerdict:
        """``executed`` when every step made a call."""
        return PathVerdict.EXECUTED if len(self.ran) == len(self.at) else PathVerdict.UNPROVEN


def cells(rec: Recording, where: Places, calls: Array) -> list[Cell]:
    """All cells of a path, from its calls per place (int64 [places])."""
    bare = np.flatnonzero(rec.unseen_replays)
    unseen = where.count(where.of(rec.launches["step"][bare], rec.launches["file"][bare]))
    return [
        Cell(
            file=file,
            phase=phase,
            at=at,
            ran=at[calls[at] > 0],
            hidden=at[(calls[at] == 0) & (unseen[at] > 0)],
            steps=int(where.is_step[at].sum()),
            told=bool((rec.launches["file"] == file).any()),
        )
        for file, phase, at in where.groups()
    ]
