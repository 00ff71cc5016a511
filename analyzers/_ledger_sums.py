"""Rows of live tables joined over the seconds in which they were written, and answers that many questions share."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import Array, Table

T = TypeVar("T")


def once(make: Callable[[Recording], T]) -> Callable[[Recording], T]:
    """The answer for the recording that is looked at, made once: 21 paths ask for the same steps."""
    held: list[tuple[weakref.ref[Recording], T]] = []

    @wraps(make)
    def known(rec: Recording) -> T:
        if not held or held[0][0]() is not rec:
            held[:] = [(weakref.ref(rec), make(rec))]
        return held[0][1]

    return known


def joined(table: Table, rows: Array, keys: Sequence[str], sums: Sequence[Array]) -> list[tuple[int, ...]]:
    """Rows with equal keys as one: keys, then the sums over them; in the order of the keys.

    Args:
        rows: int64 [n], of the table.
        sums: int64 [n] each, aligned with ``rows``.
    """
    if not len(rows):
        return []
    columns = [table[key][rows].astype(np.int64) for key in keys]
    order = np.lexsort(columns[::-1])
    sorted_ = [column[order] for column in columns]
    starts = np.ones(len(rows), dtype=bool)
    starts[1:] = np.any([column[1:] != column[:-1] for column in sorted_], axis=0)
    first = np.flatnonzero(starts)
    found = [column[first] for column in sorted_] + [np.add.reduceat(values[order], first) for values in sums]
    return list(zip(*(column.tolist() for column in found), strict=True))
