"""Pictures of the real pages over real recordings: whole, cut, without anything, small, wide, without colour; all were looked at.

``M3PROBE_UPDATE_SNAPSHOTS=1 pytest tests/test_tui_pages.py`` keeps new ones.
"""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from report_builder import empty_report
from tree import ROOT
from tui_kit import NOW, StillFeed, app, same_as_kept, shown, svg_of, text_of

from m3probe.comparing import AskedRun
from m3probe.model.view import View, Word
from m3probe.tui.widgets.ink import cells
from m3probe.viewing.offline import PathFeed
from m3probe.workload import Workload

SAMPLES = ROOT / "samples"
TRACE = "h200-m3-tp4rank-graph.pt.trace.json.gz"
RUNS = ("graphs", "flat", "nested", "eager")
PAGES = {
    "overview": "0",
    "shapes": "1",
    "repeats": "2",
    "bytes": "3",
    "paths": "4",
    "path": "4 enter",
    "queues": "5",
    "findings": "f",
    "finding": "f enter",
    "evidence": "f enter enter",
    "steps": "t",
    "step": "t j enter",
    "sources": "o",
    "compare": "c",
    "pair": "c j enter",
}
"""page -> keys that lead there from the overview."""
LOOKS = {
    "80x24": ((80, 24), {}, "whole"),
    "120x40": ((120, 40), {}, "whole"),
    "mono": ((80, 24), {"mono": True}, "whole"),
    "empty": ((80, 24), {}, "empty"),
    "partial": ((80, 24), {}, "partial"),
}


def read(feed: PathFeed) -> View:
    """What a feed shows, at the tests' own time and without the folders of this machine."""
    view = feed.poll(lambda *_: None, lambda: False)
    sources = tuple(replace(one, name=Path(one.name).name, last_ok_s=NOW - 3, took_ms=100.0) for one in view.sources)
    rec = view.recording
    assert rec is not None
    files = tuple(replace(file, path=Path(file.path).name) for file in rec.files)
    return replace(view, at_s=NOW, sources=sources, recording=replace(rec, files=files))


@cache
def whole() -> View:
    return read(PathFeed([SAMPLES / TRACE], Workload()))


@cache
def compared() -> View:
    paths = [SAMPLES / "compare-h200" / name for name in RUNS]
    return read(PathFeed(paths[-1:], Workload(), [AskedRun((path,), "", Workload()) for path in paths]))


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> View:
    path = tmp_path_factory.mktemp("cut") / "cut.pt.trace.json"
    path.write_bytes(gzip.decompress((SAMPLES / TRACE).read_bytes())[:3_000_000])
    view = read(PathFeed([path], Workload()))
    assert view.report is not None
    assert view.report.outcome == "partial"
    folder = f"{path.parent}/"
    notes = tuple(replace(note, path=Path(note.path).name) for note in view.report.notes)
    detail = view.detail.replace(folder, "")
    sources = tuple(replace(one, detail=one.detail.replace(folder, "")) for one in view.sources)
    return replace(view, report=replace(view.report, notes=notes), detail=detail, sources=sources)


def empty() -> View:
    return View(title="nothing", word=Word.READ, at_s=NOW, report=empty_report())


def picture(view: View, keys: str, size: tuple[int, int], look: dict[str, bool]) -> tuple[str, str]:
    async def go() -> tuple[str, str]:
        it = app(StillFeed([view]), title=view.title, **look)
        async with it.run_test(size=size) as pilot:
            await shown(pilot)
            for key in keys.split():
                await pilot.press(key)
                await pilot.pause()
            return svg_of(it), text_of(it)

    return asyncio.run(go())


NAMES = {f"page-{page}-{look}" for page in PAGES for look in LOOKS}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("page", PAGES)
def test_page_looks_as_it_was_looked_at(page: str, look: str, cut: View) -> None:
    size, options, what = LOOKS[look]
    full = compared() if page in {"compare", "pair"} else whole()
    view = {"whole": full, "empty": empty(), "partial": cut}[what]
    svg, text = picture(view, PAGES[page], size, options)
    assert same_as_kept(svg, f"page-{page}-{look}") == ""
    assert max(map(cells, text.splitlines())) <= size[0]
    assert "not in the view any more" not in text
    assert "Traceback" not in text
