"""A rules file: TOML -> checked rules. Every word it does not know is an error that names the nearest one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from m3probe.registry import Shelf
from m3probe.rules._entry import Known
from m3probe.rules._extends import MOST_RULES, Reading, source_of
from m3probe.rules._place import Place
from m3probe.rules.rule import Rule, clashes
from m3probe.schema.gates import Gate
from m3probe.schema.paths import FastPath, Role
from m3probe.schema.verdicts import Trust

FAST_PATHS = Shelf("m3probe.fastpaths", "FAST_PATH", FastPath)
GATES = Shelf("m3probe.gates", "GATE", Gate)


@dataclass(frozen=True, slots=True)
class RulesFile:
    """A rules file with all that it inherits; ``trust`` is the least trust it asks for (None: any)."""

    path: str
    trust: Trust | None
    rules: tuple[Rule, ...]


def fast_paths() -> Known:
    """What rules may name: the files in ``m3probe/fastpaths/`` and ``m3probe/gates/``, and entry points."""

    def variants(name: str) -> tuple[str, ...]:
        plug = FAST_PATHS.load(name)
        return tuple(variant.name for variant in plug.variants) if plug else ()

    def fallbacks(name: str) -> tuple[str, ...]:
        plug = FAST_PATHS.load(name)
        return tuple(variant.name for variant in plug.variants if variant.role is Role.FALLBACK) if plug else ()

    return Known(FAST_PATHS.names(), variants, fallbacks, GATES.names())


def load_rules(path: Path, known: Known | None = None) -> RulesFile:
    """Read and check a rules file of at most 1 MiB and 1,000 rules, and what it builds on.

    Args:
        path: the file, or the name of a ready one (``m3-mxfp8-tp4``) where there is no such file.
        known: fast paths and gates that exist; those on the shelves when left out.

    Raises:
        UnreadableInput: a file is missing, unreadable, too large, or not text.
        UsageError: not TOML, or unknown, contradictory or empty rules.
    """
    source = source_of(path)
    top = Place(source.name)
    found = Reading(known or fast_paths()).read(source)
    if len(found.rules) > MOST_RULES:
        raise top.refusal(f"{len(found.rules):,} rules with the inherited ones are more than {MOST_RULES:,}")
    if not found.rules and found.trust is None:
        raise top.refusal("the file holds no rule", "Write at least one [[rule]], or ask for trust under [require]")
    rules = tuple(replace(placed.rule, number=number) for number, placed in enumerate(found.rules, 1))
    for first, second in clashes(rules):
        what = f"contradicts rule {first.number} ({first.text})"
        next_move = "Both can never hold together: take one out"
        if first.origin and not second.origin:
            next_move += f', or give this one id = "{first.id}" to replace it' if first.id else ""
        raise found.rules[second.number - 1].place.refusal(what, next_move)
    return RulesFile(source.name, found.trust, rules)
