"""What ``doctor`` found on a host: one row a check, in four words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

SCHEMA_VERSION = 1


class Word(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It costs time, or evidence, or fails under conditions that the text names."""
    BAD = "bad"
    """It fails, or what is measured would not be what was meant."""
    UNKNOWN = "unknown"
    """It cannot be seen from here: never a pass."""


FAIL_ON = (Word.WARN, Word.BAD, Word.UNKNOWN)
"""Words that ``--fail-on`` takes; ``warn`` takes what is worse with it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Args:
        id: ``group.name``, stable; rows of one id are about different things, which ``text`` names.
        text: what was seen, and what follows from it.
        advice: the next move; empty where there is none.
        source: who says so.
    """

    id: str
    word: Word
    text: str
    advice: str = ""
    source: str = ""

    @property
    def group(self) -> str:
        """``host``, ``limits``, ``environment``, ``versions``, ``profiler`` or ``attach``."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """All checks, in order.

    Args:
        concurrency: requests at once that limits were held against; None: none was named.
        checked: whose environment and limits these are.
    """

    checks: tuple[Check, ...]
    concurrency: int | None = None
    checked: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @property
    def counts(self) -> Mapping[str, int]:
        """Checks by word."""
        found = Counter(str(check.word) for check in self.checks)
        return {str(word): found[str(word)] for word in Word}

    def failed(self, words: Collection[str]) -> bool:
        """Whether some check ended in one of these words."""
        wanted = {Word(word) for word in words}
        wanted |= {Word.BAD} if Word.WARN in wanted else set()
        return any(check.word in wanted for check in self.checks)
