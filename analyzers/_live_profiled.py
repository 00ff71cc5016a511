"""What a profiler window did to the steps in it: rows of the same kind of step, inside of the window and outside.

The shares of a report are of steps under the profiler. It slows the host and not the kernels, so that the gap before a
launch is longer there than in service (H200, vLLM 0.25.1, 9 layers: 5.8 ms a decode step under it, 4.1 ms without).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from m3probe.analyzers._ledger import of_role
from m3probe.model.findings import Finding, evidence
from m3probe.model.recording import Recording
from m3probe.model.tables import Array, Table
from m3probe.schema.verdicts import Phase

FEWEST = 5
"""Steps on each side, below which a mean says nothing."""
ALIKE = 1.5
"""Attention reads more where contexts are longer: key lengths may differ by this factor."""
TELLS = 1.05
"""Slower than this; less is noise of a few steps."""


def profiled_slower(rec: Recording) -> Iterator[Finding]:
    """One finding for each kind of decode step that has rows of both sorts."""
    table = rec.tables["step_rows"]
    rows = of_role(rec, "step_rows", "worker")
    rows = rows[table["phase"][rows] == rec.strings.find(str(Phase.DECODE))]
    if not len(rows) or not len(rec.tables["windows"]["file"]):
        return
    rows, took = _times(table, rows)
    inside = in_window(rec, table["file"][rows], table["step"][rows])
    kinds = np.stack([table[name][rows] for name in ("mode", "padded_rows")], axis=1)
    for mode, padded in np.unique(kinds, axis=0).tolist():
        here = (kinds == (mode, padded)).all(axis=1)
        beside = here & ~inside & _alike(table["gen_seq_len_sum"][rows], here & inside)
        slow, plain = took[here & inside], took[beside]
        if min(len(slow), len(plain)) >= FEWEST:
            yield from _finding((rec.strings[mode], padded), slow, plain, rows[beside])


def _times(table: Table, rows: Array) -> tuple[Array, Array]:
    """Rows whose next step is a row of the same kind too, and the ns from their start to its start."""
    order = np.lexsort((table["step"][rows], table["file"][rows]))
    rows = rows[order]
    now, then = rows[:-1], rows[1:]
    same = np.ones(len(now), dtype=bool)
    for name, apart in (("file", 0), ("mode", 0), ("padded_rows", 0), ("step", 1)):
        same &= table[name][then] - table[name][now] == apart
    same &= (table["t_start"][now] >= 0) & (table["t_start"][then] >= 0)
    return now[same], (table["t_start"][then] - table["t_start"][now])[same]


def _alike(keys: Array, those: Array) -> Array:
    """Steps whose key lengths, summed over requests, are like those of the steps in the window."""
    if not those.any():
        return np.zeros(len(keys), dtype=bool)
    middle = float(np.median(keys[those]))
    found: Array = (keys * ALIKE >= middle) & (keys <= middle * ALIKE)
    return found


def in_window(rec: Recording, file: Array, step: Array) -> Array:
    """Mask over steps (file and number of each): those that ran while a profiler window was open."""
    windows = rec.tables["windows"]
    found = np.zeros(len(step), dtype=bool)
    for of, first, steps in zip(*(windows[name].tolist() for name in ("file", "first_step", "steps")), strict=True):
        # a step that ends as the window opens or closes has the opening or the closing in it
        found |= (file == of) & (first >= 0) & (step >= first - 1) & (step < first + steps)
    return found


def _finding(kind: tuple[str, int], slow: Array, plain: Array, rows: Array) -> Iterator[Finding]:
    inside, outside = float(np.median(slow)), float(np.median(plain))
    if inside < TELLS * outside:
        return
    mode, padded = kind
    yield Finding(
        id=f"live.profiled_slower.{mode.lower()}.{padded}",
        question="queues",
        verdict="measured",
        claim=f"decode ({mode}, {padded:,} rows): a step takes {inside / 1e6:,.2f} ms under the profiler and "
        f"{outside / 1e6:,.2f} ms without it (medians of {len(slow):,} and {len(plain):,} steps)",
        where="decode",
        evidence=(evidence("step_rows", rows, f"{len(rows):,} steps outside of the window"),),
        advice="Shares of step time in this report are of the slower steps: a kernel's share in service is "
        f"{inside / outside:.2f} times that, and the host's gaps are that much smaller",
        confidence="high",
        trusted=False,  # it has no bound of its own
    )
