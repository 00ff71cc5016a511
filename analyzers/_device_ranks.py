"""GPUs of a tool's readings <-> ranks of the recording, and the wait of the other ranks that one slow GPU explains."""

from __future__ import annotations

import numpy as np

from m3probe.model.recording import Recording
from m3probe.schema.verdicts import FAMILIES, Family

_WAIT = 1.05
"""Times the slow rank's own collective time from which on the others are said to wait."""
_COMM = FAMILIES.index(Family.COMM)
ASSUMED = "if no *_VISIBLE_DEVICES renumbers them"


def ranks(rec: Recording) -> dict[int, int]:
    """GPU -> rank: the device that a rank's kernels ran on; only where each rank has one and no two share it."""
    found: dict[int, int] = {}
    for index, file in enumerate(rec.files):
        if file.role != "rank" or file.rank is None:
            continue
        devices = np.unique(rec.kernels["device"][rec.kernels["file"] == index]).tolist()
        if len(devices) != 1 or found.get(devices[0], file.rank) != file.rank:
            return {}
        found[devices[0]] = file.rank
    return found


def of_gpu(rec: Recording, gpu: int) -> str:
    """`` (rank 2, if ...)``; empty where no trace tells."""
    rank = ranks(rec).get(gpu)
    return "" if rank is None else f" (rank {rank}, {ASSUMED})"


def wait_sentence(rec: Recording, gpu: int) -> str:
    """What the collectives show beside it: the late rank spends least time in them, the others wait there."""
    rank = ranks(rec).get(gpu)
    if rank is None:
        return "traces of the ranks are missing, which would show whether the others wait for it"
    times = _collective_ns(rec)
    others = [time for other, time in times.items() if other != rank]
    if rank not in times or not others:
        return "collectives of other ranks are missing, which would show whether they wait for it"
    mean = sum(others) / len(others)
    if mean < _WAIT * times[rank]:
        return "the collectives show no wait for it"
    return (
        f"it explains the wait in collectives: the other ranks spend {mean / 1e3:,.1f} us in one on average, "
        f"rank {rank} {times[rank] / 1e3:,.1f} us"
    )


def _collective_ns(rec: Recording) -> dict[int, float]:
    """Mean time of a collective's kernel on each rank."""
    kernels = rec.kernels
    good = (kernels["family"] == _COMM) & kernels["timed"]
    found: dict[int, float] = {}
    for index, file in enumerate(rec.files):
        here = good & (kernels["file"] == index)
        if file.role == "rank" and file.rank is not None and here.any():
            found[file.rank] = float(kernels["dur_ns"][here].mean())
    return found
