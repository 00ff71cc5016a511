"""A shell script -> the server it would start: which command it is, and what stands before it.

Nothing is run and no condition decided; ``walk.py`` follows the variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from m3probe.errors import UsageError
from m3probe.recipe.asked import Given, told
from m3probe.recipe.blocks import Command, Script, script_of
from m3probe.recipe.command import from_words, names_server
from m3probe.recipe.expand import Scope
from m3probe.recipe.flags import Flags
from m3probe.recipe.lexer import PartKind, lex
from m3probe.recipe.walk import DECLARE, Walk, is_assignment
from m3probe.recipe.wording import Ground

MOST_TRIED = 200  # commands that begin with a variable; each may become thousands of words

_SHOWN = 120


def script_given(text: str, known: Flags, where: str, ground: Ground, env: Given | None = None) -> Given:
    """The server of a script; ``read_script`` says what is raised."""
    start = env or Given()
    script = script_of(lex(text, where))
    command = _chosen(_servers(script, where, start), where, ground.choice)
    walk = Walk(script, command, Scope(where, start.env), start)
    walk.to_command()
    words = walk.words(command)
    given = from_words(words, known, ground, walk.environment(words))
    broken = [f"a block begins at {where}:{line} and never ends" for line in script.unclosed]
    unsure = (*given.uncertain, *walk.conditional_flags(known))
    given = replace(given, uncertain=tuple(dict.fromkeys(unsure)))
    return told(given, *walk.told_of(), *broken)


def _servers(script: Script, where: str, start: Given) -> list[Command]:
    """Commands that start a server; where none is written out, those that variables turn into one."""
    found = [command for command in script.commands if names_server([word.literal for word in command.words])]
    return found or list(_by_variables(script, where, start))


def _by_variables(script: Script, where: str, start: Given) -> Iterator[Command]:
    """``CMD=(vllm serve M)`` and ``"${CMD[@]}"``, ``$CMD``, or ``eval "$CMD"``."""
    walk = Walk(script, None, Scope(where, start.env), start)
    tried = 0
    for command in script.commands:
        head = command.words[0]
        variable = any(part.kind is PartKind.VARIABLE for word in command.words[:2] for part in word.parts)
        if head.items is None and variable and not is_assignment(head) and head.bare not in DECLARE:
            tried += 1
            if tried <= MOST_TRIED and names_server([word.text for word in walk.words(command)]):
                yield command
        walk.follow(command, "")


def _chosen(found: list[Command], where: str, choice: str | None) -> Command:
    if not found:
        raise UsageError("no vllm serve command in it", where=where)
    if choice is not None and choice.isdecimal() and 0 < int(choice[:9]) <= len(found):
        return found[int(choice[:9]) - 1]
    if len(found) == 1 and choice is None:
        return found[0]
    shown = "; ".join(f"{n}: line {c.line}, {_short(c)}" for n, c in enumerate(found[:20], start=1))
    raise UsageError(
        f"{len(found)} vllm commands: {shown}" if choice is None else f"no command {choice[:40]!r}; there are {shown}",
        where=where,
        next_move="Choose one by its number with --service",
    )


def _short(command: Command) -> str:
    whole = " ".join(word.written for word in command.words if word.items is None)
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}..."
