"""A shell script -> the server it would start: which command it is, and what stands before it.

Nothing is run and no condition decided; ``walk.py`` follows the variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from m3probe.errors import UsageError
from m3probe.recipe.asked import Given, cut, told
from m3probe.recipe.assign import is_assignment
from m3probe.recipe.blocks import Command, Script, script_of
from m3probe.recipe.command import from_words, names_server
from m3probe.recipe.effects import DECLARE
from m3probe.recipe.expand import Scope
from m3probe.recipe.flags import Flags
from m3probe.recipe.lexer import lex
from m3probe.recipe.outcome import conditional_flags, environment_at, evaluated, told_of, words_at
from m3probe.recipe.tokens import PartKind
from m3probe.recipe.walk import Walk
from m3probe.recipe.wording import Ground, numbered

MOST_TRIED = 200  # commands that begin with a variable; each may become thousands of words

MOST_SHOWN = 10
_SHOWN = 80


def script_given(text: str, known: Flags, where: str, ground: Ground, env: Given | None = None) -> Given:
    """The server of a script; ``read_script`` says what is raised."""
    start = env or Given()
    return _server_of(script_of(lex(text, where), where), known, Scope(where, start.env), ground, start)


def _server_of(script: Script, known: Flags, scope: Scope, ground: Ground, start: Given) -> Given:
    command = _chosen(_servers(script, scope, start), scope.where, ground.choice)
    walk = Walk(script, command, scope, start)
    walk.to_command()
    words = words_at(command, scope)
    inner = evaluated(words, scope, command.line)
    broken = [f"a block begins at {scope.place(line)} and never ends" for line in script.unclosed]
    also = [*told_of(command, scope), *walk.effects.unread, *broken]
    if inner is not None:
        return told(_server_of(inner, known, scope, ground.deeper(), start), *also)
    given = from_words(words, known, ground, environment_at(words, scope, start))
    unsure = (*given.uncertain, *conditional_flags(command, scope, known))
    return told(replace(given, uncertain=tuple(dict.fromkeys(unsure))), *also)


def looks_like_script(text: str, where: str) -> bool:
    """Whether commands of this text, read as a script, start a server; keys and items of YAML are no commands."""
    try:
        commands = script_of(lex(text, where), where).commands
    except UsageError:
        return False
    for command in commands:
        words = [word.literal for word in command.words]
        if names_server(words) and not words[0].endswith(":") and words[0] != "-":
            return True
    return False


def _servers(script: Script, scope: Scope, start: Given) -> list[Command]:
    """Commands that start a server; where none is written out, those that variables turn into one."""
    found = [command for command in script.commands if names_server([word.literal for word in command.words])]
    return found or list(_by_variables(script, scope, start))


def _by_variables(script: Script, scope: Scope, start: Given) -> Iterator[Command]:
    """``CMD=(vllm serve M)`` and ``"${CMD[@]}"``, ``$CMD``, or ``eval "$CMD"``."""
    walk = Walk(script, None, replace(scope, variables=dict(scope.variables), assumed={}, exports={}), start)
    tried = 0
    for command in script.commands:
        head = command.words[0]
        variable = any(part.kind is PartKind.VARIABLE for word in command.words[:2] for part in word.parts)
        if head.items is None and (variable or head.name == "eval") and not is_assignment(head):
            tried += head.bare not in DECLARE
            if head.bare not in DECLARE and tried <= MOST_TRIED and _becomes_server(command, walk.scope):
                yield command
        walk.effects.follow(command, "")


def _becomes_server(command: Command, scope: Scope) -> bool:
    words = words_at(command, scope)
    if names_server([word.text for word in words]):
        return True
    try:
        inner = evaluated(words, scope, command.line)
    except UsageError:
        return False
    return inner is not None and any(names_server([w.literal for w in c.words]) for c in inner.commands)


def _chosen(found: list[Command], where: str, choice: str | None) -> Command:
    if not found:
        raise UsageError("no vllm serve command in it", where=where, next_move="Give vllm serve MODEL ... after --")
    number = None if choice is None else numbered(choice, len(found))
    if number is not None:
        return found[number]
    if len(found) == 1 and choice is None:
        return found[0]
    shown = "; ".join(f"{n}: line {c.line}, {_short(c)}" for n, c in enumerate(found[:MOST_SHOWN], start=1))
    shown += f"; and {len(found) - MOST_SHOWN:,} more" if len(found) > MOST_SHOWN else ""
    raise UsageError(
        f"{len(found):,} vllm commands: {shown}"
        if choice is None
        else f"no command {cut(choice)!r}; there are {shown}",
        where=where,
        next_move="Choose one by its number with --service",
    )


def _short(command: Command) -> str:
    """The command's first words; one word alone may be thousands of characters."""
    return cut(" ".join(word.written[:_SHOWN] for word in command.words[:20] if word.items is None), _SHOWN)
