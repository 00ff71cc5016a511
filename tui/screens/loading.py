"""What is being read, by file and rank; any of Escape, q and Ctrl-C ends it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from m3probe.model.view import Word
from m3probe.present.sheets.sheet import Bar, Bars, Block, Said, Sheet
from m3probe.tui.widgets.foot import Foot
from m3probe.tui.widgets.heading import Heading
from m3probe.tui.widgets.page import Page

MOST = 12
"""Files that are listed; the latest ones."""


class LoadingScreen(Screen[None]):
    """Painted before anything is read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.quit", "cancel", show=False)]

    def __init__(self, title: str, *, live: bool) -> None:
        super().__init__()
        self.title_ = title
        self._live = live
        self.seen: dict[str, tuple[int, int]] = {}

    def compose(self) -> ComposeResult:
        """The frame of a page."""
        yield Heading(id="heading")
        yield Page(id="page")
        yield Foot(id="foot")

    def on_mount(self) -> None:
        """The frame says what is awaited."""
        heading, foot = self.query_one(Heading), self.query_one(Foot)
        heading.title, heading.trail = self.title_, ("connecting" if self._live else "reading",)
        heading.word = Word.CONNECTING if self._live else ""
        foot.said = "esc or q cancels"
        self._show()

    def told(self, what: str, done: int, of: int) -> None:
        """So much of a file was read."""
        self.seen.pop(what, None)
        self.seen[what] = (done, of)
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        blocks: list[Block] = [Said(f"{'Asking' if self._live else 'Reading'} {self.title_} ...")]
        rows = list(self.seen.items())[-MOST:]
        if rows:
            left = len(self.seen) - len(rows)
            blocks.append(
                Bars(f"Files{f' (and {left} before)' if left else ''}", tuple(_bar(*row) for row in rows), 100.0, "%")
            )
        self.query_one(Page).show(Sheet("reading", tuple(blocks)))


def _bar(what: str, read: tuple[int, int]) -> Bar:
    done, of = read
    # bytes read are inflated ones and the size is on disk: only for a plain file do they share a scale
    known = of > 0 and done <= of
    text = f"{done / 2**20:,.1f} of {of / 2**20:,.1f} MiB" if known else f"{done / 2**20:,.1f} MiB unpacked"
    return Bar(what, 100.0 * done / of if known else 0.0, text)
