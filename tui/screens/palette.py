"""Any action by its name: type, choose, Enter."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from m3probe.present.sheets.sheet import Sheet
from m3probe.tui.actions import ACTIONS, BY_ID, Action
from m3probe.tui.screens._bound import LEAVING
from m3probe.tui.screens.help import keys_grid
from m3probe.tui.widgets.page import Page
from m3probe.tui.widgets.prompt import Prompt


class PaletteScreen(ModalScreen[str]):
    """Ends with the call of the action that was chosen. ``can``: whether one can be done now."""

    BINDINGS: ClassVar[list[BindingType]] = [*LEAVING]

    def __init__(self, can: Callable[[Action], bool | None]) -> None:
        super().__init__()
        self._can = can

    def compose(self) -> ComposeResult:
        """What is typed above what it finds."""
        with Vertical(id="box"):
            prompt = Prompt(id="typed")
            prompt.label = ">"
            prompt.add_class("-shown")
            yield prompt
            yield Page(id="found")

    def on_mount(self) -> None:
        """Everything, until something is typed."""
        self._find("")
        self.query_one(Prompt).focus()

    def on_prompt_changed(self, event: Prompt.Changed) -> None:
        """Fewer lines."""
        self._find(event.text)

    def on_prompt_moved(self, event: Prompt.Moved) -> None:
        """Another line."""
        self.query_one(Page).move(event.by)

    def on_prompt_left(self, event: Prompt.Left) -> None:
        """Enter runs the action under the cursor."""
        line = self.query_one(Page).line
        self.dismiss(BY_ID[line.key].call if event.kept and line else "")

    def _find(self, text: str) -> None:
        words = text.casefold().split()
        found = [
            a for a in ACTIONS if self._can(a) and all(word in f"{a.words} {a.tooltip}".casefold() for word in words)
        ]
        found.sort(key=lambda a: not a.words.startswith(text.casefold()))
        self.query_one(Page).show(Sheet("actions", (keys_grid(found, "Actions"),)))
