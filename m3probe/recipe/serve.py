"""The words after ``vllm serve`` -> flags, as vLLM's FlexibleArgumentParser takes them.

Read in ``vllm/utils/argparse_utils.py`` of 0.24.0, 0.25.1, 0.32.0 and 0.33.0; what it does in this order: ``--model``
moves to the front, ``--config FILE`` is pulled in behind the model, ``-O3`` becomes ``--optimization-level 3``,
underscores of names become dashes, dotted keys are gathered and appended as JSON, and argparse reads the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from m3probe.errors import UsageError
from m3probe.recipe._flag_tables import APPENDS
from m3probe.recipe._serve_words import NAMED, config_pulled, model_first, normal, parts_of_dotted
from m3probe.recipe.asked import IS_OPEN, MAY_ADD, Given, Word, cut, sentences
from m3probe.recipe.flags import Flags, Kind
from m3probe.recipe.values import dotted_value, nested, typed, update
from m3probe.recipe.wording import MOST_NAMED, Ground, listed

MOST_SUGGESTED = 10  # names that get a nearest one, at some milliseconds each
_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")


@dataclass(slots=True)
class _Read:
    """What was read so far."""

    flags: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    untold: list[str] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    """Flags that the list does not hold, and their places."""
    uncertain: dict[str, None] = field(default_factory=dict)
    keys_open: dict[str, None] = field(default_factory=dict)
    """Flags of which a dotted key is uncertain, whatever the whole flag says."""
    notes: list[str] = field(default_factory=list)
    models: list[Word] = field(default_factory=list)
    loose: list[Word] = field(default_factory=list)
    """Words that are not known where a model, or anything else, may stand."""
    dotted: dict[str, tuple[dict[str, Any], Word]] = field(default_factory=dict)


def read_serve(words: Sequence[Word], known: Flags, ground: Ground, *, module: bool = False) -> Given:
    """One command's words after ``vllm serve``.

    Args:
        module: started as ``python -m vllm.entrypoints.openai.api_server``, which takes no ``serve`` and ignores a
            positional model (entrypoints/launchers/api_server/entry.py sets nothing from ``model_tag``).

    Raises:
        UsageError: vLLM would refuse these words.
        UnreadableInput: ``--config`` names a file that exists and cannot be read.
    """
    read = _Read()
    line = list(words) if module else model_first(list(words))
    line = config_pulled(line, known, ground, read.untold, read.notes, serve=not module)
    line = _without_dotted(normal(line), read)
    _options(line, known, read)
    _put_dotted(known, read)
    strangers = _no_strangers(known, read)
    model = _model(read, module=module)
    return Given(
        argv=tuple(word.text for word in words),
        model=model,
        flags=read.flags,
        origins=read.origins,
        untold=sentences(read.untold),
        unknown_flags=strangers,
        uncertain=tuple(read.uncertain),
        notes=sentences(read.notes),
    )


def _without_dotted(line: list[Word], read: _Read) -> list[Word]:
    rest: list[Word] = []
    at = 0
    while at < len(line):
        word = line[at]
        at += 1
        parts = parts_of_dotted(word)
        if parts is None:
            rest.append(word)
            continue
        name, keys, appends, value = parts
        if value is None:
            if at >= len(line):
                raise UsageError(f"{cut(word.text)} has no value", where=word.where, next_move="Give it one")
            value, at = line[at], at + 1
        _gather(read, word, name, keys, value, appends=appends)
    return rest


def _gather(read: _Read, word: Word, name: str, keys: list[str], value: Word, *, appends: bool) -> None:
    if not value.known:
        read.untold.append(f"{cut('.'.join((name, *keys)))} is not known: {value.why}")
        read.keys_open[name] = None
        return
    held = read.dotted.setdefault(name, ({}, word))[0]
    said = value.text.split(",") if appends else dotted_value(value.text)
    replaced = update(held, nested(keys, said))
    read.notes += [f"{cut(f'{name}.{key}')} is given twice: the last one counts ({word.where})" for key in replaced]
    if word.maybe or value.maybe:
        read.keys_open[name] = None


def _put_dotted(known: Flags, read: _Read) -> None:
    """vLLM appends what it gathered as JSON words, so it replaces the same flag given as JSON."""
    for name, (value, word) in read.dotted.items():
        flag = _resolved(name, known, word, read)
        if flag is None:
            continue
        if flag == "--model" or known.kind(flag) in (Kind.SWITCH, Kind.SIZE, Kind.NUMBER, Kind.LIST):
            raise UsageError(f"{flag} takes no keys, got {word.text[:80]!r}", where=word.where)
        if flag in read.flags:
            read.notes.append(f"{flag} is given whole and by keys: vLLM takes the keys alone ({word.where})")
        read.flags[flag] = value
        read.origins[flag] = word.where
    read.uncertain.update(dict.fromkeys(_long(name, known) for name in read.keys_open))


def _long(name: str, known: Flags) -> str:
    of = known.match(name).of
    return of[0] if len(of) == 1 else name


def _options(line: list[Word], known: Flags, read: _Read) -> None:
    at = 0
    while at < len(line):
        word = line[at]
        if word.known and word.text == "--":
            for rest in line[at + 1 :]:
                _positional(rest, read)
            return
        if _nameless(word):
            read.untold.append(f"{cut(word.text)} {IS_OPEN}: {word.why}")
            at += 1 + (at + 1 < len(line) and "=" not in word.text and not _is_option(line[at + 1], known))
            _part_of(word, read)
        elif not _is_option(word, known):
            _positional(word, read)
            at += 1
        else:
            at = _option(line, at, known, read)


def _nameless(word: Word) -> bool:
    """``--$X``, ``--enable-$X`` and ``--flag.$KEY``: an option of which not even the name is known."""
    return not word.known and word.text.startswith("-") and NAMED.fullmatch(word.text.partition("=")[0]) is None


def _part_of(word: Word, read: _Read) -> None:
    """``--speculative-config.$KEY``: the flag itself is written out."""
    flag, dot, _ = word.text.partition(".")
    if dot and NAMED.fullmatch(flag):
        read.keys_open[flag] = None


def _is_option(word: Word, known: Flags) -> bool:
    """argparse's order: an exact name, a prefix, a negative number, a word with a blank, else an unknown option."""
    text = word.text
    if not text.startswith("-") or text == "-":
        return False
    name, equals, _ = text.partition("=")
    if not word.known and not equals:
        return _nameless(word)
    return bool(known.match(name).of) or not (_NEGATIVE.fullmatch(text) or " " in text)


def _positional(word: Word, read: _Read) -> None:
    loose = not word.known and (word.splits or bool(read.models))
    (read.loose if loose else read.models).append(word)


def _option(line: list[Word], at: int, known: Flags, read: _Read) -> int:
    """Read one option; the index behind it and its values."""
    word = line[at]
    name, equals, inline = word.text.partition("=")
    match = known.match(name)
    if len(match.of) > 1:
        raise UsageError(f"{name} may be {', '.join(match.of[:6])}", where=word.where, next_move="Write it out")
    end = at + 1
    while end < len(line) and not (line[end].text == "--" and line[end].known) and not _is_option(line[end], known):
        end += 1
    given = line[at + 1 : end]
    if equals:
        given = [Word(inline, word.where, known=word.known, why=word.why, maybe=word.maybe)]
    if not match.of:
        return _stranger(word, name, given[:1], read, at, inline=bool(equals))
    flag = match.of[0]
    used = _use(flag, known.kind(flag), word, given, read, negated=match.negated, inline=bool(equals))
    return at + 1 + (0 if equals else used)


def _use(flag: str, kind: Kind, word: Word, given: list[Word], read: _Read, *, negated: bool, inline: bool) -> int:
    """Put one flag; the number of words it took."""
    if kind is Kind.SWITCH:
        if inline:
            raise UsageError(f"{flag} is a switch and takes no value, got {word.text[:80]!r}", where=word.where)
        _put(flag, not negated, [word], read)
        return 0
    if not given and kind is Kind.OPTIONAL:
        _put(flag, value=True, words=[word], read=read)
        return 0
    if not given:
        raise UsageError(
            f"{flag} has no value", where=word.where, next_move=f"A value that begins with - goes as {flag}=-x"
        )
    taken = given if kind is Kind.LIST else given[:1]
    unsure = [value for value in taken if not value.known]
    if unsure:
        read.untold.append(f"{flag} is not known: {unsure[0].why}")
        read.uncertain[flag] = None
        read.flags.pop(flag, None)
        return len(taken)
    value: Any = [value.text for value in taken] if kind is Kind.LIST else typed(flag, kind, taken[0].text, word.where)
    if flag in APPENDS:
        read.flags.setdefault(flag, []).append(value)
        value = read.flags[flag]
    _put(flag, value, [word, *taken], read)
    return len(taken)


def _put(flag: str, value: Any, words: list[Word], read: _Read) -> None:
    if flag in read.flags and flag not in APPENDS and read.flags[flag] != value:
        read.notes.append(f"{flag} is given twice: the last one counts ({words[0].where})")
    if value is None:
        read.flags.pop(flag, None)
    else:
        read.flags[flag] = value
    read.origins[flag] = words[0].where
    if flag not in APPENDS:
        read.uncertain.pop(flag, None)
    if any(word.maybe for word in words):
        read.uncertain[flag] = None


def _resolved(name: str, known: Flags, word: Word, read: _Read) -> str | None:
    match = known.match(name)
    if len(match.of) == 1 and not match.negated:
        return match.of[0]
    read.unknown.setdefault(name, word.where)
    return None


def _stranger(word: Word, name: str, given: list[Word], read: _Read, at: int, *, inline: bool) -> int:
    """A flag that the list does not hold: kept as it stands, with the one word behind it, if any."""
    read.unknown.setdefault(name, word.where)
    _put(name, given[0].text if given else True, [word, *given], read)
    if given and not given[0].known:
        read.untold.append(f"{cut(name)} is not known: {given[0].why}")
        read.uncertain[name] = None
        read.flags.pop(name)
    return at + 1 + (0 if inline else len(given))


def _no_strangers(known: Flags, read: _Read) -> tuple[str, ...]:
    """Names of unknown flags, the first with the nearest one; an error where the list is complete."""
    if not read.unknown:
        return ()
    named = []
    for number, name in enumerate(list(read.unknown)[:MOST_NAMED]):
        near = known.nearest(name) if number < MOST_SUGGESTED else ""
        named.append(f"{cut(name, 40)} (did you mean {near}?)" if near else cut(name, 40))
    left = len(read.unknown) - len(named)
    named += [f"{left:,} more"] if left else []
    if known.complete:
        at = next(iter(read.unknown.values()))
        raise UsageError(f"vllm serve has no {', no '.join(named)} in this build", where=at)
    read.untold.append(f"not in the list of usual flags, taken as written: {', '.join(named)}")
    return tuple(named)


def _model(read: _Read, *, module: bool) -> str:
    asked = read.flags.pop("--model", None)
    origin = read.origins.pop("--model", "")
    if not read.models and asked is None and not module:
        read.models, read.loose = read.loose[:1], read.loose[1:]
    read.untold += [f"{cut(held.text)} {MAY_ADD}: {held.why}" for held in read.loose]
    if len(read.models) > 1 or (asked is not None and read.models and not module and read.models[0].text != asked):
        names = [*(word.text for word in read.models), *([asked] if asked else [])]
        raise UsageError(
            f"more than one model or a stray word: {listed(names)}",
            where=read.models[-1].where,
            next_move="vllm serve takes one MODEL; quote values that hold blanks",
        )
    if module and read.models:
        read.notes.append(f"the api_server module ignores the word {read.models[0].text[:80]!r}: give --model")
        read.models.clear()
    if read.models and not read.models[0].known:
        read.untold.append(f"the model is not known: {read.models[0].why}")
        return ""
    if read.models:
        read.origins["MODEL"] = read.models[0].where
        return read.models[0].text
    if asked is not None:
        read.origins["MODEL"] = origin
    return asked or ""
