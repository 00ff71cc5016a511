"""A table on its way out: columns whose ids are text again, whose unknowns are null, and that say unit and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from m3probe.model.tables import NONE, Array
from m3probe.present.escape import safe

TEXT, INT, FLOAT, BOOL, INTS, SHAPES, TEXTS = "text", "int", "float", "bool", "ints", "shapes", "texts"
"""What a column holds: ``ints`` is a list of numbers, ``shapes`` a list of those, ``texts`` a list of texts."""


@dataclass(frozen=True, slots=True)
class Out:
    """One column.

    Args:
        kind: one of the words above.
        values: [rows]; of int, float and bool columns the values, of all others an index into ``known``.
        null: [rows] mask of what is not known.
        known: distinct values of a column that is not plain.
    """

    name: str
    kind: str
    unit: str
    meaning: str
    values: Array
    null: Array
    known: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class OutTable:
    """One table; all columns have ``rows`` rows."""

    name: str
    meaning: str
    rows: int
    columns: tuple[Out, ...]


def plain(name: str, kind: str, unit: str, meaning: str, values: Array, null: Array | None = None) -> Out:
    """A column of numbers or yes/no."""
    nothing = np.zeros(len(values), dtype=bool) if null is None else null
    return Out(name, kind, unit, meaning, values, nothing)


def coded(name: str, kind: str, unit: str, meaning: str, ids: Array, known: Sequence[Any]) -> Out:
    """A column of ids into ``known``, in which only what the column uses is kept; -1 is not known.

    Texts come out printable: a foreign name moves no cursor, and has no lone surrogate, which no UTF-8 file can hold.
    """
    used, at = np.unique(ids, return_inverse=True)
    kept = [known[i] if i >= 0 else None for i in used.tolist()]
    if kind == TEXT:
        kept = [None if text is None else safe(text) for text in kept]
    null = ids == NONE
    first = int(bool(len(used) and used[0] == NONE))  # -1 sorts first
    return Out(name, kind, unit, meaning, np.where(null, 0, at - first).astype(np.int32), null, tuple(kept[first:]))


def of_values(name: str, kind: str, unit: str, meaning: str, values: Iterable[Any]) -> Out:
    """A column from Python's values; None is not known."""
    listed = list(values)
    null = np.array([value is None for value in listed], dtype=bool)
    if kind == INT:
        return plain(name, kind, unit, meaning, np.array([v or 0 for v in listed], dtype=np.int64), null)
    if kind == FLOAT:
        return plain(name, kind, unit, meaning, np.array([v or 0.0 for v in listed], dtype=np.float64), null)
    if kind == BOOL:
        return plain(name, kind, unit, meaning, np.array([bool(v) for v in listed], dtype=bool), null)
    ids: dict[Any, int] = {}
    at = [NONE if v is None else ids.setdefault(v, len(ids)) for v in listed]
    return coded(name, kind, unit, meaning, np.array(at, dtype=np.int64), list(ids))
