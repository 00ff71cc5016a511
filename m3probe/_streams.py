"""stdout and stderr as they may be: closed, full, a pipe that nobody reads, a terminal that is not UTF-8."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

EXIT_LOST = 3


def prepare() -> None:
    """A terminal that cannot show a character shows ``?`` for it, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sees it; Python makes a closed one (``>&-``) None."""
    return stream is not None and stream.isatty()


def put(stream: TextIO | None, text: str) -> str:
    """Write ``text`` and flush it here, not when the interpreter ends.

    Returns:
        Why it is lost; empty when it was written, or when its reader went away (``| head``), which is no fault.
    """
    if stream is None:
        return "it is closed"
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _abandon(stream)
    except OSError as error:
        _abandon(stream)
        return error.strerror or "it cannot be written"
    return ""


def complain(sentence: str) -> None:
    """One line on stderr; where even that is impossible the exit status has to speak."""
    put(sys.stderr, f"m3probe: {sentence}\n")


def traced(error: Exception) -> str:
    """Write an error's traceback to a new file; where it is, or why it is nowhere."""
    import tempfile
    import traceback

    said = "".join(traceback.format_exception(error)).encode("utf-8", "backslashreplace")
    try:
        with tempfile.NamedTemporaryFile(prefix="m3probe-", suffix=".txt", delete=False) as file:
            file.write(said)
    except OSError as unwritten:
        return f"its traceback could not be written ({unwritten.strerror or unwritten})"
    return f"the traceback is in {file.name}, please report it"


def _abandon(stream: TextIO) -> None:
    """What is still buffered goes nowhere: Python would try it again at its end, and exit with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def finish(status: int, text: str = "") -> int:
    """Write the result to stdout; the exit status, which says that it is lost unless it says something worse."""
    lost = put(sys.stdout, text)
    if lost:
        complain(f"stdout: {lost}.")
    return status or (EXIT_LOST if lost else 0)
