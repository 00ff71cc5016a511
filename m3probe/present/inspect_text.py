"""What is in a file, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from m3probe.present.escape import safe

_LISTED = 12
"""Entries of a long list that are shown; --json has them all."""


def inspect_text(
    kind: str, outcome: str, facts: Mapping[str, Any], warnings: Sequence[str], *, width: int = 100
) -> str:
    """Warnings first, then every fact on its own line.

    Args:
        width: columns; longer values are wrapped under themselves.
    """
    lines = [f"{kind}: {outcome}"]
    for warning in warnings:
        lines += textwrap.wrap(f"! {safe(warning)}", width, subsequent_indent="  ")
    lines.append("")
    pad = min(max((len(key) for key in facts), default=0), 34)
    for key, value in facts.items():
        lines += _fact(key, value, pad, width)
    return "\n".join(lines)


def _fact(key: str, value: Any, pad: int, width: int) -> list[str]:
    head = f"{safe(key):<{pad}}  "
    shown = safe(_value(key, value))
    return textwrap.wrap(shown, width, initial_indent=head, subsequent_indent=" " * len(head)) or [head.rstrip()]


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known"}[value]
    if isinstance(value, int):
        return f"{value:,} ns" if key.endswith("_ns") else f"{value:,}"
    if isinstance(value, Mapping):
        return _some([f"{k}: {_value('', v)}" for k, v in value.items()])
    if isinstance(value, list):
        return _some([_value("", v) for v in value])
    return str(value)


def _some(parts: list[str]) -> str:
    more = len(parts) - _LISTED
    shown = ", ".join(parts[:_LISTED])
    return f"{shown}, and {more:,} more" if more > 0 else shown or "none"
