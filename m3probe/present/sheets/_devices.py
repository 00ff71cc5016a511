"""Time of each device where no step says it better, and what would answer what the input does not."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.model.device_report import DeviceRow, DevicesSection
from m3probe.model.view import View
from m3probe.present._numbers import percent
from m3probe.present.sheets._told import in_ms, text, whole
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Line

COLUMNS = (
    Column("rank", right=True),
    Column("device", right=True),
    Column("label", keep=3),
    Column("kernels", right=True, keep=2),
    Column("span ms", right=True, keep=1),
    Column("busy ms", right=True),
    Column("idle %", right=True),
    Column("comm ms", right=True),
    Column("beside other work %", right=True, keep=2),
    Column("exposed ms", right=True),
)
ASKS = (Column("question"), Column("lacks", wide=True), Column("record", wide=True))


def device_blocks(view: View) -> Iterator[Block]:
    """A line for each device, and one for each question that lacks something."""
    section = view.report.answer.section(DevicesSection) if view.report else None
    if section is None:
        return
    if section.device_time:
        lines = tuple(_line(place, row) for place, row in enumerate(section.device_time))
        yield Grid("Devices, over the whole recording", COLUMNS, lines)
    if section.unanswered:
        asks = tuple(
            Line(f"unanswered/{place}", (text(row.question), text(row.lacks), text(row.record)))
            for place, row in enumerate(section.unanswered)
        )
        yield Grid("What to record for the rest", ASKS, asks)


def _line(place: int, row: DeviceRow) -> Line:
    comm = row.comm_count > 0
    cells = (
        whole(row.rank),
        whole(row.device),
        text(row.label),
        whole(row.kernel_count),
        in_ms(row.span_ns, 3),
        in_ms(row.busy_ns, 3),
        _share(row.idle_share),
        in_ms(row.comm_ns if comm else None, 3),
        _share(row.overlap_share),
        in_ms(row.exposed_ns if comm else None, 3),
    )
    return Line(f"device/{place}", cells)


def _share(value: float | None) -> Cell:
    return Cell(percent(value), value)
