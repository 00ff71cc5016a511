"""Text of the code as Markdown: escaped, and joined to pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPAN = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$!])")


def plain(text: object) -> str:
    """The text as it is, whatever Markdown would make of its signs; on one line. Code spans stay code spans."""
    parts = _SPAN.split(" ".join(str(text).split()))
    return "".join(code(part[1:-1]) if at % 2 else _SPECIAL.sub(r"\\\1", part) for at, part in enumerate(parts))


def code(text: str) -> str:
    """The text in a code span; it holds no backtick (kernel names, flags and globs have none)."""
    return f"`{' '.join(text.split())}`".replace("|", "\\|") if text else ""


def codes(texts: Iterable[str]) -> str:
    """Several code spans."""
    return ", ".join(code(text) for text in texts)


def bullets(lines: Iterable[str]) -> str:
    """A list; empty lines are left out."""
    return "\n".join(f"- {line}" for line in lines if line)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of ready cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def page(*parts: str) -> str:
    """Parts that are not empty, an empty line between them."""
    return "\n\n".join(part for part in parts if part) + "\n"


def toctree(names: Iterable[str], *, depth: int = 1) -> str:
    """Sphinx's list of the pages below this one."""
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *names, "```"])
