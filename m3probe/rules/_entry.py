"""One ``[[rule]]`` table -> a ``Rule``; each refusal names the file, the line, the rule and the nearest word."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from m3probe.model.agreement import TOPICS
from m3probe.rules import _spans
from m3probe.rules._place import Place, known_keys, nearest, read_word, shown
from m3probe.rules.rule import ROLES, Rule
from m3probe.schema.verdicts import Family, PathVerdict, Phase, Trust

__all__ = ["COUNTED", "FAMILIES", "KEYS", "REQUIRABLE", "TARGETS", "VERDICTS", "Known", "Place", "read_rule"]

REQUIRABLE = (Trust.COMPLETE, Trust.DEGRADED)
"""Trust that a file or a rule may ask for; with ``unusable`` evidence nothing can be judged."""

TARGETS = ("path", "family", "kernel", "gate", "agree")
SCOPES = ("phase", "rank", "role", "trust")
COUNTED = ("per_step", "min_count", "max_count", "min_share", "max_share", "forbid")
KEYS = ("id", *TARGETS, *SCOPES, "verdict", "variant", "forbid_variants", *COUNTED)
_OF_A_PATH = ("per_step", "forbid")
_WHOLE = {"gate": "a gate is judged over the whole recording", "agree": "ranks are compared over the whole recording"}

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

# Copies and fills are transfers, not kernels: a rule on them would find none and always hold.
FAMILIES = tuple(str(f) for f in Family if f is not Family.MEMORY)
# `unproven` is absence of evidence: asking for it would make a lost trace pass.
VERDICTS = tuple(str(v) for v in PathVerdict if v is not PathVerdict.UNPROVEN)


def _none(_path: str) -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Known:
    """What exists outside the file: fast paths, the variants of one and which of them are fallbacks, and gates."""

    paths: Collection[str]
    variants: Callable[[str], Collection[str]]
    fallbacks: Callable[[str], Collection[str]] = _none
    gates: Collection[str] = ()


def read_rule(place: Place, table: Mapping[str, Any], known: Known) -> Rule:
    """The rule that one table states.

    Raises:
        UsageError: a key or word is unknown, or the table contradicts itself or checks nothing.
    """
    known_keys(place, table, KEYS)
    kind, name = _target(place, table, known)
    phase = read_word(place, table, "phase", [str(p) for p in Phase])
    if table.get("verdict") == PathVerdict.UNPROVEN:
        raise place.refusal("verdict 'unproven' is missing evidence: no rule can ask for it")
    verdict = read_word(place, table, "verdict", VERDICTS)
    trust = read_word(place, table, "trust", REQUIRABLE)
    forbid = _forbid(place, table)
    rule = Rule(
        number=place.number or 0,
        line=place.line,
        kind=kind,
        name=name,
        phase=Phase(phase) if phase else None,
        rank=_spans.whole(place, table, "rank"),
        trust=Trust(trust) if trust else None,
        verdict=PathVerdict(verdict) if verdict else None,
        variant=_variant(place, table, known),
        per_step=_spans.per_step(place, table),
        count=_spans.count(place, table),
        share=_spans.share(place, table),
        forbid=forbid and kind != "path",
        role=read_word(place, table, "role", ROLES) or "",
        forbidden=_forbidden(place, table, known),
        id=_id(place, table),
    )
    _consistent(place, table, rule)
    return rule


def _target(place: Place, table: Mapping[str, Any], known: Known) -> tuple[str, str]:
    given = [key for key in TARGETS if key in table]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        raise place.refusal(f"a rule is about exactly one of {', '.join(TARGETS)}; this one has {said}")
    kind = given[0]
    if kind == "kernel":
        name = table[kind]
        if not isinstance(name, str) or not name.strip():
            raise place.refusal(f"kernel must be a name or a pattern in quotes, not {shown(name)}")
        return kind, name
    if kind == "family" and table[kind] == Family.MEMORY:
        raise place.refusal("family 'memory' is copies and fills, which are no kernels: no rule can count them")
    words = {"path": known.paths, "family": FAMILIES, "gate": known.gates, "agree": TOPICS}
    return kind, read_word(place, table, kind, words[kind]) or ""


def _id(place: Place, table: Mapping[str, Any]) -> str:
    value = table.get("id", "")
    if "id" in table and not (isinstance(value, str) and ID.fullmatch(value)):
        raise place.refusal(f"id must be up to 64 letters, digits and . _ -, not {shown(value)}")
    return str(value)


def _variant(place: Place, table: Mapping[str, Any], known: Known) -> str:
    if "variant" not in table:
        return ""
    if "path" not in table or table.get("verdict") != PathVerdict.EXECUTED:
        raise place.refusal("variant belongs to a path rule with verdict = 'executed'")
    return read_word(place, table, "variant", known.variants(table["path"])) or ""


def _forbid(place: Place, table: Mapping[str, Any]) -> bool:
    if table.get("forbid", True) is not True:
        raise place.refusal(f"forbid can only be true, not {shown(table['forbid'])}", "Leave the key out to allow")
    return "forbid" in table


def _forbidden(place: Place, table: Mapping[str, Any], known: Known) -> tuple[str, ...]:
    """Variants that must not run: those named, or with ``forbid = true`` every fallback of the path."""
    if "forbid_variants" in table:
        if "path" not in table or "forbid" in table:
            raise place.refusal("forbid_variants belongs to a path rule, and stands in the place of forbid")
        names, there = table["forbid_variants"], known.variants(table["path"])
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise place.refusal(f"forbid_variants must list variants in quotes, not {shown(names)}")
        for name in names:
            if name not in there:
                raise place.refusal(f"unknown variant {shown(name)}", nearest(name, there))
        return tuple(dict.fromkeys(names))
    if "path" not in table or "forbid" not in table:
        return ()
    found = tuple(known.fallbacks(table["path"]))
    if not found:
        raise place.refusal(f"path {table['path']} has no fallback to forbid", "Name variants with forbid_variants")
    return found


def _consistent(place: Place, table: Mapping[str, Any], rule: Rule) -> None:
    """Refuse checks that do not fit the target, contradict each other, or are missing."""
    counted = [key for key in COUNTED if key in table]
    if rule.kind in _WHOLE:
        _alone(place, table, rule)
        return
    if rule.kind == "path":
        _path(place, rule, counted)
    elif rule.verdict:
        raise place.refusal(f"verdict is for path rules; a {rule.kind} has per_step, shares, counts or forbid")
    elif not counted:
        raise place.refusal("the rule checks nothing", f"Add one of {', '.join(COUNTED)}")
    if rule.forbid and len(counted) > 1:
        other = next(key for key in counted if key != "forbid")
        raise place.refusal(f"contradictory: forbid and {other} in one rule", "Take one of them out")
    if rule.per_step and rule.phase is Phase.EMPTY:
        raise place.refusal("contradictory: per_step counts non-empty steps, and the phase is 'empty'")
    if not rule.possible:
        raise place.refusal(f"contradictory: {rule.expected}", "These can never hold together")


def _alone(place: Place, table: Mapping[str, Any], rule: Rule) -> None:
    for key in table:
        if key not in (rule.kind, "trust", "id"):
            raise place.refusal(f"{key} does not fit a rule on {rule.kind}: {_WHOLE[rule.kind]}", "Take it out")


def _path(place: Place, rule: Rule, counted: list[str]) -> None:
    for key in counted:
        if key not in _OF_A_PATH:
            raise place.refusal(f"{key} is for family and kernel rules; a path has a verdict and per_step")
    if not rule.verdict and not rule.forbidden:
        raise place.refusal("the rule checks nothing", "Add verdict, forbid_variants or forbid")
    executed = rule.verdict in (None, PathVerdict.EXECUTED)
    if rule.per_step and rule.verdict is not PathVerdict.EXECUTED:
        raise place.refusal("per_step of a path counts its calls: it needs verdict = 'executed'")
    if rule.role and not executed:
        raise place.refusal(f"role tells who ran a path: verdict {rule.verdict} is of the whole server")
