"""All findings in one order, and for each why it stands where it does (docs/next-bottleneck.md).

Bounds on one time are ordered by size. A family's share says where time goes and not what to change: a cause that lies in
it and bounds at least half of it stands before it. What is a share of another time is not compared, and stands behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from m3probe.analyzers._queues_next import level_of
from m3probe.analyzers._view import percent
from m3probe.model.counter_evidence import counter_evidence
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, NextBottleneck, QueuesSection, RankedRow
from m3probe.schema.verdicts import FAMILIES

FAMILY, COPIES = "next_bottleneck.family.", "next_bottleneck.copies"
EXPLAINS = 0.5
"""Share of a family's bound from which on a cause inside stands before it: most of what can be won there is the cause's."""
UNBOUNDED = ("device_health", "straggler", "expert_skew", "draft")
"""Questions whose findings are ranked without a bound too: they slow every step, by how much was not measured."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding whose bound is compared; ``share``: the family's or copies' finding that it lies in, else None."""

    finding: Finding
    high: float
    share: Finding | None = None

    @property
    def is_share(self) -> bool:
        """Whether it says where time goes and not why."""
        return self.finding.id.startswith((FAMILY, COPIES))

    @property
    def leads(self) -> bool:
        """Whether it stands before the share that it lies in though its bound is smaller."""
        return bool(self.share and self.finding.confidence != "low" and self.high >= EXPLAINS * _high(self.share))

    @property
    def key(self) -> tuple[float, bool]:
        """By size, a cause before the share it explains; of equals the first in order of the questions."""
        high = max(self.high, _high(self.share)) if self.leads and self.share else self.high
        return -high, self.is_share

    def first(self, name: str) -> str:
        """Why it stands before all others."""
        if self.share is None or self.high >= _high(self.share):
            return f"the largest trusted bound on {name}"
        return f"the cause of most of {self.share.id} (up to {percent(_high(self.share))}), the largest share of {name}"


def in_order(rec: Recording, findings: Sequence[Finding], name: str) -> list[Placed]:
    """Trusted findings whose bounds are shares of the time ``name``, first one first."""
    bounded = [f for f in findings if f.trusted and _high(f) > 0 and f.bound and f.bound.basis in ("", name)]
    shares = {f.id: f for f in bounded if f.id.startswith((FAMILY, COPIES))}
    placed = [Placed(f, _high(f), shares.get(_share_of(rec, f))) for f in bounded]
    return sorted(placed, key=lambda p: p.key)


def ranking(
    rec: Recording, chosen: NextBottleneck | None, name: str, findings: Sequence[Finding]
) -> tuple[RankedRow, ...]:
    """Every finding with a bound, or of a level of its own, with its place; the next bottleneck is the first."""
    told: dict[str, tuple[Finding, str, str]] = {}
    of = {f.id: f for f in findings}
    if chosen is not None:
        told[chosen.finding] = (of[chosen.finding], "", chosen.why)
    same_time = in_order(rec, findings, name) if name else []
    for row in (*_compared(same_time, name), *_levels(findings), *_apart(findings, name), *_doubted(findings)):
        told.setdefault(row[0].id, row)
    inside = {p.finding.id: p.share.id for p in same_time if p.share}
    return tuple(
        RankedRow(
            place,
            f.id,
            f.bound,
            f.bound.basis if f.bound else "",
            f.confidence,
            within or inside.get(f.id, ""),
            why,
            counter_evidence(f.id),
        )
        for place, (f, within, why) in enumerate(told.values(), 1)
    )


def waiting(so_far: Answer) -> str:
    """Whether requests wait, where pages or samples tell: ``nobody waits (admission: 0 requests in 30 samples)``."""
    section = so_far.section(QueuesSection)
    rows = (
        [row for row in section.queue_rows if row.queue == "admission" and row.length_most is not None]
        if section
        else []
    )
    if not rows:
        return "whether requests wait was not measured"
    most = max(row.length_most or 0.0 for row in rows)
    seen = f"{sum(row.samples for row in rows):,} sample(s)"
    return f"up to {most:,.0f} requests wait in {seen}" if most > 0 else f"nobody waits (0 requests in {seen})"


_Row = tuple[Finding, str, str]


def _compared(placed: Sequence[Placed], name: str) -> Iterator[_Row]:
    for p in placed:
        holds = [other.finding.id for other in placed if other.share is p.finding]
        if p.leads and p.share and p.high < _high(p.share):
            why = f"before {p.share.id}, of which it is the cause of at least half"
        elif p.share:
            why = f"by size on {name}; inside {p.share.id}, so that the two are not added up"
        elif holds:
            why = f"by size on {name}; holds {', '.join(holds)}, which are not added to it"
        else:
            why = f"by size on {name}"
        yield p.finding, p.share.id if p.share else "", why


def _levels(findings: Iterable[Finding]) -> Iterator[_Row]:
    """Queues, caches and limits, the outermost level first."""
    found = [(level, f) for f in findings if f.trusted and (level := level_of(f))]
    for (_, why), f in sorted(found, key=lambda pair: (pair[0][0], -_high(pair[1]))):
        shares = (
            f"not comparable: share of {f.bound.basis}" if f.bound else "no share was measured: ranked by its level"
        )
        yield f, "", f"{shares}; {why}"


def _apart(findings: Iterable[Finding], name: str) -> Iterator[_Row]:
    """Bounds on another time by size, then what slows every step by an amount that was not measured."""
    trusted = [f for f in findings if f.trusted]
    for f in sorted((f for f in trusted if f.bound and _high(f) > 0), key=lambda f: -_high(f)):
        if f.bound and f.bound.basis != name:
            yield f, "", f"not comparable: share of {f.bound.basis or 'a time that is not named'}"
    for f in trusted:
        if f.bound is None and f.question in UNBOUNDED and f.verdict != "unproven":
            yield f, "", "no share was measured: behind all that is bounded"


def _doubted(findings: Iterable[Finding]) -> Iterator[_Row]:
    for f in sorted((f for f in findings if not f.trusted and _high(f) > 0), key=lambda f: -_high(f)):
        yield f, "", "not trusted: behind all that is (its evidence can be another thing than it seems)"


def _high(finding: Finding | None) -> float:
    return finding.bound.high if finding is not None and finding.bound else 0.0


def _share_of(rec: Recording, finding: Finding) -> str:
    """Id of the family's share that a cause lies in: most kernels that it shows are of that family; "" otherwise."""
    if finding.question == "next_bottleneck":
        return ""
    rows = [row for e in finding.evidence if e.table == "kernels" for row in e.rows if 0 <= row < len(rec.kernels)]
    if not rows:
        return ""
    count = np.bincount(rec.kernels["family"][rows], minlength=len(FAMILIES))
    most = int(np.argmax(count))
    return f"{FAMILY}{FAMILIES[most]}" if 2 * count[most] > len(rows) else ""
