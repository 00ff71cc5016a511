"""Family of each kernel row, asking the grammar once per distinct name."""

from __future__ import annotations

import numpy as np

from m3probe.kernels.grammar import classify
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES, Family

MOST_NAMES = 20_000
"""Distinct names of one file that are asked about, the most frequent first: a name that no rule takes costs 100 us. Real
traces have some hundred."""
_UNKNOWN = FAMILIES.index(Family.UNKNOWN)


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
    asked = np.argsort(-counts, kind="stable")[:MOST_NAMES]
    by_name[asked] = [_family(texts[i] if i >= 0 else "") for i in distinct[asked].tolist()]
    if len(distinct) > MOST_NAMES:
        text = f"{len(distinct):,} different kernel names: the family of the {MOST_NAMES:,} most frequent alone was looked up"
        builder.note([Note("many_names", text, builder.files[-1].path, len(distinct), lossy=True)])
    found: Array = by_name[where]
    unclear = np.flatnonzero((found == _UNKNOWN) & (names >= 0) & (ops >= 0))
    for row, name, op in zip(unclear.tolist(), names[unclear].tolist(), ops[unclear].tolist(), strict=True):
        found[row] = _family(texts[name], texts[op])
    return found


def _family(name: str, op: str = "") -> int:
    return FAMILIES.index(classify(name, op).family)
