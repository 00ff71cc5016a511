"""The configuration beside a recording: where its rules are from, and whether it can be the one that ran."""

from __future__ import annotations

from collections.abc import Iterator

from m3probe.hardware import identify
from m3probe.model.findings import Finding
from m3probe.model.path_report import RecipeRow
from m3probe.model.recipe_report import RecipeNote
from m3probe.model.recording import Recording

MOST_TOLD = 8
"""Settings that one sentence names."""


def recipe_row(rec: Recording) -> RecipeRow | None:
    """None where nobody gave one."""
    note = rec.meta.recipe
    if note is None:
        return None
    return RecipeRow(
        source=note.source,
        vllm=note.build.version,
        rules=_rules(note),
        gpu=note.gpu,
        contradicts=tuple(_contradicts(rec, note)),
        warnings=tuple(f"{w.text} ({w.where})" if w.where else w.text for w in note.warnings),
        assumed=note.assumed,
    )


def _rules(note: RecipeNote) -> str:
    lost = f"; not known here: {', '.join(note.build.lost)}" if note.build.lost else ""
    give = "; give --vllm or --vllm-path" if note.build.source == "none" else ""
    return f"{note.build.sentence}{lost}{give}"


def _contradicts(rec: Recording, note: RecipeNote) -> Iterator[str]:
    ran_on = _device(rec)
    if ran_on and ran_on != note.gpu:
        yield f"the recording is of {ran_on}, the configuration was judged for {note.gpu} (--gpu)"
    if note.differs:
        yield differs(note)
    for reason in note.stops:
        yield f"this configuration does not start, so another one was recorded: {reason}"


def differs(note: RecipeNote) -> str:
    """Every setting that the running server resolved otherwise, in one sentence."""
    said = [f"{d.flag} (asked {d.asked}, resolved {d.resolved})" for d in note.differs[:MOST_TOLD]]
    more = f" and {len(note.differs) - MOST_TOLD:,} more" if len(note.differs) > MOST_TOLD else ""
    return f"the server resolved otherwise than {note.source} asks: {', '.join(said)}{more}"


def recipe_finding(rec: Recording) -> tuple[Finding, ...]:
    """One finding where the recipe and the running server differ."""
    note = rec.meta.recipe
    if note is None or not note.differs:
        return ()
    return (
        Finding(
            id="paths.recipe_differs",
            question="paths",
            verdict="differs",
            claim=differs(note),
            where="",
            evidence=(),
            advice="The paths are judged by what was asked; without --recipe they are judged by what the server resolved.",
        ),
    )


def _device(rec: Recording) -> str:
    """The first device's name where it is a known accelerator; empty otherwise."""
    if not rec.meta.devices:
        return ""
    it = rec.meta.devices[0]
    found = identify(it.name, it.units, it.compute_major, it.compute_minor, it.warp_size, memory_bytes=it.memory_bytes)
    return found.name if found else ""
