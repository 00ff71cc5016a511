"""From when on a log's statistics are of a server at work: the first steady minute; what lies before it is left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.model.log_tables import AGGREGATED
from m3probe.model.recording import Recording
from m3probe.model.server_log import ServerLog
from m3probe.model.tables import Array

MINUTE_NS = 60 * 10**9
SPREAD = 0.20
"""Share by which a window of a steady minute may lie off the minute's mean throughput."""
LEAST = 3
"""Windows that a minute needs: two lie on any line."""


@dataclass(frozen=True, slots=True)
class Steady:
    """One engine's windows.

    Args:
        engine: as the table has it.
        left_out: windows before the first steady minute; all of them where there is none.
        kept: windows from there on.
        from_s: when it begins, seconds since the log's first record; None where there is none.
        rows: of ``log_stats`` that are kept.
    """

    engine: int
    left_out: int
    kept: int
    from_s: int | None
    rows: Array
    generation_tps: float | None
    running: float | None
    waiting: float | None
    kv_cache_pct: float | None


def steady(rec: Recording, log: ServerLog) -> list[Steady]:
    """One a server engine of this log; sums over engines where the log has only those."""
    table = rec.tables["log_stats"]
    here = np.flatnonzero(table["file"] == log.file)
    engines = sorted(set(table["engine"][here].tolist()), key=lambda engine: (engine == AGGREGATED, engine))
    return [_of(rec, here[table["engine"][here] == engine], engine, _warm_ns(log)) for engine in engines]


def _warm_ns(log: ServerLog) -> int:
    """After the ready line and the last build that followed it."""
    late = [step.at_s for step in log.run.steps if step.late and step.at_s is not None]
    return max([log.run.ready_at_s or 0, *late]) * 10**9


def _of(rec: Recording, rows: Array, engine: int, warm_ns: int) -> Steady:
    table = rec.tables["log_stats"]
    at, tps = table["at_ns"][rows], table["generation_tps"][rows]
    begin = _begin(at, tps, warm_ns)
    kept = rows[begin:] if begin is not None else rows[:0]
    means = {name: _mean(table[name][kept]) for name in ("generation_tps", "running", "waiting", "kv_cache_pct")}
    from_s = None if begin is None else int(at[begin]) // 10**9
    return Steady(engine, len(rows) - len(kept), len(kept), from_s, kept, **means)


def _begin(at: Array, tps: Array, warm_ns: int) -> int | None:
    """The first window of a minute in which tokens flow evenly; a window's line tells of the time *before* it."""
    busy = (at > warm_ns) & (tps > 0)
    for first in range(1, len(at)):
        within = np.flatnonzero((at >= at[first]) & (at <= at[first - 1] + MINUTE_NS) & (np.arange(len(at)) >= first))
        whole = at[-1] - at[first - 1] >= MINUTE_NS
        if not whole or len(within) < LEAST or at[first - 1] < warm_ns or not busy[within].all():
            continue
        mean = tps[within].mean()
        if (np.abs(tps[within] - mean) <= SPREAD * mean).all():
            return first
    return None


def _mean(values: Array) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
