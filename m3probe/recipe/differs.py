"""Two configurations held against each other, flag by flag, in as few words as it takes.

``differences``: what a recipe asks for and the running server did not resolve. ``changes``: what one run's configuration
changes of another's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from m3probe.fastpaths._capture import asked_mode, compilation_mode, level
from m3probe.fastpaths._m3 import as_object
from m3probe.fastpaths._tp_group import model_dtype
from m3probe.model.recipe_report import Difference
from m3probe.recipe.resolved_flags import word
from m3probe.schema.env_names import PER_PROCESS
from m3probe.schema.secrets import TOLD
from m3probe.schema.setup import Setup

NOT_ASKED, NOT_SET = "nothing", "not set"
OFF_BY_DEFAULT = ("--enforce-eager", "--enable-expert-parallel", "--disable-custom-all-reduce")
SIZES = {"--tensor-parallel-size": "tp", "--pipeline-parallel-size": "pp", "--data-parallel-size": "dp"}
_SAME: Mapping[str, Callable[[Setup], object]] = {
    "--compilation-config.cudagraph_mode": asked_mode,
    "--compilation-config.mode": compilation_mode,
    "--optimization-level": level,
    "--dtype": model_dtype,
}
"""Settings that one value has several words for, each read as the paths read it."""
OURS = "VLLM_ROCM_"
"""Variables that nobody but a user sets: told where the server has one and the recipe does not."""
DEEPEST, MOST_TEXT = 3, 100


def differences(asked: Setup, found: Setup) -> tuple[Difference, ...]:
    """Settings on which both speak and do not agree; those that hang on a condition of the recipe are left out."""
    told = (*_build(asked, found), *_sizes(asked, found), *_flags(asked, found), *_env(asked, found))
    return tuple(d for d in told if d.flag.partition(".")[0] not in {*asked.uncertain, *found.uncertain})


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that two configurations do not share; ``follows``: the change that brings it along, or empty."""

    flag: str
    asked: str
    resolved: str
    follows: str = ""


WHOLE = ("--hf-overrides", "--speculative-config")
"""Flags whose keys make one thing together."""
BRINGS: Mapping[str, tuple[str, ...]] = {
    "--enforce-eager": ("--compilation-config", "--optimization-level", "--cudagraph-capture-sizes"),
    "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": ("VLLM_ROCM_QUICK_REDUCE_",),
}
"""A setting -> beginnings of those that it brings along: eager resolves graph settings to none, and the sizes and the cast
of QuickReduce act with a codec alone."""


def changes(before: Setup, after: Setup) -> tuple[Change, ...]:
    """Settings that differ, those set in one of them alone too; a recipe against a running server is ``differences``."""
    if before.resolved != after.resolved:
        asked, found = (after, before) if before.resolved else (before, after)
        told = [
            Change(d.flag, d.resolved, d.asked) if before.resolved else Change(d.flag, d.asked, d.resolved)
            for d in differences(asked, found)
        ]
    else:
        told = [*_changed_build(before, after), *_changed_flags(before, after), *_changed_env(before, after)]
    names = {change.flag for change in told}
    return tuple(Change(c.flag, c.asked, c.resolved, _brought_by(c.flag, names)) for c in told)


def _brought_by(flag: str, names: set[str]) -> str:
    for cause, starts in BRINGS.items():
        if cause in names and flag != cause and flag.startswith(starts):
            return cause
    return ""


def _changed_build(before: Setup, after: Setup) -> Iterator[Change]:
    for difference in _build(before, after):
        yield Change(difference.flag, difference.asked, difference.resolved)
    for flag, name in SIZES.items():
        mine, theirs = getattr(before, name), getattr(after, name)
        if mine != theirs:
            yield Change(flag, str(mine), str(theirs))


def _changed_flags(before: Setup, after: Setup) -> Iterator[Change]:
    sides = [_by_flag(setup) for setup in (before, after)]
    for flag in dict.fromkeys((*sides[0], *sides[1])):
        mine, theirs = (side.get(flag) for side in sides)
        if flag in SIZES or (_off(mine) and _off(theirs)):
            continue
        same = _SAME.get(flag)
        if same(before) != same(after) if same else _plain(flag, mine) != _plain(flag, theirs):
            yield Change(flag, *(NOT_SET if value is None else _shown(value) for value in (mine, theirs)))


def _off(value: Any) -> bool:
    """Not set, or set to what asks for nothing."""
    return value is None or value is False or str(value).lower() == "auto"


def _by_flag(setup: Setup) -> dict[str, Any]:
    given = dict(setup.flags) | ({"--speculative-config": setup.draft} if setup.draft else {})
    whole = {flag: given.pop(flag) for flag in WHOLE if flag in given}
    return dict(_flat(given)) | {flag: as_object(value) or value for flag, value in whole.items()}


def _changed_env(before: Setup, after: Setup) -> Iterator[Change]:
    for name in sorted({*before.env, *after.env}):
        mine, theirs = (setup.env.get(name) for setup in (before, after))
        steers = name.startswith(TOLD) and not name.startswith(PROBE) and name not in PER_PROCESS
        if mine != theirs and steers:
            yield Change(name, *(NOT_SET if value is None else _shown(value) for value in (mine, theirs)))


PROBE = "M3PROBE"
"""m3probe's own variables change what is recorded, not what is served."""


def _build(asked: Setup, found: Setup) -> Iterator[Difference]:
    mine, theirs = asked.build.version, found.build.version
    if mine and theirs and mine != theirs:
        yield Difference("--vllm", mine, theirs)


def _sizes(asked: Setup, found: Setup) -> Iterator[Difference]:
    for flag, name in SIZES.items():
        mine, theirs = getattr(asked, name), getattr(found, name)
        if mine != theirs:
            yield Difference(flag, str(mine), str(theirs))


def _flags(asked: Setup, found: Setup) -> Iterator[Difference]:
    theirs = dict(_flat(found.flags)) | dict(_flat({"--speculative-config": found.draft or {}}))
    mine = dict(_flat(asked.flags)) | dict(_flat({"--speculative-config": asked.draft or {}}))
    for flag, value in mine.items():
        said = theirs.get(flag)
        # auto asks for nothing, and what the record does not hold says nothing
        if flag in SIZES or said is None or str(value).lower() == "auto":
            continue
        same = _SAME.get(flag)
        if same(asked) != same(found) if same else _plain(flag, value) != _plain(flag, said):
            yield Difference(flag, _shown(value), _shown(said))
    for flag in OFF_BY_DEFAULT:
        if flag not in asked.flags and found.flags.get(flag) is True:
            yield Difference(flag, NOT_ASKED, "true")


def _flat(flags: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """``--flag.key.key`` -> value: a flag may take a JSON object, as such or as text."""
    for name, value in flags.items():
        inner = as_object(value)
        if inner and depth < DEEPEST:
            yield from _flat(inner, f"{before}{name}.", depth + 1)
        else:
            yield f"{before}{name}", value


def _env(asked: Setup, found: Setup) -> Iterator[Difference]:
    for name, value in asked.env.items():
        if name.startswith(TOLD) and found.env.get(name) != value:
            yield Difference(name, _shown(value), _shown(found.env.get(name, NOT_SET)))
    for name, value in found.env.items():
        if name.startswith(OURS) and name not in asked.env:
            yield Difference(name, NOT_ASKED, _shown(value))


def _plain(flag: str, value: Any) -> str:
    """``8192``, ``true``, ``full``: a number as text and in JSON are one."""
    field = flag.rpartition(".")[2].lstrip("-").replace("-", "_")
    text = str(word(field, value)).strip().lower()
    return " ".join(text.strip("[]").replace(",", " ").split())


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."
