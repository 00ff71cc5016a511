"""Views of hand-made reports, and parts of sheets as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from report_builder import full_report

from m3probe.model.findings import Bound, Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer, BottleneckSection, NextBottleneck, RankedRow, Report
from m3probe.model.view import View, Word
from m3probe.present.sheets.sheet import Grid, Line, Said, Sheet

NOW_S = 1_800_000_000.0


def view_of(report: Report | None, recording: Recording | None = None, **more: Any) -> View:
    """A file that was read, at a frozen time."""
    return View(**{"title": "run", "word": Word.READ, "at_s": NOW_S, "report": report, "recording": recording} | more)


def bounded(name: str, high: float, **more: Any) -> Finding:
    """A finding of decode step time."""
    words: dict[str, Any] = {
        "id": name, "question": name.partition(".")[0], "verdict": "share", "claim": f"claim of {name}", "where": "decode",
        "evidence": (), "advice": "", "bound": Bound(0.0, high, "a share", "decode step time", ("1 ns / 2 ns",)),
    }  # fmt: skip
    return Finding(**words | more)


def ranked(found: Sequence[Finding]) -> BottleneckSection:
    """These findings in this order; the first is the next bottleneck."""
    rows = tuple(
        RankedRow(place, each.id, each.bound, "decode step time", each.confidence, "", "by size", f"not {each.id}")
        for place, each in enumerate(found, 1)
    )
    first = NextBottleneck(found[0].id, found[0].bound, "the largest trusted bound") if found else None
    return BottleneckSection(first, rows)


def report_of(found: Sequence[Finding], *sections: Any, outcome: str = "ok") -> Report:
    """A report that ranks these findings."""
    return Report(outcome, (), Answer((*sections, ranked(found)), tuple(found)))


def whole_report() -> Report:
    """``full_report`` without its loss and with a trusted recording."""
    return replace(full_report(), outcome="ok", notes=())


def grid(sheet: Sheet, title: str) -> Grid:
    """The table whose title begins so."""
    return next(block for block in sheet.blocks if isinstance(block, Grid) and block.title.startswith(title))


def texts(line: Line) -> list[str]:
    """A line's cells as shown."""
    return [cell.text for cell in line.cells]


def column(found: Grid, name: str) -> list[str]:
    """One column as shown."""
    place = [each.name for each in found.columns].index(name)
    return [line.cells[place].text for line in found.lines]


def said(sheet: Sheet) -> list[str]:
    """Every sentence."""
    return [block.text for block in sheet.blocks if isinstance(block, Said)]
