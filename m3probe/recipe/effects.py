"""What one command of a script does to the variables: followed, or the variable is not known from there on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from m3probe.errors import UsageError
from m3probe.recipe.asked import cut
from m3probe.recipe.assign import ASSIGNMENT, NAME, Variables, is_assignment
from m3probe.recipe.blocks import Command, Script, script_of
from m3probe.recipe.expand import Variable, lookup, sets_default, text_of, words_of
from m3probe.recipe.lexer import lex
from m3probe.recipe.tokens import PartKind, Token

DECLARE = frozenset({"export", "declare", "typeset", "readonly", "local"})
_READS = frozenset({"read", "mapfile", "readarray", "getopts", "wait"})
_PREFIXES = frozenset({"builtin", "command"})
_ARITHMETIC = re.compile(
    r"(?<!\w)([A-Za-z_]\w*)(?:\[[^\]]{0,200}\])?\s{0,20}(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    r"|(?:\+\+|--)\s{0,20}([A-Za-z_]\w*)"
)
_ASSIGNS = re.compile(r"(?<!\w)([A-Za-z_]\w*)\+?=")
MOST_EVALS = 4


def program(words: Sequence[Token]) -> Sequence[Token]:
    """The command without the assignments and ``command`` or ``builtin`` before it."""
    at = 0
    while at < len(words) and (is_assignment(words[at]) or words[at].name in _PREFIXES):
        at += 1
    return words[at:]


@dataclass(slots=True)
class Effects(Variables):
    """Variables, and the commands that change them.

    Args:
        frames: one for every function that runs: its locals, with what their names were outside.
        unread: sentences about commands that are not followed.
    """

    frames: list[dict[str, Variable | None]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    searching: bool = False
    """No command is chosen yet: functions are not entered, so that ``local`` sets a variable as ``declare`` does."""

    def follow(self, command: Command, maybe: str) -> Script | None:
        """One command that is no call of a function; the script of an ``eval``, whose commands come next."""
        self.scope.maybe = maybe
        place = self.scope.place(command.line)
        for token in command.words:
            for part_of in (token, *(token.items or ())):
                self._expansions(part_of, place, maybe)
        if command.loop:
            name = command.words[0].bare
            self.unknown(name, f"{name} is the variable of a loop ({place})", maybe)
        elif all(is_assignment(word) for word in command.words):
            for word in command.words:
                self.assign(word, maybe)
        else:
            return self._builtin(program(command.words), place, maybe)
        return None

    def _expansions(self, token: Token, place: str, maybe: str) -> None:
        """``((A*=2))``, ``$((A++))`` and ``${A:=b}`` set variables wherever they stand."""
        for part in token.parts:
            if part.kind is PartKind.OUTPUT and part.text.startswith(("((", "$((")):
                self._arithmetic(part.text, token.line, place, maybe)
            elif sets_default(part):
                lookup(part, token.line, self.scope, 0)

    def _arithmetic(self, text: str, line: int, place: str, maybe: str) -> None:
        self.scope.spend(len(text), line)
        for name in dict.fromkeys(first or second for first, second in _ARITHMETIC.findall(text)):
            self.unknown(name, f"{name} is set by arithmetic ({place})", maybe)

    def _builtin(self, words: Sequence[Token], place: str, maybe: str) -> Script | None:
        name = self._name(words[0]) if words else ""
        if name in DECLARE:
            self._declare(name, words[1:], place, maybe)
        elif name == "unset":
            self._unset(words[1:], place, maybe)
        elif name == "set":
            self._set([word.bare for word in words[1:]], place, maybe)
        elif name in _READS:
            self._reads(words[1:], place, maybe)
        elif name == "printf":
            self._prints(words[1:], place, maybe)
        elif name == "let":
            for word in words[1:]:
                self._arithmetic(word.written, word.line, place, maybe)
        elif name in ("source", "."):
            file = words[1].written if len(words) > 1 else ""
            self.unread.append(f"{file[:80]} is sourced and not read ({place})")
        elif name == "eval":
            return self._eval(words[1:], place, maybe)
        return None

    def _name(self, token: Token) -> str:
        if all(part.kind is PartKind.LITERAL for part in token.parts):
            return token.literal
        if len(token.parts) == 1 and token.parts[0].kind is PartKind.VARIABLE:
            word = text_of(token, self.scope)
            return word.text if word.known else ""
        return ""

    def _declare(self, name: str, words: Sequence[Token], place: str, maybe: str) -> None:
        options = "".join(word.name for word in words if word.name.startswith("-"))
        if "f" in options or "F" in options or "p" in options:
            return
        local = name == "local" or (name in ("declare", "typeset") and "g" not in options)
        if name == "local" and not self.frames and not self.searching:
            return  # bash refuses it outside of a function
        if "n" in options and name != "export":
            self._references(words, place, maybe)
            return
        exports = name == "export" or "x" in options
        for word in words:
            if word.name.startswith(("-", "+")):
                continue
            for done in self._declared(word, maybe, exports=exports, off="n" in options, local=local):
                if name == "readonly" or "r" in options:
                    self.fixed.add(done)
                if any(letter in options for letter in "iulc"):
                    self._shape(done, place, maybe)

    def _declared(self, word: Token, maybe: str, *, exports: bool, off: bool, local: bool) -> list[str]:
        """One word behind ``export`` and its kin; the names that it sets."""
        first = word.parts[0] if word.parts else None
        found = ASSIGNMENT.match(first.text) if first and first.kind is PartKind.LITERAL else None
        if found:
            if local:
                self._hide(found.group(1))
            self.assign(word, maybe, exported=exports and not off)
            return [found.group(1)]
        names = []
        for item in words_of(word, self.scope):
            set_to = ASSIGNMENT.match(item.text)
            name = set_to.group(1) if set_to else item.text
            if (not item.known and not set_to) or not NAME.fullmatch(name):
                self.unread.append(f"{cut(item.text)} is exported and not known ({item.where})")
                continue
            if local:
                self._hide(name)
            if set_to:
                value = replace(item, text=item.text[set_to.end() :])
                self.put(name, self._value(name, value, adds=bool(set_to.group(2))), maybe, exported=exports)
            elif exports:
                self.export(name, maybe, on=not off)
            names.append(name)
        return names

    def _hide(self, name: str) -> None:
        """A local hides the variable of the same name until its function ends; it is exported where that one is."""
        if not self.frames or name in self.frames[-1]:
            return
        held = self.scope.variables.get(name)
        self.frames[-1][name] = held
        if held is not None:
            self.scope.variables[name] = Variable("", gone=True, exported=held.exported, where=held.where)

    def leave(self) -> None:
        """A function ends, and its locals with it."""
        for name, held in self.frames.pop().items():
            self.fixed.discard(name)
            self.shaped.discard(name)
            if held is None:
                self.scope.variables.pop(name, None)
            else:
                self.scope.variables[name] = held

    def _shape(self, name: str, place: str, maybe: str) -> None:
        self.shaped.add(name)
        held = self.scope.variables.get(name)
        if held is not None and held.value and not held.value.isdecimal():
            self.unknown(name, f"{name} is declared to change what it is set to ({place})", maybe)

    def _references(self, words: Sequence[Token], place: str, maybe: str) -> None:
        """``declare -n R=A``: A is set wherever R is, so neither is known from here on."""
        for word in words:
            text = text_of(word, self.scope)
            name, _, target = text.text.partition("=")
            if name.startswith("-"):
                continue
            if text.known and NAME.fullmatch(target):
                self.unknown(target, f"{target} may be set through {name} ({place})", maybe)
            else:
                self.unread.append(f"{cut(name)} is another name of a variable that is not known ({place})")
            self.unknown(name, f"{name} is another name of a variable ({place})", maybe)

    def _names(self, words: Sequence[Token], place: str) -> list[str]:
        names = []
        for word in words:
            text = text_of(word, self.scope)
            name = text.text.partition("[")[0]
            if text.known and NAME.fullmatch(name):
                names.append(name)
            elif not text.known:
                self.unread.append(f"a variable is set whose name is not known: {text.why or place}")
        return names

    def _reads(self, words: Sequence[Token], place: str, maybe: str) -> None:
        for name in (*self._names(words, place), "REPLY", "MAPFILE", "OPTARG"):
            self.unknown(name, f"${name} is read at run time ({place})", maybe)

    def _prints(self, words: Sequence[Token], place: str, maybe: str) -> None:
        """``printf -v NAME``."""
        if not words or not words[0].name.startswith("-v"):
            return
        attached = words[0].name[2:].partition("[")[0]
        for name in [attached] if attached else self._names(words[1:2], place):
            self.unknown(name, f"{name} is set by printf ({place})", maybe)

    def _unset(self, words: Sequence[Token], place: str, maybe: str) -> None:
        if any(word.name.startswith("-") and "f" in word.name for word in words):
            return
        for word in words:
            text = text_of(word, self.scope)
            if not text.known:
                self.unread.append(f"{cut(text.text)} is unset and not known ({place})")
            elif "[" in text.text:
                name = text.text.partition("[")[0]
                self.unknown(name, f"single items of {name} are unset ({place})", maybe)
            elif NAME.fullmatch(text.text):
                self.unset(text.text, maybe, place)

    def _set(self, options: list[str], place: str, maybe: str) -> None:
        on = None
        for option, following in pairwise((*options, "")):
            if option == "--":
                break
            if (option[:1] == "-" and "a" in option[1:]) or (option == "-o" and following == "allexport"):
                on = True
            elif (option[:1] == "+" and "a" in option[1:]) or (option == "+o" and following == "allexport"):
                on = False
        if on is None:
            return
        if maybe and on is not self.scope.every:
            self.scope.every, self.every_maybe = True, maybe
            self.unread.append(f"whether variables are exported hangs on a condition ({place})")
        elif not maybe:
            self.scope.every, self.every_maybe = on, ""

    def _eval(self, words: Sequence[Token], place: str, maybe: str) -> Script | None:
        done = [word for token in words for word in words_of(token, self.scope)]
        text = " ".join(word.text for word in done)
        line = words[0].line if words else 0
        self.scope.spend(len(text), line)
        if all(word.known for word in done):
            try:
                return script_of(lex(text, self.scope.where, line), self.scope.where)
            except UsageError:
                pass  # bash refuses it too, or it is too long to follow
        self._not_followed(text, place, maybe)
        return None

    def _not_followed(self, text: str, place: str, maybe: str) -> None:
        self.unread.append(f"eval of {cut(text)!r} is not followed ({place})")
        for name in dict.fromkeys(_ASSIGNS.findall(text)):
            self.unknown(name, f"{name} is set by eval ({place})", maybe)
