"""The steps that vLLM takes on its words before argparse sees them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from m3probe.errors import UsageError
from m3probe.recipe.asked import CONFIG_OPEN, FILE_OPEN, Word, cut
from m3probe.recipe.flags import Flags
from m3probe.recipe.text import existing_text
from m3probe.recipe.values import MOST_KEYS
from m3probe.recipe.wording import Ground
from m3probe.recipe.yamltext import load_like_vllm, plain

_MODEL = re.compile(r"--model(=.+)?", re.DOTALL)
_SERVED = re.compile(r"--served[-_]model[-_]name(=.+)?", re.DOTALL)
_NAME = re.compile(r"(?<=--)[^.]*")
NAMED = re.compile(r"--?\w[\w.+-]*")
"""A flag's name that is written out, in a word that is not known as a whole."""


def model_first(line: list[Word]) -> list[Word]:
    """``--model X`` moved to the front, as vLLM does; and its refusal of a served name before the model."""
    at = next((i for i, word in enumerate(line) if _MODEL.fullmatch(word.text)), None)
    if at is not None:
        line = _moved(line, at)
    named = any(_SERVED.fullmatch(word.text) for word in line)
    configured = any(re.match(r"--config(=.+|$)", word.text) for word in line)
    if named and not configured and line and line[0].text.startswith("-"):
        raise UsageError(
            "vllm serve wants MODEL as its first word beside --served-model-name, and ends here",
            where=line[0].where,
            next_move="Write vllm serve MODEL --served-model-name NAME",
        )
    return line


def _moved(line: list[Word], at: int) -> list[Word]:
    word = line[at]
    if word.text != "--model":
        tag = Word(word.text.removeprefix("--model="), word.where, word.known, word.why, maybe=word.maybe)
        return [tag, *line[:at], *line[at + 1 :]]
    if at + 1 >= len(line):
        raise UsageError("--model has no value", where=word.where)
    return [line[at + 1], *line[:at], *line[at + 2 :]]


def config_pulled(
    line: list[Word], known: Flags, ground: Ground, untold: list[str], notes: list[str], *, serve: bool
) -> list[Word]:
    """``--config FILE`` replaced by its words, behind the model, so that the command line wins."""
    notes += [
        f"{word.text[:80]} is not read: vLLM looks for the two words --config FILE ({word.where})"
        for word in line
        if word.text.startswith("--config=")
    ]
    found = [i for i, word in enumerate(line) if word.text == "--config" and word.known]
    if not found:
        return line
    at = found[0]
    if len(found) > 1:
        raise UsageError("more than one --config", where=line[found[1]].where)
    if at + 1 >= len(line):
        raise UsageError("--config names no file", where=line[at].where)
    words = _config_words(line[at + 1], known, ground, untold)
    rest = line[:at] + line[at + 2 :]
    model_there = not line[0].text.startswith("-")
    if serve and words is not None and not model_there and not any(word.text == "--model" for word in words):
        raise UsageError(
            "vllm serve wants MODEL as its first word, or in the config file, and ends here", where=line[0].where
        )
    front = 1 if serve and model_there else 0
    return rest[:front] + (words or []) + rest[front:]


def _config_words(file: Word, known: Flags, ground: Ground, untold: list[str]) -> list[Word] | None:
    """The file's words; None where they are not known."""
    if not file.known:
        untold.append(f"{CONFIG_OPEN}: {file.why}")
        return None
    if file.text.rsplit(".", 1)[-1] not in ("yaml", "yml"):
        raise UsageError(f"--config takes a .yaml or .yml file, got {file.text[:80]!r}", where=file.where)
    text = existing_text(ground.file(file.text))
    if text is None:
        untold.append(f"the config file {cut(file.text)} is not at hand: {FILE_OPEN} ({file.where})")
        return None
    said = load_like_vllm(text, file.text)
    if not isinstance(said, Mapping):
        raise UsageError("a config file of vllm serve holds flag: value lines", where=file.text)
    return [word for key, value in said.items() for word in _one_flag(f"--{key}", value, known, file.text)]


def _one_flag(name: str, value: object, known: Flags, where: str) -> list[Word]:
    """A list gives several words, a mapping JSON, true the bare flag, false ``--no-x`` where there is one.

    Before 0.32 false was dropped, which says the same for every switch that is off by default.
    """
    if value is True:
        return [Word(name, where)]
    if value is False:
        no = f"--no-{name[2:]}"
        return [Word(no, where)] if known.match(no.replace("_", "-")).negated else []
    if isinstance(value, list):
        return [Word(name, where), *(Word(str(plain(item, where)), where) for item in value)] if value else []
    if isinstance(value, Mapping):
        return [Word(name, where), Word(json.dumps(plain(value, where), default=str), where)]
    return [Word(name, where), Word(str(value), where)]


def normal(line: list[Word]) -> list[Word]:
    """Underscores of names as dashes up to the first dot, and ``-O``."""
    done: list[Word] = []
    for at, word in enumerate(line):
        text = word.text
        if text.startswith("--"):
            name, equals, value = text.partition("=")
            done.append(
                _with(word, _NAME.sub(lambda found: found.group().replace("_", "-"), name, count=1) + equals + value)
            )
        elif text.startswith("-O"):
            done += _level(word, line[at + 1] if at + 1 < len(line) else None)
        else:
            done.append(word)
    return done


def _level(word: Word, follows: Word | None) -> list[Word]:
    """``-O3``, ``-O=3`` and ``-O 3`` are ``--optimization-level 3``; nothing else is (no release reads -O as JSON)."""
    rest = word.text[2:].removeprefix("=")
    if not rest and follows is not None and (follows.text in {"0", "1", "2", "3"} or not follows.known):
        return [_with(word, "--optimization-level")]
    if rest in {"0", "1", "2", "3"}:
        return [_with(word, "--optimization-level"), _with(word, rest)]
    if not word.known:
        return [_with(word, f"--optimization-level={rest}")]
    raise UsageError(
        f"-O takes a level from 0 to 3, got {word.text[:80]!r}",
        where=word.where,
        next_move="Give other compilation settings to --compilation-config (-cc), as JSON or -cc.key value",
    )


def _with(word: Word, text: str) -> Word:
    return Word(text, word.where, word.known, word.why, word.splits, word.maybe)


def parts_of_dotted(word: Word) -> tuple[str, list[str], bool, Word | None] | None:
    """``--flag.a.b+=x`` -> (``--flag``, [a, b], appends, x); None where the word is no dotted key.

    vLLM takes any word that begins with a dash and holds a dot for one, ``-1.5`` too.
    """
    name, equals, value = word.text.partition("=")
    if not name.startswith("-") or "." not in name or (not word.known and not NAMED.fullmatch(name)):
        return None
    if re.fullmatch(r"-\d*\.\d+", name):
        raise UsageError(
            f"vLLM takes {cut(name)} for a dotted key",
            where=word.where,
            next_move=f"Write it behind its flag: --flag={cut(name)}",
        )
    appends = name.endswith("+")
    flag, *keys = name.removesuffix("+").split(".")
    if len(keys) > MOST_KEYS:
        raise UsageError(f"{name[:80]} has {len(keys)} keys", where=word.where)
    inline = Word(value, word.where, word.known, word.why, maybe=word.maybe) if equals else None
    return flag, keys, appends, inline
