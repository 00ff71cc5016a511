"""The variables of a script, followed up to one command.

What stands under an ``if``, ``case``, loop or behind ``&&`` is not taken and told, except where the command stands
under the same condition. Functions are followed where they are called.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from m3probe.errors import UsageError
from m3probe.recipe.asked import Given, Word
from m3probe.recipe.blocks import Command, Path, Script
from m3probe.recipe.command import ASSIGNED
from m3probe.recipe.expand import MOST_WORDS, Scope, Variable, text_of, words_of
from m3probe.recipe.flags import Flags
from m3probe.recipe.lexer import Part, PartKind, Token, lex

MOST_STEPS = 100_000  # commands followed, calls of functions included; a call bomb has more
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?(\+?)=")
DECLARE = frozenset({"export", "declare", "typeset", "readonly", "local"})


def is_assignment(token: Token) -> bool:
    """Whether a word is ``NAME=value``, ``NAME+=value`` or an array."""
    first = token.parts[0] if token.parts else None
    return bool(
        token.items is not None
        or (first and first.kind is PartKind.LITERAL and not first.quoted and _ASSIGNMENT.match(first.text))
    )


@dataclass(slots=True)
class Walk:
    """A script followed up to one command."""

    script: Script
    command: Command | None
    scope: Scope
    start: Given
    steps: int = 0
    calls: list[int] = field(default_factory=list)
    now: int = 0
    """Blocks before the command at the top that led here: functions defined by then exist."""
    sourced: list[str] = field(default_factory=list)
    around: set[tuple[int, int]] = field(default_factory=set)
    bodies: dict[int, list[Command]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bodies = {number: [] for numbers in self.script.functions.values() for number in numbers}
        for command in self.script.commands:
            body = self._body_of(command)
            if body is not None:
                self.bodies[body].append(command)

    def to_command(self) -> None:
        """Follow everything that runs before the command, functions where they are called."""
        assert self.command is not None
        self.around = set(self.command.path)
        body = self._body_of(self.command)
        now = sys.maxsize  # where nothing calls the body, every function of the script may exist
        for command in self.script.commands:
            if self._body_of(command) is not None:
                continue
            if command is self.command:
                return
            called = self._called(command)
            if called is not None and called == body:
                self.around |= set(command.path)
                now = command.blocks
                break
            self.step(command, "")
        if body is None:
            return
        self.calls.append(body)
        self.now = now
        for command in self.bodies[body]:
            if command is self.command:
                return
            self.step(command, "")

    def _body_of(self, command: Command) -> int | None:
        return next((number for number, _ in command.path if number in self.bodies), None)

    def _called(self, command: Command) -> int | None:
        """The body that runs where this command calls a function: its last definition before that moment."""
        numbers = self.script.functions.get(command.words[0].bare, [])
        at = bisect_right(numbers, self.now if self.calls else command.blocks)
        return numbers[at - 1] if at else None

    def step(self, command: Command, maybe: str) -> None:
        """One command, or the function that it calls."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise UsageError(f"more than {MOST_STEPS:,} commands", where=self.scope.where)
        runs = self._runs(command.path)
        if runs is False:
            return
        maybe = maybe or ("" if runs else self.scope.place(command.line))
        body = self._called(command)
        if body is None or body in self.calls:
            self.follow(command, maybe)
            return
        self.now = self.now if self.calls else command.blocks
        self.calls.append(body)
        self.around.add((body, 0))
        for inner in self.bodies[body]:
            self.step(inner, maybe)
        self.around.discard((body, 0))
        self.calls.pop()

    def _runs(self, path: Path) -> bool | None:
        """True: whenever the command runs; False: never then (another branch); None: under a condition."""
        blocks = dict(self.around)
        sure = True
        for number, branch in path:
            if number in blocks and blocks[number] != branch:
                return False
            sure = sure and number in blocks
        return True if sure else None

    def follow(self, command: Command, maybe: str) -> None:
        """What one command does to the variables."""
        words = command.words
        place = self.scope.place(command.line)
        name = words[0].bare
        if command.loop:
            self._unknown(name, f"{name} is the variable of a loop ({place})")
        elif all(is_assignment(word) for word in words):
            for word in words:
                self.assign(word, maybe, exported=self.scope.every)
        elif name in DECLARE:
            self._declare(words, maybe)
        elif name == "unset":
            self._unset(words[1:], maybe)
        elif name == "set":
            self._set([word.bare for word in words[1:]])
        elif name != ":" or not maybe:
            self._other(name, words[1:], place)

    def _other(self, name: str, words: Sequence[Token], place: str) -> None:
        if name in ("source", "."):
            file = words[0].written if words else ""
            self.sourced.append(f"{file[:80]} is sourced and not read ({place})")
        elif name in ("read", "mapfile", "readarray", "getopts"):
            for word in words:
                self._unknown(word.bare, f"${word.bare} is read at run time ({place})")
        elif name == ":":
            # : "${A:=b}" sets A
            for word in words:
                words_of(word, self.scope)

    def _declare(self, words: Sequence[Token], maybe: str) -> None:
        options = "".join(word.bare for word in words[1:] if word.bare.startswith("-"))
        exports = (words[0].bare == "export" or "x" in options) and "n" not in options
        for word in words[1:]:
            if is_assignment(word):
                self.assign(word, maybe, exported=exports or self.scope.every)
            elif not word.bare:
                self.sourced.append(f"{word.written[:80]} is exported and not known ({self.scope.place(word.line)})")
            elif not word.bare.startswith("-"):
                self._export(word.bare, maybe, on=exports, off="n" in options)

    def _export(self, name: str, maybe: str, *, on: bool, off: bool) -> None:
        held = self.scope.variables.get(name)
        if held is not None and (on or off):
            held.exported = on
            held.maybe = held.maybe or maybe

    def _unset(self, words: Sequence[Token], maybe: str) -> None:
        for word in words:
            held = self.scope.variables.get(word.bare)
            if not maybe and word.bare and not word.bare.startswith("-"):
                self.scope.variables[word.bare] = Variable("", gone=True, where=self.scope.place(word.line))
            elif held is not None:
                held.maybe = held.maybe or maybe

    def _set(self, options: list[str]) -> None:
        for number, option in enumerate(options):
            name = options[number + 1] if option in ("-o", "+o") and number + 1 < len(options) else ""
            if (option[:1] == "-" and "a" in option[1:]) or (option == "-o" and name == "allexport"):
                self.scope.every = True
            elif (option[:1] == "+" and "a" in option[1:]) or (option == "+o" and name == "allexport"):
                self.scope.every = False

    def _unknown(self, name: str, why: str) -> None:
        if re.fullmatch(r"[A-Za-z_]\w*", name):
            self.scope.variables[name] = Variable(None, why, where=why)

    def assign(self, token: Token, maybe: str, *, exported: bool) -> None:
        """``NAME=value``, ``NAME+=value``, ``NAME=(...)``, ``NAME+=(...)``."""
        found = _ASSIGNMENT.match(token.parts[0].text)
        if found is None:
            return
        name, adds = found.groups()
        held = self.scope.variables.get(name)
        if token.items is not None:
            self._array(name, token, held, maybe, adds=bool(adds))
            return
        rest = token.parts[0].text[found.end() :]
        value = text_of(token, self.scope, (Part(PartKind.LITERAL, rest), *token.parts[1:]))
        if "[" in found.group():
            self._unknown(name, f"single items of {name} are set ({value.where})")
            return
        before = held.value if held is not None else self.scope.outer.get(name, "") if adds else ""
        if adds:
            joined = (before or "") + value.text
            known = value.known and before is not None
            value = Word(joined, value.where, known, value.why or (held.why if held else ""))
        self._put(name, held, value, maybe, exported=exported)

    def _put(self, name: str, held: Variable | None, value: Word, maybe: str, *, exported: bool) -> None:
        goes_out = exported or bool(held and held.exported) or (name in self.scope.outer)
        if not maybe:
            self.scope.variables[name] = Variable(
                value.text if value.known else None, value.why, exported=goes_out, where=value.where, maybe=value.maybe
            )
            return
        if held is None:
            outer = self.scope.outer.get(name)
            why = "" if outer is not None else f"${name} is set only under a condition ({maybe})"
            held = Variable(outer, why, where=self.start.origins.get(name, "") if outer is not None else maybe)
            self.scope.variables[name] = held
        held.exported, held.maybe = goes_out, held.maybe or maybe
        held.others.append(value)

    def _array(self, name: str, token: Token, held: Variable | None, maybe: str, *, adds: bool) -> None:
        words = [word for item in token.items or () for word in words_of(item, self.scope)]
        where = self.scope.place(token.line)
        old = held.items if held is not None and held.items is not None else []
        if len(words) + len(old) > MOST_WORDS:
            raise UsageError(f"{name} has more than {MOST_WORDS:,} words", where=where)
        if not maybe:
            kept = held if adds and held is not None and held.items is not None else Variable(where=where)
            kept.items = [*old, *words] if adds else words
            self.scope.variables[name] = kept
            return
        if held is None or held.items is None:
            held = self.scope.variables[name] = Variable(items=[], where=where)
        held.others += [Word(word.text, word.where, maybe="adds" if adds else "replaces") for word in words]
        held.maybe = held.maybe if adds else held.maybe or maybe

    def words(self, command: Command) -> list[Word]:
        """The command's words with variables put in; ``eval`` and a command in one variable are split."""
        done: list[Word] = []
        for token in command.words:
            if is_assignment(token) and token.items is None and all(ASSIGNED.match(word.text) for word in done):
                done.append(text_of(token, self.scope))
            elif token.items is None:
                done += words_of(token, self.scope)
            if len(done) > MOST_WORDS:
                raise UsageError(f"more than {MOST_WORDS:,} words", where=self.scope.place(command.line))
        if done and done[0].text == "eval" and all(word.known for word in done):
            joined = " ".join(word.text for word in done[1:])
            tokens = [token for token in lex(joined, done[0].where) if not token.op]
            done = [Word(w.text, done[0].where, w.known, w.why) for t in tokens for w in words_of(t, self.scope)]
        return done

    def environment(self, words: Sequence[Word]) -> Given:
        """What is exported when the command runs."""
        env, origins = dict(self.start.env), dict(self.start.origins)
        unsure, untold = list(self.start.uncertain), list(self.start.untold)
        prefixed = {word.text.partition("=")[0] for word in words if ASSIGNED.match(word.text)}
        for name, held in self.scope.variables.items():
            if not held.exported or held.items is not None:
                env.pop(name, None)
                continue
            origins[name] = held.where
            if held.value is None or held.gone:
                env.pop(name, None)
            else:
                env[name] = held.value
            if (held.value is None or held.maybe) and name not in prefixed:
                unsure.append(name)
                untold += _sentences(name, held)
        return Given(env=env, origins=origins, untold=tuple(untold), uncertain=tuple(dict.fromkeys(unsure)))

    def _conditional(self) -> dict[str, Variable]:
        """Variables in the command's words that conditions change."""
        tokens = self.command.words if self.command else ()
        parts = [part for token in tokens for part in token.parts if part.kind is PartKind.VARIABLE]
        names = sorted({name for part in parts for name in re.findall(r"[A-Za-z_]\w*", part.text)})
        held = {name: self.scope.variables[name] for name in names if name in self.scope.variables}
        return {name: variable for name, variable in held.items() if variable.others}

    def conditional_flags(self, known: Flags) -> list[str]:
        """Flags that a condition would add."""
        words = [word.text for held in self._conditional().values() for word in held.others]
        pieces = [piece.partition("=")[0] for text in words for piece in text.split()[:MOST_WORDS]]
        flags = [piece.split(".")[0].replace("_", "-") for piece in pieces if piece.startswith("-")]
        return [(known.match(flag).of or (flag,))[0] for flag in dict.fromkeys(flags) if len(flag) > 1]

    def told_of(self) -> list[str]:
        """What conditions would add to the command's words, which defaults were assumed, which files not read."""
        said = [
            text for name, held in self._conditional().items() if not held.exported for text in _sentences(name, held)
        ]
        return [*said, *self.scope.assumed.values(), *self.sourced]


def _sentences(name: str, held: Variable) -> list[str]:
    if held.items is not None:
        return _of_array(name, held)
    if not held.others:
        return [f"{name} is not known: {held.why}" if held.value is None else f"{name} depends on {held.maybe}"]
    return [
        f"{name} is {word.text[:80]!r} under a condition that is not decided ({word.where})"
        if word.known
        else f"{name} is set under a condition, to something that is not known: {word.why}"
        for word in held.others
    ]


def _of_array(name: str, held: Variable) -> list[str]:
    places: dict[tuple[str, str], list[str]] = {}
    for word in held.others:
        places.setdefault((word.where, word.maybe), []).append(word.text)
    return [
        f"{name} {'also gets' if how == 'adds' else 'is'} {' '.join(texts)[:200]} under a condition that is not "
        f"decided ({where})"
        for (where, how), texts in places.items()
    ]
