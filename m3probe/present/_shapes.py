"""Question 1: the local GEMM shapes."""

from __future__ import annotations

from collections.abc import Sequence

from m3probe.model.report import ModelMatch, ShapeRow, ShapesSection
from m3probe.present._numbers import UNKNOWN, fixed, listed, plural
from m3probe.present._page import Page
from m3probe.present._table import Cell, Column, number, table

ROWS_SHOWN = 6
_COLUMNS = (
    number("M"),
    number("N"),
    number("K"),
    number("count"),
    Column("module", least=10),
    Column("op", least=10, drop=2),
    Column("dtype", least=6, drop=4),
    Column("tile", least=8, drop=3),
    number("programs/units", drop=1),
    Column("evidence", drop=5),
)


def shapes(page: Page, section: ShapesSection | None) -> None:
    """The most frequent shapes of each phase, and the model they prove."""
    page.heading("1 shapes", "which local M, N, K reach this rank")
    if section is None:
        page.say("Not answered: the shapes analyzer did not run.", indent=2)
        return
    if not section.shapes:
        page.say(
            "No GEMM shape is proven: no operator with input shapes encloses a GEMM launch, and no census names one.",
            indent=2,
        )
    for phase in dict.fromkeys(row.phase for row in section.shapes):
        _phase(page, phase, [row for row in section.shapes if row.phase == phase])
    _match(page, section.model_match)


def _phase(page: Page, phase: str, rows: list[ShapeRow]) -> None:
    total = sum(row.count for row in rows)
    page.say((phase, "bold"), f": {plural(len(rows), 'shape')}, {plural(total, 'GEMM')}", indent=2)
    shown = sorted(rows, key=lambda row: -row.count)[:ROWS_SHOWN]
    table(page, _COLUMNS, [_cells(row) for row in shown], indent=4)
    if len(rows) > len(shown):
        left = total - sum(row.count for row in shown)
        page.say((f"{plural(len(rows) - len(shown), 'more shape')} ({left:,} GEMMs) in --json", "dim"), indent=4)
    page.blank()


def _cells(row: ShapeRow) -> Sequence[Cell]:
    starved = row.programs is not None and row.units is not None and row.programs < row.units
    programs = f"{fixed(row.programs)}/{fixed(row.units)}" if row.programs is not None else UNKNOWN
    return (
        fixed(row.M),
        fixed(row.N),
        fixed(row.K),
        fixed(row.count),
        row.module or UNKNOWN,
        row.op,
        row.dtype,
        row.tile,
        # the mark says what the colour says: fewer programs than units
        (f"! {programs}", "warn") if starved else programs,
        row.evidence,
    )


def _match(page: Page, match: ModelMatch | None) -> None:
    if match is None:
        page.say("model match — : no parallel layout's whole set of local shapes was seen.", indent=2, hang=2)
        return
    ep = f", EP{match.ep}" if match.ep > 1 else ""
    page.say(("model match", "good"), f" ● {match.model} at TP{match.tp}{ep}", indent=2, hang=2)
    for text in match.notes:
        page.say((text, "dim"), indent=4, hang=2)
    if match.missing:
        page.say((f"not seen: {listed(match.missing)}", "dim"), indent=4, hang=2)
