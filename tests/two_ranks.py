"""Two ranks of two steps each, small enough to work out by hand; times in us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builders import kernel, launch, step, write_trace

from m3probe.model.recording import Recording
from m3probe.sources import open_recording

HOSTILE = "evil\x1b[31m[bold]kernel"
PREFILL, DECODE = "execute_context_1(64)_generation_0(0)", "execute_context_0(0)_generation_8(8)"


def events(late: float) -> list[dict[str, Any]]:
    """A prefill step from 100 and a decode step from 300; ``late``: how much longer rank 1's collective takes.

    Prefill: GEMM 130-150, all-reduce 160-170(+late). Decode: launched in the order norm, GEMM, but the norm starts later:
    GEMM 320-330, norm 340-345. Prefill's window is 320 - 130 = 190 us of which 30(+late) are busy.
    """
    comm = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    return [
        step(100.0, 100.0, PREFILL),
        launch(110.0, 1),
        kernel(130.0, 20.0, 1, "nvjet_sm90_tst_64x8_TNT", grid=[4, 27, 1], stream=7),
        launch(120.0, 2),
        kernel(160.0, 10.0 + late, 2, comm, stream=9),
        step(300.0, 50.0, DECODE),
        launch(310.0, 3),
        launch(315.0, 4),
        kernel(320.0, 10.0, 4, "nvjet_sm90_tst_64x8_TNT", grid=[4, 24, 1], stream=7),
        kernel(340.0, 5.0, 3, HOSTILE, stream=7),
    ]


def two_ranks(folder: Path) -> Recording:
    """Both files, read."""
    paths = []
    for rank in (0, 1):
        header = {"distributedInfo": {"rank": rank, "world_size": 2}}
        paths.append(write_trace(folder / f"rank{rank}.pt.trace.json", events(30.0 * rank), **header))
    assert json.loads(paths[0].read_text())
    return open_recording(paths)
