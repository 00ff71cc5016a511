"""What a format of this room is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from m3probe.model.export_report import WroteRow
from m3probe.model.recording import Recording
from m3probe.model.report import Report

Written = tuple[tuple[WroteRow, ...], tuple[str, ...]]
"""The files, named from the export's own place; and what this format had to leave out, one sentence each."""


@dataclass(frozen=True, slots=True)
class Export:
    """What is exported.

    Args:
        to: the format's word.
        name: of the target, which stands under another name until it is whole.
        host: operators and runtime calls of the host too, where a format leaves them out by default.
    """

    rec: Recording
    report: Report
    to: str
    name: str
    host: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Args:
        title: in words.
        suffixes: of a name that nobody gave: a file's, a folder's.
        folder: (``--out``, inputs) -> whether it is a folder of files rather than one file.
        needs: modules that it imports, all of the extra ``export``.
        host: whether ``--host`` changes it.
        read: our own reader takes it: among the inputs it would be counted with them the next time.
        write: (export, fresh path beside the target) -> files, and what was left out.
    """

    title: str
    suffixes: tuple[str, str]
    folder: Callable[[Path | None, Sequence[Path]], bool]
    write: Callable[[Export, Path], Written]
    needs: tuple[str, ...] = ()
    host: bool = False
    read: bool = False


def one_file(_out: Path | None, _paths: Sequence[Path]) -> bool:
    """``Format.folder`` of a format that is always one file."""
    return False


def a_folder(_out: Path | None, _paths: Sequence[Path]) -> bool:
    """``Format.folder`` of a format that is always a folder of files."""
    return True
