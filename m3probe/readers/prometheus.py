"""Pages of /metrics as a server of vLLM or SGLang writes them: one page a file, or several in a log of scrapes.

Facts only: which pages make a series of one server, and in which order, is judged by the analyzers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from m3probe.errors import UnreadableInput
from m3probe.model.metric_tables import MetricsFile
from m3probe.model.recording import Note, RecordingBuilder
from m3probe.plugs import Progress, Reader
from m3probe.readers._beside import beside
from m3probe.readers._prom_lines import MOST_LINE, MOST_SERIES, Known, Page, Pages
from m3probe.readers._prom_times import named
from m3probe.readers.chunks import Chunks

KIND, ROLE = "prometheus", "metrics"
_BEGINS = re.compile(
    rb"^# (?:TYPE|HELP) [a-zA-Z_:][\w:]*[ \n]|^(?:vllm|sglang):\w+(?:\{[^\n]*\})? [-+.\deENanIif]+(?: \d+)?\r?$",
    re.MULTILINE,
)
MOST_PAGES = 200_000
"""Of one file; one a second are 86,400 a day."""
_LOOKED = 16 * 1024
_LINES_BEFORE = 40
"""Lines that may stand in front: a time, the head of an HTTP answer, the tail of a page whose head is lost."""
_KNOWN: WeakKeyDictionary[RecordingBuilder, Known] = WeakKeyDictionary()


def sniff(_path: Path, head: bytes) -> bool:
    """Whether a line near the beginning is a comment of the text format, or a sample of a server's metric."""
    found = _BEGINS.search(head[:_LOOKED])
    return found is not None and head.count(b"\n", 0, found.start()) <= _LINES_BEFORE


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
    """Add the pages of one file.

    Raises:
        UnreadableInput: it cannot be read, or holds no sample.
    """
    chunks = Chunks(path)
    known = _KNOWN.setdefault(builder, Known(builder.strings))
    pages = Pages(known)
    rest = b""
    for lines, behind in _lines(chunks, path, progress):
        pages.feed(lines)
        rest = behind
        if len(pages.done) > MOST_PAGES:
            what = f"more than {MOST_PAGES:,} pages in one file"
            raise UnreadableInput(what, where=str(path), next_move="Scrape at a longer interval, or split it")
    whole = not rest.strip() or rest.strip() == b"# EOF"
    pages.feed([rest] if whole else [])
    pages.close()
    if not pages.done:
        what = "no metrics in file" + (f": none of its {pages.lines:,} lines is a sample" if pages.lines else "")
        raise UnreadableInput(what, where=str(path), next_move="Save the page of /metrics again, whole")
    cut = not whole or chunks.cut or _ends_inside(pages.done[-1], builder)
    file = len(builder.files)
    builder.files.append(beside(path, KIND, ROLE, chunks.size_bytes, cut=cut, in_folder=in_folder))
    _add(pages.done, path, file, builder)
    seen = MetricsFile(
        file=file,
        path=str(path),
        pages=len(pages.done),
        samples=pages.samples,
        bad_lines=tuple(pages.bad),
        bad=pages.bad_count,
        repeated=pages.repeated,
        types=pages.types,
        cut=cut,
    )
    builder.meta = replace(builder.meta, metrics=(*builder.meta.metrics, seen))
    builder.note(_notes(seen, pages.beyond))


READER = Reader(title="metrics page (Prometheus text format)", sniff=sniff, read=read)


def _lines(chunks: Chunks, path: Path, progress: Progress) -> Iterator[tuple[list[bytes], bytes]]:
    """Whole lines, window by window, and what stands behind the last of them: the file's own rest at its end."""
    rest, given = b"", 0
    for chunk in chunks:
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()[:MOST_LINE]  # no sample is so long: it ends as a line that cannot be read
        yield lines, rest
        given += len(chunk)
        progress(path, min(given, chunks.size_bytes), chunks.size_bytes)


def _ends_inside(page: Page, builder: RecordingBuilder) -> bool:
    """A histogram's buckets are followed by its count and sum, whichever comes first."""
    name, brace, labels = builder.strings[page.series[-1]].partition("{") if page.series else ("", "", "")
    if name.endswith("_bucket"):
        return True
    for part, other in (("_count", "_sum"), ("_sum", "_count")):
        if name.endswith(part):
            wanted = builder.strings.find(name.removesuffix(part) + other + brace + labels)
            return wanted < 0 or wanted not in page.series
    return False


def _add(pages: list[Page], path: Path, file: int, builder: RecordingBuilder) -> None:
    said, mtime_ns = named(path), path.stat().st_mtime_ns
    first, number = builder.rows("scrapes"), len(pages)
    builder.add(
        "scrapes",
        {
            "file": np.full(number, file),
            "page": np.arange(number),
            "server": np.full(number, builder.strings.intern(said.server)),
            "at_ns": np.array([page.at_ns if page.at_ns >= 0 else said.at_ns for page in pages], dtype=np.int64),
            "place": np.full(number, said.place),
            "mtime_ns": np.full(number, mtime_ns),
            "started_s": np.array([page.started_s for page in pages]),
            "created_s": np.array([page.created_s for page in pages]),
            "samples": np.array([page.samples for page in pages]),
        },
    )
    for row, page in enumerate(pages, first):
        builder.add(
            "metrics",
            {
                "scrape": np.full(len(page.series), row, dtype=np.int32),
                "series": np.frombuffer(page.series, dtype=np.int32),
                "value": np.frombuffer(page.values, dtype=np.float64),
            },
        )


def _notes(seen: MetricsFile, beyond: int) -> Iterator[Note]:
    """What must be told; a page holds no kernel, so that no loss in it hides one."""
    if seen.bad:
        shown = ", ".join(map(str, seen.bad_lines[:8])) + (", ..." if seen.bad > 8 else "")
        yield Note("bad_lines", f"{seen.bad:,} line(s) are no sample (line {shown})", seen.path, seen.bad, lossy=True)
    if seen.cut:
        text = "the page is cut: its last line or histogram is not whole, and what would follow is missing"
        yield Note("truncated_page", text, seen.path, lossy=True)
    if seen.repeated:
        text = f"{seen.repeated:,} sample(s) of a series that the same page had before: the last one counts"
        yield Note("repeated_series", text, seen.path, seen.repeated)
    if beyond:
        text = f"{beyond:,} sample(s) beyond {MOST_SERIES:,} different series were counted and not kept"
        yield Note("many_series", text, seen.path, beyond, lossy=True)
