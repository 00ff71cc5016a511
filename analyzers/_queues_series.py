"""One way to a metric's values, whoever wrote them: pages of /metrics, scrapes of ``attach``, or the guests' own samples.

``metrics_of(rec).named("num_requests_waiting")`` gives one series for each server, engine and set of labels. Names of all
versions and of SGLang are one word (m3probe/schema/metric_names.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np

from m3probe.analyzers._ledger import texts
from m3probe.analyzers._ledger_sums import once
from m3probe.analyzers._queues_credible import finite_only, without_impossible
from m3probe.analyzers._queues_logged import TABLE as LOG
from m3probe.analyzers._queues_logged import logged
from m3probe.analyzers._queues_order import servers, short_names
from m3probe.model.recording import Recording
from m3probe.model.tables import NONE, Array
from m3probe.schema.exposition import COUNTER, HISTOGRAM, SERIES, labels_of
from m3probe.schema.metric_names import METRICS, Meant, exposed, told

SCRAPED = "metrics"
"""``samples.source`` of what ``attach`` scraped: counters since the server's start, like a page's."""
_LIVE_LABELS = re.compile(r"\{([^={}]+)=((?:[^}]|\}(?!\{|$))*)\}")
_DROPPED = frozenset({"engine", "model_name"})
_KINDS = {metric.word: metric.kind for metric in METRICS}
_NOWHERE: Array = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One metric of one engine over time.

    Args:
        server: which of several servers; empty where there is one.
        engine: its label; empty where the page has none.
        labels: the others, without ``model_name``.
        at_ns: times on one clock of the server; -1 where only the order is known.
        base: what a counter stood at before the first value; None where that is not known.
        table: of the recording, with ``rows`` aligned with the values.
        places: of the pages that have it, among all pages of the server; empty where it is of no page.
    """

    server: str
    engine: str
    labels: Mapping[str, str]
    name: str
    at_ns: Array
    values: Array
    table: str
    rows: Array
    base: float | None = None
    places: Array = field(default_factory=lambda: _NOWHERE)

    @property
    def timed(self) -> bool:
        """Whether its values have times that differ."""
        return len(self.at_ns) > 1 and bool(self.at_ns[0] != NONE) and bool(self.at_ns[-1] > self.at_ns[0])

    @property
    def seconds(self) -> float:
        """From the first value to the last; 0 where that is not known."""
        return float(self.at_ns[-1] - self.at_ns[0]) / 1e9 if self.timed else 0.0

    @property
    def at_s(self) -> Array:
        """Seconds since the first value."""
        since: Array = (self.at_ns - self.at_ns[0]) / 1e9
        return since

    @property
    def last(self) -> float:
        """The newest value."""
        return float(self.values[-1])

    def steps(self) -> Array:
        """A counter's increase from each value to the next; after a reset it is the new value, as Prometheus does."""
        before = self.values if self.base is None else np.concatenate(([self.base], self.values))
        with np.errstate(invalid="ignore"):  # a damaged page may hold infinities
            change = np.diff(before)
        grown: Array = np.where(change < 0, before[1:], change)
        return grown

    @property
    def increase(self) -> float:
        """How much a counter grew, resets counted as at least what came after them."""
        return float(np.nansum(self.steps()))

    @property
    def resets(self) -> int:
        """How often a counter went down: the engine was started again."""
        return int((self.values[1:] < self.values[:-1]).sum())


@dataclass(slots=True)
class Metrics:
    """All series, by word and part.

    Args:
        left_out: (word, server) -> how many values were no number or infinite; ``impossible``: what else cannot be, so that
            the metric is not known.
    """

    found: dict[tuple[str, str], list[Series]] = field(default_factory=dict)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)
    impossible: dict[tuple[str, str], str] = field(default_factory=dict)

    def named(self, word: str, part: str = "", **labels: str) -> list[Series]:
        """Series of a metric, or of a part of a histogram (``sum``, ``count``, ``bucket``), that carry these labels."""
        held = self.found.get((word, part), [])
        return [series for series in held if all(series.labels.get(key) == value for key, value in labels.items())]

    @property
    def servers(self) -> list[str]:
        """Names of all servers in order; one without a name where there is one alone."""
        return list(dict.fromkeys(series.server for held in self.found.values() for series in held))

    def of(self, server: str) -> Metrics:
        """Those of one server."""
        kept = {key: [s for s in held if s.server == server] for key, held in self.found.items()}
        return Metrics({key: held for key, held in kept.items() if held})

    def __bool__(self) -> bool:
        return bool(self.found)


@once
def metrics_of(rec: Recording) -> Metrics:
    """Every series of the recording."""
    held = [*_pages(rec), *_samples(rec)]
    best: dict[tuple[object, ...], tuple[int, int]] = {}
    for meant, scraped, series in held:
        key = (meant.word, meant.part, series.server, series.engine, *meant.labels.values())
        # the engine's own samples before scrapes, newer names before older ones
        best[key] = min(best.get(key, (scraped, meant.age)), (scraped, meant.age))
    made = Metrics()
    for meant, scraped, series in held:
        key = (meant.word, meant.part, series.server, series.engine, *meant.labels.values())
        if best[key] == (scraped, meant.age):
            _keep(made, meant.word, meant.part, series)
    for word, series in _logged(rec, {word for word, _ in made.found}):
        _keep(made, word, "", series)
    without_impossible(made, _KINDS)
    return made


def _keep(made: Metrics, word: str, part: str, series: Series) -> None:
    known = finite_only(series)
    lost = len(series.values) - len(known.values)
    if lost and series.table == "metrics":
        made.left_out[word, series.server] = made.left_out.get((word, series.server), 0) + lost
    if len(known.values):
        made.found.setdefault((word, part), []).append(known)


def _logged(rec: Recording, told_elsewhere: set[str]) -> Iterator[tuple[str, Series]]:
    """A log's lines are of the server whose pages or samples lie beside it, where there is one alone."""
    for column, word, engine, labels, values, rows in logged(rec, told_elsewhere):
        at_ns = rec.tables[LOG]["at_ns"][rows]
        at_ns = at_ns if (at_ns != NONE).all() else np.full(len(rows), NONE)
        yield word, Series("", engine, labels, column, at_ns, values, LOG, rows)


def _pages(rec: Recording) -> Iterator[tuple[Meant, int, Series]]:
    table = rec.tables["metrics"]
    if not len(table):
        return
    groups = servers(rec)
    of, at, rank = (np.zeros(len(rec.tables["scrapes"]), dtype=np.int64) for _ in range(3))
    for number, pages in enumerate(groups):
        of[pages.rows], at[pages.rows], rank[pages.rows] = number, pages.at_ns, np.arange(len(pages.rows))
    wanted = _wanted(rec, np.unique(table["series"]))
    known = np.zeros(len(rec.strings), dtype=bool)
    known[list(wanted)] = True
    rows = np.flatnonzero(known[table["series"]])
    if not len(rows):
        return
    scrape = table["scrape"][rows]
    order = np.lexsort((rank[scrape], of[scrape], table["series"][rows]))
    rows, scrape = rows[order], scrape[order]
    key = table["series"][rows].astype(np.int64) * len(groups) + of[scrape]
    same_page = np.append((np.diff(key) == 0) & (np.diff(scrape) == 0), np.zeros(min(len(key), 1), dtype=bool))
    rows, scrape, key = rows[~same_page], scrape[~same_page], key[~same_page]  # of one page the last value counts
    first = np.flatnonzero(np.diff(key, prepend=-1))
    for start, end in zip(first.tolist(), [*first[1:].tolist(), len(key)], strict=True):
        series, number = divmod(int(key[start]), len(groups))
        meant, labels = wanted[series]
        yield (
            meant,
            1,
            Series(
                server=groups[number].name,
                engine=labels.get("engine", ""),
                labels=_own(meant, labels),
                name=rec.strings[series].partition("{")[0],
                at_ns=at[scrape[start:end]],
                values=table["value"][rows[start:end]],
                table="metrics",
                rows=rows[start:end],
                places=rank[scrape[start:end]],
            ),
        )


def _wanted(rec: Recording, ids: Array) -> dict[int, tuple[Meant, dict[str, str]]]:
    """String id of a series -> what it means, and its labels; names of no use to any question are left out."""
    known = exposed()
    found = {}
    for series in ids.tolist():
        said = SERIES.fullmatch(rec.strings[series])
        meant = known.get(said[1]) if said else None
        if said and meant:
            labels = labels_of(said[2] or "")
            engine = labels.get("engine", labels.get("dp_rank", ""))
            found[series] = (meant, labels | ({"engine": engine} if engine else {}))
    return found


def _own(meant: Meant, labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in _DROPPED} | dict(meant.labels)


def _samples(rec: Recording) -> Iterator[tuple[Meant, int, Series]]:
    """What guests and ``attach`` sampled. A guest's counters are increases of a second: they are added up."""
    table = rec.tables["samples"]
    if not len(table):
        return
    names, sources = texts(rec, table, "name"), texts(rec, table, "source")
    folders = {file: str(PurePath(rec.files[file].path).parent) for file in np.unique(table["file"]).tolist()}
    distinct = list(dict.fromkeys(folders.values()))
    short = dict(zip(distinct, short_names(distinct), strict=True))
    grouped: dict[tuple[str, str, bool], list[int]] = {}
    for row, (name, source, file) in enumerate(zip(names, sources, table["file"].tolist(), strict=True)):
        grouped.setdefault((short[folders[file]], name, source == SCRAPED), []).append(row)
    for (server, text, scraped), held in grouped.items():
        name, _, rest = text.partition("{")
        meant = exposed().get(name) if scraped else told(name)
        if meant is None:
            continue
        labels = dict(_LIVE_LABELS.findall("{" + rest)) if rest else {}
        rows = np.array(held)[np.argsort(table["mono_ns"][held], kind="stable")]
        values = table["value"][rows]
        summed = not scraped and (meant.kind == COUNTER or (meant.kind == HISTOGRAM and bool(meant.part)))
        yield (
            meant,
            int(scraped),
            Series(
                server=server,
                engine=labels.get("engine", ""),
                labels=_own(meant, labels),
                name=name,
                at_ns=table["mono_ns"][rows],
                values=np.cumsum(values) if summed else values,
                table="samples",
                rows=rows,
                base=0.0 if summed else None,
            ),
        )
