"""Where in which file a rule stands, and how its words are read: each refusal names the nearest known one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from m3probe.errors import UsageError

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Place:
    """The file, and the rule in it (number from 1, line where its header stands)."""

    path: str
    number: int | None = None
    line: int | None = None

    def refusal(self, what: str, next_move: str = "") -> UsageError:
        """The error to raise about this place."""
        line = f":{self.line}" if self.line else ""
        rule = f" (rule {self.number})" if self.number else ""
        return UsageError(what, where=f"{self.path}{line}{rule}", next_move=next_move)


def nearest(word: str, known: Collection[str]) -> str:
    """``Did you mean 'decode'?``, or all known words when none is near."""
    lower = {name.lower(): str(name) for name in known}
    found = get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    if found:
        return f"Did you mean {lower[found[0]]!r}?"
    return f"Known: {', '.join(sorted(known))}" if known else "None is known"


def shown(value: object) -> str:
    """A value of the file as an error tells it, short whatever it holds."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a hexadecimal number of more digits than Python writes; deep nesting
        return "something too large to show"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def known_keys(place: Place, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse the first key that is not known."""
    for key in table:
        if key not in known:
            raise place.refusal(f"unknown key {shown(key)}", nearest(key, known))


def read_word(place: Place, table: Mapping[str, Any], key: str, known: Collection[str]) -> str | None:
    """One of the known words, or None where the key is left out."""
    if key not in table:
        return None
    value = table[key]
    if not isinstance(value, str):
        raise place.refusal(f"{key} must be a text in quotes, not {shown(value)}", f"Known: {', '.join(sorted(known))}")
    if value not in known:
        raise place.refusal(f"unknown {key} {shown(value)}", nearest(value, known))
    return value
