"""A rules file's text and TOML, bounded: size, parts of a key, depth, digits."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput, UsageError

NEXT = "See docs/assert.md for every key"
_ORDER = "RULES comes before the traces on the line"
MOST_BYTES = 2**20
_KEY_PARTS = 16
# Possessive, and an open quote runs to its line's or the text's end: no text takes more than one pass.
_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'{3}(?:[^']|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf'(?<![\w"-])(?:[\w"-]++[ \t]*+\.[ \t]*+){{{_KEY_PARTS}}}')


def text_of(path: Path, missing: str = "no such rules file", next_move: str = "Check the path") -> str:
    """The file as text.

    Raises:
        UnreadableInput: missing (said as told), unreadable, too large, or not text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            what = f"not a rules file: larger than {MOST_BYTES // 2**20} MiB"
            raise UnreadableInput(what, where=str(path), next_move=_ORDER)
        return data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UnreadableInput(missing, where=str(path), next_move=next_move) from error
    except OSError as error:
        raise UnreadableInput(f"cannot be read ({error.strerror})", where=str(path)) from error
    except UnicodeDecodeError as error:
        what = f"not a rules file: byte {error.start} is no UTF-8 text"
        raise UnreadableInput(what, where=str(path), next_move=_ORDER) from error
    except ValueError as error:  # a zero byte in a path that a rules file names
        raise UnreadableInput("no path of a file", where=repr(str(path)), next_move=next_move) from error


def document_of(where: str, text: str) -> dict[str, Any]:
    """The document.

    Raises:
        UsageError: not TOML.
    """
    # tomllib takes time by the square of a key's parts: 50,000 of them, in 100 KB, took 43 s
    if _LONG_KEY.search(_STRING_OR_COMMENT.sub('""', text)):
        raise UsageError(f"a key of more than {_KEY_PARTS} parts", where=where, next_move=NEXT)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
    except ValueError:
        said = "a number of more digits than any can have here"
    except RecursionError:
        said = "nested too deeply"
    raise UsageError(f"not valid TOML: {said}", where=where, next_move=NEXT)
