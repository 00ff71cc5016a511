"""Decode steps that guests counted, with their floors: a live recording needs no kernel for either."""

from __future__ import annotations

from collections import Counter

import numpy as np

from m3probe.analyzers._ledger import of_role
from m3probe.analyzers._roofline_decode import Decode, decode_with
from m3probe.analyzers._roofline_known import Model
from m3probe.model.floors import Peaks
from m3probe.model.recording import Recording
from m3probe.model.tables import Array
from m3probe.schema.verdicts import Phase

_PARTS = ("prepare_ns", "launch_ns", "wait_ns", "idle_ns")
"""Of a worker's step, from its start to the next one's."""


def counted_decode(rec: Recording, model: Model, peaks: Peaks) -> tuple[Decode, float | None] | None:
    """The floors of the counted decode steps, and their mean time; rows of ``step_counts`` stand as the steps.

    None where no guest counted any.  Steps of one row of the table are taken at their mean rows and context.
    """
    table, rows = rec.tables["step_counts"], of_role(rec, "step_counts", "worker")
    rows = rows[(table["phase"][rows] == rec.strings.find(str(Phase.DECODE))) & (table["count"][rows] > 0)]
    rows = rows[(table["rows_sum"][rows] > 0) & (table["requests_sum"][rows] > 0)]
    if not len(rows):
        return None
    kinds: Counter[tuple[int, int, int | None]] = Counter()
    for row in rows.tolist():
        count, decoding = int(table["count"][row]), int(table["gen_reqs_sum"][row])
        keys = int(table["gen_seq_len_sum"][row])
        tokens = round(keys / decoding) if keys > 0 and decoding > 0 else None
        batch = (round(int(table["rows_sum"][row]) / count), round(int(table["requests_sum"][row]) / count))
        kinds[max(batch[0], 1), max(batch[1], 1), tokens] += count
    return decode_with(model, peaks, rows, kinds), _mean_ns(rec, rows)


def _mean_ns(rec: Recording, rows: Array) -> float | None:
    """From step to step, over the rows in which every part was taken."""
    table = rec.tables["step_counts"]
    known = rows[np.all([table[part][rows] >= 0 for part in _PARTS], axis=0)]
    steps = int(table["count"][known].sum())
    return float(sum(int(table[part][known].sum()) for part in _PARTS) / steps) if steps else None
