"""One line: where you are, what is watched, its state word and how old it is."""

from __future__ import annotations

from m3probe.model.view import Word
from m3probe.present._page import cells, middle_cut
from m3probe.present.looks import look
from m3probe.tui.widgets.ink import Row, clean, width_of
from m3probe.tui.widgets.painted import OneLine


class Heading(OneLine):
    """Breadcrumb left, state right; the breadcrumb gives way at its front."""

    trail: tuple[str, ...] = ()
    title: str = ""
    word: str = Word.CONNECTING
    aside: str = ""

    def told(self) -> Row:
        """``run › findings › one   ● LIVE 0 s``."""
        width = self.size.width
        glyph, style = look(self.word)
        state = f"{glyph} {self.word}" if self.word else ""
        right: Row = [(state, style), (f" {self.aside}" if self.aside else "", "")]
        room = width - width_of(right) - 3
        crumbs = [clean(crumb) for crumb in self.trail]
        title = middle_cut(clean(self.title), max(12, room - cells(" › ".join(crumbs)) - 3))
        left = " › ".join([title, *crumbs])
        while cells(left) > room and len(crumbs) > 1:
            crumbs = crumbs[1:]
            left = " › ".join([title, "…", *crumbs])
        left = middle_cut(left, max(1, room))
        head, _, last = left.rpartition(" › ")
        shown: Row = [(" ", ""), (f"{head} › ", "dim"), (last, "bold")] if head else [(" ", ""), (left, "bold")]
        return [*shown, (" " * max(1, width - width_of(shown) - width_of(right) - 1), ""), *right]


def aged(seconds: float | None) -> str:
    """An age in the unit that fits it; nothing where none is known."""
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
