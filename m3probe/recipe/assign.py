"""What assignments do to a script's variables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from m3probe.errors import UsageError
from m3probe.recipe.asked import Given, Word
from m3probe.recipe.expand import EACH, MOST_WORDS, Scope, Variable, text_of, words_of
from m3probe.recipe.tokens import Part, PartKind, Token

MOST_VARIABLES = 10_000  # Linux hands about 2 MB to a program; no environment has more
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]{0,200}\])?(\+?)=")
NAME = re.compile(r"[A-Za-z_]\w*")
_ITEM = re.compile(r"\[[^\]]{0,200}\]\+?=")


def is_assignment(token: Token) -> bool:
    """Whether a word is ``NAME=value``, ``NAME+=value`` or an array."""
    first = token.parts[0] if token.parts else None
    return bool(
        token.items is not None
        or (first and first.kind is PartKind.LITERAL and not first.quoted and ASSIGNMENT.match(first.text))
    )


@dataclass(slots=True)
class Variables:
    """A script's variables, as assignments change them.

    Args:
        start: what holds when the script starts.
        shaped: names that ``declare -i``, ``-u`` or ``-l`` gives another value than the one written.
        fixed: ``readonly`` names.
    """

    scope: Scope
    start: Given
    shaped: set[str] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    every_maybe: str = ""
    """The condition of ``set -a``."""

    def assign(self, token: Token, maybe: str, *, exported: bool = False) -> str:
        """``NAME=value``, ``NAME+=value``, ``NAME=(...)``, ``NAME+=(...)``; the name, or empty."""
        found = ASSIGNMENT.match(token.parts[0].text)
        if found is None:
            return ""
        name, adds = found.groups()
        if token.items is not None:
            self._array(name, token, maybe, adds=bool(adds))
            return name
        rest = token.parts[0].text[found.end() :]
        head = Part(PartKind.LITERAL, rest, quoted=token.parts[0].quoted)
        value = text_of(token, self.scope, (head, *token.parts[1:]))
        if "[" in found.group():
            self.unknown(name, f"single items of {name} are set ({value.where})", maybe)
            return name
        self.put(name, self._value(name, value, adds=bool(adds)), maybe, exported=exported or self.scope.every)
        return name

    def _value(self, name: str, value: Word, *, adds: bool) -> Word:
        if name in self.fixed:
            return replace(value, known=False, why=f"{name} is readonly and set again ({value.where})")
        if name in self.shaped and (adds or not value.text.isdecimal()):
            return replace(value, known=False, why=f"{name} is declared to change what it is set to ({value.where})")
        if not adds:
            return value
        held = self.scope.variables.get(name)
        before = held.value if held is not None else self.scope.outer.get(name, "")
        joined = (before or "") + value.text
        self.scope.spend(len(joined), 0)
        why = value.why or (held.why if held else "") or f"{name} is added to and not known ({value.where})"
        known = value.known and before is not None
        return replace(value, text=joined, known=known, why="" if known else why)

    def unknown(self, name: str, why: str, maybe: str = "") -> None:
        """The variable is something that a run decides."""
        if NAME.fullmatch(name):
            self.put(name, Word("", why, known=False, why=why), maybe)

    def put(self, name: str, value: Word, maybe: str, *, exported: bool = False) -> None:
        """Set one variable.

        Args:
            maybe: the place of a condition under which it is set; empty: it is.

        Raises:
            UsageError: there are over ``MOST_VARIABLES``.
        """
        held = self.scope.variables.get(name)
        late = self.scope.exports.pop(name, None)
        goes_out = exported or bool(held and held.exported) or name in self.scope.outer or late is not None
        if exported and self.every_maybe and self.scope.every and not (held and held.exported):
            value = replace(value, maybe=value.maybe or self.every_maybe)
        if not maybe:
            self._keep(
                name,
                Variable(
                    value.text if value.known else None,
                    value.why,
                    exported=goes_out,
                    where=value.where,
                    maybe=value.maybe or late or "",
                ),
            )
            return
        held = held or self._absent(name, maybe)
        held.exported, held.maybe = goes_out, held.maybe or maybe
        held.others.append(value)

    def _absent(self, name: str, maybe: str) -> Variable:
        """A variable that only a condition sets: the caller's, or not known."""
        outer = self.scope.outer.get(name)
        why = "" if outer is not None else f"${name} is set only under a condition ({maybe})"
        where = self.start.origins.get(name, "") if outer is not None else maybe
        return self._keep(name, Variable(outer, why, exported=outer is not None, where=where))

    def _keep(self, name: str, held: Variable) -> Variable:
        self.scope.variables[name] = held
        if len(self.scope.variables) > MOST_VARIABLES:
            said = f"more than {MOST_VARIABLES:,} variables"
            raise UsageError(said, where=self.scope.where, next_move="Give the vllm command after --")
        return held

    def export(self, name: str, maybe: str, *, on: bool) -> None:
        """``export NAME``: set already, or later."""
        held = self.scope.variables.get(name)
        if held is None and name in self.scope.outer:
            held = self._keep(
                name, Variable(self.scope.outer[name], exported=True, where=self.start.origins.get(name, ""))
            )
        if held is not None:
            held.exported = on or bool(maybe)
            held.maybe = held.maybe or maybe
        elif on:
            self.scope.exports[name] = maybe
        elif not maybe:
            self.scope.exports.pop(name, None)

    def unset(self, name: str, maybe: str, where: str) -> None:
        """``unset NAME``."""
        if not maybe:
            self._keep(name, Variable("", gone=True, where=where))
            return
        held = self.scope.variables.get(name)
        if held is None and name in self.scope.outer:
            held = self._absent(name, maybe)
        if held is not None:
            held.maybe = held.maybe or maybe

    def _array(self, name: str, token: Token, maybe: str, *, adds: bool) -> None:
        held = self.scope.variables.get(name)
        words = [word for item in token.items or () for word in words_of(item, self.scope)]
        where = self.scope.place(token.line)
        self.scope.spend(EACH * len(words), token.line)
        if any(_ITEM.match(word.text) for word in words):
            self.unknown(name, f"single items of {name} are set ({where})", maybe)
            return
        old = held.items if adds and held is not None and held.items is not None else []
        if len(words) + len(old) > MOST_WORDS:
            said = f"{name[:80]} has more than {MOST_WORDS:,} words"
            raise UsageError(said, where=where, next_move="Give the vllm command after --")
        if not maybe:
            if adds and held is not None and held.items is not None:
                held.items.extend(words)
            elif adds and held is not None and not held.gone:
                self.unknown(name, f"words are added to {name}, which is no array ({where})")
            else:
                self._keep(name, Variable(where=where, items=words))
            return
        if held is None or held.items is None:
            held = self._keep(name, Variable(items=[], where=where, maybe=held.maybe if held else ""))
        held.others += [replace(word, maybe="adds" if adds else "replaces") for word in words]
        held.maybe = held.maybe if adds else held.maybe or maybe
