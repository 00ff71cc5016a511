"""One line of keys, the most useful first, ``?`` and ``q`` at every width; right of them what is below the screen."""

from __future__ import annotations

from collections.abc import Callable

from m3probe.present._page import cells
from m3probe.tui.actions import FOOTER, KEPT, Action
from m3probe.tui.widgets.ink import Row, width_of
from m3probe.tui.widgets.painted import OneLine


class Foot(OneLine):
    """``state``: True can be done now, None cannot be done now (greyed, stays), False is not of this page."""

    below: int = 0
    said: str = ""
    words: dict[str, str]
    state: Callable[[Action], bool | None] = staticmethod(lambda _: True)

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.words = {}

    def told(self) -> Row:
        """Keys that fit, then ``↓ 12 more``."""
        width = self.size.width
        right = f"↓ {self.below:,} more " if self.below else ""
        room = width - cells(right) - 1
        shown = list(FOOTER)
        while shown and width_of(self._keys(shown)) > room:
            spare = [action for action in shown if action.id not in KEPT]
            if not spare:
                break
            shown.remove(spare[-1])
        left: Row = [(" ", ""), *(([(self.said, "accent")]) if self.said else self._keys(shown))]
        return [*left, (" " * max(0, width - width_of(left) - cells(right)), ""), (right, "accent")]

    def _keys(self, actions: list[Action]) -> Row:
        found: Row = []
        for action in actions:
            state = self.state(action)
            if state is False:
                continue
            words = self.words.get(action.id, action.words)
            found += [(action.shown, "accent" if state else "dim"), (f" {words}  ", "" if state else "dim")]
        return found
