"""What a user asked for, before any judgement: the words of a ``vllm serve`` command and its environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MOST_TOLD = 100  # sentences of one kind: a reader stops long before
LONGEST_SENTENCE = 2_000
_MORE = re.compile(r"and ([0-9,]{1,20}) more of this kind")


MAY_ADD, IS_OPEN = "may add flags that are not known", "is a flag that is not known"
CONFIG_OPEN, FILE_OPEN = "--config is not known", "its flags are not known"
ANY_FLAG = (MAY_ADD, IS_OPEN, CONFIG_OPEN, FILE_OPEN)
"""How a sentence of ``Given.untold`` says that words of the command may be any flag."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command.

    Args:
        text: its value; as it was written where ``known`` is false.
        where: ``file:line``, or ``command line``.
        known: whether ``text`` is what the program would get.
        why: a sentence, where it is not.
        splits: unquoted and not known: no word, one, or several.
        maybe: the place of a condition that may take this word away or put another in its place.
    """

    text: str
    where: str
    known: bool = True
    why: str = ""
    splits: bool = False
    maybe: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """A server as somebody wrote it down. Foreign text throughout: the presenter escapes it.

    Args:
        argv: words of the command after ``vllm serve``, MODEL included.
        env: variables the server would see, as far as the input tells.
        model: empty when it was not given or is not known.
        flags: ``--flag-name`` -> str; True or False for a switch; a list where vLLM takes several words; a dict for
            JSON and dotted keys. A human-readable number (``1k``) is written out.
        origins: variable or flag -> ``file:line`` or ``command line``.
        untold: what could not be resolved, each a sentence with its place.
        unknown_flags: flags that ``known`` does not hold, each with the nearest name.
        uncertain: variables and flags that a condition or an unknown value may change; what ``env`` and ``flags``
            say of them holds only where no condition of the input does. A flag that is written out with a value that
            is not known stands here by its ``--flag-name``, one known key of several by that of the whole flag.
        notes: what vLLM does with this command that its author may not expect, each a sentence.
    """

    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    flags: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    unknown_flags: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def any_flag(self) -> str:
        """The sentence that says that the command may hold flags which nobody here knows; empty where none may be."""
        return next((text for text in self.untold if any(words in text for words in ANY_FLAG)), "")


def merged(first: Given, then: Given) -> Given:
    """Both, ``then`` winning: its words are the command's where it has any, and it settles what it sets."""
    open_ = set(then.uncertain)
    settled = {name for name in (*then.env, *then.flags) if name not in open_}
    unsure = (*(name for name in first.uncertain if name not in settled), *then.uncertain)
    return Given(
        argv=then.argv or first.argv,
        env={**first.env, **then.env},
        model=then.model or first.model,
        flags={**first.flags, **then.flags},
        origins={**first.origins, **then.origins},
        untold=sentences(first.untold, then.untold),
        unknown_flags=tuple(dict.fromkeys((*first.unknown_flags, *then.unknown_flags))),
        uncertain=tuple(dict.fromkeys(unsure)),
        notes=sentences(first.notes, then.notes),
    )


def told(given: Given, *said: str) -> Given:
    """The same with more that could not be resolved."""
    return replace(given, untold=sentences(given.untold, said)) if said else given


def sentences(*groups: Iterable[str]) -> tuple[str, ...]:
    """Each once, at most ``MOST_TOLD`` and then how many more, none longer than ``LONGEST_SENTENCE``."""
    kept: dict[str, None] = {}
    more = 0
    for said in (said for group in groups for said in group):
        counted = _MORE.fullmatch(said)
        if counted:
            more += int(counted.group(1).replace(",", ""))
        elif len(kept) < MOST_TOLD:
            kept[cut(said, LONGEST_SENTENCE)] = None
        else:
            more += cut(said, LONGEST_SENTENCE) not in kept
    return (*kept, f"and {more:,} more of this kind") if more else tuple(kept)


def cut(text: str, most: int = 80) -> str:
    """The text, or its first ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
