"""Pages of the viewer as values: views of hand-made reports, and the cells of a sheet by their column's name."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from report_builder import full_report, hollow_report

from m3probe import pipeline
from m3probe.model.report import Answer, Report
from m3probe.model.view import View, Word
from m3probe.present.json import report_json
from m3probe.present.sheets.sheet import Bars, Curve, Grid, Lens, Line, Said, Sheet
from m3probe.present.sheets.targets import PAGES, sheet_of

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
GRAPH = SAMPLES / "h200-m3-tp4rank-graph.pt.trace.json.gz"
LIVE = SAMPLES / "live-h200-m3-graph"
HOSTILE = "[red]evil[/red] \x1b[2J \u202e|`<b>"
ALL = Lens()


def view(*sections: Any, findings: tuple[Any, ...] = (), **more: Any) -> View:
    """A view of a report with these sections."""
    return View("run", Word.READ, 1_000.0, report=Report("ok", (), Answer(sections, findings)), **more)


def of_report(report: Report | None, **more: Any) -> View:
    return View("run", Word.READ, 1_000.0, report=report, **more)


@cache
def sample(path: Path) -> tuple[View, dict[str, Any]]:
    """A sample as the viewer sees it, and as ``analyze --json`` tells it."""
    rec = pipeline.read([path])
    report = pipeline.report(rec)
    return of_report(report, recording=rec), json.loads(report_json(report))


def page(target: str, shown: View, lens: Lens = ALL) -> Sheet:
    """A sheet that any screen can draw: see ``sound``."""
    found = sheet_of(target, shown, lens)
    sound(found)
    return found


def sound(sheet: Sheet) -> None:
    """What every screen relies on."""
    assert isinstance(sheet.blocks[0], Said), "the answer comes first"
    assert sheet.change, "what would change the answer is said"
    for block in sheet.blocks:
        if isinstance(block, Grid):
            names = [column.name for column in block.columns]
            assert len(set(names)) == len(names)
            assert sum(column.wide for column in block.columns) <= 2
            keys = [line.key for line in block.lines]
            assert len(set(keys)) == len(keys)
            for line in block.lines:
                assert len(line.cells) == len(block.columns)
                assert not line.opens or line.opens.partition("/")[0] in PAGES
        elif isinstance(block, Bars):
            assert block.bars
            assert all(0 <= bar.value <= block.high for bar in block.bars)
        elif isinstance(block, Curve):
            assert block.low < block.high


def grid(sheet: Sheet, begins: str) -> Grid:
    """The first table of which the title begins so."""
    return next(b for b in sheet.blocks if isinstance(b, Grid) and b.title.startswith(begins))


def chart(sheet: Sheet) -> Bars:
    return next(b for b in sheet.blocks if isinstance(b, Bars))


def bars(sheet: Sheet) -> dict[str, float]:
    """label -> value of the first chart."""
    return {bar.label: bar.value for bar in chart(sheet).bars}


def column(table: Grid, name: str) -> list[Any]:
    """Raw values of one column."""
    at = [c.name for c in table.columns].index(name)
    return [line.cells[at].raw for line in table.lines]


def texts(table: Grid, name: str) -> list[str]:
    at = [c.name for c in table.columns].index(name)
    return [line.cells[at].text for line in table.lines]


def marks(table: Grid, name: str) -> list[str]:
    at = [c.name for c in table.columns].index(name)
    return [line.cells[at].mark for line in table.lines]


def line(table: Grid, key: str) -> Line:
    return next(one for one in table.lines if one.key == key)


def said(sheet: Sheet) -> list[str]:
    return [b.text for b in sheet.blocks if isinstance(b, Said)]


def full() -> View:
    return of_report(full_report())


def hollow() -> View:
    return of_report(hollow_report())


def nothing() -> View:
    """Before anything was read."""
    return View("run", Word.DOWN, 1_000.0, detail="connection refused: http://host:8000/metrics")
