"""Start the viewer on this terminal and give the terminal back as it was, however it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from m3probe.model.view import Feed


@dataclass(frozen=True, slots=True)
class Look:
    """How it is drawn, what it is called while nothing is known, and where ``e`` writes to."""

    ascii_only: bool
    mono: bool
    light: bool
    title: str
    save: Callable[[str, str], str]


def run(feed: Feed, look: Look) -> int:
    """The exit status; a fault inside the viewer is raised once the terminal is its owner's again."""
    from m3probe.tui.app import M3ProbeApp, Options
    from m3probe.tui.desk import Desk
    from m3probe.tui.driver import TerminalDriver
    from m3probe.tui.terminal import restored

    options = Options(look.ascii_only, look.mono, look.light, look.title)
    app = M3ProbeApp(Desk(feed, save=look.save), options, TerminalDriver)
    try:
        status = app.run()
    finally:
        if sys.__stdout__ is not None and app.fault is not None:
            restored(sys.__stdout__)
    if app.fault is not None:
        raise app.fault
    return app.return_code or 0 if status is None else status
