"""Glyph and style of every verdict and state word: what the viewer and the HTML report draw alike.

A colour is never alone: whoever shows a word shows its glyph too.
"""

from __future__ import annotations

from m3probe.model.view import Word
from m3probe.present._paths import LOOKS as VERDICTS

GOOD, BAD, WARN, DIM, BOLD, ACCENT, PLAIN = "good", "bad", "warn", "dim", "bold", "accent", ""

LOOKS: dict[str, tuple[str, str]] = {
    **{str(word): look for word, look in VERDICTS.items()},
    Word.CONNECTING: ("…", DIM),
    Word.COLLECTING: ("…", DIM),
    Word.LIVE: ("●", GOOD),
    Word.SLOW: ("!", WARN),
    Word.STALE: ("!", WARN),
    Word.DOWN: ("✗", BAD),
    Word.BAD_DATA: ("✗", BAD),
    Word.RESET: ("!", WARN),
    Word.PAUSED: ("=", WARN),
    Word.REPLAY: ("»", ACCENT),
    Word.PARTIAL: ("!", WARN),
    Word.READ: ("●", GOOD),
    "complete": ("●", GOOD),
    "degraded": ("!", WARN),
    "unusable": ("✗", BAD),
    "holds": ("●", GOOD),
    "broken": ("✗", BAD),
    "failed": ("✗", BAD),
    "inconclusive": ("?", DIM),
    "slow": ("✗", BAD),
    "growing": ("!", WARN),
    "good": ("●", GOOD),
    "bad": ("✗", BAD),
    "warn": ("!", WARN),
}
"""word -> (glyph, style); a word that is not here is shown as it is, with ``?``."""


def look(word: str) -> tuple[str, str]:
    """Glyph and style of a word; as words are spelt in data or on screen."""
    return LOOKS.get(word) or LOOKS.get(word.replace(" ", "_")) or ("?", DIM)
