"""Foreign text (kernel names, file names, annotations) made safe for a terminal, HTML and JSON.

A trace is somebody else's file: an ESC byte in a kernel name could repaint the reader's terminal, a
bidi override could show a name other than the one that ran, a lone surrogate cannot be written at all.
"""

from __future__ import annotations

import re

# C0, DEL and C1 (0x9b is an 8-bit CSI); zero-width and bidi marks, line separators, bidi overrides and
# isolates, byte order mark, surrogates, tag characters.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT = {"\t": "\\t", "\n": "\\n"}


def safe(text: str, *, keep: str = "") -> str:
    r"""``text`` without a character that controls where or how text is shown.

    Args:
        text: anything; markup of rich or HTML is *not* escaped here (nothing in this room reads markup).
        keep: characters to leave alone; JSON keeps tab and newline, for which it has spellings of its own.

    Returns:
        Printable text: tab and newline as ``\t`` and ``\n``, others as ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _spelt(found[0]), text)


def _spelt(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
