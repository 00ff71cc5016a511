"""torch's kernel tables: ``profiler_out_*.txt`` beside a trace, ``*.profiler_out.txt``, or printed into a log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers._beside import beside
from m3probe.readers._key_table import Tables
from m3probe.readers._log_gather import rank_of
from m3probe.readers._log_lines import RECORD, line_of, whole_lines, without_colours
from m3probe.readers.chunks import Chunks

KIND, ROLE = "kernel-summary", "summary"
_CALLS = b"# of Calls"
_RANK = re.compile(r"(?:rank[_-]?|profiler_out_)(\d{1,6})(?!\d)")
_OTHER_RECORDS = 3
"""Records of a log beside those of the table above which it is a log: the table then is a part of it."""


def sniff(_path: Path, head: bytes) -> bool:
    """Whether such a table is all that the content holds: a server's log with one in it is a log."""
    if _CALLS not in head:
        return False
    text = without_colours(head)
    lines = text.split(b"\n")
    below = (line for above, line in pairwise(lines) if _is_dashes(above))
    return any(_CALLS in line and b"Name" in line for line in below) and _others(text) <= _OTHER_RECORDS


def _is_dashes(line: bytes) -> bool:
    """A prefix of a log may stand before them."""
    last = line.split()[-2:]
    return len(last) == 2 and all(len(word) >= 4 and not word.strip(b"-") for word in last)


def _others(text: bytes) -> int:
    tables, others = Tables(0, "", None), 0
    for raw in text.split(b"\n"):
        record = RECORD.search(raw)
        belongs = tables.feed(_line(raw))
        others += record is not None and not belongs
    return others


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the tables of one file.

    Raises:
        UnreadableInput: it cannot be read, or holds no row after all.
    """
    chunks, file = Chunks(path), len(builder.files)
    tables = Tables(file, str(path), None)
    label = ""
    for window, _ in whole_lines(chunks):
        for raw in without_colours(window).split(b"\n"):
            if tables.feed(_line(raw)) and not label:
                label = line_of(raw, 0).label
    tables.end()
    rank = _rank(path, label)
    found = tuple(replace(table, rank=rank) for table in tables.found)
    if not found:
        raise UnreadableInput(
            "a table's heading and no row below it", where=str(path), next_move="Record again, with work in the window"
        )
    builder.files.append(beside(path, KIND, ROLE, chunks.size_bytes, cut=chunks.cut, in_folder=in_folder, rank=rank))
    builder.note(_notes(tables, str(path), in_log=bool(label)))
    builder.meta = replace(builder.meta, kernel_tables=(*builder.meta.kernel_tables, *found))
    progress(path, chunks.size_bytes, chunks.size_bytes)


READER = Reader(title="torch's kernel table", sniff=sniff, read=read)


def _line(raw: bytes) -> str:
    """The line without its log prefix: the leading spaces of a row are its columns."""
    record = RECORD.search(raw)
    return (raw[record.end() :] if record else raw).decode("utf-8", "backslashreplace").rstrip("\r")


def _rank(path: Path, label: str) -> int | None:
    named = _RANK.search(path.name)
    return int(named[1]) if named else rank_of(label, None)


def _notes(tables: Tables, path: str, *, in_log: bool) -> Iterator[Note]:
    if tables.cut:
        # a log may go on with anything; in a file of its own the table ends in a line of dashes
        text = f"truncated: {tables.cut} table(s) without their last line, rows may be missing"
        yield Note("truncated", text, path, tables.cut, lossy=not in_log, quiet=in_log)
    if tables.odd:
        text = f"{tables.odd:,} line(s) between the rows of a table are no rows and are left out"
        yield Note("odd_rows", text, path, tables.odd)
