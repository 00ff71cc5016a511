"""What the viewer is drawn on: whether it is a terminal at all, what it can show, and how it is left as it was."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from m3probe.errors import UsageError
from m3probe.present.text import wants_ascii


@dataclass(frozen=True, slots=True)
class Fit:
    """``text``: why plain text is printed in place of screens; empty where screens can be drawn."""

    text: str = ""
    ascii_only: bool = False
    mono: bool = False


def fit(stdout: TextIO | None, environ: Mapping[str, str]) -> Fit:
    """What this terminal can show."""
    if stdout is None or not stdout.isatty():
        return Fit("stdout is no terminal")
    term = environ.get("TERM", "")
    if term in {"", "dumb", "unknown"}:
        return Fit(f"TERM={term or '(empty)'} cannot draw screens")
    encoding = stdout.encoding or locale.getpreferredencoding(do_setlocale=False)
    return Fit("", wants_ascii(_said(environ) or encoding), bool(environ.get("NO_COLOR")))


def _said(environ: Mapping[str, str]) -> str:
    """The encoding that the locale's name gives; nothing where no locale is named."""
    own = {key: value for key, value in environ.items() if key != "LC_CTYPE" or not _coerced(value)}
    name = next((own[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if own.get(key)), "")
    if name in {"C", "POSIX"}:
        return "ascii"
    return name.partition(".")[2].partition("@")[0]


def _coerced(value: str) -> bool:
    """Whether Python itself set LC_CTYPE: it does in the C locale (PEP 538), whatever the terminal can show."""
    try:
        given = Path("/proc/self/environ").read_bytes()
    except OSError:
        return False
    return value == "C.UTF-8" and not any(pair.startswith(b"LC_CTYPE=") for pair in given.split(b"\0"))


def keyboard() -> None:
    """Keys come from the terminal, also where stdin is a pipe or closed.

    Raises:
        UsageError: there is no terminal to take keys from.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        return
    try:
        tty = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise UsageError(
            f"stdin is no terminal and /dev/tty cannot be opened ({error.strerror}): no key could reach the viewer",
            next_move="Start it from a terminal, or use m3probe analyze",
        ) from error
    os.dup2(tty, 0)
    if tty != 0:
        os.close(tty)
    if sys.__stdin__ is None or sys.__stdin__.closed or sys.__stdin__.fileno() != 0:
        sys.__stdin__ = sys.stdin = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115 - Textual reads it


def screen(stdout: TextIO) -> TextIOWrapper:
    """Where screens are written: the terminal of stdout, whatever stderr is; what it cannot spell is ``?``."""
    encoding = stdout.encoding or "utf-8"
    return open(os.dup(stdout.fileno()), "w", encoding=encoding, errors="replace", newline="")  # noqa: PTH123


def restored(file: TextIO) -> None:
    """Leave the alternate screen and show the cursor, if whoever should have done it could not."""
    try:
        file.write(
            "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?7h"
        )
        file.flush()
    except (OSError, ValueError):
        return
