"""The one table of actions: bindings, the footer, the help screen and the palette are made of it.

A key means the same on every page. Nothing here changes what is watched: the viewer is read-only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

QUESTIONS = ("shapes", "repeats", "bytes", "paths", "queues")


class Where(StrEnum):
    """Under what an action can do something."""

    ALWAYS = "everywhere"
    LINES = "in a page with lines"
    TABLE = "in a page with a table"
    LIVE = "while a server is watched"
    REPLAY = "in a recording that can be replayed"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a key does.

    Args:
        id: kebab-case, stable; a method ``action_ID`` of a screen does it.
        keys: as Textual names them; ``shown`` is what a reader presses.
        words: what it does, for footer and palette; ``tooltip`` is the whole sentence.
        where: what it needs; ``argument``: passed to the method.
        footer: place in the footer, 1 first; 0 is not in it.
    """

    id: str
    keys: tuple[str, ...]
    shown: str
    words: str
    tooltip: str
    where: Where = Where.ALWAYS
    argument: str = ""
    footer: int = 0
    priority: bool = False

    @property
    def call(self) -> str:
        """As a binding spells it."""
        name = self.id.replace("-", "_")
        return f"{name.split('__', maxsplit=1)[0]}({self.argument!r})" if self.argument else name


def _question(at: int, name: str) -> Action:
    return Action(f"question__{name}", (str(at),), str(at), name, f"Question {at}: the page of {name}", argument=name)


ACTIONS: tuple[Action, ...] = (
    Action("open", ("enter",), "enter", "open", "Deeper: what this line rests on", Where.LINES, footer=1),
    Action("back", ("escape", "backspace"), "esc", "back", "One level back, to the line you came from", footer=2),
    Action("down", ("down", "j"), "j", "down", "Next line"),
    Action("up", ("up", "k"), "k", "up", "Previous line"),
    Action("page-down", ("pagedown", "ctrl+d"), "pgdn", "page down", "One screen further"),
    Action("page-up", ("pageup", "ctrl+u"), "pgup", "page up", "One screen back"),
    Action("top", ("g",), "g", "top", "First line of the page"),
    Action("bottom", ("G", "end"), "G", "bottom", "Last line of the page"),
    Action("next-pane", ("tab",), "tab", "next pane", "Next table or chart of the page"),
    Action("previous-pane", ("shift+tab",), "shift+tab", "previous pane", "Previous table or chart of the page"),
    Action("overview", ("0", "home"), "0", "overview", "The verdict: what is slow now"),
    *(_question(at, name) for at, name in enumerate(QUESTIONS, 1)),
    Action("findings", ("f",), "f", "findings", "Every finding, with its bound"),
    Action("compare", ("c",), "c", "compare", "The runs that were given, held against the first"),
    Action("trail", ("t",), "t", "time line", "Every step in time"),
    Action("sources", ("o",), "o", "sources", "Each endpoint, trace and log: its state, and what is missing"),
    Action("filter", ("slash",), "/", "filter", "Show only lines that hold a text", Where.TABLE, footer=3),
    Action("sort", ("s",), "s", "sort", "Sort by the next column; after the last one as it came", Where.TABLE, footer=4),
    Action("invert", ("S",), "S", "invert", "Sort the other way round", Where.TABLE),
    Action("rank", ("r",), "r", "rank", "Next rank; after the last one all of them"),
    Action("phase", ("p",), "p", "phase", "Next phase; after the last one all of them"),
    Action("verdict", ("v",), "v", "verdict", "Next verdict; after the last one all of them"),
    Action("copy", ("y",), "y", "copy", "Copy the page, or the line, as Markdown"),
    Action("export", ("e",), "e", "export", "Write page (Markdown) and report (JSON) into the working folder"),
    Action("pause", ("space",), "space", "pause", "Hold the figures; sources go on being checked", Where.LIVE, footer=5),
    Action("window", ("w",), "w", "window", "How far figures look back: 10 s, 1 m, 10 m, all", Where.LIVE),
    Action("earlier", ("left_square_bracket",), "[", "earlier", "Back in time", Where.REPLAY),
    Action("later", ("right_square_bracket",), "]", "later", "Forward in time", Where.REPLAY),
    Action("profile", ("P",), "P", "profile", "Ask for steps under the profiler (asks you first)", Where.LIVE),
    Action("zoom", ("z",), "z", "zoom", "Only the table or chart under the cursor; again: all"),
    Action("theme", ("T",), "T", "theme", "Dark or light"),
    Action("palette", ("ctrl+p", "colon"), "ctrl+p", "actions", "Find any of these by its name"),
    Action("help", ("question_mark", "f1"), "?", "help", "These keys", footer=6),
    Action("quit", ("q", "ctrl+q"), "q", "quit", "Leave; nothing that is watched notices", footer=7),
    Action("interrupt", ("ctrl+c",), "ctrl+c", "stop", "Leave with exit status 130", priority=True),
)  # fmt: skip
BY_ID = {action.id: action for action in ACTIONS}
FOOTER = tuple(sorted((action for action in ACTIONS if action.footer), key=lambda action: action.footer))
"""At most seven."""
KEPT = ("help", "quit")
"""Stay in the footer at every width."""
