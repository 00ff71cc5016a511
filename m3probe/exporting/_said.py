"""What is told of an export beside its rows: losses on the terminal, and the manifest."""

from __future__ import annotations

import json
from typing import Any

from m3probe import __version__
from m3probe.errors import UnreadableInput
from m3probe.exporting._format import Export
from m3probe.exporting._place import MADE_BY
from m3probe.model.recording import Recording
from m3probe.model.report import Report, TrustSection
from m3probe.present.escape import safe


def trust_of(report: Report) -> str:
    """``complete``, ``degraded`` or ``unusable``; empty where trust was not judged."""
    section = report.answer.section(TrustSection)
    return section.trust.verdict if section else ""


def lost_of(report: Report, rec: Recording) -> tuple[str, ...]:
    """Losses of reading, and why the recording cannot be trusted whole."""
    notes = [f"{note.path}: {note.text}" if note.path else note.text for note in rec.notes if note.lossy]
    section = report.answer.section(TrustSection)
    reasons = section.trust.reasons if section and section.trust.verdict != "complete" else ()
    return tuple(notes) + tuple(f"trust {trust_of(report)}: {reason.text}" for reason in reasons)


def manifest(export: Export) -> dict[str, Any]:
    """Which tool made it, of what, and how far that can be trusted; every text printable."""
    rec, report = export.rec, export.report
    sources = [
        {"path": safe(f.path), "kind": f.kind, "role": f.role, "rank": f.rank, "size_bytes": f.size_bytes}
        for f in rec.files
    ]
    notes = [{"word": n.word, "text": safe(n.text), "path": safe(n.path), "count": n.count} for n in report.notes]
    return {
        "made_by": MADE_BY,
        "schema_version": "1",
        "m3probe": __version__,
        "to": export.to,
        "outcome": report.outcome,
        "trust": trust_of(report),
        "lost": [safe(sentence) for sentence in lost_of(report, rec)],
        "notes": notes,
        "sources": sources,
    }


def about(export: Export) -> dict[str, str]:
    """The manifest as texts, for formats that hold it themselves."""
    return {key: text if isinstance(text, str) else json.dumps(text) for key, text in manifest(export).items()}


def wrote_something(export: Export, rows: int) -> None:
    """Whether a time line has anything on it.

    Raises:
        UnreadableInput: nothing of the recording has a time.
    """
    if not rows:
        move = "--to csv or --to parquet writes rows without one too"
        raise UnreadableInput(
            "nothing to export: none of its rows has a place on a clock", where=export.rec.files[0].path, next_move=move
        )
