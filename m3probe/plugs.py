"""The plug types: read this to extend m3probe.

A plug is one file on a shelf; its file name is the plug's name and it holds one upper-case constant
of these types: ``READER`` in ``m3probe/readers/``, ``ANALYZER`` in ``analyzers/``, ``FAST_PATH`` in
``m3probe/fastpaths/``. Outsiders publish the same constants as entry points of the groups
``m3probe.readers``, ``m3probe.analyzers`` and ``m3probe.fastpaths``. ``COLLECTOR`` in ``collectors/`` is of
``m3probe.collectors._part``: a guest meets none of the types below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from m3probe.model.recording import Recording, RecordingBuilder
from m3probe.model.report import Answer

Progress = Callable[[Path, int, int], None]
"""Told (file, bytes read, bytes in the file on disk) now and then."""


class Read(Protocol):
    """Adds one file to a recording; ``in_folder``: it was found by searching a folder."""

    def __call__(self, path: Path, builder: RecordingBuilder, progress: Progress, *, in_folder: bool) -> None:
        """Read it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One input format.

    Args:
        title: the format in words.
        sniff: whether (path, first inflated bytes) is this format; it must not raise.
        read: adds one file to a recording; raises ``UnreadableInput``.
        holds_kernels: its files hold kernel records, so that one that cannot be read is a loss whatever its suffix.
    """

    title: str
    sniff: Callable[[Path, bytes], bool]
    read: Read
    holds_kernels: bool = False


@dataclass(frozen=True, slots=True)
class Analyzer:
    """One question: a pure function of the recording.

    Args:
        title: the question in words.
        order: analyzers run in this order; ``next_bottleneck`` reads the findings of those before.
        judge: (recording, findings so far) -> rows for the report and findings.
    """

    title: str
    order: int
    judge: Callable[[Recording, Answer], Answer]
