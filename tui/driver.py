"""Textual's own driver for Linux, on the terminal of stdout, and one that ends at once.

The original writes to stderr, which may be a file, and waits twice a tenth of a second for its keyboard thread.
"""

from __future__ import annotations

import os
import select
import sys
import termios
from codecs import getincrementaldecoder
from contextlib import suppress

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from m3probe.tui.terminal import screen

_TICK_S = 0.1
"""How long a lone Escape byte waits for the rest of a key, as in Textual's driver."""


class TerminalDriver(LinuxDriver):
    """Screens go to stdout's terminal, keys come from stdin's."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = screen(sys.__stdout__ or sys.stdout)
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)

    def run_input_thread(self) -> None:
        """Keys as they are typed, until ``disable_input`` writes to the pipe."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        while not self.exit_event.is_set():
            ready = select.select([self.fileno, self._woken], [], [], _TICK_S)[0]
            if self._woken in ready:
                return
            if self.fileno in ready:
                read = os.read(self.fileno, 4096)
                if not read:  # the terminal is gone
                    return
                for message in parser.feed(decode(read)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def disable_input(self) -> None:
        """Wake the thread instead of waiting for it to look."""
        os.write(self._wake, b".")
        super().disable_input()
        # the thread has ended: what woke it must not end the one that begins after SIGTSTP and SIGCONT
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        if os.isatty(self.fileno):
            termios.tcflush(self.fileno, termios.TCIFLUSH)

    def _sigcont_application(self, *_: object) -> None:
        """After SIGTSTP as Textual does it; after SIGSTOP, or without a stop, leave the screen before it is entered again.

        Entered twice, the second time would take the viewer's own modes for those to give back, and read keys twice.
        """
        if not self._must_signal_resume:
            if self._key_thread is None or not self._key_thread.is_alive():
                return
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()
