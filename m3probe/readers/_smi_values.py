"""Values as the SMI tools write them -> plain numbers: ``{"value": 97, "unit": "%"}``, ``"301 W"``, ``"N/A"``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isnan
from typing import Any

NAN = float("nan")
_NUMBER = re.compile(r"\s*\(?\s*([-+]?\d{1,18}(?:\.\d{1,12})?)\s*([A-Za-z%/]{0,12})\)?\s*")
_UNIT = {"KHZ": 1e-3, "GHZ": 1e3, "GB": 1e3, "KB": 1e-3, "MW": 1e-3, "B": 1e-6}
"""Factors to MHz, MB and W."""


def number(value: Any) -> float:
    """In MHz, MB, W, C or per cent; NaN for what is no number: ``N/A`` is never 0."""
    unit = ""
    if isinstance(value, Mapping):
        unit = str(value.get("unit", ""))
        value = value.get("value")
    if isinstance(value, bool) or value is None:
        return NAN
    if isinstance(value, str):
        said = _NUMBER.fullmatch(value)
        if said is None:
            return NAN
        value, unit = float(said[1]), said[2] or unit
    if not isinstance(value, int | float) or abs(value) > 1e18:
        return NAN
    return float(value) * _UNIT.get(_plain(unit), 1.0)


def _plain(unit: str) -> str:
    """mW is a thousandth; MW is no power that a GPU has."""
    return unit.strip().upper()


def known(value: float) -> bool:
    """Whether it is a number."""
    return not isnan(value)


def text(value: Any) -> str:
    """A word of the tool; empty where it says that there is none."""
    found = value.strip() if isinstance(value, str) else ""
    return "" if found.upper().strip("[]") in {"", "N/A", "NONE", "NOT SUPPORTED", "UNKNOWN ERROR"} else found[:200]


def at(value: Any, *keys: str) -> Any:
    """A value below some keys; None where a group is ``"N/A"`` or missing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def first(*values: float) -> float:
    """The first one that is known."""
    return next((value for value in values if known(value)), NAN)
