"""Foreign whole numbers to int64 columns: ids of 64 bits keep their bits, what is no number is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from m3probe.model.tables import Array


def as_int64(values: Sequence[Any], default: int) -> tuple[Array, int]:
    """Column, and how many values are no whole number of 64 bits (an empty cell or None is not known, and no fault).

    Ids of 2**63 and more are handles: they wrap, so that they stay apart.
    """
    try:
        return np.fromiter(map(int, values), dtype=np.int64, count=len(values)), 0
    except (ValueError, OverflowError, TypeError):
        pass
    found, bad = np.full(len(values), default, dtype=np.int64), 0
    for row, value in enumerate(values):
        if value in ("", None):
            continue
        try:
            number = int(value)
        except (ValueError, OverflowError, TypeError):
            bad += 1
            continue
        if -(2**63) <= number < 2**64:
            found[row] = number if number < 2**63 else number - 2**64
        else:
            bad += 1
    return found, bad
