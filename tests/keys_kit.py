"""Press keys in the viewer over pages of the tests' own, and look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.pilot import Pilot
from tui_kit import StillFeed, app, own_pages, shown, view

from m3probe.model.view import View, Word
from m3probe.tui.app import M3ProbeApp

Told = Callable[[M3ProbeApp, Pilot], Awaitable[None]]


def seen(
    keys: str,
    then: Told,
    *,
    feed: StillFeed | None = None,
    size: tuple[int, int] = (80, 24),
    pages: dict[str, object] | None = None,
    **given: object,
) -> None:
    """Press keys, one after the other, and look."""

    async def go() -> None:
        with own_pages(**(pages or {})):
            it = app(feed or StillFeed([view()]), **given)
            async with it.run_test(size=size) as pilot:
                await shown(pilot)
                for key in keys.split():
                    await pilot.press(key)
                await pilot.pause()
                await then(it, pilot)

    asyncio.run(go())


def trail(it: M3ProbeApp) -> list[str]:
    return [stop.target for stop in it.pages.trail]


def check(keys: str, told: Callable[[M3ProbeApp], object], expected: object, **given: object) -> None:
    async def then(it: M3ProbeApp, _: Pilot) -> None:
        assert told(it) == expected

    seen(keys, then, **given)


def at(it: M3ProbeApp) -> str:
    return it.pages.page.line.key if it.pages.page.line else ""


def live_feed(*views: View) -> StillFeed:
    return StillFeed(list(views or (view(Word.LIVE),)), live=True)
