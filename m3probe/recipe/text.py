"""Bytes of a file that somebody names, as text: regular files of bounded size, UTF-8 and nothing else."""

from __future__ import annotations

from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.readers.small_file import read_small

MOST_BYTES = 4 * 1024 * 1024
MOST_LINES = 200_000  # no script has so many; two million empty lines take a reader seconds


def file_text(path: Path) -> str:
    """The file's text with line feeds as line ends and without a byte order mark.

    Raises:
        UnreadableInput: it is missing, no regular file, over 4 MiB, binary, or not UTF-8.
    """
    return decoded(read_small(path, MOST_BYTES), str(path))


def decoded(data: bytes, where: str) -> str:
    """Bytes of a script, compose file or env file as text.

    Raises:
        UnreadableInput: over 4 MiB or 200,000 lines, binary, or not UTF-8.
    """
    if len(data) > MOST_BYTES:
        raise UnreadableInput(f"larger than {MOST_BYTES // 1024**2} MiB", where=where)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableInput("not UTF-8: it begins as UTF-16 does", where=where, next_move="Save it as UTF-8")
    if b"\0" in data:
        raise UnreadableInput("binary: holds zero bytes", where=where)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        said = f"not UTF-8 at byte {error.start:,}"
        raise UnreadableInput(said, where=where, next_move="Save it as UTF-8") from error
    return normal(text, where)


def normal(text: str, where: str) -> str:
    """Text with line feeds as line ends and without a byte order mark.

    Raises:
        UnreadableInput: over 4 MiB or 200,000 lines.
    """
    if len(text) > MOST_BYTES:
        raise UnreadableInput(f"larger than {MOST_BYTES // 1024**2} MiB", where=where)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if text.count("\n") > MOST_LINES:
        raise UnreadableInput(f"more than {MOST_LINES:,} lines", where=where)
    return text


def existing_text(path: Path) -> str | None:
    """``file_text``, or None where there is no such file: a command may have been written for another machine."""
    try:
        there = path.exists()
    except (OSError, ValueError):
        return None
    return file_text(path) if there else None
