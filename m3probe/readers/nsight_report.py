"""Files of NVIDIA's profilers that only their own programs can read: what each is, and how to get one that m3probe reads."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from m3probe.errors import UnreadableInput
from m3probe.model.recording import RecordingBuilder
from m3probe.plugs import Progress, Reader

_KINDS = {
    ".nsys-rep": ("a report of Nsight Systems", "Export it: nsys export --type sqlite FILE, and name the .sqlite file"),
    ".qdrep": (
        "a report of an old Nsight Systems",
        "Export it: nsys export --type sqlite FILE, and name the .sqlite file",
    ),
    ".qdstrm": (
        "a capture of Nsight Systems that was not turned into a report (its importer did not run)",
        "Make a report of it with QdstrmImporter, then: nsys export --type sqlite FILE.nsys-rep",
    ),
    ".ncu-rep": (
        "a report of Nsight Compute: counters of replayed kernels, without the time line of a run",
        "Record the run with nsys or torch's profiler instead",
    ),
}


def sniff(path: Path, head: bytes) -> bool:
    """Whether the file is named as these programs name theirs, and is none of SQLite's or JSON's."""
    return path.suffix in _KINDS and not head.startswith((b"SQLite format 3\0", b"{", b"["))


def read(path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> NoReturn:  # noqa: ARG001
    """Refuse it.

    Raises:
        UnreadableInput: always.
    """
    what, move = _KINDS[path.suffix]
    raise UnreadableInput(f"{what}: a format that only NVIDIA's tools read", where=str(path), next_move=move)


READER = Reader(
    title="report of Nsight Systems or Compute (refused, with the way to export it)", sniff=sniff, read=read
)
