"""Question 1: the local GEMM shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from m3probe.model.findings import Finding
from m3probe.model.report import ModelMatch, ShapeRow, ShapesSection
from m3probe.present._numbers import UNKNOWN, fixed, listed, plural
from m3probe.present._page import Page, items
from m3probe.present._table import Cell, Column, number, table

ROWS_SHOWN = 6
UNPROVEN = "shapes.unproven"
DIFFERS = "shapes.layout_differs"
FILLED = 0.75
"""Launches that start fewer workgroups than this share of the units are marked, as the finding bounds them."""
_TEXTS = (
    ("module", Column("module", least=16)),
    ("op", Column("op", least=10, drop=3)),
    ("dtype", Column("dtype", least=6, drop=4)),
    ("tile", Column("tile", least=14, drop=2)),
    ("evidence", Column("evidence", drop=5)),
)


def shapes(page: Page, section: ShapesSection | None, findings: Sequence[Finding] = ()) -> None:
    """The most frequent shapes of each phase, what the histogram is without, and the model that they prove."""
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
    # a histogram that shows the lm_head alone must not read as a model of one layer
    _told(page, findings, UNPROVEN, "?")
    _match(page, section.model_match)
    _told(page, findings, DIFFERS, "!")


def _told(page: Page, findings: Sequence[Finding], name: str, mark: str) -> None:
    """A finding that changes how the section reads stands in it, not only among the findings."""
    for finding in findings:
        if finding.id == name:
            page.say((f"{mark} {finding.claim}", "warn"), indent=2, hang=2)


def _phase(page: Page, phase: str, rows: list[ShapeRow]) -> None:
    total = sum(row.count for row in rows)
    # what all shapes of a phase share is said once, and leaves room for what tells them apart
    same = {key: getattr(rows[0], key) for key in ("op", "dtype", "evidence") if _uniform(rows, key)}
    said = [plural(len(rows), "shape"), plural(total, "GEMM"), *(f"{key} {text}" for key, text in same.items() if text)]
    page.say((phase, "bold"), "  ", items(said), indent=2, hang=2)
    shown = sorted(rows, key=lambda row: -row.count)[:ROWS_SHOWN]
    texts = [(key, column) for key, column in _TEXTS if key not in same]
    columns = [*map(number, ("M", "N", "K", "count")), *(column for _, column in texts), number("grid/units", drop=1)]
    table(page, columns, [_cells(row, [key for key, _ in texts]) for row in shown], indent=4)
    if len(rows) > len(shown):
        left = total - sum(row.count for row in shown)
        page.say((f"{plural(len(rows) - len(shown), 'more shape')} ({left:,} GEMMs) in --json", "dim"), indent=4)
    page.blank()


def _uniform(rows: list[ShapeRow], key: str) -> bool:
    return len({getattr(row, key) for row in rows}) == 1


def _cells(row: ShapeRow, texts: list[str]) -> list[Cell]:
    # what started, where it was recorded: split-K starts more than the tile's programs, a persistent kernel fewer
    started = prod(row.grid) if row.grid is not None else row.programs
    starved = started is not None and row.units is not None and started < FILLED * row.units
    shown = f"{fixed(started)}/{fixed(row.units)}" if started is not None else UNKNOWN
    return [
        *(fixed(figure) for figure in (row.M, row.N, row.K, row.count)),
        *(_text(row, key) for key in texts),
        # the mark says what the colour says
        (f"! {shown}", "warn") if starved else shown,
    ]


def _text(row: ShapeRow, key: str) -> str:
    if key == "tile":
        return row.tile.split("; ", 1)[0]  # what ran; the selector's answer beside it is for --json
    return getattr(row, key) or (UNKNOWN if key == "module" else "")


def _match(page: Page, match: ModelMatch | None) -> None:
    if match is None:
        page.say("model match — : no parallel layout's whole set of local shapes was seen.", indent=2, hang=2)
        return
    ep = f", EP{match.ep}" if match.ep and match.ep > 1 else ""
    page.say(("model match", "good"), f" ● {match.model} at TP{match.tp}{ep}", indent=2, hang=2)
    for text in match.notes:
        page.say((text, "dim"), indent=4, hang=2)
    if match.missing:
        page.say((f"not seen: {listed(match.missing)}", "dim"), indent=4, hang=2)
