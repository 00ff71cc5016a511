"""Rows of styled text: what every block of a sheet becomes before a widget paints it."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from rich.cells import cell_len

from m3probe.present._page import cells, clipped, middle_cut
from m3probe.present.escape import safe
from m3probe.present.looks import look

Piece = tuple[str, str]
"""Text without a control character, and a style word of ``looks``."""
Row = list[Piece]


class Part(Protocol):
    """A block that knows how high it is at a width and what stands in each of its rows."""

    def height(self, width: int) -> int:
        """Rows that it takes."""

    def row(self, at: int, width: int) -> Row:
        """One of them, at most ``width`` cells."""


_JOINERS = frozenset((*range(0x1160, 0x1200), *range(0xD7B0, 0xD800), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
"""Vowels and tails of Hangul, variation selectors: how wide they are is up to what stands before them."""
_SKINS = range(0x1F3FB, 0x1F400)


def clean(text: str) -> str:
    r"""Foreign text as it may be drawn: what terminals are not of one mind about how wide it is, is spelt ``\uNNNN``.

    A line is laid out by counting cells: one character that takes another number of them moves all that follows.
    """
    told = safe(text)
    return told if told.isascii() else "".join(map(_steady, told))


@lru_cache(4096)
def _steady(char: str) -> str:
    code = ord(char)
    if code in _JOINERS or code in _SKINS or cells(char) != cell_len(char):
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return char


def padded(text: str, room: int, *, right: bool = False) -> str:
    """Exactly ``room`` cells: filled, or cut: a name in its middle, a sentence at its end."""
    shown = text
    if cells(text) > room:
        shown = f"{clipped(text, room - 1)}…" if room > 2 and is_prose(text) else middle_cut(text, room)
    fill = " " * (room - cells(shown))
    return fill + shown if right else shown + fill


def is_prose(text: str) -> bool:
    """Whether it reads from the left: a sentence; a kernel's name or a path is told apart by its end."""
    return text.count(" ") >= 3 and "<" not in text and "*" not in text


def cut(row: Row, room: int) -> Row:
    """As much of a row as fits."""
    kept: Row = []
    for text, style in row:
        if room <= 0:
            break
        shown = text if cells(text) <= room else clipped(text, room)
        room -= cells(shown)
        kept.append((shown, style))
    return kept


def width_of(row: Row) -> int:
    """Cells of a row."""
    return sum(cells(text) for text, _ in row)


def marked(text: str, mark: str) -> Piece:
    """A word behind its glyph; the text of a cell or a sentence."""
    if not mark:
        return text, ""
    glyph, style = look(mark)
    return (text if text.startswith(glyph) else f"{glyph} {text}".rstrip()), style


def titled(title: str, aside: str, width: int, *, scale: bool = False) -> Row:
    """A block's title with a rule to the right edge; the aside gives way first, but for a chart's ``scale``."""
    told, more = clean(title), f" · {clean(aside)}" if aside else ""
    if scale and cells(more) * 2 < width:
        told = padded(told, width - cells(more)).rstrip() if cells(told) + cells(more) > width else told
    elif cells(told) + cells(more) + 1 > width:
        more = ""
    head: Row = [(told, "bold"), (more, "dim")] if more else [(told, "bold")]
    rest = width - width_of(head) - 1
    return cut([*head, (" " + "─" * rest if rest > 0 else "", "rule")], width)


def tick(value: float) -> str:
    """An end of a scale: as many digits as tell it apart, no more."""
    if value and abs(value) < 0.1:
        return f"{value:.2g}"
    told = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
    return told.rstrip("0").rstrip(".") if "." in told else told


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` cells, broken at spaces; a longer word is broken anywhere."""
    lines: list[str] = []
    for told in text.splitlines() or [""]:
        now = ""
        for word in clean(told).split(" "):
            joined = f"{now} {word}" if now else word
            if cells(joined) <= width:
                now = joined
                continue
            if now:
                lines.append(now)
            now = word
            while cells(now) > width > 0:
                head = clipped(now, width)
                lines.append(head)
                now = now[len(head) :]
        lines.append(now)
    return lines
