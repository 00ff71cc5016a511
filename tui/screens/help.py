"""Every key, made of the action table; and what the words and glyphs mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from m3probe.present.sheets.sheet import Cell, Column, Grid, Line, Said, Sheet
from m3probe.schema.verdicts import PathVerdict
from m3probe.tui.actions import ACTIONS, Action
from m3probe.tui.screens._bound import LEAVING
from m3probe.tui.widgets.page import Page

VERDICTS = {
    PathVerdict.EXECUTED: "it ran",
    PathVerdict.MISSED: "it could have run, and its fallback did",
    PathVerdict.DECLINED: "it was refused, for a reason that is given",
    PathVerdict.UNEXPECTED: "it ran though it was refused or never asked for",
    PathVerdict.UNPROVEN: "nothing shows whether it ran: no pass, no miss",
    PathVerdict.OFF: "nobody asked for it",
    PathVerdict.REFUSED_AT_START: "the engine would not start with it",
}
SCOPES = (
    ("live", "read at the last poll"),
    ("windowed", "over the window that the heading names"),
    ("lifetime", "since the server started"),
    ("computed", "worked out from others; the page says how"),
    ("recorded", "from a file"),
)


class HelpScreen(ModalScreen[None]):
    """Scrolls like a page; closed by Escape, ? or q."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *LEAVING,
        Binding("escape,question_mark,f1,q,enter", "leave", "close", show=False),
        Binding("j,down", "move(1)", "down", show=False),
        Binding("k,up", "move(-1)", "up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("g,home", "end(False)", "top", show=False),
        Binding("G,end", "end(True)", "bottom", show=False),
    ]

    def __init__(self, pane: str = "") -> None:
        super().__init__()
        self.pane = pane

    def compose(self) -> ComposeResult:
        """A box with a page in it."""
        with Vertical(id="box"):
            yield Page(id="help")

    def on_mount(self) -> None:
        """Fill it."""
        page = self.query_one(Page)
        page.show(help_sheet(self.pane))
        page.focus()

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss()

    def action_move(self, by: int) -> None:
        """One line."""
        self.query_one(Page).move(by)

    def action_page(self, by: int) -> None:
        """One screen."""
        self.query_one(Page).page(by)

    def action_end(self, last: bool) -> None:
        """First or last line."""
        self.query_one(Page).end(last=last)


def help_sheet(pane: str) -> Sheet:
    """The page of keys, verdicts and scopes."""
    where = f"Keys act on: {pane}." if pane else "Keys of this page."
    words = (Column("word"), Column("means", wide=True))
    verdicts = tuple(
        Line(str(word), (Cell(word.replace("_", " "), mark=str(word)), Cell(means))) for word, means in VERDICTS.items()
    )
    scopes = tuple(Line(word, (Cell(word), Cell(means))) for word, means in SCOPES)
    said = Said(f"{where} Esc closes this.", dim=True)
    return Sheet(
        "help", (said, keys_grid(ACTIONS), Grid("Verdicts", words, verdicts), Grid("Figures are", words, scopes))
    )


def keys_grid(actions: Iterable[Action], title: str = "Keys") -> Grid:
    """A line for each action; its key of the table opens nothing."""
    columns = (Column("key"), Column("does", keep=2), Column("in words", wide=True), Column("when", keep=3))
    lines = tuple(
        Line(a.id, (Cell(shown_keys(a)), Cell(a.words), Cell(a.tooltip), Cell(str(a.where)))) for a in actions
    )
    return Grid(title, columns, lines, "No action has such a name.")


_NAMES = {"slash": "/", "question_mark": "?", "left_square_bracket": "[", "right_square_bracket": "]", "escape": "esc", "colon": ":",
          "pagedown": "pgdn", "pageup": "pgup"}  # fmt: skip


def shown_keys(action: Action) -> str:
    """All keys of an action, the one of the footer first."""
    names = [_NAMES.get(key, key) for key in action.keys]
    return " ".join(dict.fromkeys([action.shown, *names]))
