"""One line that stays for as long as what it says holds: paused, partial, down, replayed."""

from __future__ import annotations

from m3probe.present._page import cells, clipped
from m3probe.present.looks import look
from m3probe.tui.widgets.ink import Row, clean
from m3probe.tui.widgets.painted import OneLine


class Banner(OneLine):
    """Not there at all while there is nothing to say."""

    word: str = ""
    text: str = ""

    def told(self) -> Row:
        """Glyph, word and why."""
        glyph, style = look(self.word)
        if not self.word:
            return []
        head = f" {glyph} {self.word}"
        text = f": {clean(self.text)}" if self.text else ""
        # it has no size yet when it comes up
        room = (self.size.width or self.app.size.width) - cells(head) - 1
        return [(head, style), (text if cells(text) <= room else f"{clipped(text, room - 1)}…", "")]

    def say(self, word: str, text: str) -> None:
        """Say it, or with an empty word nothing."""
        self.word, self.text = word, text
        self.set_class(bool(word), "-shown")
        self.update()
