"""What ``export`` wrote: ``export --json`` (docs/export.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WroteRow:
    """One file; ``rows`` are a table's rows, or a time line's kernels, slices, instants and counter values."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ExportReport:
    """One export.

    Args:
        to: format.
        path: the file, or the folder of files, that now stands there whole.
        outcome: how reading the inputs ended (``ok``, ``ok_with_warnings``, ``partial``).
        trust: ``complete``, ``degraded`` or ``unusable``; empty where trust was not judged.
        lost: what is not in the export, or was not whole in its inputs; one sentence each.
    """

    to: str
    path: str
    outcome: str
    trust: str
    files: tuple[WroteRow, ...]
    lost: tuple[str, ...] = ()
    schema_version: str = "1"
