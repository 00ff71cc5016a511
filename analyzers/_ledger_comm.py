"""Collectives of a live recording: those seen in steps, and those of a capture times the counted replays of its batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._ledger import replays_of, times_of
from m3probe.analyzers._ledger_sums import joined, once
from m3probe.model.recording import Recording

_KEYS = ("op", "backend", "dtype", "group", "phase", "file", "stage", "descriptor")


@dataclass(frozen=True, slots=True)
class Collectives:
    """Calls of one kind in one phase, on one rank; ``bytes`` is None where some payload was not told."""

    op: str
    backend: str
    dtype: str
    group: str
    phase: str
    calls: int
    bytes: int | None


@once
def collectives(rec: Recording) -> list[Collectives]:
    """All of them, joined over seconds."""
    table, replays = rec.tables["collectives"], replays_of(rec)
    each, count = table["payload_bytes"], table["count"]
    size = np.where(each >= 0, each * count, table["payload_sum_bytes"])
    sums = [count, np.maximum(size, 0), (size < 0).astype(np.int64)]
    found = []
    for *what, phase, file, stage, descriptor, calls, known, untold in joined(
        table, np.arange(len(table)), _KEYS, sums
    ):
        op, backend, dtype, group = (rec.strings[word] for word in what)
        times = times_of(rec.strings[stage], file, descriptor, rec.strings[phase], replays)
        found += [
            Collectives(op, backend, dtype, group, of, calls * number, None if untold else known * number)
            for of, number in times.items()
        ]
    return found
