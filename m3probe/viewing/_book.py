"""The pages of one address: read, a bounded choice of them kept whole, and that choice as a recording to be judged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np

from m3probe.model.metric_tables import MetricsFile
from m3probe.model.recording import EventCounts, Recording, RecordingBuilder, SourceFile, Strings
from m3probe.model.tables import NONE, Array
from m3probe.readers._prom_lines import Known, Page, Pages
from m3probe.schema.exposition import SERIES, labels_of
from m3probe.viewing._columns import Columns, Row

TIERS = ((1.0, 20), (2.0, 40), (20.0, 40), (120.0, 40), (3600.0, 48))
"""(least seconds between two pages, pages): enough for every window, 188 pages of 5 kB at most."""
MOST_JUDGED = 40
"""Pages of one report: it takes 1 ms a page, and no trend needs more points."""
MOST_SERIES = 50_000
"""Different series since the start (labels that come and go) before all names are made anew."""
_SHOWN = 60


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A page: only series that some question uses."""

    at_s: float
    started_s: float
    created_s: float
    samples: int
    series: Array
    values: Array


@dataclass(slots=True)
class Book:
    """Fed with bodies; ``why`` says what was wrong with the last one.

    Args:
        name: the address.
    """

    name: str
    strings: Strings = field(default_factory=Strings)
    why: str = ""
    types: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    model: str = ""
    columns: Columns = field(init=False)
    _most: int = MOST_SERIES
    _known: Known = field(init=False)
    _tiers: list[deque[Kept]] = field(init=False)

    def __post_init__(self) -> None:
        self._known = Known(self.strings)
        self.columns = Columns(self.strings)
        self._tiers = [deque(maxlen=most) for _, most in TIERS]

    def read(self, body: bytes, at_s: float) -> tuple[Page, Row] | None:
        """One answer's page and its figures; None where it is no whole page, and ``why`` says what it is."""
        self._bounded()
        page = self._page(body)
        if page is None:
            return None
        row = self.columns.row(page)
        self._keep(page, at_s)
        return page, row

    @property
    def pages(self) -> list[Kept]:
        """All that are kept, oldest first."""
        held = {id(page): page for tier in self._tiers for page in tier}
        return sorted(held.values(), key=lambda page: page.at_s)

    def recording(self, window_s: float | None) -> Recording:
        """The pages of the last seconds, evenly thinned; the first is the one before the window, where it is kept."""
        pages = _thinned(self.pages, window_s)
        builder = RecordingBuilder()
        builder.strings = self.strings
        size = sum(page.values.nbytes for page in pages)
        builder.files.append(
            SourceFile(self.name, "prometheus", "metrics", None, None, None, size, EventCounts(), in_folder=False)
        )
        samples = sum(page.samples for page in pages)
        seen = MetricsFile(0, self.name, len(pages), samples, types=self.types)
        builder.meta = replace(builder.meta, metrics=(seen,))
        _add(builder, self.strings.intern(self.name), pages)
        return builder.build()

    def _page(self, body: bytes) -> Page | None:
        self.why = ""
        if not body.strip():
            self.why = f"the answer is empty ({len(body)} bytes)"
            return None
        pages = Pages(self._known)
        pages.feed(body.split(b"\n"))
        pages.close()
        if not pages.samples:
            self.why = f"no page of metrics, it begins {_begins(body)}"
            return None
        if not body.endswith((b"\n", b"# EOF")):
            self.why = f"the page is cut after {len(body):,} bytes"
            return None
        if pages.bad_count > pages.samples:
            self.why = f"{pages.bad_count:,} of its lines are no samples, it begins {_begins(body)}"
            return None
        self.types, self.samples = pages.types, pages.samples
        joined = _joined(pages.done)
        self.model = self.model or _model(self.strings, joined)
        return joined

    def _keep(self, page: Page, at_s: float) -> None:
        known = self.columns.known
        kept = Kept(
            at_s,
            page.started_s,
            page.created_s,
            page.samples,
            np.frombuffer(page.series, dtype=np.int32)[known],
            np.frombuffer(page.values, dtype=np.float64)[known],
        )
        for (every_s, _), tier in zip(TIERS, self._tiers, strict=True):
            if not tier or at_s - tier[-1].at_s >= 0.9 * every_s:
                tier.append(kept)

    def _bounded(self) -> None:
        """Names that came and went are forgotten: ids of kept pages are made anew."""
        if len(self._known.comments) > MOST_SERIES:
            self._known.comments.clear()
        if len(self.strings) <= self._most:
            return
        old, self.strings = self.strings, Strings()
        self._known = Known(self.strings)

        def renamed(ids: Array) -> Array:
            return np.array([self.strings.intern(old[one]) for one in ids.tolist()], dtype=np.int32)

        again = {id(page): replace(page, series=renamed(page.series)) for page in self.pages}
        self._tiers = [deque((again[id(page)] for page in tier), maxlen=tier.maxlen) for tier in self._tiers]
        self.columns.renamed(self.strings, renamed(self.columns.rising))
        self._most = max(MOST_SERIES, 2 * len(self.strings))


def _begins(body: bytes) -> str:
    return repr(" ".join(body[:400].decode("utf-8", "replace").split())[:_SHOWN])


def _model(strings: Strings, page: Page) -> str:
    """The model's name as the first series that has one says it."""
    for one in page.series:
        said = SERIES.fullmatch(strings[one]) if "model_name=" in strings[one] else None
        if said:
            return labels_of(said[2] or "").get("model_name", "")
    return ""


def _joined(pages: list[Page]) -> Page:
    """One answer is one page, also where its first series stands on it twice."""
    first, *others = pages
    for page in others:
        first.series.extend(page.series)
        first.values.extend(page.values)
    return first


def _thinned(pages: list[Kept], window_s: float | None) -> list[Kept]:
    if not pages:
        return []
    newest = pages[-1].at_s
    since = pages[0].at_s if window_s is None else newest - window_s - 0.5
    inside = [page for page in pages if page.at_s >= since]
    apart = (newest - inside[0].at_s) / MOST_JUDGED
    chosen = [inside[-1]]
    for page in reversed(inside[:-1]):
        if chosen[-1].at_s - page.at_s >= 0.9 * apart:
            chosen.append(page)
    return chosen[::-1]


def _add(builder: RecordingBuilder, server: int, pages: list[Kept]) -> None:
    number = len(pages)
    builder.add(
        "scrapes",
        {
            "file": np.zeros(number, dtype=np.int32),
            "page": np.arange(number),
            "server": np.full(number, server),
            "at_ns": np.array([round(page.at_s * 1e9) for page in pages], dtype=np.int64),
            "place": np.full(number, NONE),
            "mtime_ns": np.array([round(page.at_s * 1e9) for page in pages], dtype=np.int64),
            "started_s": np.array([page.started_s for page in pages], dtype=np.float64),
            "created_s": np.array([page.created_s for page in pages], dtype=np.float64),
            "samples": np.array([page.samples for page in pages], dtype=np.int64),
        },
    )
    if not pages:
        return
    builder.add(
        "metrics",
        {
            "scrape": np.repeat(np.arange(number, dtype=np.int32), [len(page.series) for page in pages]),
            "series": np.concatenate([page.series for page in pages]),
            "value": np.concatenate([page.values for page in pages]),
        },
    )
