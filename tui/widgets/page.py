"""The widget that shows a sheet: one column of rows of any length, a cursor that stays on its item, draws what is seen."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.strip import Strip

from m3probe.present.sheets.sheet import Line, Sheet
from m3probe.tui.ordering import AT_ONCE, Order, ordered
from m3probe.tui.widgets.grid import HEAD, GridPart
from m3probe.tui.widgets.painted import Painted
from m3probe.tui.widgets.parts import Parts


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader is in a page: enough to come back to it."""

    stop: int = 0
    top: int = 0
    table: int = 0
    inside: int = 0
    key: str = ""
    orders: tuple[tuple[int, Order], ...] = ()


class Page(Painted, can_focus=True):
    """``show`` gives it a sheet; keys come from the screen as calls."""

    class Moved(Message):
        """The cursor stands on another line, or other rows are seen."""

    class Opened(Message):
        """Enter or a click on a line that opens something."""

        def __init__(self, line: Line) -> None:
            super().__init__()
            self.line = line

    class Found(Message):
        """A thread has put a long table in order."""

        def __init__(self, part: GridPart, order: Order, indices: list[int] | None) -> None:
            super().__init__()
            self.part, self.order, self.indices = part, order, indices

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.parts = Parts(Sheet("", ()))
        self.at = 0
        self.top = 0

    # --- what is shown ---------------------------------------------------------------------------------------

    def show(self, sheet: Sheet, place: Place | None = None) -> None:
        """Another sheet, or the same one made anew: then the cursor stays on its item, at its row of the screen.

        A page that is seen from its top stays there: what stands first is never scrolled away by what came below it.
        """
        kept = place or self.place()
        topmost = place is None and self.top == 0
        old = self.parts.row_of(self.at) - self.top if place is None else None
        seen = self.seen if place is None else bool(kept.key)
        alone = self.parts.table_of(self.parts.alone) if place is None else None
        parts = Parts(sheet, dict(kept.orders), self._width())
        parts.alone = parts.block_of(alone)
        self.parts = parts
        for _, part in parts.tables():
            self._order(part, part.order)
        parts.laid()
        self.at = self._find(kept) if kept.key else min(kept.stop, self._last())
        self.top = kept.top if old is None else parts.row_of(self.at) - old if parts.stops() else self.top
        self.top = 0 if topmost else self.top
        self._moved(follow=seen, keep=old is not None and not topmost)

    def place(self) -> Place:
        """To come back to."""
        found = self.parts.stop(self.at)
        orders = tuple((at, part.order) for at, (_, part) in enumerate(self.parts.tables()) if not part.order.plain)
        if found is None:
            return Place(self.at, self.top, orders=orders)
        block, part, inside = found
        return Place(self.at, self.top, self.parts.table_of(block) or 0, inside, part.line(inside).key, orders)

    @property
    def line(self) -> Line | None:
        """The line under the cursor, wherever it is."""
        return self.parts.line(self.at)

    @property
    def seen(self) -> bool:
        """Whether the cursor is on screen: a page with long sentences or charts begins above its first line."""
        return bool(self.parts.stops()) and self.top <= self.parts.row_of(self.at) < self.top + max(1, self.size.height)

    @property
    def grid(self) -> GridPart | None:
        """The table that the cursor is in, else the first one."""
        found = self.parts.stop(self.at)
        grids = self.parts.grids()
        return found[1] if found else grids[0][1] if grids else None

    @property
    def below(self) -> int:
        """Rows that are further down than the screen."""
        return max(0, self.parts.height - self.top - self.size.height)

    # --- keys ------------------------------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """The cursor by so many lines; at the last one the page goes on to scroll."""
        if self.parts.stops() and not self.seen and (by > 0) == (self.parts.row_of(self.at) > self.top):
            self.top += by
            self._moved(follow=False)
            return
        new = min(max(self.at + by, 0), self._last())
        if new == self.at or not self.parts.stops():
            self.top += by if not self.parts.stops() or abs(by) == 1 else 0
            self._moved(follow=False)
            return
        self.at = new
        self._moved()

    def page(self, by: int) -> None:
        """One screen."""
        rows = max(1, self.size.height - HEAD)
        self.top += by * rows
        if self.parts.stops() and self.top + (0 if by > 0 else rows) >= 0 and abs(by) == 1:
            self.at = min(max(self.at + by * rows, 0), self._last())
            self._moved(follow=self.parts.height > self.size.height and 0 < self.at < self._last())
            return
        self._moved(follow=False)

    def end(self, *, last: bool) -> None:
        """First or last line."""
        self.at = self._last() if last else 0
        self.top = self.parts.height if last else 0
        self._moved(follow=False)

    def pane(self, by: int) -> None:
        """The next block with a title: its first line, or at least its top."""
        titled = [
            at for at, part in enumerate(self.parts.parts) if hasattr(part, "grid") or part.height(self.parts.width) > 2
        ]
        found = self.parts.stop(self.at)
        here = found[0] if found else -1
        if not titled:
            return
        after = [at for at in titled if (at > here if by > 0 else at < here)]
        block = (after[0] if by > 0 else after[-1]) if after else titled[0 if by > 0 else -1]
        stop = self.parts.first_of(block)
        self.at = self.at if stop is None else stop
        if not self.parts.starts[block] <= self.top + self.size.height - 4 or self.parts.starts[block] < self.top:
            self.top = self.parts.starts[block]
        self._moved(follow=stop is not None)

    def zoom(self) -> None:
        """Only the block under the cursor, or all of them again."""
        found = self.parts.stop(self.at)
        kept = self.place()
        self.parts.alone = None if self.parts.alone is not None or not found else found[0]
        self.parts.laid()
        self.at, self.top = self._find(kept), 0
        self._moved()

    def sort(self) -> None:
        """By the next column, after the last one as it came."""
        part = self.grid
        if part is not None:
            at = part.order.column
            after = 0 if at is None else at + 1
            column = after if after < len(part.grid.columns) else None
            falling = column is not None and part.grid.columns[column].right
            self.order(Order(column, falling, part.order.needle))

    def invert(self) -> None:
        """The other way round; a table that was not sorted by its first column."""
        part = self.grid
        if part is not None:
            column = part.order.column or 0
            self.order(Order(column, not part.order.falling, part.order.needle))

    def order(self, order: Order) -> None:
        """Sort and filter the table under the cursor."""
        part = self.grid
        if part is not None and order != part.order:
            kept = self.place()
            self._order(part, order)
            self._reordered(kept)

    def on_page_found(self, event: Found) -> None:
        """The thread is done; somebody may have asked for something else meanwhile."""
        if event.part.order == event.order:
            kept = self.place()
            event.part.indices, event.part.busy = event.indices, False
            self._reordered(kept)

    # --- drawing ---------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """A row of what is seen; a table's names stay above its lines."""
        if y == 0:
            self.parts.prepare(self.top, self.size.height)
        row = self.top + y
        sticky = self._sticky()
        if y == 0 and sticky is not None:
            return self.painted(sticky.heading(self.parts.width), self._width())
        here = self.can_focus and bool(self.parts.stops()) and row == self.parts.row_of(self.at)
        return self.painted(self.parts.row(row), self._width(), cursor=here)

    def on_resize(self) -> None:
        """The line under the cursor stays in view."""
        self.parts.width = self._width()
        self.parts.laid()
        self._moved()

    def on_click(self, event: events.Click) -> None:
        """Choose a line; a second click opens it."""
        stop = self.parts.stop_at(self.top + event.y)
        if stop is None:
            return
        again, self.at = stop == self.at, stop
        self._moved()
        if again and self.line is not None and self.line.opens:
            self.post_message(self.Opened(self.line))

    def on_mouse_scroll_down(self) -> None:
        """Three rows."""
        self.top += 3
        self._moved(follow=False)

    def on_mouse_scroll_up(self) -> None:
        """Three rows."""
        self.top -= 3
        self._moved(follow=False)

    # --- inside ----------------------------------------------------------------------------------------------

    def _width(self) -> int:
        return max(1, self.size.width)

    def _last(self) -> int:
        return max(0, self.parts.stops() - 1)

    def _find(self, place: Place) -> int:
        block = self.parts.block_of(place.table)
        return self.parts.find(-1 if block is None else block, place.key, place.inside)

    def _sticky(self) -> GridPart | None:
        found = self.parts.at_row(self.top)
        part = self.parts.parts[found[0]] if found else None
        return part if isinstance(part, GridPart) and found and found[1] >= HEAD and part.count else None

    def _moved(self, *, follow: bool = True, keep: bool = False) -> None:
        """Bring the cursor into view, and the view into the page."""
        room = max(1, self.size.height)
        if follow and self.parts.stops():
            row = self.parts.row_of(self.at)
            first = self.at == 0 and not keep
            self.top = min(self.top, 0 if first and row < room else row - 1)
            self.top = max(self.top, row - room + 1)
        self.top = max(0, min(self.top, self.parts.height - room))
        self.refresh()
        self.post_message(self.Moved())

    def _reordered(self, kept: Place) -> None:
        self.parts.laid()
        self.at = self._find(kept) if kept.key else 0
        self._moved()

    def _order(self, part: GridPart, order: Order) -> None:
        part.order = order
        if order.plain or len(part.grid.lines) <= AT_ONCE:
            part.indices, part.busy = ordered(part.grid, order), False
            return
        part.busy = True

        def gone() -> bool:
            return part.order != order or all(part is not kept for _, kept in self.parts.tables())

        def work() -> None:
            self.post_message(self.Found(part, order, ordered(part.grid, order, gone)))

        threading.Thread(target=work, name="m3probe-order", daemon=True).start()
