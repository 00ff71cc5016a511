"""The ranges of a rule: whole numbers, formulas, shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from m3probe.rules._place import Place, known_keys, nearest, shown
from m3probe.rules.formula import LARGEST, NAMES, STEP_NAMES, Formula, FormulaError, read_formula
from m3probe.rules.rule import Span


def whole(place: Place, table: Mapping[str, Any], key: str) -> int | None:
    """A whole number from 0 on; None where the key is left out."""
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise place.refusal(f"{key} must be a whole number from 0 on, not {shown(value)}")
    return value


def per_step(place: Place, table: Mapping[str, Any]) -> Span | None:
    """``6``, ``"sparse_layers"`` or ``{min = 6, max = "2 * layers"}``."""
    value = table.get("per_step")
    if isinstance(value, dict):
        known_keys(place, value, ("min", "max"))
        if not value:
            raise place.refusal("per_step = {} checks nothing", "Give min, max or both")
        return _span(place, "per_step", _number(place, value, "min"), _number(place, value, "max"))
    number = _number(place, table, "per_step")
    return _span(place, "per_step", number, number)


def count(place: Place, table: Mapping[str, Any]) -> Span | None:
    """``min_count`` and ``max_count``."""
    low, high = _number(place, table, "min_count"), _number(place, table, "max_count")
    found = _span(place, "count", low, high)
    of_steps = sorted(found.names.intersection(STEP_NAMES)) if found else ()
    if of_steps:
        said = f"{' and '.join(of_steps)} of one step cannot bound a count over many"
        raise place.refusal(said, "Use per_step, or steps in the formula")
    return found


def share(place: Place, table: Mapping[str, Any]) -> Span | None:
    """``min_share`` and ``max_share``."""
    return _span(place, "share", _fraction(place, table, "min_share"), _fraction(place, table, "max_share"))


def _number(place: Place, table: Mapping[str, Any], key: str) -> int | Formula | None:
    value = table.get(key)
    if not isinstance(value, str):
        return whole(place, table, key)
    try:
        return read_formula(value)
    except FormulaError as error:
        unknown = str(error).startswith("unknown name")
        near = nearest(str(error).split("'")[1], NAMES) if unknown else f"Names: {', '.join(NAMES)}"
        raise place.refusal(f"{key} {shown(value)}: {shown_error(error)}", near) from error


def shown_error(error: FormulaError) -> str:
    """What is wrong with a formula, short whatever it holds."""
    text = str(error)
    return text if len(text) <= 160 else f"{text[:160]}..."


def _fraction(place: Place, table: Mapping[str, Any], key: str) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    # written so that nan is refused as well
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise place.refusal(f"{key} must be a fraction from 0 to 1, not {shown(value)}", "20 % is written 0.2")
    return float(value)


def _span(place: Place, what: str, low: float | Formula | None, high: float | Formula | None) -> Span | None:
    if low is None and high is None:
        return None
    least, most = (None if isinstance(side, Formula) else side for side in (low, high))
    if least is not None and most is not None and least > most:
        raise place.refusal(f"contradictory {what}: the minimum {least} is above the maximum {most}")
    formulas = (side if isinstance(side, Formula) else None for side in (low, high))
    return Span(least, most, *formulas)
