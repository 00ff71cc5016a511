"""Which pages make a series of one server, in which order, and whether that order has times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from m3probe.analyzers._ledger_sums import once
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array

LEAST_GAP_NS = 200_000_000
"""Files written closer together were copied, not scraped: their times say nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """The pages of one server in order.

    Args:
        name: of the server, short; empty where there is one alone.
        rows: of ``scrapes``.
        at_ns: time of each, on one clock; all -1 where only the order is known.
        clock: ``page``, ``file name``, ``file time``, or empty.
    """

    name: str
    rows: Array
    at_ns: Array
    clock: str

    @property
    def timed(self) -> bool:
        """Whether rates can be made."""
        return bool(self.clock) and len(self.rows) > 1


@once
def servers(rec: Recording) -> list[Pages]:
    """Every server's pages."""
    groups = _groups(rec)
    texts = short_names([rec.strings[int(rec.tables["scrapes"]["server"][group[0]])] for group in groups])
    return [_ordered(rec, np.array(group), name) for group, name in zip(groups, texts, strict=True)]


def _groups(rec: Recording) -> list[list[int]]:
    """Rows of scrapes by server: files of one name, apart where they cannot be of one process, together where they are."""
    table = rec.tables["scrapes"]
    named: dict[int, list[int]] = {}
    for row, server in enumerate(table["server"].tolist()):
        named.setdefault(server, []).append(row)
    parts = [part for group in named.values() for part in _apart(rec, group)]
    joined: dict[float, list[int]] = {}
    found: list[list[int]] = []
    for part in parts:
        # two servers of one host can start within a clock tick: only the time of a metric's making is one process's
        made = set(table["created_s"][part].tolist())
        own = made.pop() if len(made) == 1 else float("nan")
        if own in joined:
            joined[own] += part
        else:
            found.append(part)
            if np.isfinite(own):
                joined[own] = part
    return found


def _apart(rec: Recording, group: list[int]) -> list[list[int]]:
    """``prefill0`` and ``prefill1`` differ in a number, as scrapes do; each file with a start time of its own is a server.

    Two files named before and after with different start times are one server that was restarted.
    """
    table = rec.tables["scrapes"]
    files = table["file"][group]
    by_file = {int(file): set(table["started_s"][group][files == file].tolist()) for file in np.unique(files)}
    starts = [start for each in by_file.values() for start in each]
    numbered = bool((table["place"][group] > 1).any()) or len(by_file) > 2
    own = len(by_file) > 1 and len(set(starts)) == len(starts) == len(by_file) and bool(np.isfinite(starts).all())
    if own and numbered and (table["place"][group] != NONE).all() and (table["at_ns"][group] == NONE).all():
        return [[row for row, of in zip(group, files.tolist(), strict=True) if of == file] for file in by_file]
    return [group]


def _ordered(rec: Recording, rows: Array, name: str) -> Pages:
    table = rec.tables["scrapes"]
    at, place, mtime = (table[column][rows] for column in ("at_ns", "place", "mtime_ns"))
    within = (table["file"][rows], table["page"][rows])
    if (at != NONE).all():
        order = np.lexsort((within[1], within[0], at))
        stamped = len(np.unique(at)) == len(at)
        return Pages(name, rows[order], at[order] if stamped else np.full(len(rows), NONE), "time stamps" * stamped)
    first = place if (place != NONE).all() else mtime
    order = np.lexsort((within[1], within[0], first))
    times = mtime[order]
    believed = len(rows) > 1 and bool((np.diff(times) >= LEAST_GAP_NS).all())
    clock = "times of the files" if believed else ""
    return Pages(name, rows[order], times if believed else np.full(len(rows), NONE), clock)


def short_names(names: Sequence[str]) -> list[str]:
    """What tells them apart: the last parts of their paths, nothing for one alone."""
    if len(names) < 2:
        return [""] * len(names)
    for parts in range(1, 6):
        short = ["/".join(PurePath(name).parts[-parts:]) for name in names]
        if len(set(short)) == len(short):
            return short
    return [f"{PurePath(name).name} #{number}" for number, name in enumerate(names, 1)]
