"""``m3probe doctor`` for a terminal: the counts first, then what is not ok, then the rest in short."""

from __future__ import annotations

from m3probe.model.doctor_report import Check, DoctorReport, Word
from m3probe.present._numbers import plural
from m3probe.present._page import Page, Piece

_LOOKS = {
    Word.OK: ("●", "good"),
    Word.WARN: ("!", "warn bold"),
    Word.BAD: ("✗", "bad bold"),
    Word.UNKNOWN: ("–", "dim"),
}
_GROUPS = {
    "host": "host",
    "limits": "limits",
    "versions": "versions",
    "environment": "environment",
    "profiler": "profiler libraries",
    "attach": "what attach can do here",
}
_WIDE = 10


def doctor_text(report: DoctorReport, width: int, color: bool, *, ascii_only: bool = False) -> str:
    """The answer in lines of at most ``width`` cells, without a newline at its end."""
    page = Page(width, color, ascii_only)
    said = ", ".join(f"{count:,} {word}" for word, count in report.counts.items() if count)
    held = f"at {report.concurrency:,} requests at once" if report.concurrency else "no --concurrency given"
    page.say((f"{plural(len(report.checks), 'check')}: {said}", "bold"), (f"  {held}", "dim"), hang=2)
    for group, title in _GROUPS.items():
        found = [check for check in report.checks if check.group == group]
        if found:
            page.heading(title)
            for check in sorted(found, key=lambda check: _ORDER.index(check.word)):
                _check(page, check)
    return page.text()


_ORDER = (Word.BAD, Word.WARN, Word.UNKNOWN, Word.OK)


def _check(page: Page, check: Check) -> None:
    glyph, style = _LOOKS[check.word]
    head: Piece = (f"{glyph} {check.word}".ljust(_WIDE), style)
    name: Piece = (f"{check.id.partition('.')[2]}  ", "bold")
    page.say(head, name, check.text, indent=2, hang=_WIDE)
    if check.word is not Word.OK:
        if check.advice:
            page.say(("-> ", "dim"), check.advice, indent=2 + _WIDE, hang=3)
        if check.source:
            page.say((f"[{check.source}]", "dim"), indent=2 + _WIDE, hang=1)
