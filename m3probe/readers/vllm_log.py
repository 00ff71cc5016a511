"""A vLLM server's log: configuration and what was chosen, never what ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from m3probe.errors import UnreadableInput
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.model.server_log import ServerLog
from m3probe.plugs import Progress, Reader
from m3probe.readers._beside import beside
from m3probe.readers._log_chatter import takes
from m3probe.readers._log_gather import Gathered
from m3probe.readers._log_kinds import holds, read_line
from m3probe.readers._log_lines import MOST_LINE, RECORD, line_of, whole_lines, without_colours
from m3probe.readers.chunks import Chunks

KIND, ROLE = "vllm-log", "log"
_JSON = (b'"levelname"', b'"message"', b'"asctime"')


def sniff(_path: Path, head: bytes) -> bool:
    """Whether some line is a record as vLLM's logger writes it; the name says nothing."""
    if RECORD.search(without_colours(head)):
        return True
    return any(line.lstrip().startswith(b"{") and all(key in line for key in _JSON) for line in head.split(b"\n", 200))


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add one log.

    Raises:
        UnreadableInput: it cannot be read, or holds no record of vLLM after all.
    """
    chunks = Chunks(path)
    found, seen = Gathered(), _Seen(path, chunks, progress)
    for number, raw in seen.lines():
        if takes(raw, found):
            continue
        line = line_of(raw, number)
        if line.level:
            found.clock.see(raw)
        read_line(line, found, held=seen.held)
    log = found.log(len(builder.files), str(path), lines=seen.number, cut=seen.cut, repaired=seen.repaired)
    if not log.counts.records:
        raise UnreadableInput("no record of vLLM's logger in it", where=str(path), next_move="Give the server's log")
    builder.add("log_stats", found.run.stats.columns(len(builder.files)))
    builder.files.append(
        beside(path, KIND, ROLE, chunks.size_bytes, cut=chunks.cut, in_folder=in_folder, local_times=found.clock.times)
    )
    builder.note(_notes(log, cut_stream=chunks.cut))
    builder.meta = replace(builder.meta, logs=(*builder.meta.logs, log))


READER = Reader(title="vLLM server log", sniff=sniff, read=read)


class _Seen:
    """Walks through the file and counts what is odd about it."""

    def __init__(self, path: Path, chunks: Chunks, progress: Progress) -> None:
        self.path, self.chunks, self.progress = path, chunks, progress
        self.number = self.cut = self.repaired = 0
        self.held = True

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(number from 1, bytes without colours)."""
        read = 0
        for window, cut in whole_lines(self.chunks):
            self.cut += cut
            self.repaired += _odd(window)
            self.held = holds(window)
            for raw in without_colours(window).split(b"\n")[:-1]:
                self.number += 1
                if raw:
                    yield self.number, raw
            read += len(window)
            self.progress(self.path, min(read, self.chunks.size_bytes), self.chunks.size_bytes)


def _odd(window: bytes) -> int:
    """Lines that are no UTF-8, or hold NUL bytes."""
    try:
        window.decode()
    except UnicodeDecodeError:
        return sum(_is_odd(line) for line in window.split(b"\n"))
    return sum(b"\0" in line for line in window.split(b"\n")) if b"\0" in window else 0


def _is_odd(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in line


def _notes(log: ServerLog, *, cut_stream: bool) -> Iterator[Note]:
    """What must be told; nothing of a log hides a kernel, so that none of these is a loss of evidence."""
    counts, path = log.counts, log.path
    if counts.cut:
        text = f"{counts.cut:,} line(s) longer than {MOST_LINE:,} bytes: only their beginning was looked at"
        yield Note("long_line", text, path, counts.cut)
    if counts.repaired:
        yield Note("repaired_lines", f"{counts.repaired:,} line(s) with bad UTF-8 or NUL bytes", path, counts.repaired)
    if counts.unparsed:
        yield Note("unparsed_lines", f"{counts.unparsed:,} line(s) are no JSON record", path, counts.unparsed)
    if counts.beyond:
        text = f"{counts.beyond:,} statement(s) beyond the first of their kind were counted and not kept"
        yield Note("many_statements", text, path, counts.beyond)
    beyond = log.run.steps_beyond + log.run.stats_beyond
    if beyond:
        text = f"{beyond:,} line(s) of the start or of statistics were counted and not kept: there are too many"
        yield Note("many_records", text, path, beyond)
    if log.starts > 1:
        text = f"{log.starts} different engine configurations: several servers in one log; the first one is used"
        yield Note("several_starts", text, path, log.starts)
    if cut_stream:
        yield Note("truncated", "the gzip stream ends early: what stands behind it was not read", path)
