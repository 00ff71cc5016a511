"""Statistics lines of a log -> columns: throughputs, requests, cache. NaN where a line lacks a figure."""

from __future__ import annotations

import re
from array import array

import numpy as np

from m3probe.model.log_tables import AGGREGATED, FIGURES, SINGLE
from m3probe.model.tables import Array
from m3probe.readers._log_lines import Line
from m3probe.readers._log_time import Clock

MOST = 200_000
"""Lines that are kept: one engine writes so many in 23 days."""
_ENGINE = re.compile(r"(?:Engine (\d{1,6}): |(\d{1,6}) Engines Aggregated: )?Avg prompt throughput: ")
_FIGURE = re.compile(r"(?:^|[:,] )([A-Z][\w ]{2,40}): ([\d.]{1,30}|nan)\b")
_FETCH = re.compile(r"KV fetch: (\d{1,9}) waiting to start, (\d{1,9}) in progress, (\d{1,9}) completed waiting")
_LENGTH = re.compile(r"Mean acceptance length: ([\d.]{1,20})")
_RATE = re.compile(r"Avg Draft acceptance rate: ([\d.]{1,20})%")
_NAMES = {
    "Avg prompt throughput": "prompt_tps",
    "Avg generation throughput": "generation_tps",
    "Running": "running",
    "Waiting": "waiting",
    "Pending": "waiting",
    "Swapped": "swapped",
    "Deferred": "deferred",
    "Preemptions": "preemptions",
    "GPU KV cache usage": "kv_cache_pct",
    "Prefix cache hit rate": "prefix_hit_pct",
    "External prefix cache hit rate": "external_hit_pct",
}
_PLACE = {name: place for place, name in enumerate(FIGURES)}
_NAN = float("nan")


class StatRows:
    """Grows line by line."""

    def __init__(self) -> None:
        self.beyond = 0
        self._where = array("q")
        self._figures = array("d")

    def __len__(self) -> int:
        return len(self._where) // 4

    def see(self, line: Line, clock: Clock) -> None:
        """One line that begins like a statistics line."""
        engine = _ENGINE.match(line.text)
        if engine is None:
            return
        if len(self) >= MOST:
            self.beyond += 1
            return
        number = int(engine[1]) if engine[1] else AGGREGATED if engine[2] else SINGLE
        at = clock.now_s
        self._where.extend((line.number, -1 if at is None else at * 10**9, number, int(engine[2] or 1)))
        self._figures.extend(_row(line.text))

    def drafts(self, line: Line) -> None:
        """``SpecDecoding metrics`` stands right behind the engine's own line."""
        if not len(self) or self.beyond:
            return
        start = len(self._figures) - len(FIGURES)
        for name, pattern in (("acceptance_length", _LENGTH), ("draft_acceptance_pct", _RATE)):
            said = pattern.search(line.text)
            if said:
                self._figures[start + _PLACE[name]] = _number(said[1])

    def columns(self, file: int) -> dict[str, Array]:
        """The rows as columns of ``log_stats``."""
        where = np.frombuffer(self._where, dtype=np.int64).reshape(-1, 4)
        figures = np.frombuffer(self._figures, dtype=np.float64).reshape(-1, len(FIGURES))
        found: dict[str, Array] = {"file": np.full(len(self), file, dtype=np.int32)}
        found |= {
            "line": where[:, 0].copy(),
            "at_ns": where[:, 1].copy(),
            "engine": where[:, 2].astype(np.int32),
            "engines": where[:, 3].astype(np.int32),
        }
        return found | {name: figures[:, place].copy() for place, name in enumerate(FIGURES)}


def _row(text: str) -> list[float]:
    row = [_NAN] * len(FIGURES)
    said = dict(_FIGURE.findall(text))
    for word, name in _NAMES.items():
        if word in said:
            row[_PLACE[name]] = _number(said[word])
    # a server on CPUs names its one cache so; old releases its swap space, beside the GPU's
    cpu = "cpu_kv_cache_pct" if "GPU KV cache usage" in said else "kv_cache_pct"
    if "CPU KV cache usage" in said:
        row[_PLACE[cpu]] = _number(said["CPU KV cache usage"])
    fetch = _FETCH.search(text)
    if fetch:
        row[_PLACE["fetch_waiting"] : _PLACE["fetch_done"] + 1] = map(float, fetch.groups())
    return row


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # two points, or none at all
        return _NAN
