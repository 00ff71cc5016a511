"""A rules file: TOML -> checked rules. Every word it does not know is an error that names the nearest one."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput, UsageError
from m3probe.registry import Shelf
from m3probe.rules._entry import REQUIRABLE, Known, Place, known_keys, read_rule, read_word
from m3probe.rules.rule import Rule, clashes
from m3probe.schema.paths import FastPath
from m3probe.schema.verdicts import Trust

_HEADER = re.compile(r"\s*\[\[\s*rule\s*\]\]")
_NEXT = "See docs/assert.md for every key"
_ORDER = "RULES comes before the traces on the line"
MOST_BYTES = 2**20
MOST_RULES = 1000
_KEY_PARTS = 16
# Possessive, and an open quote runs to its line's or the text's end: no text takes more than one pass.
_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'{3}(?:[^']|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf'(?<![\w"-])(?:[\w"-]++[ \t]*+\.[ \t]*+){{{_KEY_PARTS}}}')


@dataclass(frozen=True, slots=True)
class RulesFile:
    """A rules file; ``trust`` is the least trust it asks for (None: any)."""

    path: str
    trust: Trust | None
    rules: tuple[Rule, ...]


def fast_paths() -> Known:
    """What a rule's ``path`` and ``variant`` may name: the files in ``m3probe/fastpaths/``, and entry points."""
    shelf = Shelf("m3probe.fastpaths", "FAST_PATH", FastPath)

    def variants(name: str) -> tuple[str, ...]:
        plug = shelf.load(name)
        return tuple(variant.name for variant in plug.variants) if plug else ()

    return Known(shelf.names(), variants)


def load_rules(path: Path, known: Known | None = None) -> RulesFile:
    """Read and check a rules file of at most 1 MiB and 1,000 rules.

    Args:
        path: the file.
        known: fast paths that exist; those on the shelf when left out.

    Raises:
        UnreadableInput: the file is missing, unreadable, too large, or not text.
        UsageError: not TOML, or unknown, contradictory or empty rules.
    """
    text = _text(path)
    document = _document(path, text)
    top = Place(str(path))
    known_keys(top, document, ("require", "rule"))
    tables = document.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise top.refusal("rules are written as tables under [[rule]], with two brackets", _NEXT)
    if len(tables) > MOST_RULES:
        raise top.refusal(f"{len(tables):,} rules are more than the {MOST_RULES:,} of one file", "Use patterns")
    names = known or fast_paths()
    places = _places(path, text, len(tables))
    rules = tuple(read_rule(place, table, names) for place, table in zip(places, tables, strict=True))
    trust = _required(top, document.get("require", {}))
    if not rules and trust is None:
        raise top.refusal("the file holds no rule", "Write at least one [[rule]], or ask for trust under [require]")
    for first, second in clashes(rules):
        what = f"contradicts rule {first.number} ({first.text})"
        raise places[second.number - 1].refusal(what, "Both can never hold together: take one out")
    return RulesFile(str(path), trust, rules)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            what = f"not a rules file: larger than {MOST_BYTES // 2**20} MiB"
            raise UnreadableInput(what, where=str(path), next_move=_ORDER)
        return data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UnreadableInput("no such rules file", where=str(path), next_move="Check the path") from error
    except OSError as error:
        raise UnreadableInput(f"cannot be read ({error.strerror})", where=str(path)) from error
    except UnicodeDecodeError as error:
        what = f"not a rules file: byte {error.start} is no UTF-8 text"
        raise UnreadableInput(what, where=str(path), next_move=_ORDER) from error


def _document(path: Path, text: str) -> dict[str, Any]:
    # tomllib takes time by the square of a key's parts: 50,000 of them, in 100 KB, took 43 s
    if _LONG_KEY.search(_STRING_OR_COMMENT.sub('""', text)):
        raise UsageError(f"a key of more than {_KEY_PARTS} parts", where=str(path), next_move=_NEXT)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
    except ValueError:
        said = "a number of more digits than any can have here"
    except RecursionError:
        said = "nested too deeply"
    raise UsageError(f"not valid TOML: {said}", where=str(path), next_move=_NEXT)


def _places(path: Path, text: str, count: int) -> list[Place]:
    """Where each rule begins; without line numbers when the headers in the text are not the rules read."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    if len(lines) != count:
        return [Place(str(path), number + 1) for number in range(count)]
    return [Place(str(path), number, line) for number, line in enumerate(lines, 1)]


def _required(top: Place, table: Any) -> Trust | None:
    if not isinstance(table, dict):
        raise top.refusal("[require] is a table", _NEXT)
    known_keys(top, table, ("trust",))
    word = read_word(top, table, "trust", REQUIRABLE)
    return Trust(word) if word else None
