"""Which step of one rank is which step of another: each counts for itself, and a window must open on all at once.

Ranks of one engine run in lockstep, so the same step starts on each within a small part of its length. Their own rows
say when (one clock for a host); where nothing runs, standing counters say it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NEAR = 0.25
"""Part of the distance between two steps within which starts must agree to be one step."""
FEWEST = 5
"""Rows that must agree, without any that does not."""


@dataclass(frozen=True, slots=True)
class Start:
    """One step as one rank saw it."""

    step: int
    t_start: int
    rows: int


def by_rows(starts: Mapping[int, Sequence[Start]]) -> dict[int, int] | None:
    """Step numbers of each rank minus those of the first, or None where the rows do not tell without doubt.

    Args:
        starts: key of the rank -> its rows in order.
    """
    if not starts:
        return None
    reference = next(iter(starts.values()))
    found = {key: _offset(reference, rows) for key, rows in starts.items()}
    offsets = {key: offset for key, offset in found.items() if offset is not None}
    return offsets if len(offsets) == len(found) else None


def standing(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int] | None:
    """The same from two looks at the counters of all ranks: only where none moved between them."""
    if not before or before != after:
        return None
    first = next(iter(before.values()))
    return {key: step - first for key, step in before.items()}


def _offset(reference: Sequence[Start], rows: Sequence[Start]) -> int | None:
    found: Counter[int] = Counter()
    at = 0
    for i, own in enumerate(reference):
        gaps = [abs(own.t_start - other.t_start) for other in reference[max(i - 1, 0) : i + 2] if other is not own]
        while at < len(rows) - 1 and abs(rows[at + 1].t_start - own.t_start) <= abs(rows[at].t_start - own.t_start):
            at += 1
        if not rows or not gaps:
            return None
        near = abs(rows[at].t_start - own.t_start) < NEAR * min(gaps)
        if near and rows[at].rows == own.rows:
            found[rows[at].step - own.step] += 1
    return next(iter(found)) if len(found) == 1 and found.total() >= FEWEST else None
