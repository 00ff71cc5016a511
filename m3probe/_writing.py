"""Writing a file that a command line names: refused before the work where it cannot be, whole or not at all after it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from m3probe._outputs import apart, is_stream, spare
from m3probe.errors import UnwrittenResult, UsageError

PAGES = (".html", ".htm")


def begin(word: str, out: Path, inputs: Iterable[Path]) -> None:
    """Tell before the work what would stop the result: minutes of reading are not for nothing.

    Args:
        word: the option that names it.
        out: where it shall be written.
        inputs: files and folders that are read.

    Raises:
        UsageError: it is an input, lies in a folder that is one and may be read there, or is where stdout goes.
        UnwrittenResult: there is no such folder, or nothing may be written in it.
    """
    apart(word, out)
    if is_stream(out):
        return
    inputs = [*inputs]
    whole = out
    try:
        whole = out.resolve()
        out.lstat()
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError) as error:  # a name that is too long; links in a circle (RuntimeError before 3.13)
        why = getattr(error, "strerror", None) or "a link leads back to itself"
        raise UnwrittenResult(f"cannot be written ({why})", where=str(out)) from error
    spare(word, out, inputs)
    folder = whole.parent
    for path in inputs:
        # a page beside traces is where people want it, and no reader takes one
        if (
            out.exists()
            and not out.name.endswith(PAGES)
            and path.is_dir()
            and out.resolve().is_relative_to(path.resolve())
        ):
            raise UsageError(
                f"{word} would overwrite a file of an input folder", where=str(out), next_move="Give another name"
            )
    if out.is_dir():
        raise UnwrittenResult("is a folder", where=str(out), next_move=f"Give {word} the name of a file")
    if not folder.is_dir():
        raise UnwrittenResult(
            "has no folder to be written in",
            where=str(out),
            next_move=f"mkdir -p {folder if out.is_symlink() else out.parent}",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UnwrittenResult("may not be written: its folder is closed to you", where=str(out))


def write_whole(out: Path, text: str) -> int:
    """Write ``text`` and return its bytes: beside the name and then moved, so that nobody finds half of it.

    A pipe or device gets it directly.

    Raises:
        UnwrittenResult: it cannot be written; an older file of this name is as it was.
    """
    data = text.encode("utf-8", "backslashreplace")
    try:
        if is_stream(out):
            with out.open("wb") as file:
                file.write(data)
        else:
            _replace(out.resolve(), data)
    except OSError as error:
        raise UnwrittenResult(f"cannot be written ({error.strerror or error})", where=str(out)) from error
    return len(data)


def _replace(out: Path, data: bytes) -> None:
    handle, beside = tempfile.mkstemp(prefix=f".{out.name[:60]}.", suffix=".part", dir=out.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes files for their owner alone; this one has the mode of any other new file
        mask = os.umask(0)
        os.umask(mask)
        Path(beside).chmod(0o666 & ~mask)
        Path(beside).replace(out)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
