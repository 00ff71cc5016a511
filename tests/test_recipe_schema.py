"""docs/recipe.schema.json: what ``recipe --json`` writes fits it, and nothing else does."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import jsonschema
import pytest
from recipes import AITER, FSE, GATED, INT4, judged
from tree import ROOT

from m3probe.model import recipe_report
from m3probe.present.json import recipe_json
from m3probe.schema.paths import When
from m3probe.schema.setup import Held, State

CASES = [
    ("0.33.0", "", f"{GATED} {INT4}", {"concurrency": 128, "require": ["quick_reduce"]}),
    ("0.32.0", "", f"{AITER} {FSE}", {"isl": 8192}),
    ("0.25.1", "--enforce-eager", "VLLM_NO_SUCH=1", {}),
    ("0.24.0", "", "", {"tp": 8}),
    (None, "", GATED, {"tp": 2, "model": "somebody/else"}),
]
OPEN = {"expected", "by_phase", "tiles", "tuned", "counts"}


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "recipe.schema.json").read_text())
    return found


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


@cache
def document(number: int) -> dict[str, Any]:
    version, words, env, more = CASES[number]
    found: dict[str, Any] = json.loads(recipe_json(judged(version, words, env, **more)))
    return found


def objects(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    if isinstance(value, dict):
        yield at, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from objects(item, (*at, key))


def inside(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def firsts() -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """One object of each place in the richest document; rows of one list are alike."""
    seen: dict[tuple[Any, ...], tuple[tuple[Any, ...], dict[str, Any]]] = {}
    for place, value in objects(document(0)):
        shape = tuple("*" if isinstance(key, int) or key in ("prefill", "decode") else key for key in place)
        if value and not (place and place[-1] in OPEN):
            seen.setdefault(shape, (place, value))
    return list(seen.values())


@pytest.mark.parametrize("number", range(len(CASES)))
def test_reports_fit(number: int) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    validator().validate(document(number))


def test_every_key_is_required_and_none_may_be_added() -> None:
    for place, value in firsts():
        for key in value:
            less = copy.deepcopy(document(0))
            del inside(less, place)[key]
            assert not validator().is_valid(less), (*place, key)
        more = copy.deepcopy(document(0))
        inside(more, place)["something_else"] = []
        assert not validator().is_valid(more), place


def test_every_field_of_a_row_is_in_the_schema() -> None:
    kinds = [k for k in vars(recipe_report).values() if isinstance(k, type) and is_dataclass(k)]
    for kind in kinds:
        names = [field.name for field in fields(kind)]
        part = schema() if kind is recipe_report.RecipeReport else schema()["$defs"][kind.__name__]
        assert sorted(part["properties"]) == sorted(part["required"]) == sorted(names), kind.__name__


def test_words_are_the_fixed_ones() -> None:
    row, need = schema()["$defs"]["PathLine"]["properties"], schema()["$defs"]["NeedLine"]["properties"]
    assert sorted(row["state"]["enum"]) == sorted(map(str, State))
    assert sorted(need["held"]["enum"]) == sorted(map(str, Held))
    assert sorted(need["when"]["enum"]) == sorted(map(str, When))
