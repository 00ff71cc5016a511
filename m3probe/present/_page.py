"""Lines of styled text that never exceed a width: words are wrapped, columns fitted, long names cut in the middle.

Plain string formatting on purpose. Measured on CPython 3.11 with rich 15: importing ``rich.console`` and ``rich.table``
costs 42 ms CPU and a page of ten small tables 75 ms more, a sixth of what ``analyze`` may cost on a small trace (0.7 s
with interpreter and numpy); importing this room's modules costs 15 ms and such a page 3 ms. Nothing here reads markup.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from m3probe.present.escape import safe

Piece = tuple[str, str]
"""(text, style); a style is "" or one of ``_ANSI``."""

_ANSI = {
    "bold": "1",
    "dim": "2",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "accent": "36",
    "good bold": "1;32",
    "bad bold": "1;31",
    "warn bold": "1;33",
}
_ASCII = str.maketrans(
    {
        "●": "*",
        "✗": "x",
        "–": "-",
        "—": "-",
        "·": ".",
        "⊘": "@",
        "…": "~",
        "×": "x",
        "─": "-",
        "█": "#",
        "▲": "^",
        "○": "o",
        "µ": "u",
        "→": ">",
        "≥": ">=",
        "≤": "<=",
        "±": "+-",
    }
    | dict.fromkeys("▏▎▍", "")
    | dict.fromkeys("▌▋▊▉", "#")
)
_TOKENS = re.compile(r" +|[^ ]+")
_UNIT = re.compile(r"(?<=\d) %")
TIE = "\xa0"
"""A space that a line is not broken at; written as a plain space."""
LEAST_WIDTH = 20


@dataclass(slots=True)
class Page:
    """A page being written.

    Args:
        width: terminal cells a line may take; less than 20 is taken as 20.
        color: whether styles become ANSI codes; without it the page holds no ESC byte.
        ascii_only: whether everything is spelt in ASCII, foreign text too.
    """

    width: int
    color: bool = False
    ascii_only: bool = False
    lines: list[str] = field(default_factory=list)
    _below_heading: bool = False

    def __post_init__(self) -> None:
        self.width = max(self.width, LEAST_WIDTH)

    def clean(self, text: str) -> str:
        """``text`` as it may be shown here."""
        text = safe(text)
        if not self.ascii_only or text.isascii():
            return text
        known = text.translate(_ASCII)
        return "".join(c if c.isascii() or c == TIE else c.encode("ascii", "backslashreplace").decode() for c in known)

    def blank(self) -> None:
        """An empty line; never two, and none between a heading and its block."""
        if self.lines and self.lines[-1] and not self._below_heading:
            self.lines.append("")

    def heading(self, title: str, aside: str = "") -> None:
        """A block's title and what it answers, with a rule to the right edge."""
        self.blank()
        head: list[Piece] = [(title, "bold")]
        if aside and cells(title) + cells(aside) + 6 <= self.width:
            head.append((f"  {aside}", "dim"))
        room = self.width - sum(cells(text) for text, _ in head) - 2
        self.put([*head, ("  " + "─" * room if room > 0 else "", "dim")])
        self._below_heading = True

    def put(self, pieces: Iterable[Piece]) -> None:
        """One line as it is; what is too long is cut at the right edge."""
        self._write([(self.clean(text), style) for text, style in pieces])

    def say(self, *pieces: Piece | str, indent: int = 0, hang: int = 0) -> None:
        """Text wrapped at words; lines after the first are indented by ``hang`` more."""
        styled = ((p, "") if isinstance(p, str) else p for p in pieces)
        whole = [(_UNIT.sub(TIE + "%", self.clean(text)), style) for text, style in styled]
        indent = min(indent, self.width // 3)
        hang = min(hang, self.width // 3)
        for number, line in enumerate(wrapped(whole, self.width - indent, hang, self.clean("…"))):
            self._write([(" " * (indent + (hang if number else 0)), ""), *line])

    def _write(self, pieces: Iterable[Piece]) -> None:
        room = self.width
        kept: list[Piece] = []
        for text, style in pieces:
            shown = text if cells(text) <= room else clipped(text, room)
            room -= cells(shown)
            kept.append((shown, style))
        while kept and not kept[-1][0].strip():
            kept.pop()
        if kept:
            kept[-1] = (kept[-1][0].rstrip(), kept[-1][1])
        self.lines.append("".join(self._painted(text, style) for text, style in kept).replace(TIE, " "))
        self._below_heading = False

    def _painted(self, text: str, style: str) -> str:
        if not (self.color and style and text.strip()):
            return text
        return f"\x1b[{_ANSI[style]}m{text}\x1b[0m"

    def text(self) -> str:
        """The page, without a newline at its end."""
        return "\n".join(self.lines).rstrip("\n")


def items(found: Iterable[str], style: str = "") -> Piece:
    """``a · b · c`` that is broken between its items only."""
    return f"{TIE}· ".join(item.replace(" ", TIE) for item in found), style


def cells(text: str) -> int:
    """Terminal cells that ``text`` takes: wide East Asian characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_char_cells(char) for char in text)


def _char_cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clipped(text: str, room: int) -> str:
    """As much of the start of ``text`` as fits."""
    taken = 0
    for index, char in enumerate(text):
        taken += _char_cells(char)
        if taken > room:
            return text[:index]
    return text


def middle_cut(text: str, room: int, mark: str = "…") -> str:
    """``text`` in at most ``room`` cells, its middle given up: both ends of a kernel's name tell it apart."""
    if cells(text) <= room:
        return text
    if room <= 2:
        return clipped(text, room)
    head = (room - 1) * 2 // 3
    tail = clipped(text[::-1], room - 1 - head)[::-1]
    return clipped(text, head) + mark + tail


def wrapped(pieces: Iterable[Piece], width: int, hang: int, mark: str = "…") -> list[list[Piece]]:
    """Pieces broken at spaces into lines of at most ``width`` cells (``width - hang`` after the first)."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for word in _words(pieces):
        room = width - (hang if len(lines) > 1 else 0)
        size = sum(cells(text) for text, _ in word)
        if used and used + size > room and not word[0][0].isspace():
            lines.append([])
            used, room = 0, width - hang
        if not used and len(lines) > 1 and word[0][0].isspace():
            continue
        if size > room:
            lines[-1].append((middle_cut("".join(text for text, _ in word), room, mark), word[0][1]))
            size = room
        else:
            lines[-1] += word
        used += size
    return [_merged(line) for line in lines]


def _words(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Runs without a space (a word may change its style inside) and runs of spaces, in order."""
    words: list[list[Piece]] = []
    for text, style in pieces:
        for token in _TOKENS.findall(text):
            if words and not token.isspace() and not words[-1][-1][0].isspace():
                words[-1].append((token, style))
            else:
                words.append([(token, style)])
    return words


def _merged(line: list[Piece]) -> list[Piece]:
    """Neighbours of one style as one piece, so that a styled sentence is one ANSI run."""
    found: list[Piece] = []
    for text, style in line:
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + text, style)
        else:
            found.append((text, style))
    return found
