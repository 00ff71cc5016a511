"""Tokens -> commands, each with the conditions it stands under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from m3probe.errors import UsageError
from m3probe.recipe.tokens import Token

Path = tuple[tuple[int, int], ...]
"""(block, branch) of every if, case, loop, function and ``&&`` or ``||`` around a command, outermost first."""

DEEPEST = 64  # every command carries its path, so depth times commands has to stay small
_SURE = frozenset(
    {
        "export", "declare", "typeset", "readonly", "local", "set", "echo", "printf", "true", ":", "unset", "cd", "pushd",
        "source", ".", "sleep", "mkdir", "ulimit",
    }
)  # fmt: skip
"""Commands that do not fail where a script is right: what stands behind their ``&&`` is no condition."""
_ENDS = {"fi": "if", "done": "loop", "esac": "case", "}": "group"}
_NEXT = frozenset({"then", "elif", "else", "do"})
_SKIPPED = frozenset({"!", "time", "coproc"})


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words, redirections left out.

    Args:
        loop: ``for NAME in ...``: the words of a loop's head, of which the first is its variable.
        blocks: blocks that begin before it.
        within: numbers of the processes of their own around it, whose variables end with them: ``( )``, a command
            of a pipeline, what runs in the background.
    """

    words: tuple[Token, ...]
    path: Path
    line: int
    loop: bool = False
    blocks: int = 0
    within: tuple[int, ...] = ()


@dataclass(slots=True)
class Script:
    """A script's commands in the order of the text, and which block is which function's body."""

    commands: list[Command] = field(default_factory=list)
    functions: dict[str, list[int]] = field(default_factory=dict)
    """Name -> the block of each definition."""
    loops: set[int] = field(default_factory=set)
    unclosed: list[int] = field(default_factory=list)
    """Lines of blocks that never end."""


@dataclass(slots=True)
class _Block:
    kind: str
    number: int
    line: int
    branch: int = 0
    conditional: bool = False
    pattern: bool = False
    head: bool = False
    loop_variable: bool = False
    chain: int | None = None
    """The ``&&`` or ``||`` that the whole block stands behind."""
    listed: int = 0
    """The list of ``&&``, ``||`` and ``|`` that the whole block stands in."""
    piped: int = 0
    """The command of a pipeline that the whole block is a part of."""


def script_of(tokens: Sequence[Token], where: str = "script") -> Script:
    """Commands of a script; a word that closes nothing is passed over.

    Raises:
        UsageError: blocks stand more than ``DEEPEST`` inside each other.
    """
    builder = _Builder(where)
    for token in tokens:
        builder.feed(token)
    builder.end("\n")
    script = builder.script
    script.unclosed = [block.line for block in builder.stack]
    own = builder.subshells
    script.commands = [replace(c, within=tuple(n for n in c.within if n in own)) for c in script.commands]
    return script


class _Builder:
    def __init__(self, where: str) -> None:
        self.where = where
        self.script = Script()
        self.stack: list[_Block] = []
        self.words: list[Token] = []
        self.blocks = 0
        self.chain: int | None = None
        self.listed = 0
        self.piped = 0
        self.piping = False
        self.subshells: set[int] = set()
        self.last = ""
        self.redirected = False
        self.function = ""
        self.naming = False
        self.brackets = 0
        """Of a function's head: 2 where ``()`` may come, 1 where its ``)`` has to."""

    def feed(self, token: Token) -> None:
        if self.in_test():
            # [[ a =~ (b|c) && d < e ]]: its operators are words
            if not token.op:
                self.words.append(token)
        elif token.op:
            self.operator(token)
        elif self.redirected:
            self.redirected = False
        elif self.in_pattern():
            if token.bare == "esac":
                self.close("case")
        elif self.naming:
            self.naming, self.function, self.brackets = False, token.literal, 2
        elif self.words or token.items is not None or not self.reserved(token):
            self.word(token)

    def in_test(self) -> bool:
        return bool(self.words) and self.words[0].bare == "[[" and self.words[-1].bare != "]]"

    def in_pattern(self) -> bool:
        return bool(self.stack) and self.stack[-1].pattern

    def word(self, token: Token) -> None:
        """A word of the command; ``in`` ends the head of a case."""
        top = self.stack[-1] if self.stack else None
        if top and top.kind == "case" and top.head and self.words and token.bare == "in":
            top.head, top.pattern, top.conditional = False, True, True
            self.words.clear()
            return
        self.function = ""
        self.words.append(token)

    def operator(self, token: Token) -> None:
        op = token.op
        if self.in_pattern():
            if op == ")":
                self.stack[-1].pattern = False
        elif op in (";;", ";&", ";;&"):
            self.end("\n")
            self.next_pattern()
        elif op == "(":
            self.opened(token)
        elif op == ")":
            if self.brackets == 1:
                self.brackets = 0
                return
            self.end("\n")
            self.close("subshell")
        elif op[0] in "<>" or op in ("&>", "&>>"):
            self.redirect(token)
        elif not (op == "\n" and self.function and not self.words):
            self.end(op)

    def redirect(self, token: Token) -> None:
        """The target is no word of the command; a heredoc's delimiter was taken by the lexer."""
        self.redirected = token.op not in ("<<", "<<-")

    def opened(self, token: Token) -> None:
        if len(self.words) == 1 and self.words[0].bare:
            self.function, self.brackets = self.words[0].bare, 1
            self.words.clear()
        elif self.function and self.brackets == 2:
            self.brackets = 1
        elif not self.words:
            self.push("subshell", token.line)

    def next_pattern(self) -> None:
        for block in reversed(self.stack):
            if block.kind == "case":
                del self.stack[self.stack.index(block) + 1 :]
                block.branch += 1
                block.pattern = True
                self.listed, self.piped, self.piping = 0, 0, False
                return

    def reserved(self, token: Token) -> bool:
        """Take a reserved word; False when the token is none."""
        name = token.bare
        if name in ("if", "while", "until", "for", "select", "case"):
            kind = name if name in ("if", "case") else "loop"
            block = self.push(kind, token.line)
            block.head = name == "case"
            block.loop_variable = name in ("for", "select")
        elif name == "{":
            self.push("group", token.line)
        elif name == "function":
            self.naming = True
        elif name in _NEXT:
            self.branch(name)
        elif name in _ENDS:
            self.close(_ENDS[name])
        else:
            return name in _SKIPPED
        return True

    def push(self, kind: str, line: int) -> _Block:
        if len(self.stack) >= DEEPEST:
            raise UsageError(
                f"blocks stand more than {DEEPEST} deep",
                where=f"{self.where}:{line}",
                next_move="Give the vllm command after --",
            )
        listed, piped = self.member()
        self.blocks += 1
        block = _Block(kind, self.blocks, line, chain=self.chain, listed=listed, piped=piped)
        self.chain, self.listed, self.piped, self.piping = None, 0, 0, False
        if kind == "subshell":
            self.subshells.add(block.number)
        if kind == "loop":
            self.script.loops.add(block.number)
        if self.function and kind in ("group", "subshell"):
            self.script.functions.setdefault(self.function, []).append(block.number)
            block.conditional = True
        self.function = ""
        self.stack.append(block)
        return block

    def member(self) -> tuple[int, int]:
        """Numbers of the list and of the pipeline's command that begin here, or go on."""
        if not self.listed:
            self.blocks += 1
            self.listed = self.blocks
        if not self.piped:
            self.blocks += 1
            self.piped = self.blocks
            if self.piping:
                self.subshells.add(self.piped)
        return self.listed, self.piped

    def within(self) -> tuple[int, ...]:
        around = [number for block in self.stack for number in (block.listed, block.piped, block.number)]
        return (*around, self.listed, self.piped)

    def branch(self, word: str) -> None:
        kind = "loop" if word == "do" else "if"
        for block in reversed(self.stack):
            if block.kind == kind:
                block.branch += 1 if word in ("elif", "else") else 0
                block.conditional = True
                return

    def close(self, kind: str) -> None:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at].kind == kind:
                block = self.stack[at]
                self.chain, self.listed, self.piped = block.chain, block.listed, block.piped
                del self.stack[at:]
                return

    def path(self) -> Path:
        around: list[tuple[int, int]] = []
        for block in self.stack:
            around += [(block.chain, 0)] if block.chain is not None else []
            around += [(block.number, block.branch)] if block.conditional else []
        return (*around, *([] if self.chain is None else [(self.chain, 0)]))

    def end(self, op: str) -> None:
        """Close the command; ``op`` says what the next one depends on."""
        words, self.words = self.words, []
        before, self.last = self.last, op
        if op == "\n" and not words and before in ("&&", "||", "|", "|&"):
            self.last = before  # the command goes on in the next line
            return
        top = self.stack[-1] if self.stack else None
        if words:
            loop = bool(top and top.loop_variable and not top.conditional)
            before_it = self.blocks
            self.member()
            self.script.commands.append(
                Command(tuple(words), self.path(), words[0].line, loop, before_it, self.within())
            )
        self.part_ends(op)
        if op == "&&" and words and _surely(words):
            return
        if op in ("&&", "||"):
            if self.chain is None or op == "||":
                self.blocks += 1
                self.chain = self.blocks
        elif op not in ("|", "|&"):
            self.chain = None

    def part_ends(self, op: str) -> None:
        """What ends here: a pipeline's command, the pipeline, or the list; some run in processes of their own."""
        if op in ("|", "|&"):
            self.subshells.add(self.piped)
        if op == "&":
            self.subshells.add(self.listed)
        self.piped, self.piping = 0, op in ("|", "|&")
        if op not in ("|", "|&", "&&", "||"):
            self.listed = 0


def _surely(words: Sequence[Token]) -> bool:
    head = words[0]
    return head.bare in _SURE or all(word.items is not None or "=" in word.literal for word in words)
