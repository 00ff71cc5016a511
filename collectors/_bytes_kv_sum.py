"""Calls of a KV connector, summed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from m3probe.schema import records


class Seen(NamedTuple):
    """One call; -1 where a figure is not known."""

    connector: str
    direction: str
    seam: str
    layer: str
    payload_bytes: int
    tokens: int
    requests: int
    dur_ns: int


def summed(seen: Iterable[Seen]) -> Iterator[records.KvTransfer]:
    """One record per (connector, direction, seam, layer)."""
    groups: dict[tuple[str, str, str, str], list[Seen]] = {}
    for one in seen:
        groups.setdefault(one[:4], []).append(one)
    for (connector, direction, seam, layer), calls in groups.items():
        yield records.KvTransfer(
            connector=connector,
            direction=direction,
            seam=seam,
            layer=layer,
            payload_bytes=_sum(one.payload_bytes for one in calls),
            tokens=_sum(one.tokens for one in calls),
            requests=_sum(one.requests for one in calls),
            dur_ns=_sum(one.dur_ns for one in calls),
            count=len(calls),
        )


def _sum(figures: Iterable[int]) -> int:
    """The sum, or -1 where one of them is not known: a part of it would look like the whole."""
    known = list(figures)
    return -1 if any(figure < 0 for figure in known) else sum(known)
