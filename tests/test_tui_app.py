"""The viewer between feed and reader: polls, states, sizes, faults, and leaving while a poll hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from tui_kit import COLUMNS, MANY, NOW, StillFeed, app, line, own_pages, shown, source, text_of, until, view

from m3probe.errors import UnreadableInput
from m3probe.model.view import SourceState, View, Word
from m3probe.present.sheets.sheet import Grid, Said, Sheet
from m3probe.tui.app import M3ProbeApp
from m3probe.tui.desk import Desk
from m3probe.tui.polling import Arrived
from m3probe.tui.screens.problem import ProblemScreen
from m3probe.tui.widgets.heading import Heading

Told = Callable[[M3ProbeApp, Pilot], Awaitable[None]]


def running(feed: StillFeed, then: Told, *, size: tuple[int, int] = (80, 24), wait: bool = True) -> M3ProbeApp:
    async def go() -> M3ProbeApp:
        with own_pages():
            it = app(feed)
            async with it.run_test(size=size) as pilot:
                if wait:
                    await shown(pilot)
                await then(it, pilot)
            return it

    return asyncio.run(go())


# --- the desk, without a terminal ------------------------------------------------------------------------------


def desk(*views: View, live: bool = True) -> Desk:
    it = Desk(StillFeed(list(views), live=live), clock=lambda: NOW)
    for one in views:
        it.arrived(one)
    return it


@pytest.mark.parametrize(
    ("word", "banner"),
    [
        (Word.LIVE, ("", "")),
        (Word.READ, ("", "")),
        (Word.SLOW, ("SLOW", "8,000 ms a scrape")),
        (Word.STALE, ("STALE", "8,000 ms a scrape")),
        (Word.DOWN, ("DOWN", "8,000 ms a scrape")),
        (Word.BAD_DATA, ("BAD DATA", "8,000 ms a scrape")),
        (Word.RESET, ("RESET", "8,000 ms a scrape")),
        (Word.COLLECTING, ("COLLECTING", "8,000 ms a scrape")),
    ],
)
def test_a_state_that_matters_says_why_for_as_long_as_it_lasts(word: Word, banner: tuple[str, str]) -> None:
    assert desk(view(word, detail="8,000 ms a scrape")).banner() == banner


@pytest.mark.parametrize(
    ("word", "old"), [(Word.LIVE, False), (Word.STALE, True), (Word.DOWN, True), (Word.READ, False)]
)
def test_figures_of_a_server_that_does_not_answer_are_old(word: Word, old: bool) -> None:
    assert desk(view(word)).old is old


def test_the_age_of_figures_grows_with_the_clock_and_not_with_polls() -> None:
    it = desk(view(Word.LIVE, at_s=NOW - 300, window_s=60.0, sources=()))
    assert it.aside() == "window 1 min  5 min"


def test_while_paused_sources_go_on_and_figures_do_not() -> None:
    it = desk(view(Word.LIVE, title="before"))
    it.pause()
    it.arrived(view(Word.DOWN, title="after", sources=(replace(source(Word.DOWN), detail="refused"),)))
    assert (it.view.title, it.view.sources[0].word, it.word) == ("before", Word.DOWN, "PAUSED")
    it.pause()
    assert (it.view.title, it.word) == ("after", Word.DOWN)


def test_ranks_phases_and_verdicts_are_those_of_the_report() -> None:
    it = desk(view(), live=False)
    assert it.ranks() == [0]
    assert it.phases() == [row.phase for row in it.view.report.answer.sections[1].summary.phases]
    assert it.choose("rank") == "rank 0"
    assert it.choose("rank") == "all ranks"


def test_without_a_report_nothing_can_be_chosen() -> None:
    it = desk(view(report=None))
    assert [it.choose(what) for what in ("rank", "phase", "verdict")] == ["all ranks", "all phases", "all verdicts"]


def test_a_ranking_is_held_until_it_has_changed_for_three_views() -> None:
    from m3probe.model.report import Answer, BottleneckSection, RankedRow, Report

    def ranked(*ids: str) -> View:
        rows = tuple(RankedRow(n, name, None, "", "low", "", "", "") for n, name in enumerate(ids, 1))
        return view(Word.LIVE, report=Report("ok", (), Answer((BottleneckSection(None, rows),))))

    it = desk(ranked("a", "b"))
    for expected in (("a", "b"), ("a", "b"), ("b", "a")):
        it.arrived(ranked("b", "a"))
        assert it.lens.ranking == expected


def test_a_page_of_something_that_is_gone_says_so() -> None:
    with own_pages(detail=lambda *_: {}["finding 7"]):
        sheet = desk(view()).sheet("detail/7")
    assert sheet.blocks[0].text == "This is not in the view any more: finding 7"


# --- polls -----------------------------------------------------------------------------------------------------


def test_one_poll_at_a_time_and_the_next_when_the_feed_says() -> None:
    feed = StillFeed([view(Word.LIVE, next_poll_s=0.05)], live=True)

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await until(pilot, lambda: feed.polls >= 3)
        feed.hang = threading.Event()
        await pilot.pause(0.2)
        before = feed.polls
        it.poll_now()
        it.poll_now()
        await pilot.pause(0.2)
        assert feed.polls == before
        feed.hang.set()
        await until(pilot, lambda: feed.polls > before)

    running(feed, then)


def test_a_file_is_read_once() -> None:
    feed = StillFeed([view()])

    async def then(_: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.pause(0.3)

    running(feed, then)
    assert feed.polls == 1


def test_the_first_paint_does_not_wait_for_the_feed() -> None:
    feed = StillFeed([view()], hang=threading.Event())

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.pause()
        assert "Reading m3probe ..." in text_of(it)
        assert "esc or q cancels" in text_of(it)

    running(feed, then, wait=False)


@pytest.mark.parametrize("key", ["q", "escape", "ctrl+c"])
def test_leaving_does_not_wait_for_a_poll_that_hangs(key: str) -> None:
    feed = StillFeed([view()], hang=threading.Event())
    took: list[float] = []

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await until(pilot, lambda: feed.polls == 1)
        took.append(time.perf_counter())
        await pilot.press(key)
        await until(pilot, lambda: it.return_value is not None)

    it = running(feed, then, wait=False)
    assert it.return_value == (130 if key == "ctrl+c" else 0)
    assert time.perf_counter() - took[0] < 3  # the poll would take 30


def test_what_comes_after_leaving_is_thrown_away() -> None:
    feed = StillFeed([view()], hang=threading.Event())

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await until(pilot, lambda: feed.polls == 1)
        it.poller.stop()
        feed.hang.set()
        await pilot.pause(0.2)
        assert it.desk.view is None
        assert it.poller.poll() is False

    running(feed, then, wait=False)


# --- problems --------------------------------------------------------------------------------------------------


def test_an_input_that_cannot_be_read_is_told_with_cause_and_next_move_and_is_the_exit_status() -> None:
    error = UnreadableInput("no such file", where="a.json", next_move="Check the path")

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        assert isinstance(it.screen, ProblemScreen)
        text = text_of(it)
        assert "Nothing can be shown" in text
        assert "a.json: no such file" in text
        assert "Check the path" in text
        await pilot.press("y")
        assert it.clipboard == "**Nothing can be shown**\n\na.json: no such file\n\nCheck the path\n"
        await pilot.press("q")

    assert running(StillFeed([], error=error), then).return_value == 3


def test_a_later_problem_leaves_the_pages_usable() -> None:
    feed = StillFeed([view(Word.LIVE)], live=True)

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        feed.error = UnreadableInput("it went away", where="folder")
        it.poll_now()
        await until(pilot, lambda: isinstance(it.screen, ProblemScreen))
        await pilot.press("escape", "j", "enter")
        assert [stop.target for stop in it.pages.trail] == ["overview", "detail/2"]

    running(feed, then)


def test_a_fault_of_a_feed_ends_the_viewer_and_is_the_callers_to_tell() -> None:
    feed = StillFeed([], error=ZeroDivisionError("a fault"))

    async def then(_: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.pause(0.5)

    with pytest.raises(ZeroDivisionError):
        running(feed, then, wait=False)


# --- sizes -----------------------------------------------------------------------------------------------------


def test_a_resize_keeps_line_and_view() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("j", "j", "enter", *["j"] * 20)
        for width, height in ((60, 20), (200, 50), (39, 11), (80, 24)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            assert it.pages.page.line.key == "item-21"
        assert "finding 3" in text_of(it)
        assert it.pages.page.parts.row_of(it.pages.page.at) - it.pages.page.top < 22

    running(StillFeed([view()]), then)


@pytest.mark.parametrize(("size", "whole"), [((40, 12), True), ((39, 12), False), ((40, 11), False), ((20, 5), False)])
def test_below_forty_by_twelve_one_sentence_with_the_state_stands_there(size: tuple[int, int], whole: bool) -> None:
    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert ("too small" not in " ".join(text_of(it).split())) is whole
        assert "READ" in text_of(it)

    running(StillFeed([view()]), then, size=size)


def test_from_160_columns_what_a_line_opens_stands_beside_it() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("j")
        await pilot.pause()
        assert "This is 2." in text_of(it)
        assert [stop.target for stop in it.pages.trail] == ["overview"]
        await pilot.resize_terminal(159, 40)
        await pilot.pause()
        assert "This is 2." not in text_of(it)

    running(StillFeed([view()]), then, size=(160, 40))


def test_a_key_in_four_million_lines_is_answered_from_what_is_seen() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("4")
        made, begun = MANY.made, time.thread_time()  # work, however busy the machine is
        for _ in range(20):
            it.pages.action_page_down()
            it.pages.page.render_line(0)
        assert (time.thread_time() - begun) / 20 < 0.05
        assert MANY.made - made < 20 * 200
        await pilot.press("g")

    running(StillFeed([view()]), then)


def test_sorting_millions_of_lines_does_not_hold_up_a_key() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("4")
        begun = time.thread_time()
        it.pages.action_sort()
        assert time.thread_time() - begun < 0.05
        assert it.pages.page.grid.busy
        await pilot.press("j")
        assert it.pages.page.at == 1
        await pilot.press("0")
        assert not it.pages.page.grid.busy

    running(StillFeed([view()]), then)


def test_a_click_chooses_and_a_second_one_opens() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        row = it.pages.page.parts.row_of(2)
        await pilot.click("#page", offset=(5, row))
        assert it.pages.page.line.key == "item-3"
        await pilot.click("#page", offset=(5, row))
        assert [stop.target for stop in it.pages.trail] == ["overview", "detail/3"]

    running(StillFeed([view()]), then)


def test_a_page_begins_at_its_top_and_scrolls_to_its_first_line_before_the_cursor_moves() -> None:
    blocks = (*(Said(f"sentence {at}") for at in range(30)), Grid("Lines", COLUMNS, (line(1), line(2))))

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("1")
        assert "sentence 0" in text_of(it)
        await pilot.press("enter")
        assert len(it.pages.trail) == 2  # the first line is not on screen: Enter opens nothing unseen
        await pilot.press(*["j"] * 10)
        assert (it.pages.page.top, it.pages.page.at) == (10, 0)
        it.pages.refresh_view()
        assert (it.pages.page.top, it.pages.page.at) == (10, 0)
        await pilot.press("j", "j", "enter")
        assert it.pages.trail[-1].target == "detail/2"

    async def go() -> None:
        with own_pages(shapes=lambda *_: Sheet("shapes", blocks)):
            it = app(StillFeed([view()]))
            async with it.run_test(size=(80, 24)) as pilot:
                await shown(pilot)
                await then(it, pilot)

    asyncio.run(go())


def test_the_age_of_a_server_that_is_down_is_that_of_its_last_figures() -> None:
    down = view(Word.DOWN, at_s=NOW, sources=(replace(source(Word.DOWN), last_ok_s=NOW - 90),), window_s=60.0)
    assert desk(down).aside() == "window 1 min  90 s"


def test_foreign_text_is_never_markup() -> None:
    feed = StillFeed([view(title="[red]run[/red]", detail="[b]x[/b]", word=Word.PARTIAL)])

    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert text_of(it).splitlines()[0].startswith(" [red]run[/red] › overview")
        assert "PARTIAL: [b]x[/b]" in text_of(it)

    running(feed, then)


def test_two_servers_that_differ_in_their_last_digit_are_told_apart_in_the_heading() -> None:
    shown_: list[str] = []

    async def then(it: M3ProbeApp, _: Pilot) -> None:
        shown_.append(text_of(it).splitlines()[0])

    for port in (8000, 8001):
        name = f"http://a-server-with-a-rather-long-name.in.some.cluster.example:{port}"
        running(StillFeed([view(Word.LIVE, title=name)], live=True), then, size=(60, 20))
    assert shown_[0] != shown_[1]


_ = SourceState


def test_what_stands_first_is_not_scrolled_away_when_it_grows() -> None:
    """A figure that comes up makes a line of two rows one of three: the first row is the one to read."""

    def page(words: int) -> Sheet:
        lines = tuple(line(at) for at in range(1, 40))
        return Sheet("overview", (Said("word " * words), Grid("Ranked", COLUMNS, lines)))

    async def go() -> None:
        with own_pages():
            it = app(StillFeed([view()]))
            async with it.run_test(size=(80, 24)) as pilot:
                await shown(pilot)
                shown_page = it.pages.page
                shown_page.show(page(20))
                shown_page.move(2)
                await pilot.pause()
                shown_page.show(page(60))
                await pilot.pause()
                assert shown_page.top == 0
                assert shown_page.line is not None and shown_page.line.key == "item-3"
                shown_page.page(1)
                before = shown_page.parts.row_of(shown_page.at) - shown_page.top
                assert shown_page.top > 0
                shown_page.show(page(20))
                assert shown_page.parts.row_of(shown_page.at) - shown_page.top == before

    asyncio.run(go())


def test_a_view_that_arrives_while_the_viewer_ends_is_no_fault() -> None:
    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await it.pages.query_one(Heading).remove()  # widgets go one after the other
        it.post_message(Arrived(view(Word.LIVE)))
        await pilot.pause()
        assert it.desk.view is not None
        assert it.desk.view.word is Word.LIVE

    running(StillFeed([view()]), then)
