"""Pieces, words and operators of a script."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PartKind(StrEnum):
    """What a piece of a word is."""

    LITERAL = "literal"
    VARIABLE = "variable"
    """``text`` is what stands in the braces, or the bare name."""
    OUTPUT = "output"
    """``$(...)``, backticks, ``$((...))``, ``<(...)``: known to a run alone."""


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a word."""

    kind: PartKind
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an array assignment (``items`` is not None), or an operator (``parts`` is empty and ``op`` is set)."""

    line: int
    parts: tuple[Part, ...] = ()
    op: str = ""
    items: tuple[Token, ...] | None = None

    @property
    def bare(self) -> str:
        """The text of an unquoted literal word; empty for anything else."""
        if len(self.parts) == 1 and self.parts[0].kind is PartKind.LITERAL and not self.parts[0].quoted:
            return self.parts[0].text
        return ""

    @property
    def name(self) -> str:
        """The text of a word without variables, quoted or not; empty for anything else."""
        return "" if any(part.kind is not PartKind.LITERAL for part in self.parts) else self.literal

    @property
    def literal(self) -> str:
        """All literal text of the word, quoted or not, variables as ``$``."""
        return "".join(part.text if part.kind is PartKind.LITERAL else "$" for part in self.parts)

    @property
    def written(self) -> str:
        """The word as it would be written again."""
        marks = {PartKind.LITERAL: "{}", PartKind.VARIABLE: "${{{}}}", PartKind.OUTPUT: "{}"}
        return "".join(marks[part.kind].format(part.text) for part in self.parts)
