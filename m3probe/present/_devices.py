"""Time of each device, and what would answer what this input does not."""

from __future__ import annotations

from m3probe.model.device_report import DeviceRow, DevicesSection
from m3probe.present._numbers import UNKNOWN, fixed, ms, percent, plural
from m3probe.present._page import Page
from m3probe.present._table import Column, number, table

SHOWN = 16
_COLUMNS = (
    Column("rank"),
    number("device"),
    number("kernels", drop=2),
    number("span ms", drop=1),
    number("busy ms"),
    number("idle %"),
    number("comm ms"),
    number("beside other work %", drop=3),
    number("exposed ms"),
)


def devices(page: Page, section: DevicesSection | None) -> None:
    """A row for each device of a recording without steps, where no phase says it better."""
    if section is None or not section.device_time:
        return
    page.blank()
    table(page, _COLUMNS, [_row(row) for row in section.device_time[:SHOWN]])
    more = len(section.device_time) - SHOWN
    if more > 0:
        page.say((f"{plural(more, 'more device')} in --json", "dim"), indent=2)


def _row(row: DeviceRow) -> list[str]:
    return [
        UNKNOWN if row.rank is None else str(row.rank),
        str(row.device),
        fixed(row.kernel_count),
        ms(row.span_ns),
        ms(row.busy_ns),
        percent(row.idle_share),
        ms(row.comm_ns) if row.comm_count else UNKNOWN,
        percent(row.overlap_share),
        ms(row.exposed_ns) if row.comm_count else UNKNOWN,
    ]


def lacks(page: Page, section: DevicesSection | None, question: str) -> None:
    """What the question lacks, and the option that would have it recorded."""
    for row in section.unanswered if section else ():
        if row.question == question:
            page.say((f"? {row.lacks}", "warn"), indent=2, hang=2)
            page.say(f"→ record: {row.record}", indent=4, hang=2)
