"""``attach --serve``: reports on a recording while it is made, in a process of their own, and the gauges they become.

The report is ``m3probe analyze FOLDER --json`` at a low priority: it shares neither an interpreter lock nor memory with the
recording, can be ended at any moment, and takes at most a tenth of one core over time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from m3probe import __version__
from m3probe.attach.asked import Told
from m3probe.attach.recording import size_of
from m3probe.attach.serve import Exporter
from m3probe.model.attach_report import Now
from m3probe.model.exported import Exported, ToldReport
from m3probe.present.gauges import CONTENT_TYPE, exposition

FIRST_S = 3.0
"""After it the guests have written their first seconds."""
EVERY_S = 15.0
SHARE = 0.1
"""Of one core that reports may take."""
MOST_S = 300.0
"""A report that takes longer is given up."""
MOST_BYTES = 2**30
"""A recording above this is not reported on while it goes on; what it holds is in the folder all the same."""
NICE = 10


class Serving:
    """Passes on what ``attach`` tells, and keeps the last of it for whoever asks.

    Args:
        told: where narration and progress go.
        every_s: seconds between two reports.
    """

    def __init__(self, told: Told, every_s: float = EVERY_S) -> None:
        self._told, self._every_s = told, every_s
        self._state = Exported(__version__)
        self._made_at = 0.0
        self._over = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._report, name="m3probe-report", daemon=True)

    def say(self, text: str) -> None:
        """One line."""
        self._told.say(text)

    def show(self, now: Now) -> None:
        """The recording as it stands, about once a second; the first one starts the reports."""
        self._state = replace(self._state, now=now)
        if now.folder and not self._thread.is_alive() and not self._over.is_set():
            self._thread.start()
        self._told.show(now)

    def page(self) -> tuple[str, str]:
        """What is handed out: made from what is at hand, never waited for."""
        it = self._state
        age = time.monotonic() - self._made_at if it.report is not None else None
        return CONTENT_TYPE, exposition(replace(it, age_s=age))

    def close(self) -> None:
        """End the report that is being made; none is left running."""
        self._over.set()
        child = self._child
        if child is not None:
            with suppress(OSError):
                child.kill()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _report(self) -> None:
        self._over.wait(FIRST_S)
        while not self._over.is_set():
            began = time.monotonic()
            now = self._state.now
            found = self._made(Path(now.folder)) if now is not None else None
            took = time.monotonic() - began
            if self._over.is_set():
                return
            if found is None:
                self._state = replace(self._state, failed=self._state.failed + 1)
            else:
                self._made_at = time.monotonic()
                self._state = replace(self._state, report=found, took_s=took, made=self._state.made + 1)
            self._over.wait(max(self._every_s, took / SHARE - took))

    def _made(self, folder: Path) -> ToldReport | None:
        """One report; None where it cannot be made now."""
        if size_of(folder) > MOST_BYTES:
            return None
        command = [sys.executable, "-P", "-m", "m3probe", "analyze", str(folder), "--json", "--no-progress"]
        try:
            # a session of its own: Ctrl-C is for the recording
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            ) as child:
                self._child = child
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, child.pid, NICE)
                if self._over.is_set():
                    child.kill()
                said = _output(child)
            self._child = None
            return msgspec.json.decode(said, type=ToldReport) if child.returncode == 0 else None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _environment() -> dict[str, str]:
    """This one's, without what would make the report's process a guest or an interactive one."""
    return {name: value for name, value in os.environ.items() if name not in {"M3PROBE", "PYTHONINSPECT"}}


def _output(child: subprocess.Popen[bytes]) -> bytes:
    try:
        return child.communicate(timeout=MOST_S)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()[0]


@contextmanager
def serving(where: tuple[str, int] | None, told: Told) -> Iterator[Told]:
    """``told`` itself without an address; else one that is served until the end.

    Raises:
        UsageError: nothing can listen there.
    """
    if where is None:
        yield told
        return
    made = Serving(told)
    exporter = Exporter(where, made.page)
    exporter.start()
    told.say(f"findings as gauges: {exporter.url}")
    try:
        yield made
    finally:
        exporter.close()
        made.close()
