"""Question 3: what moves on each byte plane. Question 5: which queue, and which input would tell."""

from __future__ import annotations

from m3probe.model.report import BytesSection, PlaneRow, QueuesSection
from m3probe.present._numbers import bytes_unit, fixed, in_unit, ms
from m3probe.present._page import Page
from m3probe.present._table import Column, number, table

ROWS_SHOWN = 5
_PLANES = (
    ("compute", "compute tensors"),
    ("state", "persistent state"),
    ("comm", "communication"),
)


def planes(page: Page, section: BytesSection | None) -> None:
    """The three planes, each by itself, and what the trace cannot prove."""
    page.heading("3 bytes", "what moves; could metadata move instead")
    if section is None:
        page.say("Not answered: the bytes analyzer did not run.", indent=2)
        return
    for key, title in _PLANES:
        _plane(page, title, getattr(section.bytes, key))
    if section.bytes.not_provable:
        page.blank()
        page.say(("not provable from this input:", "bold"), indent=2)
    for text in section.bytes.not_provable:
        page.say(f"? {text}", indent=4, hang=2)


def _plane(page: Page, title: str, rows: tuple[PlaneRow, ...]) -> None:
    if not rows:
        page.say((title, "bold"), ": nothing seen on this plane, which proves nothing about it.", indent=2, hang=2)
        return
    unit, size = bytes_unit(row.bytes for row in rows)
    shown = sorted(rows, key=lambda row: (-(row.time_ns or 0), -(row.bytes or 0), -row.count))[:ROWS_SHOWN]
    one = {row.evidence for row in rows} if len({row.evidence for row in rows}) == 1 else set()
    columns = (
        # evidence that all rows share is said in the heading, and its column left out
        Column(f"{title} ({', '.join(one)})" if one else title, least=26, title=True),
        number("count"),
        number(unit),
        number("ms"),
        Column("dtype", least=6, drop=2),
        Column("layout", least=8, drop=3),
        Column("evidence", drop=1),
    )
    body = [
        (
            row.what,
            fixed(row.count),
            in_unit(row.bytes, size),
            ms(row.time_ns, 3),
            row.dtype,
            row.layout,
            "" if one else row.evidence,
        )
        for row in shown
    ]
    table(page, columns, body)
    if len(rows) > len(shown):
        page.say((f"{len(rows) - len(shown):,} more in --json", "dim"), indent=2)
    page.blank()


def queues(page: Page, section: QueuesSection | None) -> None:
    """Each queue and what is known, or which input would tell."""
    page.heading("5 queues", "which queue grows")
    if section is None:
        page.say("Not answered: the queues analyzer did not run.", indent=2)
        return
    if not section.queues:
        page.say("Nothing in this input speaks of a queue.", indent=2)
    wide = min(max((len(name) for name in section.queues), default=0), 24) + 2
    for name, text in section.queues.items():
        page.say((name.replace("_", " ").ljust(wide), ""), (text, "dim"), indent=2, hang=wide)
