"""The one screen that draws every sheet, and goes from one to the other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Static

from m3probe.present.looks import look
from m3probe.present.sheets.sheet import Sheet
from m3probe.present.sheets.targets import OVERVIEW
from m3probe.tui.actions import ACTIONS, BY_ID, QUESTIONS, Action, Where
from m3probe.tui.desk import Desk
from m3probe.tui.ordering import Order
from m3probe.tui.screens._bound import bindings
from m3probe.tui.screens._doing import Doing
from m3probe.tui.widgets.banner import Banner
from m3probe.tui.widgets.foot import Foot
from m3probe.tui.widgets.heading import Heading
from m3probe.tui.widgets.page import Page, Place
from m3probe.tui.widgets.prompt import Prompt

LEAST = (40, 12)
"""Columns and rows below which one sentence stands in place of a page."""
SIDE = 160
"""Columns from which what a line opens stands beside the list."""
SAID_S = 4.0


@dataclass
class Stop:
    """One level of where a reader is."""

    target: str
    title: str = ""
    place: Place = field(default_factory=Place)


class SheetScreen(Doing):
    """``desk`` has the view; the trail has where the reader came from."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(a for a in ACTIONS if a.id not in {"quit", "interrupt"})

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.trail = [Stop(OVERVIEW)]
        self.sheet = Sheet("", ())
        self._beside = ""

    def compose(self) -> ComposeResult:
        """Head, what must be known, the page, the filter, keys."""
        yield Heading(id="heading")
        yield Banner(id="banner")
        with Horizontal(id="body"):
            yield Page(id="page")
            yield Page(id="side")
        yield Prompt(id="filter")
        yield Foot(id="foot")
        yield Static(id="small", markup=False)

    def on_mount(self) -> None:
        """Keys go to the page."""
        self.page = self.query_one("#page", Page)
        self.side = self.query_one("#side", Page)
        self.side.can_focus = False
        self.query_one(Foot).state = self.can
        self.page.focus()
        self.refresh_view()

    @property
    def of_sources(self) -> bool:
        """Whether sources are looked at: they go on being checked while figures are held."""
        return self.trail[-1].target.partition("/")[0] in {"sources", "source"}

    # --- what is shown ---------------------------------------------------------------------------------------

    def refresh_view(self) -> None:
        """The same page of another view; the cursor stays on its item."""
        self._show(None)

    def go(self, target: str, *, fresh: bool = False) -> None:
        """One level deeper; ``fresh``: as the first level below the overview."""
        self.trail[-1].place = self.page.place()
        if fresh:
            del self.trail[1:]
        if target != self.trail[-1].target:
            self.trail.append(Stop(target))
        self._show(self.trail[-1].place)

    def begin(self, target: str) -> None:
        """Stand one level below the overview before anything is shown."""
        self.trail = [Stop(OVERVIEW, OVERVIEW), Stop(target)]

    def _show(self, place: Place | None) -> None:
        stop = self.trail[-1]
        self.sheet = self.desk.sheet(stop.target)
        stop.title = self.sheet.title or stop.target
        self.page.show(self.sheet, place)
        self.page.set_class(self.desk.old, "-old")
        self.side.set_class(self.desk.old, "-old")
        self._beside = ""
        self.around()

    def around(self) -> None:
        """Head, banner and foot; each is painted only where it says something new."""
        if not all(self.query(kind) for kind in (Heading, Banner, Foot)):
            return  # a view arrived while the app ends, whose widgets go one after the other
        desk, heading, foot = self.desk, self.query_one(Heading), self.query_one(Foot)
        heading.trail = self.crumbs()
        heading.title = desk.view.title if desk.view else "m3probe"
        heading.word, heading.aside = desk.word, desk.aside()
        heading.update()
        self.query_one(Banner).say(*desk.banner())
        foot.below = self.page.below
        foot.words = {"pause": "go on"} if desk.paused else {}
        foot.update()
        self._aside()

    def say(self, text: str) -> None:
        """In the place of the keys, for a moment."""
        foot = self.query_one(Foot)
        foot.said = text
        foot.update()

        def over() -> None:
            if foot.said == text:
                foot.said = ""
                foot.update()

        self.set_timer(SAID_S, over)

    def _aside(self) -> None:
        """What the line under the cursor opens, where there is room for both."""
        shown = self.size.width >= SIDE and self.page.line is not None and bool(self.page.line.opens)
        self.side.set_class(shown, "-shown")
        opens = self.page.line.opens if shown and self.page.line else ""
        if opens and opens != self._beside:
            self._beside = opens
            self.side.show(self.desk.sheet(opens), Place())

    def on_resize(self) -> None:
        """One sentence where a page has no room."""
        small = self.size.width < LEAST[0] or self.size.height < LEAST[1]
        self.set_class(small, "-small")
        glyph, _ = look(self.desk.word)
        said = f"{glyph} {self.desk.word}\n{self.size.width}x{self.size.height} is too small: 40x12 shows the page. q quits."
        self.query_one("#small", Static).update(said)
        self.around()

    def crumbs(self) -> tuple[str, ...]:
        """Titles from the overview to here."""
        return tuple(stop.title for stop in self.trail)

    # --- what can be done ------------------------------------------------------------------------------------

    def can(self, action: Action) -> bool | None:
        """True now, None not now (greyed)."""
        if action.where is Where.LIVE and not self.desk.feed.live:
            return False
        if action.id == "profile" and not hasattr(self.desk.feed, "window"):
            return False
        if action.where is Where.REPLAY:
            return True if self.desk.can_scrub else None
        if action.where is Where.TABLE:
            return True if self.page.grid is not None else None
        if action.id == "open":
            return True if self.page.seen and self.page.line and self.page.line.opens else None
        return (len(self.trail) > 1 or self.page.parts.alone is not None or None) if action.id == "back" else True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        """Textual asks before each key."""
        known = BY_ID.get(action.replace("_", "-"))
        return self.can(known) if known and self.is_mounted else True

    def action_open(self) -> None:
        """Deeper."""
        line = self.page.line
        if self.page.seen and line and line.opens:
            self.go(line.opens)

    def on_page_opened(self, event: Page.Opened) -> None:
        """A click did it."""
        self.go(event.line.opens)

    def on_page_moved(self) -> None:
        """The foot says what is below."""
        self.around()

    def action_back(self) -> None:
        """Back to the line that was left; first out of a zoom."""
        if self.page.parts.alone is not None:
            self.page.zoom()
        elif len(self.trail) > 1:
            self.trail.pop()
            self._show(self.trail[-1].place)

    def action_overview(self) -> None:
        """The verdict."""
        if len(self.trail) > 1:
            del self.trail[1:]
            self._show(self.trail[0].place)

    def action_question(self, name: str) -> None:
        """One of the five pages."""
        assert name in QUESTIONS
        self.go(name, fresh=True)

    # --- filter ----------------------------------------------------------------------------------------------

    def on_prompt_changed(self, event: Prompt.Changed) -> None:
        """Lines that hold what is typed, from the first character on."""
        part = self.page.grid
        self.page.order(replace(part.order if part else Order(), needle=event.text))

    def on_prompt_moved(self, event: Prompt.Moved) -> None:
        """The cursor moves while typing."""
        self.page.move(event.by)

    def on_prompt_left(self, event: Prompt.Left) -> None:
        """Enter keeps the filter, Escape takes it away."""
        part = self.page.grid
        if not event.kept and part:
            self.page.order(replace(part.order, needle=""))
        self.query_one("#filter", Prompt).remove_class("-shown")
        self.page.focus()
