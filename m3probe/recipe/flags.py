"""The flags of ``vllm serve``: which exist, which take a value, and what their values are.

Names come from a Build's rules; what their values are was read in ``engine/arg_utils.py`` and ``cli_args.py`` of 0.24.0,
0.25.1, 0.32.0 and 0.33.0, where the tables below are the union of the four (a name that a build lacks is never asked).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

from m3probe.recipe._flag_tables import (
    ALIASES,
    JSON_ANY,
    JSON_OBJECT,
    JSON_OR_TEXT,
    LISTS,
    NUMBERS,
    ONE_OR_NONE,
    SIZES,
    STORE_TRUE,
    USUAL,
    USUAL_SWITCHES,
)
from m3probe.schema.setup import Build


class Kind(StrEnum):
    """What follows a flag."""

    SWITCH = "switch"
    TEXT = "text"
    NUMBER = "number"
    """A whole number."""
    SIZE = "size"
    """A whole number that may be written 1k (1,000), 1K (1,024) or 25.6k."""
    OBJECT = "object"
    """A JSON object."""
    JSON = "json"
    """Any JSON."""
    OBJECT_OR_TEXT = "object_or_text"
    """JSON when it stands in braces, else text."""
    LIST = "list"
    """One word or more."""
    OPTIONAL = "optional"
    """One word or none."""


@dataclass(frozen=True, slots=True)
class Match:
    """A flag as it was written, resolved. ``of`` is empty when there is none; several mean an ambiguous prefix."""

    of: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of one build.

    Args:
        names: every ``--flag``, without ``--no-`` forms.
        switches: those without a value.
        complete: False for the fallback list: a flag it does not hold may exist.
        pairs: ``--disable-x`` is another word for ``--no-enable-x`` (0.33 and later; argparse_utils.py,
            EnableDisableAction).
    """

    names: frozenset[str]
    switches: frozenset[str]
    complete: bool = True
    pairs: bool = True
    aliases: Mapping[str, str] = field(default_factory=dict)
    forms: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Everything argparse would take, in order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", tuple(sorted(self._forms())))

    @classmethod
    def of(cls, build: Build) -> Flags:
        """From the rules ``cli_flags`` and ``cli_switches``; the usual flags of MiniMax M3 when they are not known."""
        flags, switches = build.rule("cli_flags"), build.rule("cli_switches")
        if not (flags.known and switches.known and flags.value and switches.value):
            return cls.usual()
        names = frozenset(str(name) for name in flags.value if str(name).startswith("--"))
        old = build.version is not None and _release(build.version) < (0, 33)
        return cls(names, frozenset(map(str, switches.value)) & names, pairs=not old, aliases=_aliases(names))

    @classmethod
    def usual(cls) -> Flags:
        """Flags that MiniMax M3 recipes use; not complete."""
        names = frozenset(USUAL) | frozenset(USUAL_SWITCHES)
        return cls(names, frozenset(USUAL_SWITCHES), complete=False, aliases=_aliases(names))

    def match(self, written: str) -> Match:
        """The flag that argparse takes ``written`` for: the name itself, an alias, a ``--no-`` form, a prefix.

        argparse's ``allow_abbrev`` is on in vLLM: a prefix of exactly one form is that form. No prefix is resolved by
        a list that is not complete.
        """
        exact = self._exact(written)
        if exact or not self.complete:
            return exact or Match(())
        forms = self._beginning(written) if len(written) > 2 else ()
        if len(forms) == 1:
            return self._exact(forms[0]) or Match(())
        return Match(forms)

    def kind(self, flag: str) -> Kind:
        """What follows a flag of ``names``."""
        if flag in self.switches:
            return Kind.SWITCH
        return next((kind for kind, table in _KINDS if flag in table), Kind.TEXT)

    def _beginning(self, written: str) -> tuple[str, ...]:
        first = bisect_left(self.forms, written)
        last = first
        while last < len(self.forms) and self.forms[last].startswith(written):
            last += 1
        return self.forms[first:last]

    def nearest(self, written: str) -> str:
        """The nearest name, or empty; some milliseconds, so ask for few."""
        near = get_close_matches(written[:100], self.forms, n=1, cutoff=0.6)
        return near[0] if near else ""

    def _exact(self, written: str) -> Match | None:
        if written in self.names:
            return Match((written,))
        if written in self.aliases:
            return Match((self.aliases[written],))
        return self._negated(written)

    def _negated(self, written: str) -> Match | None:
        other = written.removeprefix("--no-")
        if other != written and self._has_no_form(f"--{other}"):
            return Match((f"--{other}",), negated=True)
        for prefix, inverse in (("--disable-", "--enable-"), ("--enable-", "--disable-")):
            flag = inverse + written.removeprefix(prefix)
            if self.pairs and written.startswith(prefix) and self._has_no_form(flag):
                return Match((flag,), negated=True)
        return None

    def _has_no_form(self, flag: str) -> bool:
        return flag in self.switches and flag not in STORE_TRUE

    def _forms(self) -> set[str]:
        forms = set(self.names) | set(self.aliases)
        for flag in self.switches - STORE_TRUE:
            forms.add(f"--no-{flag.removeprefix('--')}")
            if self.pairs:
                forms.add(flag.replace("--enable-", "--disable-", 1))
        return forms


_KINDS = (
    (Kind.OBJECT, JSON_OBJECT),
    (Kind.OBJECT_OR_TEXT, JSON_OR_TEXT),
    (Kind.JSON, JSON_ANY),
    (Kind.LIST, LISTS),
    (Kind.SIZE, SIZES),
    (Kind.NUMBER, NUMBERS),
    (Kind.OPTIONAL, ONE_OR_NONE),
)


def _aliases(names: frozenset[str]) -> dict[str, str]:
    return {short: flag for short, flag in ALIASES.items() if flag in names}


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d{1,6})\.(\d{1,6})", version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
