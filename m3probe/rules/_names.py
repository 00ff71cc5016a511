"""Which kernels a rule's ``kernel`` means: exact function names, or globs.

A kernel name can be written in full or as the function's own name: without return type, template
arguments and parameters, with all, some or none of its namespaces. ``topkGating``, ``moe::topkGating``
and ``vllm::moe::topkGating`` all mean ``void vllm::moe::topkGating<4, 128>(float const*)``; none of them
means ``topkGatingSoftmax``. A pattern with ``* ? [`` is compared with the same forms, each as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import translate
from functools import lru_cache

from m3probe.kernels.demangle import NAMES_KEPT, demangle

_GLOB = frozenset("*?[")
_CLOSES = {">": "<", ")": "("}
_BRACKETS = re.compile(r"->|[<>()]")


def matching(pattern: str, names: Sequence[str]) -> list[bool]:
    """Whether each stored kernel name is meant; case counts."""
    found = re.compile(translate(pattern)) if is_pattern(pattern) else None
    return [_meant(pattern, found, name) for name in names]


def is_pattern(text: str) -> bool:
    """Whether a rule's ``kernel`` is a glob."""
    return bool(_GLOB & set(text))


def _meant(pattern: str, glob: re.Pattern[str] | None, name: str) -> bool:
    # Full C++ names hold `*` and `[`: one that is pasted into a rule must still mean itself.
    forms = spellings(name)
    return pattern in forms or (glob is not None and any(glob.match(form) for form in forms))


@lru_cache(maxsize=NAMES_KEPT)
def spellings(name: str) -> tuple[str, ...]:
    """As stored, demangled, and the function's own name from each of its namespaces on."""
    readable = demangle(name)
    own = function_name(readable)
    parts = own.split("::")
    return tuple(dict.fromkeys((name, readable, *("::".join(parts[i:]) for i in range(len(parts))))))


@lru_cache(maxsize=NAMES_KEPT)
def function_name(readable: str) -> str:
    """A demangled name without return type, template arguments and parameters; others as they are."""
    text = readable.replace("(anonymous namespace)::", "")
    kept: list[str] = []
    open_: list[str] = []
    begin = 0
    for found in _BRACKETS.finditer(text):
        mark, at = found[0], found.start()
        if mark == "->":
            continue  # an operator or a return type, not the end of template arguments
        if not open_:
            kept.append(text[begin:at])
            if mark == "(" and any(kept):
                break
        if mark in "<(":
            open_.append(mark)
        elif open_ and open_[-1] == _CLOSES[mark]:
            open_.pop()
        begin = at + 1
    else:
        kept.append("" if open_ else text[begin:])
    words = "".join(kept).split()
    return words[-1] if words else readable


def nearest_name(pattern: str, names: Sequence[str]) -> str:
    """The function name that looks most like a pattern that met none; empty when nothing does."""
    own = {function_name(demangle(name)).rpartition("::")[2]: None for name in names}
    wanted = pattern.rpartition("::")[2].strip("*?")
    return next(iter(get_close_matches(wanted, own, n=1, cutoff=0.6)), "")
