"""Values of vLLM's flags: JSON, dotted keys, and numbers such as 25.6k, read as ``argparse_utils.py`` reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from m3probe.errors import UsageError
from m3probe.recipe._flag_tables import NONE_IS_UNSET
from m3probe.recipe.flags import Kind

MOST_KEYS = 32  # deeper dotted keys are no configuration; json.dumps would end in a RecursionError
_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_BARE = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
_STRING = re.compile(r'("(?:[^"\\]++|\\.)*+")', re.DOTALL)
_POWERS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
DEEPEST = 64  # brackets inside each other; whoever walks a value of thousands ends in a RecursionError
MOST_DIGITS = 100  # int() of thousands of digits raises, and no size of a server has so many


def whole(text: str) -> int | None:
    """``1k`` 1,000, ``1K`` 1,024, ``25.6k`` 25,600, plain digits; None for anything else, ``1.5K`` too."""
    text = text.strip()
    if len(text) > MOST_DIGITS:
        return None
    found = _SUFFIXED.fullmatch(text)
    if found is None:
        try:
            return int(text)
        except ValueError:
            return None
    number, suffix = found.groups()
    if suffix.islower():
        return int(float(number) * _POWERS[suffix])
    return int(number) * _POWERS[suffix] if number.isdecimal() else None


def typed(flag: str, kind: Kind, text: str, where: str) -> Any:
    """The value of one word after a flag; None where vLLM reads the text as None.

    Raises:
        UsageError: vLLM would refuse it.
    """
    match kind:
        case Kind.SIZE:
            return _size(flag, text, where)
        case Kind.NUMBER:
            return _number(flag, text, where)
        case Kind.OBJECT:
            return _object(flag, text, where)
        case Kind.OBJECT_OR_TEXT:
            return _object(flag, text, where) if re.fullmatch(r"(?s)\s*{.*}\s*", text) else text
        case Kind.JSON:
            return _json(flag, text, where)
        case _:
            return text


def _size(flag: str, text: str, where: str) -> str:
    if flag == "--max-model-len" and (text.strip() == "-1" or text.strip().lower() == "auto"):
        return "auto"
    value = whole(text)
    if value is None:
        near = " (a binary suffix takes no decimals)" if _SUFFIXED.fullmatch(text.strip()) else ""
        raise UsageError(f"{flag} takes a whole number such as 32768, 32k or 32K, got {text[:80]!r}{near}", where=where)
    return str(value)


def _number(flag: str, text: str, where: str) -> str:
    try:
        return str(int(text)) if len(text) <= MOST_DIGITS else _raise(flag, text, where)
    except ValueError:
        return _raise(flag, text, where)


def _raise(flag: str, text: str, where: str) -> str:
    raise UsageError(f"{flag} takes a whole number, got {text[:80]!r}", where=where)


def _object(flag: str, text: str, where: str) -> dict[str, Any] | None:
    if flag in NONE_IS_UNSET and text in ("", "None"):
        return None
    value = _json(flag, text, where)
    if not isinstance(value, dict):
        raise UsageError(f"{flag} takes a JSON object, got {text[:80]!r}", where=where)
    return value


def _json(flag: str, text: str, where: str) -> Any:
    """JSON in which vLLM also takes bare 80m for 80,000,000 (``_expand_json_human_readable_numbers``)."""
    parts = _STRING.split(text)
    parts[::2] = [_BARE.sub(_written_out, part) for part in parts[::2]]
    try:
        return load_json("".join(parts))
    except json.JSONDecodeError as error:
        at = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise UsageError(
            f"{flag} is no JSON: {error.msg} at {at} of {text[:80]!r}",
            where=where,
            next_move='Put it in single quotes: \'{"key": "value"}\'',
        ) from error
    except ValueError as error:
        raise UsageError(f"{flag} is no JSON that vLLM could read", where=where) from error


def _written_out(found: re.Match[str]) -> str:
    number = whole(found.group())
    return found.group() if number is None else str(number)


def load_json(text: str) -> Any:
    """``json.loads`` of foreign text.

    Raises:
        ValueError: no JSON, over ``DEEPEST`` brackets inside each other, or a number of thousands of digits.
    """
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} brackets inside each other")
    return json.loads(text)


def dotted_value(text: str) -> Any:
    """The value of ``--flag.key``: JSON, else a number with a suffix, else the text itself."""
    try:
        return load_json(text)
    except ValueError:
        number = whole(text)
        return text if number is None else number


def nested(keys: Sequence[str], value: Any) -> dict[str, Any]:
    """``["a", "b"], 1`` -> ``{"a": {"b": 1}}``."""
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def update(original: dict[str, Any], more: dict[str, Any]) -> list[str]:
    """Put ``more`` into ``original``, whose lists are its own: dicts merge, lists grow, the rest is replaced; keys that were replaced."""
    replaced: list[str] = []
    for key, value in more.items():
        old = original.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            replaced += [f"{key}.{inner}" for inner in update(old, value)]
        elif isinstance(value, list) and isinstance(old, list):
            old += value
        else:
            replaced += [key] if key in original else []
            original[key] = value
    return replaced
