"""What a script says at one command: its words, its environment, and what conditions would change of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from m3probe.errors import UsageError
from m3probe.recipe.asked import Given, Word, cut, sentences
from m3probe.recipe.assign import is_assignment
from m3probe.recipe.blocks import Command, Script, script_of
from m3probe.recipe.command import ASSIGNED
from m3probe.recipe.expand import MOST_WORDS, Scope, Variable, text_of, words_of
from m3probe.recipe.flags import Flags
from m3probe.recipe.lexer import lex
from m3probe.recipe.tokens import PartKind


def words_at(command: Command, scope: Scope) -> list[Word]:
    """The command's words with variables put in; a command in one variable is split."""
    scope.maybe = ""
    done: list[Word] = []
    leading = True
    for token in command.words:
        if is_assignment(token) and token.items is None and leading:
            done.append(text_of(token, scope))
        elif token.items is None:
            done += words_of(token, scope)
            leading = False
        if len(done) > MOST_WORDS:
            said = f"more than {MOST_WORDS:,} words"
            raise UsageError(said, where=scope.place(command.line), next_move="Give the vllm command after --")
    return done


def evaluated(words: Sequence[Word], scope: Scope, line: int) -> Script | None:
    """What ``eval`` would run; None for another command. What is not known in it stays so.

    Raises:
        UsageError: a quote in it never ends, or it is too long.
    """
    if not words or words[0].text != "eval":
        return None
    text = " ".join(word.text for word in words[1:])
    scope.spend(len(text), line)
    return script_of(lex(text, scope.where, line), scope.where)


def environment_at(words: Sequence[Word], scope: Scope, start: Given) -> Given:
    """What is exported when the command runs."""
    env, origins = dict(start.env), dict(start.origins)
    set_here = {name for name, held in scope.variables.items() if held.value is not None and not held.maybe}
    unsure, untold = [name for name in start.uncertain if name not in set_here], list(start.untold)
    prefixed = {word.text.partition("=")[0] for word in words if ASSIGNED.match(word.text)}
    for name, held in scope.variables.items():
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
    return Given(env=env, origins=origins, untold=sentences(untold), uncertain=tuple(dict.fromkeys(unsure)))


def _conditional(command: Command, scope: Scope) -> dict[str, Variable]:
    """Variables in the command's words that conditions change."""
    tokens = command.words
    parts = [part for token in tokens for part in token.parts if part.kind is PartKind.VARIABLE]
    names = sorted({name for part in parts for name in re.findall(r"[A-Za-z_]\w*", part.text)})
    held = {name: scope.variables[name] for name in names if name in scope.variables}
    return {name: variable for name, variable in held.items() if variable.others}


def conditional_flags(command: Command, scope: Scope, known: Flags) -> list[str]:
    """Flags that a condition would add."""
    words = [word.text for held in _conditional(command, scope).values() for word in held.others]
    pieces = [piece.partition("=")[0] for text in words for piece in text.split()[:MOST_WORDS]]
    flags = [piece.split(".")[0].replace("_", "-") for piece in pieces if piece.startswith("-")]
    return [(known.match(flag).of or (flag,))[0] for flag in dict.fromkeys(flags) if len(flag) > 1]


def told_of(command: Command, scope: Scope) -> list[str]:
    """What conditions would add to the command's words, and which defaults were assumed."""
    held = {name: held for name, held in _conditional(command, scope).items() if not held.exported}
    return [*(text for name in held for text in _sentences(name, held[name])), *scope.assumed.values()]


def _sentences(name: str, held: Variable) -> list[str]:
    name = cut(name)
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
