"""One ``[[rule]]`` table -> a ``Rule``; each refusal names the file, the line, the rule and the nearest word."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from m3probe.errors import UsageError
from m3probe.rules.rule import Rule, Span
from m3probe.schema.verdicts import Family, PathVerdict, Phase, Trust

REQUIRABLE = (Trust.COMPLETE, Trust.DEGRADED)
"""Trust that a file or a rule may ask for; with ``unusable`` evidence nothing can be judged."""

_SHOWN = 80
_LARGEST = 2**63 - 1  # TOML's own limit; nothing that a trace counts is larger

TARGETS = ("path", "family", "kernel")
SCOPES = ("phase", "rank", "trust")
COUNTED = ("per_step", "min_count", "max_count", "min_share", "max_share", "forbid")
KEYS = (*TARGETS, *SCOPES, "verdict", "variant", *COUNTED)

# Copies and fills are transfers, not kernels: a rule on them would find none and always hold.
FAMILIES = tuple(str(f) for f in Family if f is not Family.MEMORY)
# `unproven` is absence of evidence: asking for it would make a lost trace pass.
VERDICTS = tuple(str(v) for v in PathVerdict if v is not PathVerdict.UNPROVEN)


@dataclass(frozen=True, slots=True)
class Known:
    """What exists outside the file: fast paths, and the variants of one."""

    paths: Collection[str]
    variants: Callable[[str], Collection[str]]


@dataclass(frozen=True, slots=True)
class Place:
    """The file, and the rule in it (number from 1, line where its header stands)."""

    path: str
    number: int | None = None
    line: int | None = None

    def refusal(self, what: str, next_move: str = "") -> UsageError:
        """The error to raise about this place."""
        line = f":{self.line}" if self.line else ""
        rule = f" (rule {self.number})" if self.number else ""
        return UsageError(what, where=f"{self.path}{line}{rule}", next_move=next_move)


def nearest(word: str, known: Collection[str]) -> str:
    """``Did you mean 'decode'?``, or all known words when none is near."""
    lower = {name.lower(): str(name) for name in known}
    found = get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    if found:
        return f"Did you mean {lower[found[0]]!r}?"
    return f"Known: {', '.join(sorted(known))}" if known else "None is known"


def shown(value: object) -> str:
    """A value of the file as an error tells it, short whatever it holds."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a hexadecimal number of more digits than Python writes; deep nesting
        return "something too large to show"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def known_keys(place: Place, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse the first key that is not known."""
    for key in table:
        if key not in known:
            raise place.refusal(f"unknown key {shown(key)}", nearest(key, known))


def read_word(place: Place, table: Mapping[str, Any], key: str, known: Collection[str]) -> str | None:
    """One of the known words, or None where the key is left out."""
    if key not in table:
        return None
    value = table[key]
    if not isinstance(value, str):
        raise place.refusal(f"{key} must be a text in quotes, not {shown(value)}", f"Known: {', '.join(sorted(known))}")
    if value not in known:
        raise place.refusal(f"unknown {key} {shown(value)}", nearest(value, known))
    return value


def read_rule(place: Place, table: Mapping[str, Any], known: Known) -> Rule:
    """The rule that one table states.

    Raises:
        UsageError: a key or word is unknown, or the table contradicts itself or checks nothing.
    """
    known_keys(place, table, KEYS)
    kind, name = _target(place, table, known.paths)
    phase = read_word(place, table, "phase", [str(p) for p in Phase])
    if table.get("verdict") == PathVerdict.UNPROVEN:
        raise place.refusal("verdict 'unproven' is missing evidence: no rule can ask for it")
    verdict = read_word(place, table, "verdict", VERDICTS)
    trust = read_word(place, table, "trust", REQUIRABLE)
    rule = Rule(
        number=place.number or 0,
        line=place.line,
        kind=kind,
        name=name,
        phase=Phase(phase) if phase else None,
        rank=_whole(place, table, "rank"),
        trust=Trust(trust) if trust else None,
        verdict=PathVerdict(verdict) if verdict else None,
        variant=_variant(place, table, known),
        per_step=_per_step(place, table),
        count=_span(place, "count", _whole(place, table, "min_count"), _whole(place, table, "max_count")),
        share=_span(place, "share", _share(place, table, "min_share"), _share(place, table, "max_share")),
        forbid=_forbid(place, table),
    )
    _consistent(place, table, rule)
    return rule


def _target(place: Place, table: Mapping[str, Any], paths: Collection[str]) -> tuple[str, str]:
    given = [key for key in TARGETS if key in table]
    if len(given) != 1:
        what = f"a rule is about exactly one of path, family, kernel; this one has {' and '.join(given) or 'none'}"
        raise place.refusal(what)
    kind = given[0]
    if kind == "kernel":
        name = table[kind]
        if not isinstance(name, str) or not name.strip():
            raise place.refusal(f"kernel must be a name or a pattern in quotes, not {shown(name)}")
        return kind, name
    if kind == "family" and table[kind] == Family.MEMORY:
        raise place.refusal("family 'memory' is copies and fills, which are no kernels: no rule can count them")
    return kind, read_word(place, table, kind, paths if kind == "path" else FAMILIES) or ""


def _variant(place: Place, table: Mapping[str, Any], known: Known) -> str:
    if "variant" not in table:
        return ""
    if "path" not in table or table.get("verdict") != PathVerdict.EXECUTED:
        raise place.refusal("variant belongs to a path rule with verdict = 'executed'")
    return read_word(place, table, "variant", known.variants(table["path"])) or ""


def _whole(place: Place, table: Mapping[str, Any], key: str) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise place.refusal(f"{key} must be a whole number from 0 on, not {shown(value)}")
    return value


def _share(place: Place, table: Mapping[str, Any], key: str) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    # written so that nan is refused as well
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise place.refusal(f"{key} must be a fraction from 0 to 1, not {shown(value)}", "20 % is written 0.2")
    return float(value)


def _per_step(place: Place, table: Mapping[str, Any]) -> Span | None:
    value = table.get("per_step")
    if isinstance(value, dict):
        known_keys(place, value, ("min", "max"))
        if not value:
            raise place.refusal("per_step = {} checks nothing", "Give min, max or both")
        return _span(place, "per_step", _whole(place, value, "min"), _whole(place, value, "max"))
    number = _whole(place, table, "per_step")
    return None if number is None else Span(number, number)


def _span(place: Place, what: str, low: float | None, high: float | None) -> Span | None:
    if low is None and high is None:
        return None
    if low is not None and high is not None and low > high:
        raise place.refusal(f"contradictory {what}: the minimum {low} is above the maximum {high}")
    return Span(low, high)


def _forbid(place: Place, table: Mapping[str, Any]) -> bool:
    if table.get("forbid", True) is not True:
        raise place.refusal(f"forbid can only be true, not {shown(table['forbid'])}", "Leave the key out to allow")
    return "forbid" in table


def _consistent(place: Place, table: Mapping[str, Any], rule: Rule) -> None:
    """Refuse checks that do not fit the target, contradict each other, or are missing."""
    counted = [key for key in COUNTED if key in table]
    if rule.kind == "path" and counted:
        raise place.refusal(f"{counted[0]} is for family and kernel rules; a path has a verdict")
    if rule.kind != "path" and rule.verdict:
        raise place.refusal(f"verdict is for path rules; a {rule.kind} has per_step, shares, counts or forbid")
    if rule.forbid and len(counted) > 1:
        other = next(key for key in counted if key != "forbid")
        raise place.refusal(f"contradictory: forbid and {other} in one rule", "Take one of them out")
    if not counted and not rule.verdict:
        need = "verdict" if rule.kind == "path" else ", ".join(COUNTED)
        raise place.refusal("the rule checks nothing", f"Add {need}" if rule.kind == "path" else f"Add one of {need}")
    if rule.per_step and rule.phase is Phase.EMPTY:
        raise place.refusal("contradictory: per_step counts non-empty steps, and the phase is 'empty'")
    if not rule.possible:
        raise place.refusal(f"contradictory: {rule.expected}", "These can never hold together")
