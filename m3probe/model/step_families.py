"""Kernel time of each step by family: what a chart of steps stacks."""

from __future__ import annotations

import numpy as np

from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import FAMILIES


def family_ns(rec: Recording) -> Array:
    """Sums of kernel durations, int64 ns [steps, families], columns as ``FAMILIES``; kernels without step or time count nothing.

    Work that runs side by side is counted on each stream: a row may exceed its step's time.
    """
    kernels, columns = rec.kernels, len(FAMILIES)
    rows = kernels["timed"] & (kernels["step"] >= 0)
    cell = kernels["step"][rows].astype(np.int64) * columns + kernels["family"][rows]
    # float64 holds every whole number of ns up to 104 days
    sums = np.bincount(cell, weights=kernels["dur_ns"][rows], minlength=len(rec.steps) * columns)
    found: Array = sums.astype(np.int64).reshape(len(rec.steps), columns)
    return found
