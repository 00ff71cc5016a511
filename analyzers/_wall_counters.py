"""Counters of /metrics on the wall clock, from live recordings and from saved pages alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._queues_order import Pages, servers
from m3probe.model.clock import FileClock
from m3probe.model.recording import Recording
from m3probe.model.tables import Array

METRICS = "metrics"
STEPS = "vllm:iteration_tokens_total_count"
"""Observed once per engine step that gave tokens (0.24.0 to 0.33.0)."""
FINISHED = "vllm:request_success_total"
_FAILED = ("abort", "error")


@dataclass(frozen=True, slots=True)
class Counted:
    """One counter of one server, summed over its engines and other labels.

    Args:
        clock: of the file, or of the files of one server.
        at_ns: int64 [n], wall time of each scrape, ascending; -1 where only their order is known, so that nothing is covered.
        total: float64 [n], what it counted since the first of them; restarts are no decrease.
        last: its value on the last scrape: since the server's start.
    """

    clock: FileClock
    at_ns: Array
    total: Array
    last: float
    engines: int

    def between(self, first_ns: int, last_ns: int) -> float | None:
        """What was counted from the last scrape before to the first one after a stretch; None where it is not covered."""
        before, after = np.searchsorted(self.at_ns, first_ns, "right") - 1, np.searchsorted(self.at_ns, last_ns, "left")
        if before < 0 or after >= len(self.at_ns):
            return None
        return float(self.total[after] - self.total[before])

    def within(self, first_ns: int, last_ns: int) -> tuple[int, int, float] | None:
        """(first scrape, last scrape, counted between them) inside a stretch; None with fewer than two scrapes in it."""
        inside = np.flatnonzero((self.at_ns >= first_ns) & (self.at_ns <= last_ns))
        if len(inside) < 2:
            return None
        a, b = int(inside[0]), int(inside[-1])
        return int(self.at_ns[a]), int(self.at_ns[b]), float(self.total[b] - self.total[a])


def counters(rec: Recording, clocks: Sequence[FileClock], name: str, *, succeeded: bool = False) -> list[Counted]:
    """One for each server that exposes it.

    Args:
        succeeded: leave out labels that say that a request ended in an error or was aborted.
    """
    live = [clock for clock in clocks if clock.offset_ns]
    found = [(clock, _scraped_at(rec, clock), list(_sampled(rec, clock, name))) for clock in live]
    for pages in servers(rec):
        clock = _clock_of(rec, clocks, pages)
        found.append((clock, pages.at_ns, list(_saved(rec, pages, name))))
    kept = (
        (clock, grid, [row for row in rows if not (succeeded and _is_failure(row[1]))]) for clock, grid, rows in found
    )
    return [_counted(clock, grid, rows) for clock, grid, rows in kept if rows]


def _is_failure(labels: str) -> bool:
    return any(f"={word}" in labels.replace('"', "") for word in _FAILED)


def _clock_of(rec: Recording, clocks: Sequence[FileClock], pages: Pages) -> FileClock:
    """The row that stands for these pages: it may stand for those of several servers under one name."""
    table = rec.tables["scrapes"]
    server = table["server"][pages.rows[0]]
    files = set(table["file"][table["server"] == server].tolist())
    return next(clock for clock in clocks if clock.file in files)


Row = tuple[int, str, float]
"""(wall time in ns, labels, value)."""


def _sampled(rec: Recording, clock: FileClock, name: str) -> Iterator[Row]:
    """Samples of a live recording; a counter that stood still is left out of a scrape."""
    table, offset, wanted = rec.tables["samples"], clock.offset_ns or 0, _named(rec, name)
    mine = (table["file"] == clock.file) & (table["source"] == rec.strings.find(METRICS))
    for row in np.flatnonzero(mine & np.isin(table["name"], list(wanted))).tolist():
        value = float(table["value"][row])
        if np.isfinite(value):
            yield int(table["mono_ns"][row]) + offset, wanted[int(table["name"][row])], value


def _named(rec: Recording, name: str) -> dict[int, str]:
    """String id -> labels of every series of one metric."""
    parts = ((i, text.partition("{")) for i, text in enumerate(rec.strings.texts) if text.startswith(name))
    return {i: labels for i, (base, _, labels) in parts if base == name}


def _saved(rec: Recording, pages: Pages, name: str) -> Iterator[Row]:
    """Samples of saved pages; the time is that of the page, -1 where only the order is known."""
    table, wanted = rec.tables["metrics"], _named(rec, name)
    at = dict(zip(pages.rows.tolist(), pages.at_ns.tolist(), strict=True))
    for row in np.flatnonzero(np.isin(table["series"], list(wanted))).tolist():
        page, value = int(table["scrape"][row]), float(table["value"][row])
        if page in at and np.isfinite(value):
            yield at[page], wanted[int(table["series"][row])], value


def _scraped_at(rec: Recording, clock: FileClock) -> Array:
    """Wall times of all scrapes of a live recording."""
    table = rec.tables["samples"]
    mine = (table["file"] == clock.file) & (table["source"] == rec.strings.find(METRICS))
    found: Array = np.unique(table["mono_ns"][mine]) + (clock.offset_ns or 0)
    return found


def _counted(clock: FileClock, grid: Array, rows: list[Row]) -> Counted:
    by_labels: dict[str, list[tuple[int, float]]] = {}
    for at, labels, value in rows:
        by_labels.setdefault(labels, []).append((at, value))
    total, last = np.zeros(len(grid)), 0.0
    for seen in by_labels.values():
        ordered = sorted(seen)
        times, values = np.array([at for at, _ in ordered]), np.array([value for _, value in ordered])
        # the value at each scrape is the last one that was written; before the first one nothing was counted yet
        held = values[np.clip(np.searchsorted(times, grid, "right") - 1, 0, None)]
        steps = np.diff(held, prepend=held[:1])
        total += np.cumsum(np.where(steps < 0, held, steps))
        last += float(values[-1])
    engines = {label for labels in by_labels for label in labels.replace("}", ",").split(",") if "engine" in label}
    return Counted(clock, grid, total, last, max(len(engines), 1))
