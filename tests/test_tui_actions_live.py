"""The keys of a viewer that watches: pause, windows, replay, profiler, banners."""

from __future__ import annotations

from dataclasses import replace

from keys_kit import check, live_feed, seen
from textual.pilot import Pilot
from tui_kit import NOW, StillFeed, source, text_of, until, view

from m3probe.model.view import Gauge, Scope, SourceState, Word
from m3probe.tui.app import M3ProbeApp
from m3probe.tui.screens.problem import ProblemScreen
from m3probe.tui.widgets.banner import Banner
from m3probe.tui.widgets.foot import Foot

# --- live ----------------------------------------------------------------------------------------------------


def test_space_holds_the_figures_and_says_so_until_space_again() -> None:
    first, second = view(Word.LIVE, title="first"), view(Word.DOWN, title="second", detail="refused")

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        it.poll_now()
        await until(pilot, lambda: it.desk.latest is second)
        lines = text_of(it).splitlines()
        assert "first" in lines[0]
        assert "= PAUSED" in lines[0]
        assert lines[1].startswith(" = PAUSED: figures stand still, space goes on; now DOWN: refused")
        await pilot.press("space")
        await pilot.pause(0.05)
        lines = text_of(it).splitlines()
        assert "second" in lines[0]
        assert lines[1].startswith(" ✗ DOWN: refused")

    seen("space", then, feed=live_feed(first, second))


def test_a_file_cannot_be_paused() -> None:
    check("space w", lambda it: (it.desk.paused, it.desk.feed.asked), (False, []))


def test_w_goes_through_the_windows() -> None:
    feed = live_feed(view(Word.LIVE, window_s=60.0))
    check("w w w", lambda it: it.desk.feed.asked, [600.0, None, 10.0], feed=feed)


def test_brackets_move_in_a_replay_only() -> None:
    replayed = view(Word.REPLAY, replay=(30.0, 200.0))
    check(
        "left_square_bracket right_square_bracket",
        lambda it: it.desk.feed.asked,
        [("scrub", -2.0), ("scrub", 2.0)],
        feed=StillFeed([replayed]),
    )
    check("left_square_bracket", lambda it: it.desk.feed.asked, [])


def test_a_recording_that_is_shown_at_its_end_is_replayed_from_there() -> None:
    whole = view(Word.READ, length_s=200.0)
    check("left_square_bracket", lambda it: it.desk.feed.asked, [("scrub", -2.0)], feed=live_feed(whole))
    short = view(Word.READ, length_s=0.8)
    check("left_square_bracket", lambda it: it.desk.feed.asked, [("scrub", -0.04)], feed=live_feed(short))


def test_a_poll_that_a_key_asked_for_takes_the_place_of_the_next_one() -> None:
    feed = live_feed(view(Word.REPLAY, replay=(30.0, 200.0), next_poll_s=0.4))

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        for _ in range(10):
            await pilot.press("left_square_bracket")
            await pilot.pause(0.02)
        before = feed.polls
        await pilot.pause(2.0)
        assert 1 <= feed.polls - before <= 6  # 50 where each key leaves a timer of its own
        assert len(it.desk.feed.asked) == 10

    seen("0", then, feed=feed)


def test_held_figures_grow_old_and_sources_go_on_being_shown() -> None:
    running = Gauge("running", "running", 2.0, "requests", Scope.LIVE, 1.0, recent=((5.0, 1.0), (1.0, 2.0)))
    server = SourceState("http://h/metrics", "metrics", Word.LIVE, last_ok_s=NOW - 4)
    first = view(Word.LIVE, gauges={"running": running}, sources=(server,))
    down = replace(server, word=Word.DOWN, detail="refused")
    second = view(Word.DOWN, at_s=first.at_s + 8.0, sources=(down,))

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("o")
        it.poll_now()
        await until(pilot, lambda: it.desk.latest is second)
        held = it.desk.view
        assert held is not None and held.at_s == second.at_s and held.sources == (down,)
        assert held.gauges["running"].age_s == 9.0
        assert held.gauges["running"].recent == ((13.0, 1.0), (9.0, 2.0))

    seen("space", then, feed=live_feed(first, second))


def test_a_banner_that_comes_up_says_why_at_once() -> None:
    """While it is hidden it has no width."""
    first, second = view(Word.LIVE), view(Word.DOWN, detail="refused")

    async def then(it: M3ProbeApp, _: Pilot) -> None:
        banner = it.pages.query_one(Banner)
        assert banner.size.width == 0
        banner.say(second.word, second.detail)
        assert "".join(text for text, _ in banner._row) == " ✗ DOWN: refused"

    seen("0", then, feed=live_feed(first))


def test_the_page_of_sources_is_drawn_while_figures_are_held() -> None:
    first, second = view(Word.LIVE), view(Word.DOWN, sources=(source(Word.DOWN),))

    async def then(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("o")
        await pilot.pause()
        before = it.pages.sheet
        it.poll_now()
        await until(pilot, lambda: it.desk.latest is second)
        assert it.pages.sheet is not before
        await pilot.press("0")
        await pilot.pause()
        before = it.pages.sheet
        it.poll_now()
        await pilot.pause(0.2)
        assert it.pages.sheet is before

    seen("space", then, feed=live_feed(first, second))


def test_a_profiler_window_is_asked_for_after_a_yes_only() -> None:
    class Windowed(StillFeed):
        def window(self, steps: int) -> str:
            self.asked.append(steps)
            return f"{steps} steps are recorded"

    async def refused(it: M3ProbeApp, pilot: Pilot) -> None:
        assert isinstance(it.screen, ProblemScreen)
        await pilot.press("escape")
        assert it.desk.feed.asked == []

    async def agreed(it: M3ProbeApp, pilot: Pilot) -> None:
        await pilot.press("y")
        await until(pilot, lambda: bool(it.pages.query_one(Foot).said))
        assert it.desk.feed.asked == [8]
        assert "8 steps are recorded" in text_of(it)

    seen("P", refused, feed=Windowed([view(Word.LIVE)], live=True))
    seen("P", agreed, feed=Windowed([view(Word.LIVE)], live=True))
    check("P", lambda it: it.screen is it.pages, expected=True, feed=live_feed())
