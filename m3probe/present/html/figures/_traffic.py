"""Kinds of traffic on the byte planes, and the time of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from m3probe.model.report import BytePlanes, PlaneRow
from m3probe.present._numbers import bytes_unit, in_unit, listed, ms, plural
from m3probe.present.html import palette
from m3probe.present.html.figure import Figure
from m3probe.present.html.figures._plot import axis, bars, hover, layout, near, rows_axis, rows_height
from m3probe.present.sheets.planes import PLANES, moves

MOST = 8
"""Kinds of traffic of a plane that are drawn."""


@dataclass(slots=True)
class Kind:
    """Rows that differ in dtype or layout alone; what one of them does not know is not known of their sum."""

    plane: str
    what: str
    evidence: str
    rows: list[PlaneRow] = field(default_factory=list)

    @property
    def bytes(self) -> int | None:
        """Sum of what is proven; None where nothing is."""
        known = [row.bytes for row in self.rows if row.bytes is not None]
        return sum(known) if known else None

    @property
    def time_ns(self) -> int | None:
        """Sum of known times; None where none is."""
        known = [row.time_ns for row in self.rows if row.time_ns is not None]
        return sum(known) if known else None

    @property
    def unproven(self) -> int:
        """Rows without bytes."""
        return sum(row.bytes is None for row in self.rows)

    @property
    def calls(self) -> int:
        """Of all rows."""
        return sum(row.count for row in self.rows)


def kinds_of(planes: BytePlanes) -> list[Kind]:
    """Traffic of the recording; what is held, or read by one step, is in the tables alone."""
    found: dict[tuple[str, str, str], Kind] = {}
    for plane, _ in PLANES:
        for row in filter(moves, getattr(planes, plane)):
            key = plane, row.what, row.evidence
            found.setdefault(key, Kind(*key)).rows.append(row)
    return list(found.values())


def largest(kinds: Sequence[Kind]) -> list[Kind]:
    """The first of each plane by bytes, and then by time; planes stay apart."""
    order = sorted(kinds, key=lambda kind: (-(kind.bytes or 0), -(kind.time_ns or 0)))
    return [kind for plane, _ in PLANES for kind in [one for one in order if one.plane == plane][:MOST]]


def name_of(kind: Kind) -> str:
    """Plane and traffic."""
    return f"{kind.plane}: {kind.what}"


def told(kind: Kind) -> str:
    """Its hover."""
    unit, size = bytes_unit([kind.bytes])
    if kind.bytes is None:
        known = "bytes unproven: no argument, census or counter of this input tells them"
    else:
        known = f"{'at least ' * bool(kind.unproven)}{in_unit(kind.bytes, size)} {unit} ({kind.bytes:,} B)"
    formats = listed(list(dict.fromkeys(filter(None, (f"{row.dtype} {row.layout}".strip() for row in kind.rows)))), 3)
    partly = (
        f"{plural(kind.unproven, 'kind')} of {len(kind.rows)} without bytes" if kind.bytes and kind.unproven else ""
    )
    return hover(
        f"{name_of(kind)} ({kind.evidence})",
        known,
        f"{plural(kind.calls, 'call')}, {ms(kind.time_ns, 3)} ms",
        partly,
        formats,
    )


def times(drawn: Sequence[Kind]) -> tuple[Figure, ...]:
    """Kernel time of the same traffic, most first; nothing where no time is known."""
    timed = sorted((kind for kind in drawn if kind.time_ns), key=lambda kind: -(kind.time_ns or 0))
    if not timed:
        return ()
    unknown = len(drawn) - len(timed)
    most = (timed[0].time_ns or 0) / 1e6
    more = f"; the time of {unknown} more is not known" if unknown else ""
    said = f"Most time went into {name_of(timed[0])}, {ms(timed[0].time_ns)} ms over the recording{more}."
    by_plane = {title: [at for at, kind in enumerate(timed) if kind.plane == plane] for plane, title in PLANES}
    data = [
        bars(
            title,
            mine,
            [near((timed[at].time_ns or 0) / 1e6) for at in mine],
            palette.filled((palette.PLANE[timed[mine[0]].plane], "")),
            text=[f"{ms(timed[at].time_ns)} ms" for at in mine],
            hovertext=[told(timed[at]) for at in mine],
        )
        for title, mine in by_plane.items()
        if mine
    ]
    plot = layout(
        rows_height(len(timed), legend=1),
        axis("ms of kernel time, all steps", range=[0, near(most * 1.35)]),
        rows_axis([*map(name_of, timed)]),
        barmode="overlay",
        showlegend=True,
    )
    return (Figure("plane-times", "Time on each plane", said, tuple(data), plot),)
