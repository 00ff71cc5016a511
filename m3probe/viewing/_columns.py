"""One page of /metrics as one row of figures over all engines, and whether its counters go on from the page before."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from m3probe.model.recording import Strings
from m3probe.model.tables import Array
from m3probe.readers._prom_lines import Page
from m3probe.schema.exposition import COUNTER, HISTOGRAM, SERIES, labels_of
from m3probe.schema.metric_names import BY_WORD, Meant, exposed

MOST_COLUMNS = 160
"""A vLLM page fills about 80: three histograms have 64 buckets together."""
MOST_EVER = 50_000
"""Series whose coming back is noticed; beyond it the oldest knowledge is dropped."""
LARGEST = frozenset({"kv_cache_usage_perc"})
"""Shares of one engine: the fullest is told, a sum would be none."""
HISTOGRAMS = ("time_to_first_token_seconds", "inter_token_latency_seconds", "request_queue_time_seconds")
WANTED: frozenset[str] = frozenset(
    {
        "num_requests_running",
        "num_requests_waiting",
        "num_requests_waiting_by_reason",
        "kv_cache_usage_perc",
        "request_success",
        "num_preemptions",
        "prefix_cache_queries",
        "prefix_cache_hits",
        "prefix_cache_query_blocks",
        "prefix_cache_hit_blocks",
        "prompt_tokens",
        "generation_tokens",
        "spec_decode_num_drafts",
        "spec_decode_num_draft_tokens",
        "spec_decode_num_accepted_tokens",
        "estimated_flops_per_gpu",
        *HISTOGRAMS,
    }
)
Key = tuple[str, str]
"""(word, the label's value that tells it apart: a reason, a bucket's bound; else empty)."""


class Break(StrEnum):
    """Whether differences to the page before mean anything."""

    NONE = ""
    RESET = "reset"
    """Counters fell, or another process answers: the server was started again."""
    CHANGED = "changed"
    """Series left, or came back: a sum over those that are there says nothing about the time between."""


@dataclass(frozen=True, slots=True)
class Row:
    """``values``: float64 [MOST_COLUMNS], NaN where the page has none or says NaN."""

    values: Array
    began: Break


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where the values of one set of series go: positions on the page, and the columns that they are added to.

    Args:
        known: positions of series that any question uses.
        rising: positions of those that never fall while a process lives.
    """

    key: bytes
    known: Array
    added: tuple[Array, Array]
    largest: tuple[Array, Array]
    rising: Array
    present: frozenset[Key]


@dataclass(slots=True)
class Columns:
    """Fed with pages in order."""

    strings: Strings
    index: dict[Key, int] = field(default_factory=dict)
    present: frozenset[Key] = frozenset()
    """Of the last page."""
    known: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Positions on the last page of series that any question uses."""
    _layout: _Layout | None = None
    _last: tuple[Array, Array] | None = None
    _ever: set[int] = field(default_factory=set)

    def row(self, page: Page) -> Row:
        """The page's figures, and whether they go on from those of the page before."""
        series = np.frombuffer(page.series, dtype=np.int32)
        values = np.frombuffer(page.values, dtype=np.float64)
        layout = self._layout
        if layout is None or layout.key != page.series.tobytes():
            layout = self._layout = self._laid_out(page.series.tobytes(), series)
        self.present, self.known = layout.present, layout.known
        made = np.full(MOST_COLUMNS, np.nan)
        for columns, put in ((layout.added, np.add), (layout.largest, np.maximum)):
            at, to = columns
            made[to] = 0.0
            put.at(made, to, values[at])
        began = self._began(series[layout.rising], values[layout.rising])
        return Row(made, began)

    def of(self, word: str) -> dict[str, int]:
        """Columns of a word by their label's value."""
        return {label: column for (own, label), column in self.index.items() if own == word}

    def renamed(self, strings: Strings, ids: Array) -> None:
        """The strings were made anew: ``ids`` are the new ids of the last page's rising series."""
        self.strings, self._layout, self._ever = strings, None, set(ids.tolist())
        if self._last is not None:
            self._last = (ids, self._last[1])

    @property
    def rising(self) -> Array:
        """String ids of the last page's counters."""
        return self._last[0] if self._last is not None else np.zeros(0, dtype=np.int32)

    def _began(self, series: Array, values: Array) -> Break:
        last, self._last = self._last, (series, values)
        if last is None:
            self._ever.update(series.tolist())
            return Break.NONE
        if np.array_equal(last[0], series):
            return Break.RESET if bool((values < last[1]).any()) else Break.NONE
        before = dict(zip(last[0].tolist(), last[1].tolist(), strict=True))
        now = dict(zip(series.tolist(), values.tolist(), strict=True))
        again = any(one in self._ever for one in now.keys() - before.keys())
        if len(self._ever) > MOST_EVER:
            self._ever.clear()
        self._ever.update(now)
        if any(now[one] < before[one] for one in now.keys() & before.keys()):
            return Break.RESET
        return Break.CHANGED if again or before.keys() - now.keys() else Break.NONE

    def _laid_out(self, key: bytes, series: Array) -> _Layout:
        meanings = [_meaning(self.strings[one]) for one in series.tolist()]
        newest: dict[str, int] = {}
        for found in meanings:
            if found:
                newest[found[0].word] = min(newest.get(found[0].word, found[0].age), found[0].age)
        known: list[int] = []
        rising: list[int] = []
        added: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        present: set[Key] = set()
        for at, found in enumerate(meanings):
            if found is None:
                continue
            meant, labels = found
            known.append(at)
            if meant.kind == COUNTER or (meant.kind == HISTOGRAM and meant.part):
                rising.append(at)
            own = _key(meant, labels) if meant.age == newest[meant.word] else None
            column = self._column(own) if own else None
            if own and column is not None:
                present.add(own)
                added[meant.word in LARGEST].append((at, column))
        return _Layout(key, _ints(known), _pairs(added[False]), _pairs(added[True]), _ints(rising), frozenset(present))

    def _column(self, key: Key) -> int | None:
        if key not in self.index and len(self.index) < MOST_COLUMNS:
            self.index[key] = len(self.index)
        return self.index.get(key)


def _meaning(text: str) -> tuple[Meant, dict[str, str]] | None:
    said = SERIES.fullmatch(text)
    meant = exposed().get(said[1]) if said else None
    return (meant, labels_of(said[2] or "")) if said and meant else None


def _key(meant: Meant, labels: dict[str, str]) -> Key | None:
    """None: a figure that no gauge needs."""
    if meant.word not in WANTED:
        return None
    if BY_WORD[meant.word].kind == HISTOGRAM:
        return (meant.word, labels.get("le", "")) if meant.part == "bucket" else None
    return meant.word, labels.get("reason", "") if meant.word.endswith("_by_reason") else ""


def _ints(found: list[int]) -> Array:
    return np.array(found, dtype=np.int64)


def _pairs(found: list[tuple[int, int]]) -> tuple[Array, Array]:
    return _ints([at for at, _ in found]), _ints([to for _, to in found])
