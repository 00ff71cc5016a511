"""Rows of figures over days in bounded memory: every row of ten minutes, one of ten seconds for an hour, one a minute for a day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.model.tables import Array

TIERS = ((0.0, 600), (10.0, 360), (60.0, 1440))
"""(least seconds between two rows, rows). A counter loses nothing by this: its value is since the server's start."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Rows in order of time.

    Args:
        at_s: when each was taken.
        epoch: rows of one number go on from each other; between two numbers no difference means anything.
        values: [rows, columns].
    """

    at_s: Array
    epoch: Array
    values: Array

    def __len__(self) -> int:
        return len(self.at_s)

    def since(self, at_s: float) -> Held:
        """Those at or after a time."""
        first = int(np.searchsorted(self.at_s, at_s))
        return Held(self.at_s[first:], self.epoch[first:], self.values[first:])

    def newest_epoch(self) -> Held:
        """Rows that the last one goes on from."""
        other = np.flatnonzero(self.epoch != self.epoch[-1]) if len(self) else np.zeros(0, dtype=np.int64)
        first = int(other[-1]) + 1 if len(other) else 0
        return Held(self.at_s[first:], self.epoch[first:], self.values[first:])

    def picked(self, rows: Array) -> Held:
        """Some of them."""
        return Held(self.at_s[rows], self.epoch[rows], self.values[rows])


class Ring:
    """The last rows that lie at least ``every_s`` apart."""

    def __init__(self, rows: int, columns: int, every_s: float) -> None:
        self.every_s = every_s
        self._at = np.full(rows, np.nan)
        self._epoch = np.zeros(rows, dtype=np.int64)
        self._values = np.full((rows, columns), np.nan)
        self._put = 0

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays: they never grow."""
        return self._at.nbytes + self._epoch.nbytes + self._values.nbytes

    def __len__(self) -> int:
        return min(self._put, len(self._at))

    def put(self, at_s: float, epoch: int, row: Array) -> None:
        """Keep a row, unless the last one is too near."""
        size = len(self._at)
        if self._put and at_s - float(self._at[(self._put - 1) % size]) < self.every_s:
            return
        to = self._put % size
        self._at[to], self._epoch[to], self._values[to] = at_s, epoch, row
        self._put += 1

    def since(self, at_s: float, until_s: float = np.inf) -> Held:
        """Its rows of a time, oldest first."""
        size = len(self._at)
        order = np.arange(len(self)) if self._put <= size else (np.arange(size) + self._put) % size
        times = self._at[order]
        order = order[(times >= at_s) & (times < until_s)]
        return Held(self._at[order], self._epoch[order], self._values[order])


class History:
    """All tiers together."""

    def __init__(self, columns: int) -> None:
        self.rings = tuple(Ring(rows, columns, every_s) for every_s, rows in TIERS)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays: they never grow."""
        return sum(ring.nbytes for ring in self.rings)

    def put(self, at_s: float, epoch: int, row: Array) -> None:
        """Keep a row; ``at_s`` never goes back."""
        for ring in self.rings:
            ring.put(at_s, epoch, row)

    def since(self, at_s: float) -> Held:
        """Rows of a time, oldest first: each tier where no finer one reaches."""
        until = float("inf")
        parts: list[Held] = []
        for ring in self.rings:
            part = ring.since(at_s, until)
            if len(part):
                parts.insert(0, part)
                until = float(part.at_s[0])
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return self.rings[0].since(np.inf)
        return Held(
            np.concatenate([part.at_s for part in parts]),
            np.concatenate([part.epoch for part in parts]),
            np.concatenate([part.values for part in parts]),
        )
