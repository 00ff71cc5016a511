"""Pictures of the screens, held cell for cell and colour for colour; kept ones were looked at.

``M3PROBE_UPDATE_SNAPSHOTS=1 pytest tests/test_tui_snapshots.py`` keeps new ones: look at them before they are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from test_tui_pages import NAMES as PAGES_KEPT
from tui_kit import SNAPSHOTS, StillFeed, app, own_pages, same_as_kept, shown, svg_of, text_of, until, view

from m3probe.errors import UnreadableInput
from m3probe.model.view import Word
from m3probe.tui.app import M3ProbeApp
from m3probe.tui.widgets.ink import cells


@dataclass(frozen=True)
class Case:
    """What is pressed in which terminal."""

    keys: str = ""
    size: tuple[int, int] = (80, 24)
    feed: Callable[[], StillFeed] = lambda: StillFeed([view()])
    look: dict[str, object] = field(default_factory=dict)


def partial() -> StillFeed:
    return StillFeed([view(Word.PARTIAL, detail="rank 3 is cut at step 412; its steps are unproven")])


def down() -> StillFeed:
    detail = "http://127.0.0.1:8000/metrics: connection refused, asked again in 5 s"
    return StillFeed([view(Word.DOWN, detail=detail)], live=True)


def unreadable() -> StillFeed:
    error = UnreadableInput("no such file or folder", where="rank0.pt.trace.json.gz", next_move="Check the path")
    return StillFeed([], error=error)


MONO, ASCII, LIGHT = {"mono": True}, {"ascii_only": True}, {"light": True}
CASES = {
    "sheet": Case(),
    "sheet-120x40": Case(size=(120, 40)),
    "sheet-60x20": Case(size=(60, 20)),
    "sheet-mono": Case(look=MONO),
    "sheet-ascii": Case(look=ASCII),
    "sheet-light": Case(look=LIGHT),
    "sheet-empty": Case("f"),
    "sheet-partial": Case(feed=partial),
    "sheet-down": Case(feed=down),
    "sheet-paused": Case("space", feed=down),
    "sheet-more-below": Case("enter j j j", (60, 20)),
    "sheet-side": Case("j", (180, 45)),
    "sheet-small": Case(size=(39, 11)),
    "charts": Case("2"),
    "charts-mono": Case("2", look=MONO),
    "charts-ascii": Case("2", look=ASCII),
    "charts-60x20": Case("2", (60, 20)),
    "page-failed": Case("5"),
    "filter": Case("slash u n p"),
    "help": Case("question_mark"),
    "help-ascii": Case("question_mark", look=ASCII),
    "help-mono": Case("question_mark", (120, 40), look=MONO),
    "palette": Case("ctrl+p f i n d"),
    "problem": Case(feed=unreadable),
    "problem-mono": Case(feed=unreadable, look=MONO),
    "problem-60x20": Case(feed=unreadable, size=(60, 20)),
}


def picture(case: Case) -> tuple[str, str]:
    """(SVG, text) of what is on screen after the keys."""

    async def go() -> tuple[str, str]:
        with own_pages():
            it = app(case.feed(), **case.look)
            async with it.run_test(size=case.size) as pilot:
                await shown(pilot)
                await pilot.press(*case.keys.split())
                await pilot.pause()
                return svg_of(it), text_of(it)

    return asyncio.run(go())


@pytest.mark.parametrize("name", CASES)
def test_screen_looks_as_it_was_looked_at(name: str) -> None:
    case = CASES[name]
    svg, text = picture(case)
    assert same_as_kept(svg, name) == ""
    lines = text.splitlines()
    assert len(lines) <= case.size[1]
    assert max(map(cells, lines)) <= case.size[0]
    if "ascii_only" in case.look:
        assert text.isascii()


def loading(size: tuple[int, int] = (80, 24), **look: object) -> tuple[str, str]:
    import threading

    async def go() -> tuple[str, str]:
        files = (("rank 0: rank0.json.gz", 5_242_880, 1_048_576), ("rank 1: rank1.json", 3_145_728, 12_582_912))
        feed = StillFeed([view()], told=files, hang=threading.Event())
        with own_pages():
            it: M3ProbeApp = app(feed, title="run-7", **look)
            async with it.run_test(size=size) as pilot:
                await until(pilot, lambda: len(it.loading.seen) == 2)
                return svg_of(it), text_of(it)

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("name", "size", "look"),
    [("loading", (80, 24), {}), ("loading-60x20", (60, 20), {}), ("loading-ascii", (80, 24), ASCII)],
)
def test_loading_names_the_file_and_rank_that_is_read(
    name: str, size: tuple[int, int], look: dict[str, object]
) -> None:
    svg, text = loading(size, **look)
    assert same_as_kept(svg, name) == ""
    assert "rank 1: rank1.json" in text
    assert "3.0 of 12.0 MiB" in text  # a plain file: 3 of 12 MiB are read
    assert "5.0 MiB unpacked" in text  # more was read than lies on disk: no share of it is known
    assert "esc or q cancels" in text


def test_no_picture_is_kept_that_nothing_makes() -> None:
    kept = {path.stem for path in SNAPSHOTS.glob("*.svg")}
    assert kept == {*CASES, *PAGES_KEPT, "loading", "loading-60x20", "loading-ascii"}


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("M3PROBE_UPDATE_SNAPSHOTS", raising=False)
    svg, _ = picture(CASES["sheet"])
    assert same_as_kept(svg, "sheet") == ""
    assert "differs" in same_as_kept(svg.replace("finding&#160;number&#160;3", "finding&#160;number&#160;8"), "sheet")
    assert "is not there" in same_as_kept(svg, "sheet-of-nothing")


def test_without_colour_no_hue_is_in_the_picture() -> None:
    """Grey is a colour too: whatever the picture is drawn in is the terminal's own two colours."""
    import re

    svg, _ = picture(CASES["sheet-mono"])
    drawn = set(re.findall(r"fill: (#[0-9a-f]{6})", svg))
    assert len(drawn) <= 2
