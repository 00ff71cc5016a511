"""Shell text -> words and operators with their lines. Nothing is expanded here, and nothing is run.

``shlex`` takes quotes away and with them the difference between ``"$A"``, ``$A`` and ``'$A'``, so it cannot serve
where variables are replaced; it knows no heredocs, arrays or ``${}`` either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from m3probe.errors import UsageError
from m3probe.recipe.tokens import Part, PartKind, Token

MOST_TOKENS = 100_000  # about two seconds with all that follows; 4 MiB of "a;" took 40
MOST_PIECES = 200_000  # "$a$a$a" is one word of many pieces, each an object

OPERATORS = (
    "<<<", "<<-", ";;&", "&>>", "&&", "||", ";;", ";&", "|&", "<<", ">>", "<&", ">&", "&>", "<>", ">|",
    "\n", ";", "&", "|", "(", ")", "<", ">",
)  # fmt: skip
_STARTS = frozenset("\n;&|()<>")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=")
_OPERATOR = re.compile("|".join(re.escape(op) for op in OPERATORS))
_BLANK = re.compile(r"(?:[ \t]++|\\\n)*+")
_EMPTY_LINES = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\n)*+")
_ANSI = re.compile(r"\$'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_BACKTICKS = re.compile(r"`(?:[^`\\]++|\\.)*+`", re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NEXT_BRACKET = {"(": re.compile(r"""[^()\\'"]++"""), "{": re.compile(r'[^{}\\"]++')}
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@#?$!*-]")
_REDIRECTED = re.compile(r"[0-9]+(?=[<>])")
_PLAIN = re.compile(r"""[^\s"'\\$`;&|()<>]+""")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "e": "\x1b"}


def lex(text: str, where: str, first_line: int = 1) -> list[Token]:
    """Tokens of a script.

    Raises:
        UsageError: a quote, brace or bracket that never ends.
    """
    return _Lexer(text, where, first_line).tokens()


def lex_quoted(text: str, where: str, line: int) -> tuple[Part, ...]:
    """Parts of text that stands in double quotes (the default of ``"${A:-...}"``)."""
    lexer = _Lexer(text, where, line)
    return tuple(lexer.in_quotes(until=""))


class _Lexer:
    def __init__(self, text: str, where: str, first_line: int) -> None:
        self.text = text
        self.where = where
        self.at = 0
        self.line = first_line
        self.pieces = 0
        self.heredocs: list[tuple[str, bool]] = []
        self.out: list[Token] = []

    def tokens(self) -> list[Token]:
        while (token := self.next()) is not None:
            self.out.append(token)
            if len(self.out) > MOST_TOKENS:
                raise self.too_much(MOST_TOKENS, "words and operators")
        return self.out

    def fail(self, what: str, line: int) -> UsageError:
        return UsageError(f"{what} that begins here never ends", where=f"{self.where}:{line}", next_move="Close it")

    def too_much(self, most: int, what: str) -> UsageError:
        where = f"{self.where}:{self.line}"
        return UsageError(f"more than {most:,} {what}", where=where, next_move="Give the vllm command after --")

    def next(self) -> Token | None:
        self.skip_blank()
        if self.at >= len(self.text):
            return None
        if self.text.startswith("((", self.at):
            return self.arithmetic()
        if self.text.startswith(("<(", ">("), self.at):
            return self.word()
        if self.text[self.at] in _STARTS:
            return self.operator()
        number = _REDIRECTED.match(self.text, self.at)
        if number:
            # 2>file: the descriptor is no word; in --port 8000 > log, with a blank, it is one
            self.at = number.end()
            return self.operator()
        return self.word()

    def skip_blank(self) -> None:
        """Past blanks, continued lines and a comment."""
        found = _BLANK.match(self.text, self.at)
        if found and found.end() > self.at:
            self.line += self.text.count("\n", self.at, found.end())
            self.at = found.end()
        if self.text.startswith("#", self.at):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def arithmetic(self) -> Token:
        line = self.line
        return Token(line, (Part(PartKind.OUTPUT, self.balanced("(", ")", line)),))

    def operator(self) -> Token:
        found = _OPERATOR.match(self.text, self.at)
        assert found is not None  # every character of _STARTS is an operator itself
        op = found.group()
        token = Token(self.line, op=op)
        self.at += len(op)
        if op == "\n":
            self.line += 1
            self.skip_heredocs()
            self.skip_empty_lines()
        elif op in ("<<", "<<-"):
            self.skip_blank()
            self.heredocs.append((self.word().literal, op == "<<-"))
        return token

    def skip_empty_lines(self) -> None:
        found = _EMPTY_LINES.match(self.text, self.at)
        if found:
            self.line += self.text.count("\n", self.at, found.end())
            self.at = found.end()

    def skip_heredocs(self) -> None:
        for delimiter, tabs in self.heredocs:
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                content = self.text[self.at : end]
                self.at, self.line = end + 1, self.line + 1
                if (content.lstrip("\t") if tabs else content) == delimiter:
                    break
        self.heredocs.clear()

    def word(self, *, inside: bool = False) -> Token:
        """One word; ``inside`` an array there is no other array (bash: syntax error)."""
        line = self.line
        parts: list[Part] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if (
                char == "("
                and len(parts) == 1
                and parts[0].kind is PartKind.LITERAL
                and _ARRAY.fullmatch(parts[0].text)
            ):
                if inside:
                    where = f"{self.where}:{line}"
                    raise UsageError("an array stands inside an array", where=where, next_move="Write one array")
                return self.array(parts[0], line)
            if char in " \t\n" or (char in _STARTS and not (not parts and self.text.startswith(("<(", ">("), self.at))):
                break
            parts += self.piece(char)
        return Token(line, _joined(parts))

    def piece(self, char: str) -> list[Part]:
        """One piece of an unquoted word; always moves on."""
        self.count()
        if char == "'":
            return [self.single()]
        if char == '"':
            self.at += 1
            return self.in_quotes(until='"') or [Part(PartKind.LITERAL, "", quoted=True)]
        if char == "\\":
            return self.escaped()
        if char in "$`":
            return self.dollar(quoted=False)
        if char in "<>":
            self.at += 1
            return [Part(PartKind.OUTPUT, self.balanced("(", ")", self.line))]
        found = _PLAIN.match(self.text, self.at)
        end = found.end() if found else self.at + 1
        start, self.at = self.at, end
        return [Part(PartKind.LITERAL, self.text[start:end])]

    def count(self) -> None:
        self.pieces += 1
        if self.pieces > MOST_PIECES:
            raise self.too_much(MOST_PIECES, "pieces of words")

    def single(self) -> Part:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self.fail("a ' quote", self.line)
        inner = self.text[self.at + 1 : end]
        self.at, self.line = end + 1, self.line + inner.count("\n")
        return Part(PartKind.LITERAL, inner, quoted=True)

    def escaped(self) -> list[Part]:
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if following == "\n":
            self.line += 1
            return []
        return [Part(PartKind.LITERAL, following, quoted=True)]

    def in_quotes(self, until: str) -> list[Part]:
        """Pieces up to the closing quote, or to the end of the text where ``until`` is empty."""
        line = self.line
        parts: list[Part] = []
        while self.at < len(self.text):
            self.count()
            char = self.text[self.at]
            if char == until:
                self.at += 1
                return parts or [Part(PartKind.LITERAL, "", quoted=True)]
            if char == "\\":
                parts += self.escaped_in_quotes()
            elif char in "$`":
                parts += self.dollar(quoted=True)
            else:
                found = _IN_QUOTES.match(self.text, self.at)
                end = found.end() if found else self.at + 1
                piece, self.at = self.text[self.at : end], end
                self.line += piece.count("\n")
                parts.append(Part(PartKind.LITERAL, piece, quoted=True))
        if until:
            raise self.fail('a " quote', line)
        return parts

    def escaped_in_quotes(self) -> list[Part]:
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if following == "\n":
            self.line += 1
            return []
        kept = following if following and following in '$`"\\' else "\\" + following
        return [Part(PartKind.LITERAL, kept, quoted=True)]

    def dollar(self, *, quoted: bool) -> list[Part]:
        text, line = self.text, self.line
        if text[self.at] == "`":
            return [Part(PartKind.OUTPUT, self.backticks(), quoted)]
        if not quoted and text.startswith(("$'", '$"'), self.at):
            return self.dollar_quotes()
        if text.startswith("$(", self.at):
            self.at += 1
            return [Part(PartKind.OUTPUT, "$" + self.balanced("(", ")", line), quoted)]
        if text.startswith("${", self.at):
            self.at += 1
            return [Part(PartKind.VARIABLE, self.balanced("{", "}", line)[1:-1], quoted)]
        found = _NAME.match(text, self.at + 1)
        if found is None:
            self.at += 1
            return [Part(PartKind.LITERAL, "$", quoted)]
        self.at = found.end()
        return [Part(PartKind.VARIABLE, found.group(), quoted)]

    def dollar_quotes(self) -> list[Part]:
        """A dollar and single quotes have C's escapes; ``$"a"`` is a translated string."""
        if self.text.startswith("$'", self.at):
            return [self.ansi()]
        self.at += 2
        return self.in_quotes(until='"')

    def ansi(self) -> Part:
        found = _ANSI.match(self.text, self.at)
        if found is None:
            raise self.fail("a $' quote", self.line)
        self.at = found.end()
        self.line += found.group().count("\n")
        value = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), "\\" + m.group(1)), found.group(1), flags=re.DOTALL)
        return Part(PartKind.LITERAL, value, quoted=True)

    def backticks(self) -> str:
        found = _BACKTICKS.match(self.text, self.at)
        if found is None:
            raise self.fail("a ` quote", self.line)
        self.at = found.end()
        self.line += found.group().count("\n")
        return found.group()

    def balanced(self, opens: str, closes: str, line: int) -> str:
        """Text from this bracket to the one that closes it; quotes inside hide brackets."""
        start, depth = self.at, 0
        while self.at < len(self.text):
            plain = _NEXT_BRACKET[opens].match(self.text, self.at)
            if plain:
                self.at = plain.end()
                continue
            char = self.text[self.at]
            if char == "\\":
                self.at += 1
            elif char == "'" and opens == "(":
                end = self.text.find("'", self.at + 1)
                self.at = len(self.text) if end < 0 else end
            elif char == '"':
                self.skip_quotes()
            elif char == opens:
                depth += 1
            elif char == closes:
                depth -= 1
            self.at += 1
            if depth == 0:
                break
        if depth or self.at > len(self.text):
            raise self.fail(f"a {opens}", line)
        inner = self.text[start : self.at]
        self.line += inner.count("\n")
        return inner

    def skip_quotes(self) -> None:
        """To the double quote that ends the one here."""
        found = _QUOTED.match(self.text, self.at)
        self.at = found.end() - 1 if found else len(self.text)

    def array(self, name: Part, line: int) -> Token:
        """``NAME=( words )`` over any number of lines."""
        self.at += 1
        items: list[Token] = []
        while True:
            self.skip_blank()
            if self.at >= len(self.text):
                raise self.fail("an array", line)
            char = self.text[self.at]
            if char == ")":
                self.at += 1
                return Token(line, (name,), items=tuple(items))
            if char == "\n":
                self.at, self.line = self.at + 1, self.line + 1
            elif char in _STARTS:
                self.at += 1
            else:
                items.append(self.word(inside=True))
                if len(items) > MOST_TOKENS:
                    raise self.too_much(MOST_TOKENS, "words in an array")


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbouring literals of the same quoting as one."""
    done: list[Part] = []
    for (kind, quoted), run in groupby(parts, key=lambda part: (part.kind, part.quoted)):
        if kind is PartKind.LITERAL:
            done.append(Part(kind, "".join(part.text for part in run), quoted))
        else:
            done += run
    return tuple(done)
