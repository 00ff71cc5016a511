"""Figures as text: one unit per column, unknown as a dash, and never a 0 that was not measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

UNKNOWN = "—"
_BYTE_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

Number = int | float | None


def known(value: Number) -> bool:
    """Whether ``value`` is a figure at all."""
    return value is not None and math.isfinite(value)


def fixed(value: Number, decimals: int = 0) -> str:
    """``value`` with so many decimals and thousands marked; a value too small to show is ``<0.01``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    least = 10.0**-decimals
    if 0 < abs(value) < least / 2:
        return f"{'<' if value > 0 else '>-'}{least:.{decimals}f}"
    return f"{value:,.{decimals}f}"


def ms(ns: Number, decimals: int = 2) -> str:
    """Nanoseconds as milliseconds, without the unit."""
    return fixed(None if ns is None else ns / 1e6, decimals)


def us(ns: Number, decimals: int = 1) -> str:
    """Nanoseconds as microseconds, without the unit."""
    return fixed(None if ns is None else ns / 1e3, decimals)


def percent(share: Number, decimals: int = 1) -> str:
    """A share of 0 to 1 as per cent, without the sign; less than all is never shown as 100."""
    if share is not None and 1 - 0.5 * 10.0 ** (-2 - decimals) <= share < 1:
        return f">{100 - 10.0**-decimals:.{decimals}f}"
    return fixed(None if share is None else 100 * share, decimals)


def per(total: Number, count: int) -> float | None:
    """``total / count``; None where either is not there."""
    return total / count if total is not None and count else None


def decimals_for(values: Iterable[Number]) -> int:
    """0 when every known value of a column is whole, else 2."""
    return 0 if all(float(v).is_integer() for v in values if v is not None and math.isfinite(v)) else 2


def bytes_unit(values: Iterable[int | None]) -> tuple[str, int]:
    """(unit, bytes in it) for a column: the largest unit that its largest value fills."""
    most = max((v for v in values if v is not None), default=0)
    return next(((name, size) for name, size in _BYTE_UNITS if most >= size), ("B", 1))


def in_unit(value: int | None, size: int) -> str:
    """Bytes in a column's unit, without the unit."""
    return fixed(None if value is None else value / size, 0 if size == 1 else 2)


def plural(count: int, one: str, many: str = "") -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(words: Sequence[str], most: int = 6) -> str:
    """``a, b, c, 4 more``."""
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown}, {len(words) - most:,} more"
