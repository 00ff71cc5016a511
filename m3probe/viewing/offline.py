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
RANKS_NAMED = 8
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
    files: dict[tuple[str, str], list[SourceFile]] = {}
    for file in rec.files:
        files.setdefault((file.path, file.kind), []).append(file)
    sources = tuple(_source(ranks, rec, at_s) for ranks in files.values())
    return View(
        title=title, word=Word.READ if whole else Word.PARTIAL, at_s=at_s, detail="" if whole else why,
        report=report, recording=rec, sources=sources, compare=compared,
    )  # fmt: skip


def _source(ranks: Sequence[SourceFile], rec: Recording, at_s: float) -> SourceState:
    """One file, of which each device or process may be a rank."""
    file = ranks[0]
    notes = [note for note in rec.notes if note.path == file.path and not note.quiet]
    lost = [note.text for note in notes if note.lossy]
    return SourceState(
        name=Path(file.path).name,
        kind=file.kind,
        word=Word.PARTIAL if lost or any(each.counts.truncated for each in ranks) else Word.READ,
        detail="; ".join(note.text for note in notes),
        last_ok_s=at_s,
        found=f"{_holds(ranks)}, {file.size_bytes:,} bytes",
        missing=tuple(lost),
    )


def _holds(ranks: Sequence[SourceFile]) -> str:
    """``rank 0``, ``ranks 0, 1``, or what else the file is."""
    told = sorted({each.rank for each in ranks if each.rank is not None})
    if told:
        more = f" and {len(told) - RANKS_NAMED} more" if len(told) > RANKS_NAMED else ""
        said = f"rank{'s' if len(told) > 1 else ''} {', '.join(map(str, told[:RANKS_NAMED]))}{more}"
        return said if ranks[0].role == "rank" else f"{said}, {ranks[0].role}"
    return ranks[0].role if len(ranks) == 1 else f"{len(ranks)} devices or processes without a rank"
