"""A small file that somebody names, read whole: regular, bounded, or one sentence why not."""

from __future__ import annotations

import stat
from pathlib import Path

from m3probe.errors import UnreadableInput


def read_small(path: Path, most: int) -> bytes:
    """The file's bytes.

    Args:
        most: bytes it may hold.

    Raises:
        UnreadableInput: it is missing, no regular file, cannot be opened, or larger.
    """
    try:
        # A pipe or a device would never end, or end with what nobody wrote.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableInput("not a regular file", where=str(path), next_move="Name the file itself")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise UnreadableInput(
            f"cannot be read: {reason}", where=str(path), next_move="Check the path and its rights"
        ) from error
    if len(content) > most:
        raise UnreadableInput(
            f"larger than {most // 2**20} MiB", where=str(path), next_move="Nothing of this kind is that large"
        )
    return content
