"""The viewer: takes views from a feed, and keys from a reader. It opens no file and asks no server itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass
from typing import ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.driver import Driver
from textual.timer import Timer

from m3probe.errors import M3ProbeError
from m3probe.model.view import Feed
from m3probe.tui.actions import BY_ID
from m3probe.tui.desk import Desk
from m3probe.tui.polling import Arrived, Failed, Poller, Told
from m3probe.tui.screens._bound import bindings
from m3probe.tui.screens.loading import LoadingScreen
from m3probe.tui.screens.problem import Problem, ProblemScreen
from m3probe.tui.screens.sheet import SheetScreen
from m3probe.tui.theme import DARK, LIGHT, THEMES, Ascii, NoHue

INTERRUPTED, TERMINATED, HUNG_UP = 130, 143, 129
AGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """How it is drawn. ``mono``: not one colour code."""

    ascii_only: bool = False
    mono: bool = False
    light: bool = False
    title: str = "m3probe"


class M3ProbeApp(App[int]):
    """Ends with an exit status."""

    CSS_PATH = "style.tcss"
    TITLE = "m3probe"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = bindings([BY_ID["quit"], BY_ID["interrupt"]])

    def __init__(self, desk: Desk, options: Options | None = None, driver_class: type[Driver] | None = None) -> None:
        super().__init__(driver_class=driver_class)
        self.desk = desk
        self.options = options or Options()
        self._next: Timer | None = None
        self.failed = 0
        """Exit status of a feed that can show nothing."""
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = LIGHT.name if self.options.light else DARK.name
        self.animation_level = "none"
        # Textual's own answer to NO_COLOR is grey, which is still a colour code
        if self.options.mono:
            self._filters = [NoHue()]
        if self.options.ascii_only:
            self._filters.append(Ascii())
        self.pages = SheetScreen(desk)
        self.loading = LoadingScreen(self.options.title, live=desk.feed.live)
        self.poller = Poller(desk.feed, self.post_message)

    @classmethod
    def of(cls, feed: Feed, options: Options | None = None) -> M3ProbeApp:
        """An app over a feed, without a place to write to."""
        return cls(Desk(feed), options)

    def on_mount(self) -> None:
        """The frame first, then the first poll."""
        self.set_class(self.options.mono, "-mono")
        self.set_class(self.options.ascii_only, "-ascii")
        self.push_screen(self.loading)
        loop = asyncio.get_running_loop()
        for number, status in ((signal.SIGTERM, TERMINATED), (signal.SIGHUP, HUNG_UP), (signal.SIGINT, INTERRUPTED)):
            # not the main thread: a test's own
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self.leave, status)
        self.call_after_refresh(self.poll_now)
        if self.desk.feed.live:
            self.set_interval(AGE_S, self._aged)

    # --- views -------------------------------------------------------------------------------------------------

    def poll_now(self) -> None:
        """Ask for a view, unless one is awaited already."""
        self.poller.poll()

    def on_arrived(self, event: Arrived) -> None:
        """Show it, and ask again when the feed wants to be asked."""
        first = self.desk.view is None
        self.desk.arrived(event.view)
        if first and self.screen is self.loading:
            if event.view.compare is not None:
                self.pages.begin("compare")  # what was asked for; the overview, of one run alone, is a step back
            self.switch_screen(self.pages)
        elif self.pages.is_mounted:
            self.pages.around() if self.desk.paused and not self.pages.of_sources else self.pages.refresh_view()
        if self._next is not None:
            self._next.stop()  # a poll that a key asked for takes the place of the next one
        if event.view.next_poll_s is not None:
            self._next = self.set_timer(max(0.05, event.view.next_poll_s), self.poll_now)

    def on_told(self, event: Told) -> None:
        """Progress of the first read."""
        if self.screen is self.loading:
            self.loading.told(event.what, event.done, event.of)

    def on_failed(self, event: Failed) -> None:
        """What can be explained is; anything else is a fault, which the command line tells."""
        if not isinstance(event.error, M3ProbeError):
            raise event.error
        last = self.desk.view is None
        self.failed = event.error.exit_code if last else 0
        self.push_screen(ProblemScreen(Problem.of(event.error, last=last)), self._gone if last else None)

    def _gone(self, _: bool | None) -> None:
        self.leave(self.failed)

    def _aged(self) -> None:
        if self.pages.is_mounted:
            self.pages.around()

    # --- the end -----------------------------------------------------------------------------------------------

    def leave(self, status: int = 0) -> None:
        """Nobody is waited for."""
        self.poller.stop()
        self.exit(status, return_code=status)

    async def action_quit(self) -> None:
        """``q``."""
        self.leave(self.failed)

    def action_interrupt(self) -> None:
        """Ctrl-C."""
        self.leave(INTERRUPTED)

    @property
    def fault(self) -> Exception | None:
        """What ended the viewer and should not have."""
        return self._exception

    def _print_error_renderables(self) -> None:
        """Textual would print a traceback with every local variable; the command line writes it to a file."""
        self._exit_renderables.clear()
