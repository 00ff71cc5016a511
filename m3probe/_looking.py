"""``m3probe tui``: screens where a terminal can draw them, the report as text where none can."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from m3probe import _streams
from m3probe.errors import UnreadableInput
from m3probe.model.view import Feed


@dataclass(frozen=True, slots=True)
class Plain:
    """How text is printed; ``ascii_only`` holds for screens too."""

    width: int
    color: bool
    ascii_only: bool


def look(feed: Feed, title: str, plain: Plain, *, light: bool) -> int:
    """Show it until the reader leaves; the exit status.

    Raises:
        UsageError: no key could reach the screens.
        UnreadableInput: nothing can be read of it, and there is no screen to say so.
    """
    from m3probe.tui.terminal import fit, keyboard

    here = fit(sys.stdout, os.environ)
    try:
        if here.text:
            _streams.complain(f"{here.text}: the report as text instead of screens")
            return _streams.finish(0, f"{_text(feed, replace(plain, color=False))}\n")
        keyboard()
        from m3probe.tui.starting import Look, run

        return run(feed, Look(plain.ascii_only or here.ascii_only, here.mono, light, title, kept))
    finally:
        feed.close()


def _text(feed: Feed, plain: Plain) -> str:
    from m3probe.present.compare_text import compare_text
    from m3probe.present.text import report_text
    from m3probe.viewing.opening import settled

    view = settled(feed)
    if view.compare is not None:
        return compare_text(view.compare, plain.width, plain.color, ascii_only=plain.ascii_only, explain=False)
    if view.report is None:
        why = view.detail.partition("; next try in ")[0]  # nobody asks again: the words end here
        raise UnreadableInput(why or "nothing could be read", where=view.title)
    return report_text(view.report, plain.width, plain.color, ascii_only=plain.ascii_only)


def kept(name: str, text: str) -> str:
    """A new file in the working folder; one of that name is never overwritten. Where it is."""
    for number in range(1, 100):
        path = Path(name if number == 1 else f"{Path(name).stem}-{number}{Path(name).suffix}")
        try:
            with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except FileExistsError:
            continue
        return str(path.resolve())
    raise FileExistsError(17, "a hundred files of this second are there")
