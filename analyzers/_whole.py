"""Which replays and steps were recorded in whole: where kernels are missing, no time or idle share may be stated.

A lost kernel looks like an idle device (87 to 99 % idle was reported from such traces), so that a figure of time is
stated only for steps of which every kernel has a record. Counts may still rest on the census.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._replays import unequal_replays
from m3probe.analyzers._uneven import uneven_files
from m3probe.model.recording import Recording
from m3probe.model.tables import LAUNCH, NONE, Array

_NEVER = np.iinfo(np.int64).max


def short_replays(rec: Recording) -> Array:
    """Mask over launches: replays with fewer kernel records than ran, or unequal to others of their place."""
    launches = rec.launches
    short = rec.unseen_replays.copy()
    if len(rec.graphs):
        size = np.bincount(rec.graphs["graph"])
        matched = np.flatnonzero(rec.graph_launches & (launches["graph"] != NONE))
        short[matched] = launches["kernels"][matched] < size[launches["graph"][matched]]
    for group in unequal_replays(rec):
        short[group] = True
    uneven = [found.file for found in uneven_files(rec)]
    short[rec.graph_launches & np.isin(launches["file"], uneven)] = True
    return short


def cut_files(rec: Recording) -> list[int]:
    """Rank files of which events or the tail were lost: any of their steps may lack kernels."""
    return [i for i, f in enumerate(rec.files) if f.role == "rank" and (f.counts.truncated or f.counts.lost_events)]


@dataclass(frozen=True, slots=True)
class Missing:
    """Masks over steps: ``short`` lacks, or may lack, kernels; ``late`` may lack those that it began with."""

    short: Array
    late: Array


def missing(rec: Recording) -> Missing:
    """What is missing of each step."""
    calls, n = rec.launches, len(rec.steps)
    lost = short_replays(rec)
    shown = (calls["kind"] == LAUNCH) & (calls["kernels"] > 0)
    cut = np.isin(rec.steps["file"], cut_files(rec))
    first_lost, first_shown = (_first(calls["step"][rows], calls["start_ns"][rows], n) for rows in (lost, shown))
    short = first_lost < _NEVER
    # work that was launched before the lost graph runs before it
    return Missing(short | cut, cut | (short & (first_shown > first_lost)))


def _first(step: Array, start: Array, n: int) -> Array:
    found = np.full(n, _NEVER)
    np.minimum.at(found, step[step != NONE], start[step != NONE])
    return found


def whole(rec: Recording) -> bool:
    """Whether nothing says that a kernel is missing, so that shares over the whole recording may be stated."""
    return not cut_files(rec) and not bool(short_replays(rec).any())
