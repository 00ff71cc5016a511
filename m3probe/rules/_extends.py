"""Rules files that build on others: ``extends``, ``drop``, and an own rule in the place of an inherited one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.rules._entry import REQUIRABLE, Known, read_rule
from m3probe.rules._place import Place, known_keys, nearest, read_word, shown
from m3probe.rules._toml import NEXT, document_of, text_of
from m3probe.rules.ready import ready
from m3probe.rules.rule import Rule
from m3probe.schema.verdicts import Trust

MOST_RULES = 1000
MOST_DEPTH = 8
MOST_FILES = 32
_HEADER = re.compile(r"\s*\[\[\s*rule\s*\]\]")
_KEYS = ("extends", "drop", "require", "rule")


@dataclass(frozen=True, slots=True)
class Placed:
    """A rule, and where it was written."""

    rule: Rule
    place: Place


@dataclass(frozen=True, slots=True)
class Read:
    """One file with all that it inherits; ``trust`` is the least trust it asks for (None: any)."""

    trust: Trust | None
    rules: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A rules file by its name in errors and reports, and its path; ``folder`` is where its own paths begin (None: a
    ready one, which can name ready ones alone).
    """

    name: str
    path: Path
    folder: Path | None


def source_of(path: Path) -> Source:
    """The file that the command line names: a path, or a ready name where no such file is there."""
    if not _is_there(path) and str(path) in ready():
        return Source(str(path), ready()[str(path)], None)
    return Source(str(path), path, path.parent)


class Reading:
    """Reads one file and all that it builds on, each at most once per place."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._files = 0

    def read(self, source: Source, chain: tuple[Source, ...] = ()) -> Read:
        """The rules in order: inherited ones first, each replaced or dropped where this file says so.

        Raises:
            UnreadableInput: a file is missing, unreadable, too large, or not text.
            UsageError: not TOML, unknown or contradictory words, a circle, or too many files.
        """
        top = Place(source.name)
        self._files += 1
        if self._files > MOST_FILES:
            raise top.refusal(f"more than {MOST_FILES} files in all are built on", "Join some of them")
        text = self._text(source, chain)
        document = document_of(source.name, text)
        known_keys(top, document, _KEYS)
        own = self._own(source.name, text, document, top)
        trust, held = _inherited(self._parents(source, document, top, (*chain, source)))
        _drop(top, document, held)
        for placed in own:
            held.pop(placed.rule.id, None)
        said = _required(top, document.get("require", {}))
        return Read(trust if said is None else said, (*held.values(), *own))

    def _text(self, source: Source, chain: tuple[Source, ...]) -> str:
        if not chain:
            near = _near_ready(source.name)
            return text_of(source.path, next_move=f"Check the path{near}")
        said = f"(extends of {chain[-1].name})"
        if _is_there(source.path) and not source.path.is_file():
            raise UnreadableInput(f"not a regular file {said}", where=source.name, next_move=_how_to_extend())
        try:
            return text_of(source.path, "no such rules file to build on", _how_to_extend())
        except UnreadableInput as error:
            what = f"{error.what} {said}"
            raise UnreadableInput(what, where=error.where, next_move=error.next_move) from error

    def _own(self, name: str, text: str, document: dict[str, Any], top: Place) -> tuple[Placed, ...]:
        tables = document.get("rule", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise top.refusal("rules are written as tables under [[rule]], with two brackets", NEXT)
        if len(tables) > MOST_RULES:
            raise top.refusal(f"{len(tables):,} rules are more than the {MOST_RULES:,} of one file", "Use patterns")
        places = _places(name, text, len(tables))
        found = [Placed(read_rule(p, table, self._known), p) for p, table in zip(places, tables, strict=True)]
        first: dict[str, Placed] = {}
        for placed in found:
            before = first.setdefault(placed.rule.id, placed) if placed.rule.id else placed
            if before is not placed:
                raise placed.place.refusal(f"id {placed.rule.id!r} is rule {before.rule.number}'s", "Give it another")
        return tuple(found)

    def _parents(
        self, source: Source, document: dict[str, Any], top: Place, chain: tuple[Source, ...]
    ) -> Iterator[tuple[Source, Read]]:
        for name in _names(top, document, "extends"):
            parent = _parent(source, top, name)
            if any(_same(parent.path, before.path) for before in chain):
                circle = " -> ".join(s.name for s in (*chain, parent))
                raise top.refusal(f"extends runs in a circle: {circle}", "Take one of them out")
            if len(chain) >= MOST_DEPTH:
                raise top.refusal(f"extends is nested more than {MOST_DEPTH} deep", "Name the last ones here")
            yield parent, self.read(parent, chain)


def _inherited(parents: Iterator[tuple[Source, Read]]) -> tuple[Trust | None, dict[str | int, Placed]]:
    """What comes from above, by id (or by number where a rule has none); a later file replaces an earlier one's ids."""
    trust: Trust | None = None
    held: dict[str | int, Placed] = {}
    unnamed = count()
    for source, found in parents:
        trust = found.trust or trust
        for placed in found.rules:
            origin = placed.rule.origin or source.name
            held.pop(placed.rule.id, None)
            held[placed.rule.id or next(unnamed)] = replace(placed, rule=replace(placed.rule, origin=origin, line=None))
    return trust, held


def _drop(top: Place, document: dict[str, Any], held: dict[str | int, Placed]) -> None:
    for name in _names(top, document, "drop"):
        if name not in held:
            known = [key for key in held if isinstance(key, str)]
            raise top.refusal(f"drop names no inherited rule: {shown(name)}", nearest(name, known))
        del held[name]


def _names(top: Place, document: dict[str, Any], key: str) -> list[str]:
    value = document.get(key, [])
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(name, str) and name.strip() for name in found):
        raise top.refusal(f"{key} must be a name in quotes or a list of them, not {shown(value)}", NEXT)
    return found


def _parent(source: Source, top: Place, name: str) -> Source:
    """A ready file by its name, else a path from the folder of the file that names it."""
    if name in ready():
        return Source(name, ready()[name], None)
    if source.folder is None or not ("/" in name or "\\" in name or name.endswith(".toml")):
        raise top.refusal(
            f"extends names no ready rules file: {shown(name)}",
            f"{nearest(name, ready()).rstrip('.')}. {_PATHS}".replace("?.", "?"),
        )
    path = source.folder / name
    return Source(str(path), path, path.parent)


_PATHS = "A file of your own is named by its path, ending .toml"


def _how_to_extend() -> str:
    return f"The path begins at the folder of the file that names it. Ready ones: {', '.join(ready())}"


def _near_ready(name: str) -> str:
    """A word without a slash or a dot may have been meant as a ready name."""
    return "" if "/" in name or "." in name else f", or name a ready file. {nearest(name, ready())}"


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve()
    except (OSError, ValueError, RuntimeError):
        return one == other  # opening it says what is wrong


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False  # opening it says why


def _places(path: str, text: str, count: int) -> list[Place]:
    """Where each rule begins; without line numbers when the headers in the text are not the rules read."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _HEADER.match(line)]
    if len(lines) != count:
        return [Place(path, number + 1) for number in range(count)]
    return [Place(path, number, line) for number, line in enumerate(lines, 1)]


def _required(top: Place, table: Any) -> Trust | None:
    if not isinstance(table, dict):
        raise top.refusal("[require] is a table", NEXT)
    known_keys(top, table, ("trust",))
    word = read_word(top, table, "trust", REQUIRABLE)
    return Trust(word) if word else None
