"""Family of each kernel row, asking the grammar once per distinct name."""

from __future__ import annotations

import numpy as np

from m3probe.kernels.grammar import classify
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family

_UNKNOWN = FAMILIES.index(Family.UNKNOWN)
MOST_NAMES = 2**17
"""Distinct names of one part of one file that are classified, 26 us each. Real traces hold hundreds to a few thousand; a
file of a million made-up ones took 26 s here alone."""


def families(names: Array, ops: Array, builder: RecordingBuilder) -> Array:
    """Index into FAMILIES of each row.

    Args:
        names: string id of each kernel, -1 for none.
        ops: string id of the op around its launch, -1 for none; asked only where a name alone does
            not tell (vLLM's MXFP8 quantiser is called ``_kernel``).
    """
    texts = builder.strings.texts
    if not len(names):
        return np.empty(0, dtype=np.int8)
    distinct, where, counts = np.unique(names, return_inverse=True, return_counts=True)
    by_name = np.full(len(distinct), _UNKNOWN, dtype=np.int8)
    for at in _classified(counts, builder):
        by_name[at] = _family(texts[distinct[at]] if distinct[at] >= 0 else "")
    found: Array = by_name[where]
    if len(distinct) > MOST_NAMES:
        return found
    unclear = np.flatnonzero((found == _UNKNOWN) & (names >= 0) & (ops >= 0))
    for row, name, op in zip(unclear.tolist(), names[unclear].tolist(), ops[unclear].tolist(), strict=True):
        found[row] = _family(texts[name], texts[op])
    return found


def _classified(counts: Array, builder: RecordingBuilder) -> list[int]:
    """Which distinct names are looked at: all, or the most frequent where there are more than any trace has."""
    if len(counts) <= MOST_NAMES:
        return list(range(len(counts)))
    left = len(counts) - MOST_NAMES
    text = f"{len(counts):,} distinct kernel names: the {left:,} least frequent are not classified (family unknown)"
    builder.note([Note("names_unclassified", text, count=left)])
    most: list[int] = np.argsort(-counts, kind="stable")[:MOST_NAMES].tolist()
    return most


def _family(name: str, op: str = "") -> int:
    return FAMILIES.index(classify(name, op).family)
