"""Views of files: read once, with progress by file, given up when nobody waits any more."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from m3probe import pipeline
from m3probe.comparing import AskedRun, compare
from m3probe.model.compare_report import CompareReport
from m3probe.model.recording import Recording, SourceFile
from m3probe.model.report import Report, TrustSection
from m3probe.model.view import Cancelled, SourceState, Told, View, Word
from m3probe.workload import Workload

JUDGING = "the report"
"""Told after the last file: reading is done, the questions are being answered."""
Progress = Callable[[Path, int, int], None]
_RANK = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)


class GivenUp(BaseException):
    """Nobody waits for the files any more. No Exception: no reader's own ``except`` may keep it."""


@dataclass
class PathFeed:
    """One recording: files and folders as ``analyze`` takes them.

    Args:
        paths: what is read.
        workload: what the user says of the run.
        runs: held against the first of them; what is read is then the last one.
        clock: Unix time.
    """

    paths: Sequence[Path]
    workload: Workload | None = None
    runs: Sequence[AskedRun] = ()
    clock: Callable[[], float] = time.time
    live: bool = field(default=False, init=False)

    def poll(self, told: Told, cancelled: Cancelled) -> View:
        """Read and judge.

        Raises:
            UnreadableInput: an input cannot be read.
            GivenUp: it was cancelled.
        """
        progress = _progress(told, cancelled)
        compared = compare(self.runs, (), progress) if self.runs else None
        rec = pipeline.read(self.paths, self.workload, progress)
        told(JUDGING, 0, 0)
        report = pipeline.report(rec)
        return view_of(title_of(self.paths), rec, report, compared, self.clock())

    def look_back(self, window_s: float | None) -> None:
        """A file has no window."""

    def scrub(self, by_s: float) -> None:
        """What was read whole is shown whole."""

    def close(self) -> None:
        """Nothing is held."""


def _progress(told: Told, cancelled: Cancelled) -> Progress:
    def progress(path: Path, read: int, size: int) -> None:
        if cancelled():
            raise GivenUp
        rank = _RANK.search(path.name)
        told(f"rank {rank[1]}: {path.name}" if rank else path.name, read, size)

    return progress


def title_of(paths: Sequence[Path]) -> str:
    """What a run is called: its first file."""
    name = paths[0].name or str(paths[0].resolve().name)
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"


def view_of(title: str, rec: Recording, report: Report, compared: CompareReport | None, at_s: float) -> View:
    """A recording and its report as they are looked at; ``at_s`` is Unix time."""
    lost = [note for note in report.notes if any(n.lossy and n.word == note.word for n in rec.notes)]
    said = report.answer.section(TrustSection)
    hidden = [reason.text for reason in said.trust.reasons if reason.hides_kernels] if said else []
    whole = report.outcome != "partial" and not hidden
    why = "; ".join(dict.fromkeys([*(f"{n.path}: {n.text}" if n.path else n.text for n in lost), *hidden]))
    sources = tuple(_source(file, rec, at_s) for file in rec.files)
    return View(
        title=title, word=Word.READ if whole else Word.PARTIAL, at_s=at_s, detail="" if whole else why,
        report=report, recording=rec, sources=sources, compare=compared,
    )  # fmt: skip


def _source(file: SourceFile, rec: Recording, at_s: float) -> SourceState:
    notes = [note for note in rec.notes if note.path == file.path and not note.quiet]
    lost = [note.text for note in notes if note.lossy]
    rank = f"rank {file.rank}" if file.rank is not None else f"process {file.pid}" if file.pid is not None else ""
    what = ", ".join(filter(None, (rank, "" if rank and file.role == "rank" else file.role, file.device)))
    return SourceState(
        name=Path(file.path).name,
        kind=file.kind,
        word=Word.PARTIAL if lost or file.counts.truncated else Word.READ,
        detail="; ".join(note.text for note in notes),
        last_ok_s=at_s,
        found=f"{what}, {file.size_bytes:,} bytes",
        missing=tuple(lost),
    )
