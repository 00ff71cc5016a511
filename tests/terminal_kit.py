"""``m3probe tui`` in a terminal of its own: a pty with a size, an environment, and stdin, stdout and stderr as asked for."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tree import ROOT

SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
HUE = re.compile(rb"\x1b\[(?:[0-9]*;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]*)*m")
"""A colour code: foreground or background, of 8, 16, 256 or 16 million."""
RAN_FOR_S = 60.0
_LOCALE = {"NO_COLOR", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE", "LANG"}


@dataclass
class Asked:
    """How it is started and ended: ``keys`` once ``when`` was drawn, or a signal.

    ``stdin``: tty, pipe or none; ``stdout``: tty or a file (stderr is then a file too); ``owned``: whether the terminal is
    the process's own, so that /dev/tty opens.
    """

    words: tuple[object, ...] = (SAMPLE,)
    keys: bytes = b"q"
    when: bytes = b"READ"
    size: tuple[int, int] = (80, 24)
    stdin: str = "tty"
    stdout: str = "tty"
    send: int | None = None
    owned: bool = True
    before: tuple[int, ...] = ()
    """Signals that it is sent before the keys."""


@dataclass
class Ran:
    """How it ended: status, what reached the terminal, stdout and stderr where they were files, the terminal's modes."""

    code: int = -1
    screen: bytes = b""
    out: bytes = b""
    err: bytes = b""
    restored: bool = False
    ended_s: float = 0.0
    """From the key to the end of the process."""
    first_s: float = 0.0
    """From the start to the first thing that is drawn."""


def command(*words: object) -> list[str]:
    return [sys.executable, "-P", "-m", "m3probe", *map(str, words)]


def in_terminal(asked: Asked, tmp: Path, **env: str) -> Ran:
    """Run ``m3probe tui``, end it as asked, and tell how that went."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", asked.size[1], asked.size[0], 0, 0))
    before = termios.tcgetattr(slave)
    ran = Ran()
    with (tmp / "out").open("wb") as out, (tmp / "err").open("wb") as err:
        child = _started(asked, slave, None if asked.stdout == "tty" else (out, err), env)
        try:
            _watched(child, master, asked, ran)
        finally:
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
            after = termios.tcgetattr(slave)
            ran.restored = after[3] == before[3] and after[0] == before[0]
            os.close(master)
            os.close(slave)
    ran.out, ran.err = (tmp / "out").read_bytes(), (tmp / "err").read_bytes()
    return ran


def _started(
    asked: Asked, slave: int, files: tuple[IO[bytes], IO[bytes]] | None, env: dict[str, str]
) -> subprocess.Popen:  # type: ignore[type-arg]
    def own_terminal() -> None:
        os.setsid()
        if asked.owned:
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    known = {key: value for key, value in os.environ.items() if key not in _LOCALE}
    out, err = files or (slave, slave)
    return subprocess.Popen(
        command("tui", *asked.words),
        stdin={"tty": slave, "pipe": subprocess.PIPE, "none": subprocess.DEVNULL}[asked.stdin],
        stdout=out,
        stderr=err,
        env={**known, "TERM": "xterm-256color", "LANG": "en_US.UTF-8", **env},
        pass_fds=(slave,),
        preexec_fn=own_terminal,  # noqa: PLW1509 - the test starts no thread before it
    )


def _drained(master: int, ran: Ran) -> None:
    """What is drawn until nothing more comes for half a second."""
    while select.select([master], [], [], 0.5)[0]:
        ran.screen += os.read(master, 65536)


def _watched(child: subprocess.Popen, master: int, asked: Asked, ran: Ran) -> None:  # type: ignore[type-arg]
    begun = pressed = time.monotonic()
    told = False
    while child.poll() is None and time.monotonic() - begun < RAN_FOR_S:
        if select.select([master], [], [], 0.02)[0]:
            ran.screen += os.read(master, 65536)
            ran.first_s = ran.first_s or time.monotonic() - begun
        if not told and asked.when in ran.screen:
            for number in asked.before:
                os.kill(child.pid, number)
                _drained(master, ran)
            told, pressed = True, time.monotonic()
            if asked.send:
                os.kill(child.pid, asked.send)
            else:
                os.write(master, asked.keys)
    ran.ended_s = time.monotonic() - pressed
    ran.code = child.wait(timeout=5)
    while select.select([master], [], [], 0.05)[0]:
        ran.screen += os.read(master, 65536)
