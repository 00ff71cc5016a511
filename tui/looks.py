"""What the terminal makes of state words: which of them tell of old figures, and how all of it is spelt in ASCII."""

from __future__ import annotations

from m3probe.model.view import Word

OLD = frozenset({Word.STALE, Word.DOWN, Word.BAD_DATA})
"""Where figures are dimmed and carry their age."""

_ASCII = {
    **dict(zip("●✗–—·⊘…×─█▲▼○µ→←↑↓›»≥≤±│┊", "*x--.@~x-#^vou><^v>>><~||", strict=True)),
    **dict(zip("▓▒░▏▎▍▌▋▊▉", "=+.   ####", strict=True)),
    "\xa0": " ",
}
_BRAILLE = range(0x2800, 0x2900)


def to_ascii(text: str) -> str:
    """``text`` in ASCII, cell for cell: what has no likeness is ``?``, a wide character two of them."""
    if text.isascii():
        return text
    return "".join(_ascii(char) for char in text)


def _ascii(char: str) -> str:
    from m3probe.present._page import cells

    if char.isascii():
        return char
    if ord(char) in _BRAILLE:
        return "*" if ord(char) > _BRAILLE.start else " "
    return _ASCII.get(char) or "?" * cells(char)
