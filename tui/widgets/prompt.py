"""One line of typed text: the filter, and what the palette looks for."""

from __future__ import annotations

from textual import events
from textual.message import Message

from m3probe.present._page import cells, clipped
from m3probe.tui.widgets.ink import Row, clean
from m3probe.tui.widgets.painted import OneLine


class Prompt(OneLine, can_focus=True):
    """Takes keys while it has the focus; tells each change, and how it was left."""

    class Changed(Message):
        """Another text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Enter keeps the text (``kept``), Escape gives it up."""

        def __init__(self, text: str, *, kept: bool) -> None:
            super().__init__()
            self.text, self.kept = text, kept

    class Moved(Message):
        """Up or down while typing."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    text: str = ""
    label: str = "/"

    def told(self) -> Row:
        """The label, the text and a cursor."""
        head, typed = f" {self.label} ", clean(self.text)
        room = max(1, self.size.width - cells(head) - 2)
        if cells(typed) > room:
            typed = f"…{clipped(typed[::-1], room - 1)[::-1]}"
        return [(head, "accent"), (typed, "bold"), ("_", "accent")]

    def on_key(self, event: events.Key) -> None:
        """Characters are typed, whatever they mean elsewhere."""
        if event.key in {"enter", "escape"}:
            self.post_message(self.Left(self.text, kept=event.key == "enter"))
        elif event.key in {"up", "down"}:
            self.post_message(self.Moved(1 if event.key == "down" else -1))
        elif event.key in {"backspace", "ctrl+h"}:
            self._typed(self.text[:-1])
        elif event.key in {"tab", "shift+tab", "home"}:
            pass  # the focus stays here for as long as something is typed, and the page too
        elif event.key == "ctrl+u":
            self._typed("")
        elif event.character and event.is_printable:
            self._typed(self.text + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """The first line of what is pasted."""
        self._typed(self.text + (event.text.splitlines() or [""])[0])
        event.stop()

    def _typed(self, text: str) -> None:
        self.text = text
        self.update()
        self.post_message(self.Changed(text))
