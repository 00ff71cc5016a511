"""Words of a script with its variables put in, as far as the script tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from m3probe.errors import UsageError
from m3probe.recipe.asked import Word
from m3probe.recipe.lexer import lex_quoted
from m3probe.recipe.tokens import Part, PartKind, Token

LONGEST = 64 * 1024  # characters of one word; A=$A$A doubles with every line
MOST_WORDS = 10_000
MOST_GROWN = 16 * 1024**2  # characters of all values together; 200 kB of B1=${A}y were 720 MB
EACH = 32  # what one piece counts beside its characters
DEEPEST = 8
_FORM = re.compile(r"([A-Za-z_]\w*)(?:(:?[-=?+])(.*))?", re.DOTALL)
_SETS = re.compile(r"[A-Za-z_]\w*:?=")
_ARRAY = re.compile(r"([A-Za-z_]\w*)\[[@*]\](?::?\+.*)?", re.DOTALL)


@dataclass(slots=True)
class Variable:
    """What is known of one variable.

    Args:
        value: None where it is not known.
        why: a sentence, where it is not.
        items: the words of an array; then ``value`` is not asked.
        maybe: the place of a condition under which it is something else.
        others: what it is under conditions: words and their places.
    """

    value: str | None = None
    why: str = ""
    items: list[Word] | None = None
    exported: bool = False
    where: str = ""
    maybe: str = ""
    others: list[Word] = field(default_factory=list)
    gone: bool = False
    """``unset``."""


@dataclass(slots=True)
class Scope:
    """Variables at one point of a script, and what was assumed to get there."""

    where: str
    outer: Mapping[str, str]
    variables: dict[str, Variable] = field(default_factory=dict)
    every: bool = False
    """``set -a``: whatever is set is exported."""
    assumed: dict[str, str] = field(default_factory=dict)
    """Variable -> the sentence about its default."""
    exports: dict[str, str] = field(default_factory=dict)
    """Names that are exported before they are set -> the place of a condition, if any."""
    maybe: str = ""
    """The condition that the command stands under which is followed now."""
    grown: int = 0

    def spend(self, characters: int, line: int) -> None:
        """Count what values grow to.

        Raises:
            UsageError: beyond ``MOST_GROWN``.
        """
        self.grown += characters
        if self.grown > MOST_GROWN:
            raise UsageError(
                f"its values grow beyond {MOST_GROWN // 1024**2} MiB",
                where=self.place(line),
                next_move="Give the vllm command after --",
            )

    def place(self, line: int) -> str:
        """``file:line``."""
        return f"{self.where}:{line}" if line else self.where


@dataclass(slots=True)
class _Field:
    scope: Scope
    line: int
    text: list[str] = field(default_factory=list)
    size: int = 0
    known: bool = True
    why: str = ""
    splits: bool = False
    maybe: str = ""
    started: bool = False

    def add(self, text: str) -> None:
        """More text."""
        self.scope.spend(len(text) + EACH, self.line)
        self.text.append(text)
        self.size += len(text)
        self.started = True
        if self.size > LONGEST:
            raise _too_long(self.scope.place(self.line))

    def unsure(self, part: Part, why: str) -> None:
        """A piece that is not known, as it is written."""
        self.add(f"${part.text}" if re.fullmatch(r"\w+", part.text) else _written(part))
        self.known, self.why = False, self.why or why
        self.splits = self.splits or not part.quoted or part.text in ("@", "*") or bool(_ARRAY.fullmatch(part.text))


def _too_long(where: str) -> UsageError:
    said = f"a word grows beyond {LONGEST:,} characters"
    return UsageError(said, where=where, next_move="Give the vllm command after --")


def sets_default(part: Part) -> bool:
    """``${NAME:=default}``."""
    return part.kind is PartKind.VARIABLE and _SETS.match(part.text) is not None


def words_of(token: Token, scope: Scope) -> list[Word]:
    """One token as the words it becomes: none, one, or several."""
    fields = [_Field(scope, token.line)]
    for part in token.parts:
        if part.kind is PartKind.LITERAL:
            fields[-1].add(part.text)
        elif part.kind is PartKind.OUTPUT:
            fields[-1].unsure(part, f"{_written(part)[:60]} is the output of a command ({scope.place(token.line)})")
        else:
            _variable(part, token, scope, fields)
        if len(fields) > MOST_WORDS:
            said = f"more than {MOST_WORDS:,} words"
            raise UsageError(said, where=scope.place(token.line), next_move="Give the vllm command after --")
    where = scope.place(token.line)
    return [
        Word("".join(f.text), where, f.known, f.why, f.splits and not f.known, f.maybe) for f in fields if f.started
    ]


def text_of(token: Token, scope: Scope, parts: tuple[Part, ...] | None = None) -> Word:
    """One token as one word: what stands right of ``=``, where nothing is split."""
    quoted = tuple(Part(part.kind, part.text, quoted=True) for part in (token.parts if parts is None else parts))
    words = words_of(Token(token.line, quoted), scope)
    if len(words) == 1:
        return words[0]
    where = scope.place(token.line)
    unknown = next((word for word in words if not word.known), None)
    joined = " ".join(word.text for word in words)
    return Word(joined, where, unknown is None, unknown.why if unknown else "", maybe=_any_maybe(words))


def _any_maybe(words: list[Word]) -> str:
    return next((word.maybe for word in words if word.maybe), "")


def _variable(part: Part, token: Token, scope: Scope, fields: list[_Field]) -> None:
    array = _ARRAY.fullmatch(part.text)
    if array:
        held = scope.variables.get(array.group(1))
        if held is not None and held.items is not None:
            _items(held, fields, quoted=part.quoted, one="[*]" in part.text and part.quoted)
            return
    found = lookup(part, token.line, scope, 0)
    if not found.known:
        fields[-1].unsure(part, found.why)
    elif part.quoted:
        fields[-1].add(found.text)
    elif "IFS" in scope.variables and not found.text.isalnum():
        fields[-1].unsure(part, f"IFS is set, and {_written(part)[:60]} is split by it ({scope.place(token.line)})")
    elif not found.text and found.maybe:
        fields[-1].unsure(part, f"{_written(part)[:60]} is empty but for a condition ({found.maybe})")
    else:
        _split(found.text, fields)
    fields[-1].maybe = fields[-1].maybe or found.maybe


def _items(held: Variable, fields: list[_Field], *, quoted: bool, one: bool) -> None:
    """``"${A[@]}"``: every item a word of its own, none where the array is empty; unquoted items split again.

    Args:
        one: ``"${A[*]}"``, which is one word.
    """
    if one:
        fields[-1].started = True
    for number, item in enumerate(held.items or []):
        if number and one:
            fields[-1].add(" ")
        elif number:
            fields.append(_Field(fields[0].scope, fields[0].line))
        if not quoted and item.known:
            _split(item.text, fields)
            fields[-1].maybe = fields[-1].maybe or item.maybe or held.maybe
            continue
        last = fields[-1]
        last.add(item.text)
        last.known, last.why = last.known and item.known, last.why or item.why
        last.splits, last.maybe = last.splits or item.splits, last.maybe or item.maybe or held.maybe


def _split(text: str, fields: list[_Field]) -> None:
    pieces = text.split()
    if text[:1].isspace() and fields[-1].started:
        fields.append(_Field(fields[0].scope, fields[0].line))
    for number, piece in enumerate(pieces):
        if number:
            fields.append(_Field(fields[0].scope, fields[0].line))
        fields[-1].add(piece)
    if pieces and text[-1].isspace():
        fields.append(_Field(fields[0].scope, fields[0].line))


def lookup(part: Part, line: int, scope: Scope, depth: int) -> Word:
    """``$NAME``, ``${NAME:-default}`` and its kin; other forms are not known."""
    where = scope.place(line)
    form = _FORM.fullmatch(part.text)
    if form is None or depth > DEEPEST:
        return Word(part.text, where, known=False, why=f"{_written(part)[:60]} is not worked out ({where})")
    name, operator, rest = form.groups()
    held = scope.variables.get(name)
    if held is not None and held.items is not None:
        held = _first_item(held)
    if held is None and name in scope.outer:
        held = Variable(scope.outer[name])
    if operator is None:
        return _plain(name, held, where)
    return _with_operator(part, (name, operator, rest), held, line, scope, depth)


def _first_item(held: Variable) -> Variable:
    first = held.items[0] if held.items else Word("", held.where)
    return Variable(first.text if first.known else None, first.why, maybe=held.maybe)


def _plain(name: str, held: Variable | None, where: str) -> Word:
    if held is None:
        said = f"${name} is not set in it" if not name.isdecimal() else f"${name} is an argument of the script"
        return Word(name, where, known=False, why=f"{said} ({where})")
    if held.value is None:
        return Word(name, where, known=False, why=held.why)
    return Word(held.value, where, maybe=held.maybe)


def _with_operator(
    part: Part, form: tuple[str, str, str], held: Variable | None, line: int, scope: Scope, depth: int
) -> Word:
    name, operator, rest = form
    where = scope.place(line)
    if held is not None and held.value is None:
        return Word(part.text, where, known=False, why=held.why)
    filled = held is not None and not held.gone and (held.value != "" or ":" not in operator)
    if filled and held is not None and held.value is not None:
        return _default(rest, line, scope, depth) if operator[-1] == "+" else Word(held.value, where, maybe=held.maybe)
    if operator[-1] == "?":
        return Word(part.text, where, known=False, why=f"${name} has to be set outside ({where})")
    if held is None:
        said = "nothing is" if operator[-1] == "+" else f"its default {rest[:80]!r} is"
        scope.assumed[name] = f"{name} is not set in it: {said} taken ({where})"
    if operator[-1] == "+":
        return Word("", where)
    value = _default(rest, line, scope, depth)
    if operator[-1] == "=":
        _set_default(name, held, value, scope)
    return value


def _set_default(name: str, held: Variable | None, value: Word, scope: Scope) -> None:
    goes_out = scope.every or name in scope.exports or bool(held and held.exported)
    if not scope.maybe:
        known = value.text if value.known else None
        scope.variables[name] = Variable(known, value.why, exported=goes_out, where=value.where, maybe=value.maybe)
        return
    why = "" if held else f"${name} is set only under a condition ({scope.maybe})"
    kept = scope.variables.setdefault(name, Variable("" if held else None, why, exported=goes_out, where=value.where))
    kept.maybe = kept.maybe or scope.maybe
    kept.others.append(value)


def _default(rest: str, line: int, scope: Scope, depth: int) -> Word:
    """The word behind ``:-``; outer quotes of it go."""
    where = scope.place(line)
    scope.spend(4 * len(rest), line)  # its pieces are made anew each time
    bare = rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "\"'" else rest
    if rest[:1] == "'" and bare != rest:
        return Word(bare, where)
    out: list[str] = []
    for part in lex_quoted(bare, scope.where, line):
        if part.kind is PartKind.LITERAL:
            out.append(part.text)
            continue
        if part.kind is PartKind.OUTPUT:
            return Word(rest, where, known=False, why=f"{_written(part)[:60]} is the output of a command ({where})")
        inner = lookup(part, line, scope, depth + 1)
        if not inner.known:
            return inner
        out.append(inner.text)
        if sum(map(len, out[-2:])) > LONGEST or len(out) > MOST_WORDS:
            raise _too_long(where)
        out[:] = ["".join(out)]
    return Word("".join(out), where)


def _written(part: Part) -> str:
    return part.text if part.kind is not PartKind.VARIABLE else f"${{{part.text}}}"
