"""Progress of a recording on stderr, for a person alone; into a pipe or file nothing is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from m3probe.present.attach_text import progress_line, progress_rows
from m3probe.present.escape import safe

if TYPE_CHECKING:
    from rich.live import Live

    from m3probe.model.attach_report import Now

_HEADS = ("process", "steps/s", "rows", "records", "bytes", "dropped")


class Narration:
    """Lines as they come, and below them the recording as it stands.

    Args:
        put: writes a line where nothing is drawn.
        drawn: whether stderr is a terminal.
    """

    def __init__(self, put: Callable[[str], None], *, drawn: bool) -> None:
        self._put, self._drawn = put, drawn
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """One line."""
        if self._live is not None:
            with suppress(OSError):
                self._live.console.print(safe(text), markup=False, highlight=False)
            return
        self._put(safe(text))

    def show(self, now: Now) -> None:
        """Draw; a terminal that went away draws no more, and the recording goes on."""
        if not self._drawn:
            return
        try:
            if self._live is None:
                self._live = _live()
                self._live.start()
            self._live.update(_drawing(now), refresh=True)
        except OSError:
            self._drawn = False

    def close(self) -> None:
        """Take the drawing away."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None


@contextmanager
def narration(put: Callable[[str], None], *, drawn: bool) -> Iterator[Narration]:
    """A ``Narration`` that is closed whatever happens."""
    told = Narration(put, drawn=drawn)
    try:
        yield told
    finally:
        told.close()


def _live() -> Live:
    from rich.console import Console
    from rich.live import Live

    return Live(console=Console(stderr=True), auto_refresh=False, transient=True)


def _drawing(now: Now) -> Any:
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(title=escape(progress_line(now)), title_justify="left", box=None, pad_edge=False)
    for i, head in enumerate(_HEADS):
        drawn.add_column(head, justify="right" if i else "left")
    for row in progress_rows(now):
        drawn.add_row(*(escape(safe(cell)) for cell in row))
    return drawn
