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
from dataclasses import dataclass, field
from pathlib import Path

from tree import ROOT

SAMPLE = ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz"
HUE = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;|m)")
"""A colour code: foreground or background, of 8, 16, 256 or 16 million."""
RAN_FOR_S = 20.0


def command(*words: object) -> list[str]:
    return [sys.executable, "-P", "-m", "m3probe", "tui", *map(str, words)]


@dataclass
class Ran:
    """How it ended: its exit status, what reached the terminal, stdout and stderr where they were none, and the modes."""

    code: int
    screen: bytes
    out: bytes = b""
    err: bytes = b""
    restored: bool = True
    ended_s: float = 0.0
    first_s: float = 0.0
    seen: dict[str, bytes] = field(default_factory=dict)


def in_terminal(
    *words: object, keys: bytes = b"q", when: bytes = b"READ", size: tuple[int, int] = (80, 24), stdin: str = "tty",
    stdout: str = "tty", tmp: Path | None = None, send: int | None = None, controlling: bool = True, **env: str,
) -> Ran:  # fmt: skip
    """Run it, press ``keys`` once ``when`` was drawn (or send a signal), and wait for its end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    before = termios.tcgetattr(slave)
    out_file = (tmp or Path("/tmp")) / "out" if stdout != "tty" else None
    out = out_file.open("wb") if out_file else slave
    given = {"tty": slave, "pipe": subprocess.PIPE, "none": subprocess.DEVNULL}[stdin]
    known = {
        k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES", "LC_ALL", "LC_CTYPE", "LANG"}
    }
    begun = time.monotonic()

    def own_terminal() -> None:
        os.setsid()
        if controlling:
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    err = (tmp / "err").open("wb") if tmp and stdout != "tty" else slave
    child = subprocess.Popen(
        command(*words), stdin=given, stdout=out, stderr=err, preexec_fn=own_terminal,  # noqa: PLW1509
        env={**known, "TERM": "xterm-256color", "LANG": "en_US.UTF-8", **env}, close_fds=True, pass_fds=(slave,),
    )  # fmt: skip
    ran = Ran(-1, b"")
    pressed: float | None = None
    try:
        while child.poll() is None and time.monotonic() - begun < RAN_FOR_S:
            if select.select([master], [], [], 0.02)[0]:
                try:
                    ran.screen += os.read(master, 65536)
                except OSError:
                    break
                ran.first_s = ran.first_s or (
                    time.monotonic() - begun if b"reading" in ran.screen or b"READ" in ran.screen else 0
                )
            if pressed is None and when in ran.screen:
                pressed = time.monotonic()
                if send:
                    os.kill(child.pid, send)
                else:
                    os.write(master, keys)
        ran.code = child.wait(timeout=2)
        ran.ended_s = time.monotonic() - (pressed or begun)
        while select.select([master], [], [], 0.05)[0]:
            ran.screen += os.read(master, 65536)
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        after = termios.tcgetattr(slave)
        ran.restored = after[3] == before[3] and after[0] == before[0]
        os.close(master)
        os.close(slave)
    if out_file:
        ran.out = out_file.read_bytes()
    if tmp and (tmp / "err").exists():
        ran.err = (tmp / "err").read_bytes()
    return ran
