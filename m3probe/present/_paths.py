"""Question 4: fast paths, each with its verdict as glyph and word."""

from __future__ import annotations

from m3probe.model.report import PathRow, PathsSection
from m3probe.present._numbers import plural
from m3probe.present._page import Page, Piece
from m3probe.schema.verdicts import PathVerdict

LOOKS: dict[str, tuple[str, str]] = {
    PathVerdict.EXECUTED: ("●", "good"),
    PathVerdict.MISSED: ("✗", "bad"),
    PathVerdict.DECLINED: ("–", ""),
    PathVerdict.UNEXPECTED: ("!", "warn"),
    # absence of evidence must not look like a mild pass
    PathVerdict.UNPROVEN: ("?", "dim"),
    PathVerdict.OFF: ("·", "dim"),
    PathVerdict.REFUSED_AT_START: ("⊘", "bad"),
}
EVIDENCE_SHOWN = 3
_WIDE = 19  # "⊘ refused at start" and a space


def paths(page: Page, section: PathsSection | None) -> None:
    """Every fast path: what was configured, what was eligible, what ran."""
    page.heading("4 paths", "configured is not eligible is not executed")
    if section is None:
        page.say("Not answered: the paths analyzer did not run.", indent=2)
    elif not section.paths:
        page.say("No fast path is known to this installation: the shelf m3probe/fastpaths is empty.", indent=2)
    for row in section.paths if section else ():
        _path(page, row)
    if section and any(not _said(row) for row in section.paths):
        page.say(("Where nothing is said, configuration and eligibility are not in the input.", "dim"), indent=2)


def _said(row: PathRow) -> str:
    """What is known beyond the kernels; "" where that is nothing."""
    words = (("configured", row.configured), ("eligible", row.eligible))
    return ", ".join(f"{what}: {word}" for what, word in words if word not in {"", "unknown"})


def verdict(word: str) -> Piece:
    """A verdict as glyph and words; a word this version does not know keeps its spelling."""
    glyph, style = LOOKS.get(word, ("?", "dim"))
    return f"{glyph} {word.replace('_', ' ')}", style


def _path(page: Page, row: PathRow) -> None:
    text, style = verdict(row.verdict)
    variant = f": {row.variant}" if row.variant else ""
    page.say(
        (text.ljust(_WIDE), style), (f"{row.title}{variant}", "bold"), (f"  {_counts(row)}", ""), indent=2, hang=_WIDE
    )
    below = 2 + _WIDE
    if row.by_phase:
        looks = [verdict(word) for word in row.by_phase.values()]
        phases = [
            piece
            for phase, look in zip(row.by_phase, looks, strict=True)
            for piece in ((f"{phase} ", "dim"), look, ("   ", ""))
        ]
        page.say(*phases, indent=below, hang=2)
    names = ["kernel names known from source only"] if row.names_from_source else []
    said = ", ".join([*filter(None, [_said(row)]), *names])
    if said:
        page.say((said, "dim"), indent=below, hang=2)
    for reason in row.reasons:
        page.say(f"refused: {reason}", indent=below, hang=2)
    for seen in row.evidence[:EVIDENCE_SHOWN]:
        page.say((seen, "dim"), indent=below, hang=2)
    if len(row.evidence) > EVIDENCE_SHOWN:
        page.say(
            (f"{plural(len(row.evidence) - EVIDENCE_SHOWN, 'more line')} of evidence in --json", "dim"), indent=below
        )


def _counts(row: PathRow) -> str:
    return ", ".join(f"{count:,} {word.replace('_', ' ')}" for word, count in row.counts.items())
