"""What a word of the command line may be: a path, a number in its range, a server, a header."""

from __future__ import annotations

import argparse
from pathlib import Path

MOST_RANKS = 4096
MOST_TOKENS = 2**30
MOST_SECONDS = 30 * 86_400


def path(text: str) -> Path:
    """A path that names something."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path names nothing")  # Path("") would be the current folder
    return Path(text)


def word(text: str) -> str:
    """A word that names something."""
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty word names nothing")
    return text


def target(text: str) -> str:
    """A server: its address, its pid, or ``auto``."""
    is_pid = text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) > 0
    if not (is_pid or text == "auto" or text.startswith(("http://", "https://"))):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no pid, no http(s)://HOST:PORT, and not auto")
    return text


def header(text: str) -> tuple[str, str]:
    """``NAME: VALUE`` of a request."""
    from m3probe.attach import fetch

    try:
        return fetch.header(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def address(text: str) -> tuple[str, int]:
    """``[HOST]:PORT`` to listen at."""
    from m3probe.attach import serve

    try:
        return serve.address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seconds(text: str) -> float:
    """Seconds, up to a month."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (text.isascii() and 0 < value <= MOST_SECONDS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of seconds up to {MOST_SECONDS:,}")
    return value


def size(text: str) -> int:
    """A number of ranks."""
    return whole(text, MOST_RANKS)


def count(text: str) -> int:
    """A number of tokens, steps or requests."""
    return whole(text, MOST_TOKENS)


def whole(text: str, most: int) -> int:
    """A whole number from 1 to ``most``."""
    # ASCII: int() reads the digits of every script
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 1 to {most:,}")
    return int(text)
