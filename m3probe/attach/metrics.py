"""Scrapes of /metrics: what of them is kept, how steps are counted, and whether one server answers or several."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from m3probe.attach.fetch import OK, Client
from m3probe.errors import UnreadableInput
from m3probe.schema.exposition import SAMPLE, labels_of, number_of
from m3probe.schema.records import Sample

PATH = "/metrics"
STARTED = "process_start_time_seconds"
STEPS = "vllm:iteration_tokens_total_count"
"""Observed once per engine step that gave tokens (0.24.0 to 0.33.0); absent with --disable-log-stats."""
MOST_SAMPLES = 200_000
LOOKS = 4
"""Scrapes on connections of their own before anything is believed; a balancer of two shows itself in 7 of 8 cases,
and later ones show it while recording."""
_KEPT = ("vllm:", "process_")
_STATIC = ("_created", "_info")
_COUNTED = ("_total", "_sum", "_count")
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape: (name, labels) -> value. ``mono_ns``: when it came back; ``bad_lines``: lines that are no sample."""

    mono_ns: int
    values: Mapping[tuple[str, Labels], float]
    bad_lines: int = 0

    def named(self, name: str) -> list[float]:
        """Values of one series over all its labels."""
        return [value for (own, _), value in self.values.items() if own == name]

    @property
    def started(self) -> float | None:
        """Start time of the process that answered; None where several API servers share their metrics."""
        return next(iter(self.named(STARTED)), None)

    @property
    def steps(self) -> int:
        """Steps of all engines since start; -1 where they are not counted."""
        found = self.named(STEPS)
        return int(sum(found)) if found else -1

    @property
    def is_vllm(self) -> bool:
        """Whether any series is vLLM's."""
        return any(name.startswith("vllm:") for name, _ in self.values)

    def samples(self, before: Scrape | None = None) -> Iterable[Sample]:
        """Records of a recording: one for each set of labels.

        Args:
            before: the scrape before; then counters that stand still and buckets of histograms are left out (a vLLM has
                about 100 series, and all of them each second would be 22 MB an hour). Gauges are always written.
        """
        grouped: dict[Labels, dict[str, float]] = {}
        for (name, labels), value in self.values.items():
            if not name.startswith(_KEPT) or name.endswith(_STATIC):
                continue
            if before is not None and (
                name.endswith("_bucket") or (name.endswith(_COUNTED) and before.values.get((name, labels)) == value)
            ):
                continue
            grouped.setdefault(labels, {})[name] = value
        for labels, values in grouped.items():
            yield Sample(mono_ns=self.mono_ns, values=values, source="metrics", labels=dict(labels))


def parse(text: str, mono_ns: int) -> Scrape:
    """Prometheus' text format; values that are no finite number are left out (histograms' ``+Inf`` is a label)."""
    values: dict[tuple[str, Labels], float] = {}
    bad = 0
    for line in text.splitlines()[:MOST_SAMPLES]:
        if not line or line.startswith("#"):
            continue
        found = SAMPLE.fullmatch(line)
        value = number_of(found[4]) if found else None
        if found is None or value is None or not math.isfinite(value):
            bad += 1
            continue
        values[found[2], tuple(sorted(labels_of(found[3] or "").items()))] = value
    return Scrape(mono_ns, values, bad)


def scrape(client: Client) -> Scrape | str:
    """One scrape, or why there is none."""
    reply = client.get(PATH)
    if reply.error or reply.status != OK:
        return reply.error or f"HTTP {reply.status}"
    return parse(reply.body.decode("utf-8", "replace"), time.monotonic_ns())


@dataclass(slots=True)
class Series:
    """The scrapes of one address, each checked against those before: one server, several, or restarted."""

    client: Client
    starts: list[float] = field(default_factory=list)
    """Start times in the order of their first appearance."""
    restarts: int = 0
    last: Scrape | None = None
    failed: int = 0
    in_a_row: int = 0
    """Failures since the last scrape that came."""
    why: str = ""
    _fell: int = 0
    """Times that a counter fell where no start time is told: once is a restart."""

    def next(self) -> Scrape | None:
        """Scrape; None where it failed, with ``why``.

        Raises:
            UnreadableInput: several servers answer at this address.
        """
        got = scrape(self.client)
        if isinstance(got, str):
            self.failed, self.in_a_row, self.why = self.failed + 1, self.in_a_row + 1, got
            return None
        self.in_a_row = 0
        self._check(got)
        self.last = got
        return got

    def _check(self, got: Scrape) -> None:
        started = got.started
        if started is None:
            self._fell += self.last is not None and 0 <= got.steps < self.last.steps
            if self._fell > 1:
                raise self._balancer(f"{STEPS} falls again and again")
            return
        if self.starts and self.starts[-1] == started:
            return
        if started in self.starts:
            raise self._balancer(f"{STARTED} goes back and forth between scrapes")
        self.restarts += bool(self.starts)
        self.starts.append(started)

    def _balancer(self, seen: str) -> UnreadableInput:
        return UnreadableInput(
            f"{seen}: several servers behind one address",
            where=self.client.url,
            next_move="A load balancer gives no series of one server. Name each server's (pod's) own address",
        )


def first_looks(client: Client) -> Series:
    """Several scrapes in a row on connections of their own.

    Raises:
        UnreadableInput: several servers answer.
    """
    series = Series(client)
    for _ in range(LOOKS):
        if series.next() is None:
            return series
    if series.restarts:  # restarted a moment ago, or two servers: the first one's return tells
        for _ in range(LOOKS * 2):
            series.next()
    return series
