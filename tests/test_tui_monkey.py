"""Whatever is pressed in whatever order: the viewer stands, nothing is wider than the screen, no cursor is outside its page."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_builder import empty_report, full_report, hollow_report
from rich.cells import cell_len
from tui_kit import StillFeed, app, shown, text_of, view

from m3probe.model.view import View
from m3probe.tui.app import M3ProbeApp

SIZES = ((200, 50), (80, 24), (60, 20), (41, 12), (30, 8), (1, 1))
KEYS = (
    *("0", "1", "2", "3", "4", "5", "f", "t", "c", "o"),
    *("enter", "enter", "enter", "escape", "backspace", "j", "k", "down", "up", "pagedown", "pageup", "g", "G"),
    *("tab", "shift+tab", "s", "S", "r", "p", "v", "y", "z", "T", "space", "w", "[", "]", "P"),
    *("slash", "e", "x", "colon", "question_mark"),
)
"""``e`` without a place to write to is a problem that is told."""
ANOTHER = "another view"
STEPS = st.one_of(st.sampled_from(KEYS), st.sampled_from(KEYS), st.sampled_from(SIZES), st.just(ANOTHER))
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def fewer() -> View:
    """The same run with one finding and none of the rest."""
    full = full_report()
    answer = replace(full.answer, findings=full.answer.findings[:1], sections=full.answer.sections[:2])
    return view(report=replace(full, answer=answer))


VIEWS = (view(), fewer(), view(report=empty_report()), view(report=hollow_report()), view(report=None, sources=()))


def holds(it: M3ProbeApp, *, still: bool) -> None:
    """What is true after every key."""
    width, height = it.size
    text = text_of(it)
    assert len(text.split("\n")) <= height
    assert all(cell_len(row) <= width for row in text.split("\n"))
    assert not CONTROL.search(text.replace("\n", ""))
    assert "could not be made" not in text
    assert not still or "not in the view any more" not in text
    page = it.pages.page
    assert 0 <= page.at <= max(0, page.parts.stops() - 1)
    assert 0 <= page.top <= max(0, page.parts.height - max(1, page.size.height))
    assert it.fault is None


async def played(steps: list[object], views: tuple[View, ...]) -> None:
    feed = StillFeed([views[0]], live=len(views) > 1)
    it = app(feed)
    at = 0
    async with it.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for step in steps:
            if step == ANOTHER:
                at += 1
                feed.views[:] = [views[at % len(views)]]
                it.poll_now()
            elif isinstance(step, tuple):
                await pilot.resize_terminal(*step)
            else:
                it.simulate_key(str(step))
            await pilot.pause(0.005 if step in KEYS and step != "space" else None)
            holds(it, still=len(views) == 1)


BOUNDED = settings(
    max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@BOUNDED
@given(st.lists(STEPS, min_size=15, max_size=30))
def test_keys_and_sizes_in_any_order_over_one_view(steps: list[object]) -> None:
    asyncio.run(played(steps, VIEWS[:1]))


@BOUNDED
@given(st.lists(STEPS, min_size=15, max_size=30))
def test_keys_and_sizes_in_any_order_while_findings_come_and_go(steps: list[object]) -> None:
    asyncio.run(played(steps, VIEWS))
