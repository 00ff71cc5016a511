"""Launch grids in workgroups, whatever the call counts."""

from __future__ import annotations

import numpy as np

from m3probe.model.recording import RecordingBuilder
from m3probe.model.tables import NONE, Array

WORK_ITEM_CALLS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Calls whose grid counts work-items; kineto writes it as it is (MI300X: [114944, 1, 1] with blocks of
256 is 449 workgroups of a 448-wide tile on N = 201,088). hipLaunchKernel's grid counts workgroups."""


def in_workgroups(grid: Array, block: Array, work_items: Array, builder: RecordingBuilder) -> Array:
    """Rows of dims, work-item grids divided by their blocks.

    Args:
        grid, block: rows of dims, -1 where not written.
        work_items: bool, whether the grid counts work-items.
    """
    found = grid.copy()
    rows = np.flatnonzero(work_items & (grid != NONE) & (block != NONE))
    pairs = dict.fromkeys(zip(grid[rows].tolist(), block[rows].tolist(), strict=True), NONE)
    for one_grid, one_block in pairs:
        sizes = zip(builder.dims[one_grid], builder.dims[one_block], strict=False)
        pairs[one_grid, one_block] = builder.dims.intern(tuple(-(-items // max(width, 1)) for items, width in sizes))
    found[rows] = [pairs[pair] for pair in zip(grid[rows].tolist(), block[rows].tolist(), strict=True)]
    return found
