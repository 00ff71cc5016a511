"""Queue lengths as a server's log prints them every ten seconds: used for what neither pages nor guests tell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from m3probe.model.log_tables import AGGREGATED
from m3probe.model.recording import Recording
from m3probe.model.tables import Array

TABLE = "log_stats"
_STAGE = "num_requests_kv_fetch_by_stage"
COLUMNS: Mapping[str, tuple[str, Mapping[str, str], float]] = {
    "running": ("num_requests_running", {}, 1.0),
    "waiting": ("num_requests_waiting", {}, 1.0),
    "deferred": ("num_requests_waiting_by_reason", {"reason": "deferred"}, 1.0),
    "fetch_waiting": (_STAGE, {"stage": "waiting_to_start"}, 1.0),
    "fetch_running": (_STAGE, {"stage": "in_progress"}, 1.0),
    "fetch_done": (_STAGE, {"stage": "completed_waiting"}, 1.0),
    "kv_cache_pct": ("kv_cache_usage_perc", {}, 0.01),
}
"""Column -> word, labels, and what turns its unit into the word's."""


def logged(rec: Recording, told: Collection[str]) -> Iterator[tuple[str, str, str, Mapping[str, str], Array, Array]]:
    """(column, word, engine, labels, values, rows), in order of the lines; words of ``told`` are left out.

    Only of a single log: of several nobody knows which server each is of. Lines that sum the engines stand for them where
    there are any.
    """
    table = rec.tables[TABLE]
    if len(np.unique(table["file"])) != 1:
        return
    summed = table["engine"] == AGGREGATED
    chosen = np.flatnonzero(summed if summed.any() else ~summed)
    for column, (word, labels, scale) in COLUMNS.items():
        if word in told:
            continue
        for engine in np.unique(table["engine"][chosen]).tolist():
            rows = chosen[(table["engine"][chosen] == engine) & np.isfinite(table[column][chosen])]
            if len(rows):
                name = str(engine) if engine >= 0 else ""
                yield column, word, name, labels, table[column][rows] * scale, rows
