"""Bytes of a file that somebody names, as text: regular files of bounded size, UTF-8 and nothing else."""

from __future__ import annotations

from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.readers.small_file import read_small

MOST_BYTES = 4 * 1024 * 1024


def file_text(path: Path) -> str:
    """The file's text with line feeds as line ends and without a byte order mark.

    Raises:
        UnreadableInput: it is missing, no regular file, over 4 MiB, binary, or not UTF-8.
    """
    return decoded(read_small(path, MOST_BYTES), str(path))


def decoded(data: bytes, where: str) -> str:
    """Bytes of a script, compose file or env file as text.

    Raises:
        UnreadableInput: over 4 MiB, binary, or not UTF-8.
    """
    if len(data) > MOST_BYTES:
        raise UnreadableInput(f"larger than {MOST_BYTES // 1024**2} MiB", where=where)
    if b"\0" in data:
        raise UnreadableInput("binary: holds zero bytes", where=where)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"not UTF-8 at byte {error.start:,}", where=where) from error
    return text.replace("\r\n", "\n")


def existing_text(path: Path) -> str | None:
    """``file_text``, or None where there is no such file: a command may have been written for another machine."""
    try:
        there = path.exists()
    except (OSError, ValueError):
        return None
    return file_text(path) if there else None
